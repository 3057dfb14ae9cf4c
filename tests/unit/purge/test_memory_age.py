"""A memory of groups that is too old is none: what came and went since is known to nobody."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.core.clock import format_time
from dashboard.purge.evidence.standards import standards, unremembered
from dashboard.purge.execute.recheck import Rechecked, recheck
from dashboard.purge.journal.rows import PartitionRow
from dashboard.purge.plan.drafts import PlanRequest, read_live
from dashboard.purge.plan.guards import Lift
from dashboard.purge.plan.plan import Plan
from dashboard.purge.plan.targets import parse_target
from dashboard.settings.policies.section import POLICY_LIFTABLE
from dashboard.settings.settings import PurgeSettings, Settings, TopicDeclaration
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import SNAPSHOT_TABLES, build
from tests.support.cluster import FakeCluster
from tests.unit.policies.examples import policy
from tests.unit.policies.service_room import ServiceRoom
from tests.unit.purge.facts_of import NOW, TOPIC

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
DECLARED = TopicDeclaration(TOPIC, "team", "groups", timedelta(0), "ann", "2026-01-01")
SETTINGS = Settings(topics=(DECLARED,))
INCOMPLETE = {"groups_incomplete": ["no DESCRIBE on the cluster"]}


@pytest.fixture
def store(tmp_path: Path) -> ClusterStore:
    return ClusterStore(Store(str(tmp_path)), "cluster-1")


def taken(store: ClusterStore, ago: timedelta, **details: Any) -> str:
    """A snapshot of the topic; those of one test are taken one by one, whatever they say."""
    return shown(store, ago, TOPIC, **details)


def why(store: ClusterStore, most: timedelta = DAY, now: datetime = NOW) -> str | None:
    return unremembered(store, [TOPIC], now, most).get(TOPIC)


def test_a_memory_within_its_age_counts(store: ClusterStore) -> None:
    taken(store, 23 * HOUR)
    assert why(store) is None
    assert why(store, now=NOW + HOUR) is None


def test_an_older_one_says_since_when_nothing_is_remembered(store: ClusterStore) -> None:
    taken(store, 30 * DAY)
    taken(store, 25 * HOUR)
    said = why(store)
    assert said is not None
    assert format_time(NOW - 25 * HOUR) in said
    assert "most_history_age" in said


def test_where_there_is_no_snapshot_another_guard_stands(store: ClusterStore) -> None:
    assert why(store) is None


NO_PROOF: list[tuple[dict[str, Any], timedelta, str]] = [
    (INCOMPLETE, HOUR, "no DESCRIBE on the cluster"),
    ({"clock_ahead_seconds": 60.0}, HOUR, "clock"),
    ({"clock_ahead_seconds": -60.0}, HOUR, "clock"),
    ({"clock_error": "BROKER_UNREACHABLE"}, HOUR, "clock"),
    ({}, -HOUR, "time to come"),
]


@pytest.mark.parametrize(("details", "ago", "named"), NO_PROOF)
def test_a_snapshot_that_proves_nothing_leaves_the_age_to_the_one_before(
    store: ClusterStore, details: dict[str, Any], ago: timedelta, named: str
) -> None:
    taken(store, 25 * HOUR)
    newest = taken(store, ago, **details)
    said = why(store)
    assert said is not None
    assert all(text in said for text in (format_time(NOW - 25 * HOUR), newest, named))
    taken(store, 2 * HOUR)
    assert why(store) is None


@pytest.mark.parametrize(("details", "ago", "named"), NO_PROOF)
def test_without_any_proof_nothing_is_remembered_at_all(
    store: ClusterStore, details: dict[str, Any], ago: timedelta, named: str
) -> None:
    taken(store, ago, **details)
    said = why(store)
    assert said is not None
    assert said.startswith("No kept snapshot")
    assert named in said


def test_clocks_that_agree_need_not_be_one(store: ClusterStore) -> None:
    """The collector's host may be some seconds ahead of the one that plans."""
    taken(store, -timedelta(seconds=5), clock_ahead_seconds=5.0)
    assert why(store) is None


def test_a_snapshot_that_cannot_be_read_proves_nothing(store: ClusterStore) -> None:
    taken(store, 25 * HOUR)
    newest = taken(store, HOUR)
    Path(store.path, "snapshots", newest, "manifest.json").write_text("{")
    said = why(store)
    assert said is not None
    assert "cannot be read" in said


def test_what_follows_a_snapshot_of_a_clock_that_ran_ahead_counts_by_its_own_time(
    store: ClusterStore,
) -> None:
    """Its id sorts behind the other's, a century ahead; when it was taken its manifest tells."""
    taken(store, -36_500 * DAY)
    taken(store, HOUR)
    assert why(store) is None


def test_a_cluster_that_forgets_sooner_has_to_be_looked_at_more_often(store: ClusterStore) -> None:
    """Kafka forgot after a day before 2.0; half of that leaves time to see a group twice."""
    taken(store, 13 * HOUR, offsets_retention_minutes=24 * 60)
    said = why(store)
    assert said is not None
    assert "offsets.retention.minutes" in said
    taken(store, 11 * HOUR, offsets_retention_minutes=24 * 60)
    assert why(store) is None


def shown(store: ClusterStore, ago: timedelta, *topics: str, **details: Any) -> str:
    """A snapshot whose collector may describe these topics; those that disks alone show have no
    id there, as in those that `collect` writes.
    """
    writer = store.begin("snapshots", NOW - ago)
    names = [*topics, *details.get("doubtful_topics", ())]
    ids = ["id-1"] * len(topics) + [None] * (len(names) - len(topics))
    columns = {"topic_no": [*range(len(names))], "topic": names, "topic_id": ids}
    writer.write("topics", build(SNAPSHOT_TABLES["topics"], columns))
    writer.commit(0.1, {"groups_incomplete": [], "doubtful_topics": [], **details})
    return writer.id


HIDDEN: dict[str, Any] = {"doubtful_topics": [TOPIC]}


def test_a_snapshot_tells_nothing_of_a_topic_that_its_collector_may_not_describe(
    store: ClusterStore,
) -> None:
    """Coordinators leave out what groups committed there, and say no error."""
    shown(store, 2 * HOUR, "other", **HIDDEN)
    said = why(store)
    assert said is not None
    assert f"The snapshot of {format_time(NOW - 2 * HOUR)} does not show this topic" in said
    assert unremembered(store, [TOPIC, "other"], NOW, DAY).keys() == {TOPIC}
    (guard,) = plan(store).partitions[0].guards
    assert guard.name == "stale-history"


def test_a_topic_that_was_hidden_since_is_remembered_until_that_snapshot_is_too_old(
    store: ClusterStore,
) -> None:
    shown(store, 3 * HOUR, TOPIC)
    shown(store, HOUR, "other", **HIDDEN)
    assert why(store) is None
    assert why(store, now=NOW + DAY - 2 * HOUR) is not None


def test_a_topic_that_the_newest_snapshot_does_not_show_is_remembered_once_it_is_collected(
    store: ClusterStore,
) -> None:
    """It may be new; or hidden, while all brokers that have it were down: no disk shows it then."""
    shown(store, HOUR, "other")
    assert why(store) is not None
    shown(store, HOUR / 60, "other", TOPIC)
    assert why(store) is None


def test_where_brokers_do_not_tell_what_they_forget_it_is_a_week(store: ClusterStore) -> None:
    taken(store, 4 * DAY)
    said = why(store, most=10 * DAY)
    assert said is not None
    assert "offsets.retention.minutes" in said
    assert why(store, most=10 * DAY, now=NOW - DAY) is None


def plan(store: ClusterStore, *lifts: str, live: FakeCluster | None = None) -> Plan:
    found = read_live(
        live or FakeCluster(), SETTINGS, store,  # type: ignore[arg-type]
        PlanRequest((TOPIC,), parse_target("committed"), by="ann"), now=NOW,
    )  # fmt: skip
    return found.plan([Lift(name, "why") for name in lifts])


def sent(store: ClusterStore, planned: Plan, now: datetime) -> Rechecked:
    live = FakeCluster()
    (one,) = planned.partitions
    rows = [PartitionRow(*one.key, one.target_offset or 0, "pending")]
    return recheck(live, planned, rows, now, standards(SETTINGS, store, [TOPIC], now))  # type: ignore[arg-type]


def test_a_plan_is_guarded_by_name_and_a_person_may_lift_it(store: ClusterStore) -> None:
    taken(store, 25 * HOUR)
    (guard,) = plan(store).partitions[0].guards
    assert guard.name == "stale-history"
    assert format_time(NOW - 25 * HOUR) in guard.reason
    assert "lowwater watch" in guard.lift
    lifted = plan(store, "stale-history")
    assert lifted.partitions[0].free
    assert [*sent(store, lifted, NOW).allowed] == [lifted.partitions[0].key]


def test_a_memory_that_ages_while_a_run_waits_is_refused_before_sending(
    store: ClusterStore,
) -> None:
    taken(store, 23 * HOUR)
    planned = plan(store)
    assert [*sent(store, planned, NOW).allowed] == [planned.partitions[0].key]
    (refused,) = sent(store, planned, NOW + 2 * HOUR).refused.values()
    assert refused.name == "stale-history"


def test_an_override_that_lifted_nothing_lifts_nothing_later(store: ClusterStore) -> None:
    taken(store, 23 * HOUR)
    (refused,) = sent(store, plan(store, "stale-history"), NOW + 2 * HOUR).refused.values()
    assert refused.name == "stale-history"


def test_no_policy_lifts_it() -> None:
    assert "stale-history" not in POLICY_LIFTABLE


def week_of_service(tmp_path: Path, *, watched: bool, hidden: bool = False, **details: Any) -> int:
    """A group reads 10 of 1000 records and stops; after a week Kafka has forgotten its offsets.

    The log start that a policy leaves, whose service has run all the while.
    """
    topics = 'topics = ["orders"]\nmin_purge_interval_ms = 5000'
    room = ServiceRoom(tmp_path, policy(topics, "orders"))
    purge = replace(room.settings.purge, most_history_age=PurgeSettings().most_history_age)
    room.settings = replace(room.settings, purge=purge, topics=(replace(DECLARED, glob="orders"),))
    room.live.topic("orders")
    room.live.produce("orders", 1000)
    room.live.commit("shop", "orders")
    room.live.commit("month-end", "orders", offset=10)
    for day in range(9):
        if day == 8:
            del room.live.offsets_of["month-end"]
        if watched:
            collect(room, hidden, **details)
        with_service(room)
        room.clock.now += DAY
    return room.live.log_start("orders")


def collect(room: ServiceRoom, hidden: bool, **details: Any) -> None:
    """A snapshot of the groups, or none of them where it may not see all, or the topic."""
    seen = {} if details or hidden else room.live.offsets_of
    rows = [(group, key.partition, at) for group, by in seen.items() for key, at in by.items()]
    writer = room.store.begin("snapshots", room.clock())
    writer.write(
        "topics",
        build(
            SNAPSHOT_TABLES["topics"],
            {"topic_no": [0], "topic": ["orders"], "topic_id": [None if hidden else "id-orders"]},
        ),
    )
    names = ("group_id", "partition", "committed_offset")
    columns = {name: [row[n] for row in rows] for n, name in enumerate(names)}
    writer.write(
        "group_offsets",
        build(SNAPSHOT_TABLES["group_offsets"], {"topic_no": [0] * len(rows), **columns}),
    )
    writer.commit(0.1, {"doubtful_topics": ["orders"] if hidden else [], **details})


def with_service(room: ServiceRoom) -> None:
    service = room.service()
    room.pass_time(service, 12)
    service.close()


@pytest.mark.further
def test_a_policy_does_not_outlive_the_collector(tmp_path: Path) -> None:
    assert week_of_service(tmp_path, watched=False) == 10


@pytest.mark.further
def test_a_collector_that_may_not_see_all_groups_remembers_none(tmp_path: Path) -> None:
    assert week_of_service(tmp_path, watched=True, **INCOMPLETE) == 10


def test_a_collector_that_may_not_see_the_topic_remembers_nobody_there(tmp_path: Path) -> None:
    assert week_of_service(tmp_path, watched=True, hidden=True) == 10


@pytest.mark.further
def test_a_group_that_the_collector_saw_counts_after_it_is_gone(tmp_path: Path) -> None:
    assert week_of_service(tmp_path, watched=True) == 10
