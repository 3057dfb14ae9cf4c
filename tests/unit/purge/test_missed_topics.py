"""A consumer that is down learns what its pattern takes in when it is up again: who was down since
a topic was made holds it, however long that is ago.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.domain.model import Group, GroupOffset
from dashboard.history import log_ends
from dashboard.history.seen_topics import ids_of
from dashboard.purge.evidence.standards import doubts, standards
from dashboard.purge.execute.recheck import recheck
from dashboard.purge.journal.rows import PartitionRow
from dashboard.purge.plan.drafts import PlanRequest, read_live
from dashboard.purge.plan.plan import Plan
from dashboard.purge.plan.targets import parse_target
from dashboard.settings.settings import Settings
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import SNAPSHOT_TABLES, build
from tests.support.cluster import FakeCluster
from tests.support.collected import NOTHING_HIDDEN
from tests.unit.purge.facts_of import NOW, TOPIC
from tests.unit.purge.test_memory_age import SETTINGS

OLD = "elsewhere"


def live(members: int = 0, patterns: tuple[str, ...] = ()) -> FakeCluster:
    """Group `etl` has committed on another topic alone; `reader` has read 60 of this one."""
    made = FakeCluster(1)
    made.offsets_of = {"reader": {0: 60}}
    kind, state = "consumer" if patterns else "classic", "Stable" if members else "Empty"
    etl = Group("etl", kind, state, members, subscribed=(OLD,), patterns=patterns)
    made.others = ((etl,), (GroupOffset("etl", OLD, 0, 5),))
    return made


@pytest.fixture
def store(tmp_path: Path) -> ClusterStore:
    return ClusterStore(Store(str(tmp_path)), "cluster-1")


def snapshot(
    store: ClusterStore,
    minutes_ago: int,
    etl: int | None,
    *,
    there: bool,
    incomplete: bool = False,
    state: str = "Stable",
    at_offset: int = 5,
    **details: object,
) -> None:
    """`etl`: its members, None: not listed, and what it committed; `there`: the topic is."""
    at = NOW - timedelta(minutes=minutes_ago)
    writer = store.begin("snapshots", at)
    names = [OLD, TOPIC] if there else [OLD]
    topics = {"topic_no": [*range(len(names))], "topic": names,
              "topic_id": ["id-0", "id-1"][: len(names)],
              "is_internal": [False] * len(names)}  # fmt: skip
    writer.write("topics", build(SNAPSHOT_TABLES["topics"], topics))
    groups = {"group_id": ["etl"], "type": ["classic"], "state": [state], "members": [etl]}
    writer.write("groups", build(SNAPSHOT_TABLES["groups"], {} if etl is None else groups))
    offset = {"group_id": ["etl"], "topic_no": [0], "partition": [0],
              "committed_offset": [at_offset]}  # fmt: skip
    writer.write(
        "group_offsets", build(SNAPSHOT_TABLES["group_offsets"], {} if etl is None else offset)
    )
    hidden = {"groups_incomplete": ["broker 2"]} if incomplete else {}
    writer.commit(0.1, {**NOTHING_HIDDEN, **hidden, "clock_ahead_seconds": 0.0, **details})


def plan_of(live: FakeCluster, store: ClusterStore) -> Plan:
    request = PlanRequest((TOPIC,), parse_target("committed"), by="ann")
    return read_live(live, SETTINGS, store, request, now=NOW).plan([])


def held(live: FakeCluster, store: ClusterStore) -> list[str]:
    """The groups that `no-committed-offset` names."""
    guards = plan_of(live, store).partitions[0].guards
    return [g.reason.split()[1] for g in guards if g.name == "no-committed-offset"]


def down_for_half_an_hour(store: ClusterStore) -> None:
    snapshot(store, 60, 1, there=False)
    snapshot(store, 31, 0, there=False)
    for minutes_ago in (25, 11, 1):
        snapshot(store, minutes_ago, 0, there=True)


def test_who_was_down_since_a_topic_was_made_holds_it(store: ClusterStore) -> None:
    down_for_half_an_hour(store)
    plan = plan_of(live(), store)
    (guard,) = plan.partitions[0].guards
    assert guard.name == "no-committed-offset"
    assert "Group etl may subscribe by a pattern" in guard.reason
    assert "made just now, or since it is known to read on" in guard.reason
    assert held(live(members=1), store) == ["etl"], "it has come up just now"
    edited = replace(plan, partitions=(replace(plan.partitions[0], guards=()),))
    rows = [PartitionRow(TOPIC, 0, 60, "pending")]
    found = recheck(live(), edited, rows, NOW, standards(SETTINGS, store, [TOPIC], NOW))
    assert [why.name for why in found.refused.values()] == ["no-committed-offset"]


def test_a_topic_that_somebody_may_come_upon_is_not_proposed_for_deletion(
    store: ClusterStore,
) -> None:
    """What is deleted with its topic cannot be brought back at all."""
    down_for_half_an_hour(store)
    (guard,) = doubts(SETTINGS, store, [TOPIC, OLD], NOW)[TOPIC]
    assert (guard.name, "Group etl may" in guard.reason) == ("no-committed-offset", True)
    assert OLD not in doubts(SETTINGS, store, [TOPIC, OLD], NOW)


def test_who_has_read_on_since_it_must_have_come_upon_it_does_not(store: ClusterStore) -> None:
    snapshot(store, 51, 1, there=False)
    for minutes_ago, offset in ((45, 5), (34, 6), (12, 7)):
        snapshot(store, minutes_ago, 1, there=True, at_offset=offset)
    snapshot(store, 1, 0, there=True)
    assert held(live(), store) == []


@pytest.mark.parametrize(
    ("then", "members", "state"),
    [(6, 1, "Stable"), (7, 0, "Empty"), (7, 1, "PreparingRebalance"), (5, 1, "Stable")],
    ids=["stood", "moved by a tool", "rebalances", "moved back"],
)
def test_what_coordinators_list_is_no_sign_of_life(
    store: ClusterStore, then: int, members: int, state: str
) -> None:
    """One that is dead is listed until its session ends, a static member though it was closed."""
    snapshot(store, 62, 1, there=False)
    snapshot(store, 60, 1, there=True)
    snapshot(store, 45, 1, there=True, at_offset=6)
    snapshot(store, 11, members, there=True, state=state, at_offset=then)
    assert held(live(), store) == ["etl"]


@pytest.mark.parametrize(("made", "holds"), [(79, ["etl"]), (83, [])])
def test_who_is_listed_longer_than_a_session_lasts_has_come_upon_it(
    store: ClusterStore, made: int, holds: list[str]
) -> None:
    """It gets no records at all, of a topic for dead letters say, and so no offset of it moves."""
    snapshot(store, made + 1, 1, there=False)
    for minutes_ago in (made, 60, 12):
        snapshot(store, minutes_ago, 1, there=True)
    snapshot(store, 1, 0, there=True)
    assert held(live(), store) == holds


def test_what_was_read_before_it_must_have_come_upon_it_is_none_either(store: ClusterStore) -> None:
    snapshot(store, 62, 1, there=False)
    for minutes_ago, offset in ((60, 5), (52, 6), (11, 6)):
        snapshot(store, minutes_ago, 1, there=True, at_offset=offset)
    assert held(live(), store) == ["etl"]


@pytest.mark.parametrize(
    "wrong", [{"clock_error": "BROKER_UNREACHABLE"}, {"clock_ahead_seconds": -60.0}]
)
def test_a_wrong_clock_of_the_first_snapshots_makes_nobody_forget_it(
    store: ClusterStore, wrong: dict[str, object]
) -> None:
    """As on the first day, before the right to ask the controller is given."""
    for minutes_ago in (300, 240):
        snapshot(store, minutes_ago, 0, there=False, **wrong)
    for minutes_ago in (200, 100, 1):
        snapshot(store, minutes_ago, 0, there=True)
    assert held(live(), store) == ["etl"]


def test_who_went_down_before_it_looked_again_holds_it(store: ClusterStore) -> None:
    """Its members were up when the topic was made, and had not refreshed their metadata."""
    snapshot(store, 62, 1, there=False)
    for minutes_ago in (60, 55, 51):
        snapshot(store, minutes_ago, 1, there=True)
    for minutes_ago in (49, 11, 1):
        snapshot(store, minutes_ago, 0, there=True)
    assert held(live(), store) == ["etl"]


def test_who_crashes_as_often_as_it_is_started_has_read_nothing(store: ClusterStore) -> None:
    snapshot(store, 60, 0, there=False)
    snapshot(store, 59, 0, there=True)
    snapshot(store, 20, 1, there=True, state="PreparingRebalance")
    snapshot(store, 1, 0, there=True)
    assert held(live(), store) == ["etl"]


def test_who_came_with_the_topic_and_is_down_since_holds_it(store: ClusterStore) -> None:
    """Where an hour lies between two snapshots it is in none without the topic."""
    snapshot(store, 180, None, there=False)
    for minutes_ago in (120, 60):
        snapshot(store, minutes_ago, 0, there=True)
    assert held(live(), store) == ["etl"]


@pytest.mark.further
def test_not_every_snapshot_is_read_for_its_topics(
    store: ClusterStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every plan and every look before sending asks, and hundreds are kept."""
    snapshot(store, 160, 0, there=False)
    for minutes_ago in range(150, 10, -2):
        snapshot(store, minutes_ago, 0, there=True)
    read: list[str] = []
    monkeypatch.setattr(
        log_ends,
        "ids_of",
        lambda cluster, name, ids: read.append(name) or ids_of(cluster, name, ids),
    )
    assert held(live(), store) == ["etl"]
    assert len(read) < 12


def test_nor_who_came_after_the_topic(store: ClusterStore) -> None:
    """It has looked since: a test's group, say, that is listed for a week more."""
    snapshot(store, 31, None, there=False)
    snapshot(store, 25, None, there=True)
    snapshot(store, 12, 0, there=True)
    assert held(live(), store) == []


def test_a_list_that_may_lack_groups_does_not_tell_who_came_later(store: ClusterStore) -> None:
    snapshot(store, 60, 1, there=False)
    snapshot(store, 31, None, there=False, incomplete=True)
    snapshot(store, 25, 0, there=True)
    assert held(live(), store) == ["etl"]


def test_nor_does_anybody_hold_what_the_oldest_snapshot_shows(store: ClusterStore) -> None:
    for minutes_ago in (60, 25, 11):
        snapshot(store, minutes_ago, 0, there=True)
    assert held(live(), store) == []


def test_where_nobody_subscribes_by_a_pattern_nobody_holds_it(store: ClusterStore) -> None:
    down_for_half_an_hour(store)
    none = replace(SETTINGS, purge=replace(SETTINGS.purge, pattern_refresh=timedelta(0)))
    request = PlanRequest((TOPIC,), parse_target("committed"), by="ann")
    plan = read_live(live(), none, store, request, now=NOW).plan([])
    assert plan.partitions[0].guards == ()


def told_by_name(*globs: str) -> Settings:
    return replace(SETTINGS, purge=replace(SETTINGS.purge, subscribe_by_name=globs))


def test_whoever_subscribes_to_no_pattern_holds_nothing_that_is_new(store: ClusterStore) -> None:
    """Flink's sources and what else reads by `assign()` commit without members for ever."""
    down_for_half_an_hour(store)
    request = PlanRequest((TOPIC,), parse_target("committed"), by="ann")
    by_name = told_by_name("other", "et*")
    plan = read_live(live(), by_name, store, request, now=NOW).plan([])
    assert plan.partitions[0].guards == ()
    assert TOPIC not in doubts(by_name, store, [TOPIC], NOW)
    rows = [PartitionRow(TOPIC, 0, 60, "pending")]
    found = recheck(live(), plan, rows, NOW, standards(by_name, store, [TOPIC], NOW))
    assert not found.refused
    found = recheck(live(), plan, rows, NOW, standards(told_by_name("ETL"), store, [TOPIC], NOW))
    assert [why.name for why in found.refused.values()] == ["no-committed-offset"]


def test_nor_one_that_is_younger_than_any_metadata(store: ClusterStore) -> None:
    snapshot(store, 60, 1, there=False)
    assert held(live(members=1), store) == ["etl"]
    request = PlanRequest((TOPIC,), parse_target("committed"), by="ann")
    plan = read_live(live(members=1), told_by_name("etl"), store, request, now=NOW).plan([])
    assert "no-committed-offset" not in [guard.name for guard in plan.partitions[0].guards]


def test_a_pattern_that_a_coordinator_tells_counts_against_what_was_said(
    store: ClusterStore,
) -> None:
    down_for_half_an_hour(store)
    request = PlanRequest((TOPIC,), parse_target("committed"), by="ann")
    by_pattern = live(members=1, patterns=("ord.*",))
    plan = read_live(by_pattern, told_by_name("etl"), store, request, now=NOW).plan([])
    assert "no-committed-offset" in [guard.name for guard in plan.partitions[0].guards]
