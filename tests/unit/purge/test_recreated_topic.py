"""What a group committed on a topic that was deleted says nothing of the new one of that name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dashboard.domain.model import GroupListing, GroupOffset, TopicPartition
from dashboard.purge.plan.claims import GroupClaim, RememberedOffset, claims_of
from dashboard.purge.plan.guards import Override, Waiver
from dashboard.purge.plan.plan import Plan
from tests.unit.purge.facts_of import KEY, NOW, TOPIC, partition
from tests.unit.purge.room import Room

OLD = RememberedOffset("g", TOPIC, 0, 1_000_000, "id-0")
NOBODY = GroupListing((), ())


def room_with(folder: Path, *remembered: RememberedOffset, **commits: int) -> Room:
    """100 records in topic id-1, what is remembered, and what groups committed there."""
    room = Room(folder)
    room.remembered = remembered
    room.live.offsets_of = {group: {0: offset} for group, offset in commits.items()}
    return room


def guards_of(plan: Plan) -> list[tuple[str, str]]:
    return [(g.name, g.reason.partition(",")[0]) for g in plan.partitions[0].guards]


def test_nothing_is_free_where_only_the_deleted_topic_was_read(tmp_path: Path) -> None:
    """Its offset, capped to the last stable one, was the target: 100 unread records went."""
    plan = room_with(tmp_path, OLD).plan()
    assert plan.free_partitions == ()
    assert plan.partitions[0].target_offset is None
    assert [name for name, _ in guards_of(plan)] == ["no-committed-offset"]


@pytest.mark.parametrize("was", [1_000_000, 100, 90, 5])
@pytest.mark.parametrize("to", ["committed", "offset:80", "high-watermark"])
def test_a_slow_group_of_the_deleted_topic_is_unknown_beside_one_that_read_the_new(
    tmp_path: Path, was: int, to: str
) -> None:
    plan = room_with(tmp_path, replace(OLD, committed_offset=was), h=100).plan(to)
    assert plan.free_partitions == ()
    assert [name for name, _ in guards_of(plan)] == ["no-committed-offset"]
    assert "group g is not of this log" in plan.partitions[0].guards[0].reason


def test_a_group_that_committed_on_the_new_topic_counts_there_alone(tmp_path: Path) -> None:
    plan = room_with(tmp_path, OLD, g=60).plan()
    assert (plan.partitions[0].target_offset, plan.partitions[0].guards) == (60, ())


def test_a_group_of_the_deleted_topic_that_was_waived_blocks_no_more(tmp_path: Path) -> None:
    room = room_with(tmp_path, OLD, h=60)
    plan = room.plan(waivers=(Waiver("g", "its team is gone", "ann", NOW),))
    assert (plan.partitions[0].target_offset, plan.partitions[0].guards) == (60, ())


def test_a_plan_of_an_earlier_version_that_believed_such_an_offset_is_refused(
    tmp_path: Path,
) -> None:
    room = room_with(tmp_path, h=100)
    plan = room.plan()
    believed = (*plan.partitions[0].groups, GroupClaim("g", 1_000_000, remembered=True))
    plan = replace(plan, partitions=(replace(plan.partitions[0], groups=believed),))
    view = room.carry_out(plan)
    (row,) = view.partitions
    assert (view.run.state, row.state, row.error) == ("refused", "not_done", "no-committed-offset")
    assert room.live.sent == []


def test_a_group_that_is_accepted_as_unknown_is_accepted_before_sending_too(
    tmp_path: Path,
) -> None:
    room = room_with(tmp_path, OLD, h=60)
    plan = room.plan(overrides=(Override("no-committed-offset", "g", "asked", "ann", NOW),))
    assert plan.partitions[0].free
    assert room.carry_out(plan).run.state == "done"


@pytest.mark.parametrize(
    ("offset", "topic_id", "counts"),
    [
        (60, "id-1", True),
        (60, "id-0", False),
        (60, None, False),  # snapshots of brokers that knew no ids: it may have been made anew
        (101, None, False),  # past all that was ever written: never of this log
        (101, "id-1", False),
    ],
)
def test_a_remembered_offset_counts_where_it_can_be_of_this_log(
    offset: int, topic_id: str | None, counts: bool
) -> None:
    kept = RememberedOffset("g", TOPIC, 0, offset, topic_id)
    (claim,) = claims_of(NOBODY, [kept], {KEY: partition()})[KEY]
    assert claim == GroupClaim("g", offset if counts else None, remembered=True)


def test_where_the_brokers_know_no_ids_the_name_has_to_do() -> None:
    nameless = {KEY: partition(topic_id=None)}
    kept = RememberedOffset("g", TOPIC, 0, 60, "id-0")
    assert claims_of(NOBODY, [kept], nameless)[KEY] == (GroupClaim("g", 60, remembered=True),)


def test_a_partition_that_the_new_topic_has_not_still_names_its_reader() -> None:
    kept = replace(OLD, partition=7)
    found = claims_of(NOBODY, [kept], {KEY: partition()})
    assert found == {TopicPartition(TOPIC, 7): (GroupClaim("g", None, remembered=True),)}


def test_a_live_offset_replaces_whatever_is_remembered() -> None:
    listing = GroupListing((), (GroupOffset("g", TOPIC, 0, 3),))
    assert claims_of(listing, [OLD], {KEY: partition()})[KEY] == (GroupClaim("g", 3),)
