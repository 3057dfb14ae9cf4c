"""Which kept snapshot is old enough to bound a replay window."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.core.clock import format_time
from dashboard.history.log_ends import taken_before
from dashboard.store.clocks import wrong_clock
from dashboard.store.snapshot_files import Manifest
from tests.unit.policies.examples import NOON
from tests.unit.policies.kept_history import store

HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("details", "counts"),
    [
        ({}, True),
        ({"ends_read_at": format_time(NOON - HOUR)}, True),
        ({"ends_read_at": format_time(NOON - HOUR + timedelta(seconds=1))}, False),
        ({"clock_ahead_seconds": -3.0}, True),
        ({"clock_ahead_seconds": 11.0}, False),
        ({"clock_ahead_seconds": -11.0}, False),
        ({"clock_ahead_seconds": None}, True),
        ({"clock_ahead_seconds": None, "clock_error": None}, True),
        ({"clock_ahead_seconds": None, "clock_error": "the controller did not answer"}, False),
    ],
)
def test_a_snapshot_is_as_old_as_the_ends_in_it_by_a_clock_that_was_right(
    tmp_path: Path, details: dict[str, Any], counts: bool
) -> None:
    """What was written while a long collect went on is younger than its beginning."""
    cluster = store(tmp_path)
    writer = cluster.begin("snapshots", NOON - HOUR)
    writer.commit(600.0, details)
    assert list(taken_before(cluster, NOON - HOUR)) == ([writer.id] if counts else [])


@pytest.mark.parametrize(("ahead", "counts"), [(0.3, True), (None, False)])
def test_one_that_follows_a_snapshot_of_a_time_to_come_is_as_old_as_a_proved_clock_said(
    tmp_path: Path, ahead: float | None, counts: bool
) -> None:
    """Ids sort in the order of commits: for 400 days they tell the time of that one."""
    cluster = store(tmp_path)
    days = timedelta(days=400)
    wrong = cluster.begin("snapshots", NOON - 3 * HOUR + days)
    wrong.commit(0.1, {"clock_ahead_seconds": days.total_seconds()})
    written = []
    for hours in (2, 1, 0):
        writer = cluster.begin("snapshots", NOON - hours * HOUR)
        writer.commit(0.1, {"clock_ahead_seconds": ahead})
        written.append(writer.id)
    assert min(written) > wrong.id
    found = list(taken_before(cluster, NOON - HOUR))
    assert found == ([written[1], written[0]] if counts else [])


@pytest.mark.parametrize(
    ("details", "said"),
    [
        ({}, ""),
        ({"clock_ahead_seconds": None, "clock_error": None}, ""),
        ({"clock_ahead_seconds": 10.0}, ""),
        ({"clock_ahead_seconds": -10.0}, ""),
        ({"clock_ahead_seconds": -3600.0}, "by a clock that was 3600 s behind the cluster's"),
        ({"clock_ahead_seconds": 12.0}, "by a clock that was 12 s ahead of the cluster's"),
        ({"clock_error": "CLOCK_UNREAD"}, "not be compared with the cluster's controller (CLOCK"),
    ],
)
def test_by_what_clock_a_snapshot_was_taken_that_is_of_another_time_than_it_says(
    details: dict[str, Any], said: str
) -> None:
    told = wrong_clock(Manifest("s", NOON, {}, 0.1, details))
    assert said in told
    assert bool(told) is bool(said)
