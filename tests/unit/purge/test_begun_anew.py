"""What is remembered of a group counts for nothing once it was seen to have begun anew."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.cli.purge.lift_flags import parse_lift
from dashboard.domain.model import Group, GroupOffset, TopicPartition
from dashboard.history.past_groups import deleted
from dashboard.history.pruning import prune_snapshots
from dashboard.purge.evidence.standards import standards
from dashboard.purge.execute.recheck import recheck
from dashboard.purge.journal.rows import PartitionRow
from dashboard.purge.plan.drafts import PlanRequest, read_live
from dashboard.purge.plan.guards import Lift, Waive
from dashboard.purge.plan.plan import Plan
from dashboard.purge.plan.preview import preview
from dashboard.purge.plan.targets import parse_target
from dashboard.settings.sections import SnapshotSettings
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import SNAPSHOT_TABLES, build
from tests.support.cluster import FakeCluster
from tests.support.collected import NOTHING_HIDDEN
from tests.unit.purge.facts_of import NOW, TOPIC
from tests.unit.purge.room import Room
from tests.unit.purge.test_memory_age import SETTINGS

DAY = 24 * 60  # in minutes
READ = (90, 90)  # what group etl had committed on the two partitions


def snapshot(
    store: ClusterStore,
    minutes_ago: int,
    offsets: Sequence[int] = (),
    *,
    members: bool = False,
    ahead: int = 0,
) -> None:
    """Taken by a clock so many minutes `ahead` of the cluster's."""
    at = NOW - timedelta(minutes=minutes_ago - ahead)
    writer = store.begin("snapshots", at)
    topics = {"topic_no": [0], "topic": [TOPIC], "topic_id": ["id-1"]}
    writer.write("topics", build(SNAPSHOT_TABLES["topics"], topics))
    count = len(offsets)
    committed = {"topic_no": [0] * count, "group_id": ["etl"] * count,
                 "partition": [*range(count)], "committed_offset": [*offsets],
                 "taken_at": [at] * count}  # fmt: skip
    writer.write("group_offsets", build(SNAPSHOT_TABLES["group_offsets"], committed))
    group = {"group_id": ["etl"], "type": ["classic"], "state": ["Stable"], "members": [1],
             "assigned": [[{"topic": TOPIC, "partition": p} for p in (0, 1)]]}  # fmt: skip
    writer.write("groups", build(SNAPSHOT_TABLES["groups"], group if members else {}))
    writer.commit(0.1, {**NOTHING_HIDDEN, "clock_ahead_seconds": 60.0 * ahead})


@pytest.fixture
def store(tmp_path: Path) -> ClusterStore:
    return ClusterStore(Store(str(tmp_path)), "cluster-1")


def plan_of(live: FakeCluster, store: ClusterStore) -> Plan:
    request = PlanRequest((TOPIC,), parse_target("committed"), by="ann")
    return read_live(live, SETTINGS, store, request, now=NOW).plan([])


def names(plan: Plan) -> list[list[str]]:
    return [[guard.name for guard in part.guards] for part in plan.partitions]


def test_what_the_guard_of_one_group_offers_lifts_it_of_no_other(store: ClusterStore) -> None:
    live = FakeCluster(2)
    live.offsets_of = {g: {1: 5} for g in ("billing", "new-app")} | {"etl": {0: 90, 1: 90}}
    snapshot(store, 60)
    request = PlanRequest((TOPIC,), parse_target("offset:50"), by="ann")
    read = read_live(live, SETTINGS, store, request, now=NOW)
    stand = {g.reason.split()[1]: g.lift for g in read.plan([]).partitions[0].guards}
    (offered,) = re.findall('--override "(.*?=WHY)"', stand["new-app"])
    (part, _) = read.plan([parse_lift(offered, lambda: ())]).partitions
    assert [(found.name, found.group_id) for found in part.lifted] == [
        ("no-committed-offset", "new-app")
    ]
    assert [guard.reason.split()[1] for guard in part.guards] == ["billing"]


@pytest.mark.parametrize("members", [0, 1])
def test_a_group_that_committed_anew_on_one_partition_has_read_nothing_of_the_other(
    store: ClusterStore, members: int
) -> None:
    """It was deleted to read all again, came up, committed 5, and died or did not."""
    snapshot(store, 60, READ)
    live = FakeCluster(2)
    live.offsets_of, live.members = {"etl": {0: 5}}, {"etl": members}

    plan = plan_of(live, store)

    assert names(plan) == [[], ["no-committed-offset"]]
    assert plan.partitions[0].target_offset == 5


def test_it_is_refused_before_sending_where_it_began_anew_after_the_plan(
    store: ClusterStore,
) -> None:
    snapshot(store, 60, READ)
    live = FakeCluster(2)
    live.offsets_of = {"etl": {0: 90, 1: 90}}
    plan = plan_of(live, store)
    rows = [PartitionRow(*p.key, p.target_offset, "pending") for p in plan.free_partitions]
    assert len(rows) == 2

    live.offsets_of = {"etl": {0: 95}}
    found = recheck(live, plan, rows, NOW, standards(SETTINGS, store, [TOPIC], NOW))

    assert [key.partition for key in found.allowed] == [0]
    assert "etl is gone" in found.refused[TopicPartition(TOPIC, 1)].reason


@pytest.mark.parametrize("kept", [True, False])
def test_an_offset_of_an_earlier_topic_of_the_name_tells_nothing_of_this_one(
    store: ClusterStore, kept: bool
) -> None:
    """Its coordinator kept it (it was loading while the topic was deleted), and lists it."""
    snapshot(store, 60, READ if kept else ())  # an earlier release took it for one of this topic
    live = FakeCluster(2)
    live.others = ((), (GroupOffset("etl", "other", 0, 5),))
    live.offsets_of = {"a": {0: 60, 1: 60}, "etl": {0: 90, 1: 90}}
    plan = plan_of(live, store)
    assert names(plan) == [[], []]

    live.offsets_of["etl"] = {0: None, 1: None}  # asked by the id: it has none
    rows = [PartitionRow(*p.key, p.target_offset, "pending") for p in plan.free_partitions]
    found = recheck(live, plan, rows, NOW, standards(SETTINGS, store, [TOPIC], NOW))
    assert {refusal.name for refusal in found.refused.values()} == {"no-committed-offset"}
    assert names(plan_of(live, store)) == [["no-committed-offset"], ["no-committed-offset"]]


def reading() -> FakeCluster:
    """Group etl has members on both partitions, and no offset."""
    live = FakeCluster(2)
    both = (TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1))
    live.others = ((Group("etl", "classic", "Stable", 1, both),), ())
    live.offsets_of = {}
    return live


def nobody() -> FakeCluster:
    live = FakeCluster(2)
    live.offsets_of = {}
    return live


@pytest.mark.parametrize(
    ("live", "guard"),
    [(reading(), "members-without-commits"), (nobody(), "no-committed-offset")],
)
def test_one_that_a_snapshot_met_reading_from_nowhere_does_not_count_when_it_is_down(
    store: ClusterStore, live: FakeCluster, guard: str
) -> None:
    """It crashes before its first commit, so that Kafka knows it while it is up alone."""
    snapshot(store, 60, READ)
    snapshot(store, 5, members=True)

    assert names(plan_of(live, store)) == [[guard], [guard]]


@pytest.mark.parametrize(
    ("minutes_ago", "members", "held"),
    [(60, True, True), (24 * 60 + 5, True, False), (60, False, False)],
    ids=["lately", "a day ago", "it had none"],
)
def test_one_that_is_gone_sooner_than_kafka_drops_it_was_deleted_to_read_all_again(
    store: ClusterStore, minutes_ago: int, members: bool, held: bool
) -> None:
    """As Connect resets a sink's offsets: until its first member joins nobody lists it."""
    snapshot(store, minutes_ago, READ, members=members)
    snapshot(store, 5)
    plan = plan_of(nobody(), store)
    assert names(plan) == ([["no-committed-offset"]] * 2 if held else [[], []])
    if held:
        assert "Group etl is listed no more" in plan.partitions[0].guards[0].reason


@pytest.mark.further_but("a month-0", "hours-0")
@pytest.mark.parametrize("days_ahead", [0, 1, 400])
@pytest.mark.parametrize(("days", "held"), [(30, False), (0.5, True)], ids=["a month", "hours"])
def test_how_long_ago_it_had_members_is_told_by_proved_clocks_whatever_ids_say(
    store: ClusterStore, days: float, held: bool, days_ahead: int
) -> None:
    """One collect ran ahead, and ids follow it: who left a month ago was not deleted lately."""
    ago, ahead = int(days * DAY), days_ahead * DAY
    snapshot(store, 40 * DAY, ahead=ahead)
    snapshot(store, ago, READ, members=True)
    snapshot(store, ago // 2, ahead=ahead)
    for minutes_ago in (ago // 3, 5):
        snapshot(store, minutes_ago)
    assert names(plan_of(nobody(), store)) == ([["no-committed-offset"]] * 2 if held else [[], []])


@pytest.mark.parametrize(
    ("ahead", "between", "held"), [(0, False, False), (7, False, True), (7, True, False)]
)
def test_one_of_no_known_time_is_as_young_as_it_may_be(
    store: ClusterStore, ahead: int, between: bool, held: bool
) -> None:
    """Until one behind it is a day old by a proved clock. Who does not know the time, as an
    analysis of what a wrong clock collected, knows that it is later than the newest proved one.
    """
    snapshot(store, 3 * DAY)
    snapshot(store, DAY + 60, READ, members=True, ahead=ahead)
    if between:
        snapshot(store, DAY + 30)
    snapshot(store, 10)
    snapshot(store, 5, ahead=5 * DAY)
    for now in (NOW, None):
        assert deleted(store, now, ()) == ({"etl"} if held else set())


def test_one_that_the_plan_saw_and_nobody_lists_before_sending_is_refused_by_name(
    store: ClusterStore,
) -> None:
    snapshot(store, 60)
    live = FakeCluster(2)
    live.offsets_of = {"etl": {0: 90, 1: 90}}
    plan = plan_of(live, store)
    rows = [PartitionRow(*p.key, p.target_offset, "pending") for p in plan.free_partitions]
    found = recheck(nobody(), plan, rows, NOW, standards(SETTINGS, store, [TOPIC], NOW))
    assert (len(rows), found.allowed) == (2, {})
    assert "Group etl is listed no more" in found.refused[TopicPartition(TOPIC, 1)].reason


@pytest.mark.further_but("0-None", "60-None", "-60-None")
@pytest.mark.parametrize("met", [None, "offset", "members"])
@pytest.mark.parametrize("ahead", [0, 60, -60])
def test_one_that_a_person_waived_as_gone_is_waived_as_it_was(
    store: ClusterStore, met: str | None, ahead: int
) -> None:
    """A snapshot met it after the plan, and it is gone again, whatever that collector's clock."""
    snapshot(store, 60, READ)
    live = FakeCluster(2)
    live.offsets_of = {"h": {0: 95, 1: 95}}
    request = PlanRequest(
        (TOPIC,), parse_target("committed"), waive=(Waive("etl", "gone"),), by="ann"
    )
    plan = read_live(live, SETTINGS, store, request, now=NOW).plan([])
    assert Plan.from_json_text(plan.to_json_text(), "plan") == plan
    snapshot(store, 4, (92, 92) if met == "offset" else (), members=met == "members", ahead=ahead)
    snapshot(store, 3)
    rows = [PartitionRow(*p.key, p.target_offset, "pending") for p in plan.free_partitions]
    found = recheck(live, plan, rows, NOW, standards(SETTINGS, store, [TOPIC], NOW))
    assert len(rows) == 2
    assert len(found.allowed) == (0 if met else 2)
    for refusal in found.refused.values():
        assert "Group etl was waived as gone, and a snapshot met it since" in refusal.reason


@pytest.mark.parametrize(("before", "after"), [(30, 0), (0, -30)])
def test_the_order_of_what_was_seen_is_not_that_of_clocks_that_were_wrong(
    store: ClusterStore, before: int, after: int
) -> None:
    """By its clock the snapshot that saw the offset is younger than the one that met the group."""
    snapshot(store, 60, READ, ahead=before)
    snapshot(store, 55, members=True, ahead=after)
    snapshot(store, 5)

    assert names(plan_of(nobody(), store)) == [["no-committed-offset"]] * 2


@pytest.mark.parametrize("behind", [0, 30])
def test_one_that_was_met_after_the_plan_has_begun_anew_whatever_the_collectors_clock_says(
    store: ClusterStore, behind: int
) -> None:
    """Its first commits came after the last snapshot, so that the plan alone has seen them."""
    snapshot(store, 60)
    live = FakeCluster(2)
    live.offsets_of = {"etl": {0: 90, 1: 90}}
    plan = plan_of(live, store)
    rows = [PartitionRow(*p.key, p.target_offset, "pending") for p in plan.free_partitions]
    snapshot(store, -10, members=True, ahead=-behind)

    later = NOW + timedelta(minutes=20)
    found = recheck(nobody(), plan, rows, later, standards(SETTINGS, store, [TOPIC], later))

    assert (len(rows), found.allowed) == (2, {})
    assert {refusal.name for refusal in found.refused.values()} == {"no-committed-offset"}


@pytest.mark.further
def test_that_it_was_met_is_not_thinned_out_while_no_analysis_knows_it(store: ClusterStore) -> None:
    snapshot(store, 160, READ)
    snapshot(store, 155, members=True)
    for minutes_ago in range(150, 0, -5):
        snapshot(store, minutes_ago)
    live = FakeCluster(2)
    live.offsets_of = {"etl": {0: 90, 1: 90}}
    plan = plan_of(live, store)
    rows = [PartitionRow(*p.key, p.target_offset, "pending") for p in plan.free_partitions]

    assert prune_snapshots(store, SnapshotSettings(), NOW).removed

    assert names(plan_of(nobody(), store)) == [["no-committed-offset"]] * 2
    found = recheck(nobody(), plan, rows, NOW, standards(SETTINGS, store, [TOPIC], NOW))
    assert (len(rows), found.allowed) == (2, {})


def test_one_that_had_committed_when_it_was_met_counts_where_it_stood(store: ClusterStore) -> None:
    snapshot(store, 25 * 60, READ, members=True)
    snapshot(store, 5)

    plan = plan_of(nobody(), store)

    assert names(plan) == [[], []]
    assert [part.target_offset for part in plan.partitions] == [90, 90]


def test_an_offset_that_was_deleted_by_hand_after_the_plan_stands_for_nothing(room: Room) -> None:
    """Coordinators list the group, without members and without its offset."""
    room.live.offsets_of = {"a": {0: 60}, "batch": {0: 60}}
    plan = room.plan()
    assert plan.partitions[0].target_offset == 60
    room.live.offsets_of["batch"] = {}
    view = room.carry_out(plan)
    assert (view.run.state, view.partitions[0].error) == ("refused", "no-committed-offset")
    assert room.live.sent == []


@pytest.mark.parametrize(
    ("live", "guard"),
    [(nobody(), "no-committed-offset"), (reading(), "members-without-commits")],
)
def test_what_it_would_lose_counts_from_the_log_start_where_its_place_is_unknown(
    store: ClusterStore, live: FakeCluster, guard: str
) -> None:
    """`etl` committed 5 on one partition and nothing on the other one, of which it once read 90."""
    snapshot(store, 60, READ)
    live.offsets_of = {"etl": {0: 5}, "h": {0: 95, 1: 95}}
    request = PlanRequest((TOPIC,), parse_target("committed"), by="ann")
    plan = read_live(live, SETTINGS, store, request, now=NOW).plan([Lift(guard, "why", "etl")])
    assert [p.free for p in plan.partitions] == [True, True]
    etl, _ = preview(plan, NOW).groups
    target = plan.partitions[1].target_offset
    assert target is not None
    assert target > 5
    assert (etl.group_id, etl.loss_if_earliest) == ("etl", target)
    assert etl.loss_if_latest == 100
