"""A trigger speaks by the newest findings; what is not known triggers nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dashboard.policies.matching import Newest, Triggered, triggered
from dashboard.settings.policies.policy import Policy
from dashboard.store.finding_rows import DiskRow, GrowthRow
from tests.unit.policies.examples import NOON, policy

MINUTE = timedelta(minutes=1)
DISK = policy('trigger = "disk-above:80%"')
GROWTH = policy('topics = ["a*"]\ntrigger = "growth-above:1KiB/h"')


def _disk(
    total: int | None, usable: int | None, *, broker_id: int = 1, log_dir: str = "/d"
) -> DiskRow:
    return DiskRow(NOON, broker_id, log_dir, total, usable)


def _growth(topic: str | None, growth: int | None, broker_id: int | None = None) -> GrowthRow:
    return GrowthRow(NOON, topic, broker_id, None, growth)


def _asked(
    policy: Policy,
    *rows: DiskRow | GrowthRow,
    after: timedelta = MINUTE,
    clock: str = "",
    every: timedelta = timedelta(0),
) -> Triggered:
    """With the rows in the table that the trigger is about, and none in the other."""
    disks = [row for row in rows if isinstance(row, DiskRow)]
    growth = [row for row in rows if isinstance(row, GrowthRow)]
    found = Newest(disks, growth, clock=clock, every=every)
    return triggered(policy, found, now=NOON + after, every=MINUTE)


def test_always_needs_no_findings() -> None:
    assert _asked(policy()).now


@pytest.mark.parametrize("found", [DISK, GROWTH])
def test_without_findings_nothing_is_triggered(found: Policy) -> None:
    assert not _asked(found).now
    assert "lowwater watch" in _asked(found).reason


def test_findings_of_a_slow_watch_trigger_in_its_time() -> None:
    full = _disk(1000, 100)
    assert not _asked(DISK, full, after=20 * MINUTE).now
    assert _asked(DISK, full, after=20 * MINUTE, every=10 * MINUTE).now


def test_the_fullest_log_dir_decides_and_is_named() -> None:
    found = _asked(DISK, _disk(1000, 900), _disk(1000, 150, broker_id=3, log_dir="/e"))
    assert found.now
    assert "/e of broker 3, 85.0%" in found.reason


def test_exactly_the_share_is_not_above_it() -> None:
    assert not _asked(DISK, _disk(1000, 200)).now
    assert _asked(DISK, _disk(1000, 199)).now


def test_disks_that_nobody_measured_are_told_and_count_for_nothing() -> None:
    assert not _asked(DISK, _disk(None, None), _disk(1000, None), _disk(0, 0)).now
    found = _asked(DISK, _disk(None, None), _disk(10, 1))
    assert found.now and "1 more not known" in found.reason


@pytest.mark.parametrize("found", [DISK, GROWTH])
def test_findings_older_than_three_rounds_trigger_nothing(found: Policy) -> None:
    row = _disk(10, 1) if found is DISK else _growth("a", 5000)
    assert _asked(found, row, after=3 * MINUTE).now
    late = _asked(found, row, after=3 * MINUTE + timedelta(milliseconds=1))
    assert not late.now and "2026-03-04T12:00:00.000Z" in late.reason


@pytest.mark.parametrize("found", [DISK, GROWTH])
def test_findings_of_a_moment_still_to_come_trigger_nothing(found: Policy) -> None:
    row = _disk(10, 1) if found is DISK else _growth("a", 5000)
    assert _asked(found, row, after=-timedelta(seconds=10)).now, "clocks agree to that much"
    early = _asked(found, row, after=-timedelta(seconds=11))
    assert not early.now and "11 s ahead of this host's clock" in early.reason


@pytest.mark.parametrize("found", [DISK, GROWTH])
def test_findings_by_a_clock_that_was_ahead_trigger_nothing(found: Policy) -> None:
    row = _disk(10, 1) if found is DISK else _growth("a", 5000)
    wrong = _asked(found, row, clock="by a clock that was ahead")
    assert not wrong.now and "12:00:00.000Z, by a clock that was ahead: set the" in wrong.reason


def test_growth_is_that_of_the_policys_topics_together() -> None:
    assert _asked(GROWTH, _growth("a1", 1000), _growth("a2", 25), _growth("b", 0)).now
    assert not _asked(GROWTH, _growth("a1", 1024), _growth("b", 9**9), _growth(None, 9**9)).now
    once = _growth("a1", 1000), _growth("a1", 1000, broker_id=1)
    assert not _asked(GROWTH, *once).now
    shrinking = _asked(GROWTH, _growth("a1", 2000), _growth("a2", -1500))
    assert not shrinking.now


def test_growth_that_is_not_known_triggers_nothing() -> None:
    assert "history" in _asked(GROWTH, _growth("a", None)).reason
    assert "no topic" in _asked(GROWTH, _growth("b", 5000)).reason
    assert not _asked(GROWTH, _growth("a", None)).now
    some = _asked(GROWTH, _growth("a", None), _growth("a2", 5000))
    assert some.now and "1 more topics not known" in some.reason
