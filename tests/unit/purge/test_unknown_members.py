"""Members that have no offset, or that nobody can see, hold a purge back at the last look too."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.domain.model import ANY_TOPIC, Group, GroupListing, GroupOffset
from dashboard.history.past_groups import without_told
from dashboard.purge.evidence.standards import standards
from dashboard.purge.journal.rows import RunView
from dashboard.purge.plan.claims import RememberedOffset
from dashboard.purge.plan.drafts import PlanRequest, read_live
from dashboard.purge.plan.guards import Override
from dashboard.purge.plan.targets import parse_target
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import SNAPSHOT_TABLES, build
from tests.support.collected import NOTHING_HIDDEN
from tests.unit.purge.facts_of import KEY, NOW, TOPIC
from tests.unit.purge.room import Room
from tests.unit.purge.test_memory_age import SETTINGS

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
REQUEST = PlanRequest((TOPIC,), parse_target("committed"), by="ann")

REREADING = Group("g", "consumer", "Stable", 1, (KEY,))
UNSEEN = Group("app", "streams", "NotReady", None)
# It died on its first record, before a first commit, or somebody has just deleted its offsets.
DIED = Group("app", "classic", "Empty", 0)


def join(room: Room, group: Group, *offsets: GroupOffset) -> None:
    """From now on the cluster lists this group too, with these offsets."""
    read = room.live.groups

    def groups(topics: Iterable[str], *, with_offsets: bool = True) -> GroupListing:
        found = read(topics, with_offsets=with_offsets)
        return replace(found, groups=(*found.groups, group), offsets=(*found.offsets, *offsets))

    room.live.groups = groups  # type: ignore[method-assign]


def refused_by(view: RunView) -> tuple[str, str | None]:
    (row,) = view.partitions
    assert not row.was_sent
    return row.state, row.error


def test_records_that_a_group_reads_again_are_not_free(tmp_path: Path) -> None:
    """Its offsets were deleted to start over: 90, as remembered, is not where it is."""
    room = Room(tmp_path)
    room.live.offsets_of = {"h": {0: 80}}
    room.remembered = (RememberedOffset("g", TOPIC, 0, 90, "id-1"),)
    assert room.plan().partitions[0].free, "it is gone, and had read them"
    join(room, REREADING)
    (planned,) = room.plan().partitions
    assert (planned.target_offset, [g.name for g in planned.guards]) == (
        80, ["members-without-commits"],
    )  # fmt: skip


def test_a_group_whose_offset_goes_after_the_plan_is_no_longer_known(tmp_path: Path) -> None:
    room = Room(tmp_path)
    plan = room.plan()
    assert plan.partitions[0].free
    room.live.offsets_of = {"a": {}}
    room.live.members = {"a": 1}
    assert refused_by(room.carry_out(plan)) == ("not_done", "no-committed-offset")


@pytest.mark.further_but("unseen", "rebalancing")
@pytest.mark.parametrize(
    "born",
    [UNSEEN, Group("app", "classic", "PreparingRebalance", 1),
     Group("app", "streams", "Assigning", 1, subscribed=(TOPIC,)), DIED],
    ids=["unseen", "rebalancing", "asking-for-the-topic", "died-before-its-first-commit"],
)  # fmt: skip
def test_a_group_born_after_the_plan_refuses_until_it_is_known_what_it_reads(
    tmp_path: Path, born: Group
) -> None:
    room = Room(tmp_path)
    plan = room.plan()
    assert plan.partitions[0].free
    join(room, born)
    assert refused_by(room.carry_out(plan)) == ("not_done", "no-committed-offset")
    assert [g.name for g in room.plan().partitions[0].guards] == ["no-committed-offset"]


@pytest.mark.parametrize("group", [UNSEEN, DIED])
def test_an_unseen_group_that_committed_elsewhere_holds_nothing_back(
    tmp_path: Path, group: Group
) -> None:
    room = Room(tmp_path)
    plan = room.plan()
    join(room, group, GroupOffset("app", "other", 0, 7))
    assert room.carry_out(plan).run.state == "done"


@pytest.mark.parametrize(
    "group",
    [replace(DIED, group_id="console-consumer-4711"), replace(DIED, type="connect"),
     replace(DIED, type="share")],
    ids=["console", "workers", "share"],
)  # fmt: skip
def test_a_group_without_members_and_offsets_that_reads_nothing_holds_nothing_back(
    tmp_path: Path, group: Group
) -> None:
    room = Room(tmp_path)
    join(room, group)
    names = [guard.name for guard in room.plan().partitions[0].guards]
    assert names == (["share-group"] if group.type == "share" else [])


@pytest.mark.parametrize("known_by", [None, "members", "offset"])
def test_what_it_read_before_tells_nothing_of_what_it_reads_now(
    tmp_path: Path, known_by: str | None
) -> None:
    """Planned, and looked at again. Of `other` it has no offset any more, and it may read on."""
    store = ClusterStore(Store(str(tmp_path / "data")), "cluster-1")
    snapshot_of(store, 60 * MINUTE, known_by)
    snapshot_of(store, MINUTE, None)
    room = Room(tmp_path)
    settled = read_live(room.live, SETTINGS, store, REQUEST, now=NOW).plan([])
    assert settled.free_partitions
    join(room, DIED)
    plan = read_live(room.live, SETTINGS, store, REQUEST, now=NOW).plan([])
    assert not plan.free_partitions
    room.standards = standards(SETTINGS, store, [TOPIC], NOW)
    assert refused_by(room.carry_out(settled)) == ("not_done", "no-committed-offset")


@pytest.mark.parametrize("there", [True, False])
def test_who_rebalanced_and_is_gone_is_told_by_an_offset_that_is_as_young(
    tmp_path: Path, there: bool
) -> None:
    """It crashed in each rebalance: nobody could tell what it reads, once its topic is deleted."""
    store = ClusterStore(Store(str(tmp_path / "data")), "cluster-1")
    snapshot_of(store, 30 * MINUTE, "rebalancing", offset=True)
    snapshot_of(store, MINUTE, None, there=there)
    plan = read_live(Room(tmp_path).live, SETTINGS, store, REQUEST, now=NOW).plan([])
    assert bool(plan.free_partitions) is there


def test_an_offset_of_before_tells_nothing_of_what_it_rebalanced_for(tmp_path: Path) -> None:
    """Deleted to read all again, it crashed in each rebalance: it may read more than before."""
    store = ClusterStore(Store(str(tmp_path / "data")), "cluster-1")
    snapshot_of(store, 60 * MINUTE, "offset")
    snapshot_of(store, 30 * MINUTE, "rebalancing")
    snapshot_of(store, MINUTE, None)
    plan = read_live(Room(tmp_path).live, SETTINGS, store, REQUEST, now=NOW).plan([])
    assert [g.name for g in plan.partitions[0].guards] == ["no-committed-offset"]
    snapshot_of(store, timedelta(0), "offset")  # it told what it reads
    told = read_live(Room(tmp_path).live, SETTINGS, store, REQUEST, now=NOW).plan([])
    assert told.free_partitions


@pytest.mark.parametrize(("past", "holds"), [(None, True), (6, True), (7, False)])
def test_who_was_met_in_one_rebalance_alone_is_let_go_with_what_is_a_week_old(
    past: int | None, holds: bool
) -> None:
    """Each run of a test has a group of its own, and each of them rebalances for three seconds."""
    met = {("it-7f3c", ANY_TOPIC): 7, ("it-7f3c", "orders"): 7, ("steady", ""): 7}
    found = without_told(met, {}, past)
    assert (("it-7f3c", ANY_TOPIC) in found) is holds
    assert found.keys() >= met.keys() - {("it-7f3c", ANY_TOPIC)}


@pytest.mark.further_but(
    "0.1-True-before-0",
    "0.1-True-meeting-0",
    "0.1-True-after-8",
    "6.9-True-before-8",
    "6.9-True-meeting-400",
    "6.9-True-after--8",
    "16-False-before--8",
    "16-False-meeting--400",
)
@pytest.mark.parametrize("days_ahead", [0, 8, 400, -8, -400])
@pytest.mark.parametrize("wrong", ["before", "meeting", "after"])
@pytest.mark.parametrize(("days", "holds"), [(0.1, True), (6.9, True), (16, False)])
def test_that_week_passes_by_proved_clocks_alone(
    tmp_path: Path, days: float, holds: bool, wrong: str, days_ahead: int
) -> None:
    """One collect ran ahead, or behind: before the group was met, as it was met, or after that."""
    store = ClusterStore(Store(str(tmp_path / "data")), "cluster-1")
    age, ahead = timedelta(days=days), timedelta(days=days_ahead)
    for at, name in ((age + HOUR, "before"), (age, "meeting"), (age - HOUR / 2, "after")):
        known_by = "rebalancing" if name == "meeting" else None
        snapshot_of(store, at, known_by, ahead=ahead if name == wrong else timedelta(0))
    snapshot_of(store, age - HOUR, None)
    snapshot_of(store, MINUTE, None)
    plan = read_live(Room(tmp_path).live, SETTINGS, store, REQUEST, now=NOW).plan([])
    assert bool(plan.free_partitions) is not holds


def snapshot_of(
    store: ClusterStore,
    age: timedelta,
    known_by: str | None,
    *,
    there: bool = True,
    offset: bool = False,
    ahead: timedelta = timedelta(0),
) -> None:
    """It shows the topic, which group a reads, and how group app is known by topic `other`, if that
    is `there`; an `offset` besides. The clock was so far `ahead` of the controller's.
    """
    writer = store.begin("snapshots", NOW - age + ahead)
    names = [TOPIC, "other"] if there else [TOPIC]
    topics = {"topic_no": [0, 1], "topic": names, "topic_id": ["id-1", "id-2"],
              "is_internal": [False, False]}  # fmt: skip
    topics = {name: values[: len(names)] for name, values in topics.items()}
    writer.write("topics", build(SNAPSHOT_TABLES["topics"], topics))
    rebalances, at = known_by == "rebalancing", [{"topic": "other", "partition": 0}]
    group = {"group_id": ["a", "app"], "type": ["classic"] * 2, "members": [1, 1],
             "state": ["Stable", "PreparingRebalance" if rebalances else "Stable"],
             "assigned": [[{"topic": TOPIC, "partition": 0}], at if known_by == "members" else []],
             }  # fmt: skip
    group = {name: of[: 2 if known_by else 1] for name, of in group.items()}
    writer.write("groups", build(SNAPSHOT_TABLES["groups"], group))
    rows = {"group_id": ["app"], "topic_no": [1], "partition": [0], "committed_offset": [5]}
    told = offset or known_by == "offset"
    writer.write("group_offsets", build(SNAPSHOT_TABLES["group_offsets"], rows if told else {}))
    writer.commit(0.1, {**NOTHING_HIDDEN, "clock_ahead_seconds": ahead.total_seconds()})


@pytest.mark.parametrize(("other", "state"), [(False, "done"), (True, "refused")])
def test_such_a_group_is_accepted_by_name_and_no_other_with_it(
    tmp_path: Path, other: bool, state: str
) -> None:
    room = Room(tmp_path)
    join(room, UNSEEN)
    plan = room.plan(overrides=(Override("no-committed-offset", "app", "asked", "ann", NOW),))
    assert plan.partitions[0].free
    if other:
        join(room, replace(UNSEEN, group_id="born-later"))
    assert room.carry_out(plan).run.state == state
