"""What the last look before sending asks besides the plan's text: store, configs, epochs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from dashboard.domain.model import ConfigEntry, Group, GroupListing, OffsetAtTime, TopicPartition
from dashboard.purge.plan.claims import RememberedOffset
from dashboard.purge.plan.guards import Waiver
from dashboard.purge.plan.plan import Plan
from tests.unit.purge.facts_of import NOW, TOPIC
from tests.unit.purge.room import Room


def ended(room: Room, plan: Plan) -> tuple[str, str | None, int]:
    row = room.carry_out(plan).partitions[0]
    return row.state, row.error, len(room.live.sent)


def edited(plan: Plan, **change: object) -> Plan:
    """The plan with another first partition, sealed again: its hash is right."""
    return replace(plan, partitions=(replace(plan.partitions[0], **change),))


def test_a_group_that_came_and_went_since_the_plan_counts_by_the_store(room: Room) -> None:
    plan = room.plan()
    seen = (RememberedOffset("late", TOPIC, 0, 20, "id-1"),)
    room.standards = replace(room.standards, remembered=seen)
    assert ended(room, plan) == ("not_done", "unread-by-group", 0)


def test_a_group_that_was_cut_out_of_a_plan_still_counts(room: Room) -> None:
    room.remembered = (RememberedOffset("gone", TOPIC, 0, 30, "id-1"),)
    plan = room.plan()
    assert plan.partitions[0].target_offset == 30
    room.standards = replace(room.standards, remembered=room.remembered)
    assert ended(room, edited(plan, groups=(), target_offset=60)) == (
        "not_done", "unread-by-group", 0,
    )  # fmt: skip


def test_configs_that_cannot_be_read_are_no_leave(room: Room) -> None:
    plan = room.plan()
    room.live.configs = lambda *_: ()  # type: ignore[method-assign]
    assert ended(room, plan) == ("not_done", "CONFIGS_UNREADABLE", 0)


def test_of_a_topic_from_which_nothing_is_ever_deleted_that_is_said(room: Room) -> None:
    """An empty cleanup.policy (KIP-1161) is read, unlike one that no broker tells."""
    plan = room.plan()
    empty = (ConfigEntry("topic", TOPIC, "cleanup.policy", "", "DYNAMIC_TOPIC_CONFIG"),)
    room.live.configs = lambda *_: empty  # type: ignore[method-assign]
    assert ended(room, plan) == ("not_done", "not-deletable", 0)
    (guard,) = room.plan().partitions[0].guards
    assert "cleanup.policy of orders is empty" in guard.reason


def test_a_plan_without_the_epoch_it_was_read_in_is_refused(room: Room) -> None:
    assert ended(room, edited(room.plan(), leader_epoch=None)) == ("not_done", "offsets-reused", 0)


@pytest.mark.further_but("1-50-became0")
@pytest.mark.parametrize(
    ("hours", "answer", "became"),
    [
        (1, 50, ("done", None, 1)),
        (168, 20, ("not_done", "target-unresolved", 0)),  # what is there is to stay
        (168, None, ("not_done", "target-unresolved", 0)),  # nobody knows what it keeps
        (-1, 50, ("not_done", "target-unresolved", 0)),  # for ever
    ],
)
def test_a_retention_that_keeps_more_than_it_did_is_obeyed(
    room: Room, hours: int, answer: int | None, became: tuple[str, str | None, int]
) -> None:
    kept = retained(room, hours=1, first_kept=50)
    plan = room.plan("retention")
    assert plan.partitions[0].target_offset == 50
    kept.update(hours=hours, first_kept=answer)
    assert ended(room, plan) == became


def retained(room: Room, **told: int | None) -> dict[str, int | None]:
    """What the topic's retention is, in hours, and the first offset as young; may be changed."""
    others = room.live.configs

    def configs(topics: Iterable[str], brokers: Iterable[int] = ()) -> tuple[ConfigEntry, ...]:
        hours = told["hours"] or 0
        values = {"retention.ms": hours * 3_600_000 if hours > 0 else -1, "retention.bytes": -1}
        entries = (ConfigEntry("topic", TOPIC, k, str(v), "x") for k, v in values.items())
        return (*others(topics, brokers), *entries)

    def offsets_at(
        keys: Iterable[TopicPartition], _: datetime
    ) -> dict[TopicPartition, OffsetAtTime]:
        return {key: OffsetAtTime(*key, told["first_kept"]) for key in keys}

    room.live.configs = configs  # type: ignore[method-assign]
    room.live.offsets_at = offsets_at  # type: ignore[method-assign]
    return told


@pytest.mark.parametrize("state", ["Stable", "PreparingRebalance"])
def test_a_waived_group_that_lives_again_holds_partitions_that_it_never_read(
    tmp_path: Path, state: str
) -> None:
    """Its members may come upon them at any moment: it was waived as nobody's."""
    room = Room(tmp_path, 2)
    room.live.offsets_of = {"a": {0: 60, 1: 60}, "b": {0: 10}}
    plan = room.plan(waivers=(Waiver("b", "gone", "ann", NOW),))
    assert [p.free for p in plan.partitions] == [True, True]
    listing = room.live.groups(())
    groups = tuple(
        Group("b", "classic", state, 1) if g.group_id == "b" else g for g in listing.groups
    )
    room.live.groups = lambda _: GroupListing(groups, listing.offsets)  # type: ignore[method-assign]
    view = room.carry_out(plan)
    assert [(r.state, r.error) for r in view.partitions] == [("not_done", "unread-by-group")] * 2
    assert room.live.sent == []
    room.journal.close()


@pytest.mark.parametrize("stands", [1_000_000, 10])
def test_a_waived_group_that_lives_again_holds_its_records_wherever_its_offset_lies(
    room: Room, stands: int
) -> None:
    """Past the end of the log an offset tells nothing, above the target or not."""
    room.live.offsets_of["g"] = {0: stands}
    plan = room.plan("offset:60", waivers=(Waiver("g", "gone", "ann", NOW),))
    room.live.members["g"] = 1
    assert ended(room, plan) == ("not_done", "unread-by-group", 0)


@pytest.mark.parametrize("now", [{}, {0: 0}, {0: 1_000_000}], ids=["none", "start", "past-end"])
def test_a_waived_group_whose_offset_no_longer_tells_loses_more_than_was_shown(
    room: Room, now: dict[int, int]
) -> None:
    """Ten records were shown; its members may start over."""
    room.live.offsets_of["g"] = {0: 50}
    room.live.members["g"] = 1
    plan = room.plan("offset:60", waivers=(Waiver("g", "we stop it", "ann", NOW),))
    room.live.offsets_of["g"] = now
    row = room.carry_out(plan).partitions[0]
    assert (row.state, row.error, room.live.sent) == ("not_done", "unread-by-group", [])
    assert "moved back from 50" in str(row.message)
