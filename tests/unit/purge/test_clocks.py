"""By a clock that is wrong nothing is planned or sent, whether it is ahead or behind."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.core.errors import ClusterError
from dashboard.purge.evidence.standards import standards
from dashboard.purge.execute.recheck import Rechecked, recheck
from dashboard.purge.journal.rows import PartitionRow
from dashboard.purge.plan.drafts import PlanRequest, read_live
from dashboard.purge.plan.plan import Plan
from dashboard.purge.plan.targets import parse_target
from dashboard.store import clocks
from dashboard.store.snapshots import ClusterStore, Store
from tests.support.cluster import FakeCluster
from tests.unit.purge.facts_of import NOW, TOPIC
from tests.unit.purge.test_memory_age import SETTINGS, shown, taken

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
WRONG = [10 * MINUTE, -10 * MINUTE, timedelta(seconds=11), timedelta(seconds=-12), -20 * DAY]
AGREEING = [timedelta(0), timedelta(seconds=10), timedelta(seconds=-9)]


@pytest.fixture
def store(tmp_path: Path) -> ClusterStore:
    return ClusterStore(Store(str(tmp_path)), "cluster-1")


@pytest.fixture
def live() -> FakeCluster:
    """The controllers know what time it is."""
    made = FakeCluster(partitions=2)
    made.controller_at = NOW
    return made


def planned(live: FakeCluster, store: ClusterStore, off: timedelta, to: str = "committed") -> Plan:
    """By a host whose clock is ahead of the controller's by so much."""
    request = PlanRequest((TOPIC,), parse_target(to), by="ann")
    return read_live(live, SETTINGS, store, request, now=NOW + off).plan([])  # type: ignore[arg-type]


def sent(live: FakeCluster, store: ClusterStore, plan: Plan, off: timedelta) -> Rechecked:
    now = NOW + off
    rows = [PartitionRow(*p.key, p.target_offset or 0, "pending") for p in plan.partitions]
    return recheck(live, plan, rows, now, standards(SETTINGS, store, [TOPIC], now))  # type: ignore[arg-type]


@pytest.mark.parametrize("off", AGREEING)
def test_clocks_that_agree_plan_and_send(
    live: FakeCluster, store: ClusterStore, off: timedelta
) -> None:
    taken(store, MINUTE, clock_ahead_seconds=0.0)
    plan = planned(live, store, off)
    assert len(plan.free_partitions) == 2
    assert len(sent(live, store, plan, off).allowed) == 2


@pytest.mark.further_but(
    "off0-committed", "off1-committed", "off2-high-watermark", "off3-offset:10"
)
@pytest.mark.parametrize("to", ["committed", "high-watermark", "offset:10"])
@pytest.mark.parametrize("off", WRONG)
def test_a_guard_that_is_never_lifted_stands_on_every_partition_and_names_both_clocks(
    live: FakeCluster, store: ClusterStore, off: timedelta, to: str
) -> None:
    taken(store, MINUTE, clock_ahead_seconds=0.0)
    for p in planned(live, store, off, to).partitions:
        (found,) = [guard for guard in p.guards if guard.name == "target-unresolved"]
        assert p.target_offset is None
        assert f"{NOW:%Y-%m-%d %H:%M:%S} there" in found.reason
        assert f"{NOW + off:%Y-%m-%d %H:%M:%S} UTC here" in found.reason
        assert "NTP" in found.reason
        assert (" s ahead of " if off > timedelta(0) else " s behind ") in found.reason


def test_a_memory_of_three_weeks_ago_is_not_fresh_by_a_clock_that_stands_behind(
    live: FakeCluster, store: ClusterStore
) -> None:
    taken(store, 20 * DAY, clock_ahead_seconds=0.0)
    assert not planned(live, store, 10 * MINUTE - 20 * DAY).free_partitions


def test_a_topic_of_two_minutes_is_not_old_by_a_clock_that_runs_ahead(
    live: FakeCluster, store: ClusterStore
) -> None:
    """A group that may subscribe by a pattern has not heard of it yet."""
    shown(store, 60 * MINUTE, "other", clock_ahead_seconds=0.0)
    shown(store, MINUTE, "other", TOPIC, clock_ahead_seconds=0.0)
    live.offsets_of["by-pattern"] = {}
    live.members = {"by-pattern": 2}
    for off in (timedelta(0), 10 * MINUTE):
        assert not planned(live, store, off).free_partitions


@pytest.mark.parametrize("members", [2, 0])  # 0: it is being restarted
@pytest.mark.parametrize("minutes", [4, 8])  # 8: refreshed since, and rebalancing
def test_a_topic_is_new_to_every_group_until_a_refresh_and_a_rebalance_are_over(
    live: FakeCluster, store: ClusterStore, minutes: int, members: int
) -> None:
    shown(store, 60 * MINUTE, "other", clock_ahead_seconds=0.0)
    shown(store, minutes * MINUTE, "other", TOPIC, clock_ahead_seconds=0.0)
    live.offsets_of["by-pattern"] = {}
    live.members = {"by-pattern": members}
    found = planned(live, store, timedelta(0))
    assert [guard.name for p in found.partitions for guard in p.guards] == [
        "no-committed-offset"
    ] * len(found.partitions)


def test_a_topic_is_new_for_twice_the_refresh(live: FakeCluster, store: ClusterStore) -> None:
    shown(store, 11 * MINUTE, "other", TOPIC, clock_ahead_seconds=0.0)
    live.offsets_of["by-pattern"] = {}
    live.members = {"by-pattern": 1}
    assert planned(live, store, timedelta(0)).free_partitions


@pytest.mark.further_but("off0")
@pytest.mark.parametrize("off", WRONG)
def test_what_a_right_clock_planned_a_wrong_one_does_not_send(
    live: FakeCluster, store: ClusterStore, off: timedelta
) -> None:
    taken(store, MINUTE, clock_ahead_seconds=0.0)
    plan = planned(live, store, timedelta(0))
    found = sent(live, store, plan, off)
    assert (found.allowed, len(found.refused)) == ({}, 2)
    for why in found.refused.values():
        assert why.name in ("target-unresolved", "stale-history")
    barely = timedelta(seconds=11 if off > timedelta(0) else -12)
    first, _ = sent(live, store, plan, barely).refused.values()
    assert (first.name, "NTP" in first.reason) == ("target-unresolved", True)


def test_what_has_arrived_is_told_by_any_clock(live: FakeCluster, store: ClusterStore) -> None:
    taken(store, MINUTE, clock_ahead_seconds=0.0)
    plan = planned(live, store, timedelta(0))
    for part in live.parts.values():
        part.starts = dict.fromkeys(part.starts, 60)
    assert len(sent(live, store, plan, -20 * DAY).arrived) == 2


@pytest.mark.further_but("off0")
@pytest.mark.parametrize("off", WRONG)
def test_where_nobody_tells_the_time_this_hosts_clock_is_believed(
    live: FakeCluster, store: ClusterStore, off: timedelta
) -> None:
    live.controller_at = None
    taken(store, MINUTE - off)
    plan = planned(live, store, off)
    assert len(plan.free_partitions) == 2
    assert len(sent(live, store, plan, off).allowed) == 2


def test_a_clock_that_cannot_be_read_is_not_taken_for_right(
    live: FakeCluster, store: ClusterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unread() -> None:
        raise ClusterError("the controller's clock cannot be read (X)", "", code="CLOCK_UNREAD")

    taken(store, MINUTE, clock_ahead_seconds=0.0)
    plan = planned(live, store, timedelta(0))
    monkeypatch.setattr(live, "controller_time", unread)
    assert not planned(live, store, timedelta(0)).free_partitions
    assert len(sent(live, store, plan, timedelta(0)).unreadable) == 2


def test_a_slow_answer_is_no_clock_that_stands_behind(
    live: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that hangs is asked first: the answer is of half a minute later."""
    live.controller_at = NOW + timedelta(seconds=30)
    assert clocks.problem(live, NOW) is not None
    later = iter((0.0, 30.0))
    monkeypatch.setattr("dashboard.core.clock.time.monotonic", lambda: next(later))
    assert clocks.problem(live, NOW) is None
