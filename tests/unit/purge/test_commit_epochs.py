"""A commit tells what was read as far as its leader epoch reaches in the log as it is now."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.core.canonical import canonical, digest
from dashboard.core.errors import ClusterError, PlanError
from dashboard.domain.model import EpochEnd, OffsetAtTime, TopicPartition
from dashboard.purge.evidence.standards import Standards
from dashboard.purge.execute.recheck import Rechecked, recheck
from dashboard.purge.journal.rows import PartitionRow
from dashboard.purge.plan.claims import RememberedOffset
from dashboard.purge.plan.facts import read_facts
from dashboard.purge.plan.guards import Waiver
from dashboard.purge.plan.plan import Plan
from dashboard.purge.plan.preview import preview
from dashboard.purge.plan.resolve import History, LogEnd, replay_windows
from tests.simulation.reads import epoch_end
from tests.simulation.records import Replica
from tests.support.cluster import FakeCluster, FakePartition
from tests.unit.purge.facts_of import KEY, NOW, TOPIC, declared
from tests.unit.purge.room import Room

SAID = "Group {} committed 1000 in leader epoch 5, which ended at 600 in the log as it is now"


class Regrown(FakeCluster):
    """Group a committed 1000 in epoch 5; the log of epoch 7 ends at 1500. `asked` per request."""

    def __init__(self, ends: Mapping[int, int], **epochs: int) -> None:
        super().__init__()
        part = FakePartition({1: 0, 2: 0, 3: 0}, epoch=7, high_watermark=1500)
        part.last_stable_offset, part.epoch_ends = 1500, dict(ends)
        self.parts = {KEY: part}
        self.commit_epochs = {**epochs} or {"a": 5}
        self.offsets_of = {name: {0: 1000} for name in self.commit_epochs}
        self.asked: list[int] = []
        self.error: str | None = None

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
        self.asked += epochs.values()
        if self.error:
            return {k: EpochEnd(*k, None, None, self.error) for k in epochs}
        return super().epoch_ends(epochs)


@pytest.fixture
def room(tmp_path: Path) -> Room:
    made = Room(tmp_path)
    made.live = Regrown({5: 600, 6: 600})
    return made


def reasons(plan: Plan) -> str:
    return " ".join(g.reason for p in plan.partitions for g in p.guards)


@pytest.mark.parametrize("to", ["committed", "offset:800", "high-watermark"])
def test_what_was_written_anew_below_a_commit_was_not_read(room: Room, to: str) -> None:
    plan = room.plan(to)
    assert plan.free_partitions == ()
    assert SAID.format("a") in reasons(plan)


def test_a_loss_after_the_plan_stops_the_run(room: Room) -> None:
    room.live = Regrown({5: 1000, 6: 1000})
    plan = room.plan()
    room.live.parts[KEY].epoch_ends = {5: 600, 6: 600, 7: 1000}
    view = room.carry_out(plan)
    assert (view.run.state, view.partitions[0].error) == ("refused", "no-committed-offset")
    assert SAID.format("a") in str(view.partitions[0].message)
    assert room.live.sent == []


def test_a_waived_group_that_was_shown_so_may_lose_all_that_was_shown(room: Room) -> None:
    room.live = Regrown({5: 600, 6: 600}, a=5, b=7)
    plan = room.plan(waivers=(Waiver("a", "gone", "ann", NOW),))
    kept = Plan.from_json_text(plan.to_json_text(), "plan.json")
    assert kept == plan
    lost = {g.group_id: g.loss_if_earliest for g in preview(kept, NOW).groups}
    assert lost == {"a": 1000, "b": 0}
    assert room.carry_out(kept).run.state == "done"


def test_a_leader_change_without_loss_raises_nothing_and_costs_a_request_each(room: Room) -> None:
    live = Regrown({5: 1000, 6: 1200}, a=5, b=7, c=6)
    room.live = live
    assert [p.target_offset for p in room.plan().free_partitions] == [1000]
    assert live.asked == [5, 6], "7 is the leader's own"


def test_each_epoch_of_a_partition_is_judged_by_its_own_end(room: Room) -> None:
    live = Regrown({4: 500, 5: 600, 6: 1200}, a=4, b=5, c=6)
    room.live = live
    plan = room.plan()
    assert live.asked == [4, 5, 6]
    assert SAID.format("b") in reasons(plan)
    assert "Group c" not in reasons(plan)


class Diverged(Regrown):
    """The leader's epochs are `cache`, (epoch, first offset); groups committed what `at` says."""

    def __init__(self, cache: list[tuple[int, int]], at: Mapping[str, tuple[int, int]]) -> None:
        super().__init__({}, **{name: epoch for name, (epoch, _) in at.items()})
        self.parts[KEY].epoch = cache[-1][0]
        self.offsets_of = {name: {0: offset} for name, (_, offset) in at.items()}
        self.log = Replica(end=1500, epochs=cache)

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
        self.asked += epochs.values()
        return {k: EpochEnd(*k, *epoch_end(self.log, e)) for k, e in epochs.items()}


# Led epoch 5 up to 1200 alone, while epoch 6 began at 1000 elsewhere; then elected uncleanly.
TAIL = [(5, 0), (8, 1200)]


@pytest.mark.parametrize(
    "at",
    [
        {"a": (6, 1100)},
        {"a": (6, 1100), "old": (5, 1150)},  # of an older epoch, which reaches past a's
        {"a": (6, 1100), "b": (6, 1200)},  # of two commits one disproves the epoch
        {"a": (6, 1200), "b": (6, 1300)},
    ],
)
def test_a_log_that_has_nothing_of_a_commits_epoch_was_not_read(
    room: Room, at: dict[str, tuple[int, int]]
) -> None:
    room.live = Diverged(TAIL, at)
    plan = room.plan()
    assert plan.free_partitions == ()
    for name, (epoch, offset) in at.items():
        said = f"Group {name} committed {offset} in leader epoch 6, which ended at 0"
        assert (said in reasons(plan)) is (epoch == 6)


def test_an_epoch_without_a_record_lost_nothing(room: Room) -> None:
    """A group that began at the end of a quiet log commits in an epoch that is in no log."""
    room.live = Diverged([(5, 0), (8, 1000)], {"a": (6, 1000), "b": (7, 1000)})
    assert [p.target_offset for p in room.plan().free_partitions] == [1000]


@pytest.mark.parametrize(
    ("cache", "refused"),
    [
        ([(5, 0), (8, 1200)], True),  # below the high watermark of then
        ([(5, 0), (8, 1499)], True),
        ([(5, 0), (8, 1501)], True),  # above it
        ([(5, 0), (8, 1500)], False),  # epoch 6 had no record
        ([(5, 0), (6, 1000), (8, 1500)], False),
        ([(5, 0), (6, 1000), (8, 1099)], True),
    ],
)
def test_a_plan_holds_for_logs_that_have_its_epoch(
    room: Room, cache: list[tuple[int, int]], refused: bool
) -> None:
    room.live = Diverged([(5, 0), (6, 1000)], {"a": (6, 1500)})
    plan = room.plan("offset:1100")
    assert [p.leader_epoch for p in plan.free_partitions] == [6]
    room.live = Diverged(cache, {"a": (8, 1500)})  # whose reader is past it
    found = looked(room, plan)
    assert ([r.name for r in found.refused.values()], [*found.allowed]) == (
        (["offsets-reused"], []) if refused else ([], [KEY])
    )


@pytest.mark.parametrize("target", ["keep:1KiB", "keep:1h", "offset:1100"])
def test_what_a_log_lost_does_not_stay_where_a_number_of_bytes_was_to(
    room: Room, target: str
) -> None:
    """Epoch 6 reaches past the target by now, and not to the end that the plan counted with."""
    room.live = Diverged([(5, 0), (6, 1000)], {"a": (6, 1500)})
    plan = replace(room.plan("offset:1100"), target=target)
    room.live = Diverged([(5, 0), (6, 1000), (8, 1499)], {"a": (8, 1500)})
    refused = [*looked(room, plan).refused.values()]
    if target in ("keep:1h", "offset:1100"):
        assert not refused
    else:
        (why,) = refused
        assert why.name == "offsets-reused"
        assert "ended at 1499, below 1500: what it lost counted among the bytes" in why.reason


def test_an_epoch_that_its_leader_does_not_know_says_nothing_of_this_log(room: Room) -> None:
    room.live = Regrown({}, a=9)
    assert "in leader epoch 9, which ended at 0" in reasons(room.plan())


def test_an_epoch_that_cannot_be_asked_blocks_and_is_asked_again(room: Room) -> None:
    live = Regrown({5: 1000})
    room.live = live
    plan = room.plan()
    live.error = "NOT_LEADER_OR_FOLLOWER"
    assert "(NOT_LEADER_OR_FOLLOWER to OffsetForLeaderEpoch)" in reasons(room.plan())
    assert [*looked(room, plan).unreadable] == [KEY]


@pytest.mark.parametrize(("epoch", "counts"), [(5, False), (6, True), (None, True)])
def test_a_remembered_offset_is_held_against_its_epoch_too(
    room: Room, epoch: int | None, counts: bool
) -> None:
    room.live = Regrown({5: 600, 6: 1200}, a=7)
    room.remembered = (RememberedOffset("gone", TOPIC, 0, 900, "id-1", epoch),)
    plan = room.plan()
    assert ("group gone is not of this log" in reasons(plan)) is not counts
    assert (plan.partitions[0].target_offset == 900) is counts


def test_a_plan_keeps_the_epoch_of_each_commit_and_older_plans_have_none(room: Room) -> None:
    plan = room.plan()
    assert [c.leader_epoch for c in plan.partitions[0].groups] == [5]
    assert Plan.from_json_text(plan.to_json_text(), "plan.json") == plan
    (claim,) = _reread(plan).partitions[0].groups
    assert claim.leader_epoch is None
    with pytest.raises(PlanError, match="leader_epoch"):
        _reread(plan, leader_epoch="5")


def _reread(plan: Plan, **change: object) -> Plan:
    """The plan with another claim of group a, as if it had been made so."""
    document = json.loads(plan.to_json_text())
    del document["sha256"]
    (claim,) = document["partitions"][0]["groups"]
    del claim["leader_epoch"]
    claim |= change
    return Plan.from_json_text(canonical({**document, "sha256": digest(document)}), "plan.json")


def looked(room: Room, plan: Plan, standards: Standards | None = None) -> Rechecked:
    rows = [PartitionRow(*p.key, p.target_offset, "pending") for p in plan.partitions
            if p.target_offset is not None]  # fmt: skip
    return recheck(room.live, plan, rows, NOW, standards or room.standards)


def test_offsets_of_a_newer_leader_epoch_than_the_metadata_tells_are_asked_again(
    room: Room,
) -> None:
    """A deposed leader refused, and the new one answered: epoch 8 cut 7 at 20 and grew past it."""
    room.live = Regrown({}, a=7)
    plan, read, part = room.plan(), room.live.offsets, room.live.parts[KEY]

    def fenced_at_first(*given: Any) -> Any:
        part.epoch, part.epoch_ends = 8, {7: 20}
        return read(*given)

    room.live.offsets = fenced_at_first  # type: ignore[method-assign]
    found = looked(room, plan)
    assert ([r.name for r in found.unreadable.values()], found.allowed) == (
        ["FENCED_LEADER_EPOCH"],
        {},
    )
    assert [r.name for r in looked(room, plan).refused.values()] == ["no-committed-offset"]


WEEK = {TOPIC: declared(timedelta(days=7))}


@pytest.mark.parametrize(("ends", "window"), [({5: 1000, 6: 1000}, 900), ({5: 600, 6: 600}, 600)])
def test_a_replay_window_begins_where_the_log_of_then_still_is(
    ends: dict[int, int], window: int
) -> None:
    found, history = _windowed(Regrown(ends, a=7), LogEnd(900, 5))
    assert (found, history) == (window, None)


def test_where_a_kept_epoch_ends_by_now_must_be_known() -> None:
    live = Regrown({5: 1000}, a=7)
    live.error = "ANSWER_LOST"
    found, problem = _windowed(live, LogEnd(900, 5))
    assert found is None
    assert "leader epoch 5 of a kept snapshot ends by now cannot be read (ANSWER_LOST)" in str(
        problem
    )


def _windowed(live: Regrown, end: LogEnd) -> tuple[int | None, str | None]:
    live.offsets_at = lambda keys, _: {k: OffsetAtTime(*k, None) for k in keys}  # type: ignore[method-assign]
    facts = read_facts(live, [TOPIC], cluster_name="prod", remembered=(), now=NOW)
    history = History(ends_before=lambda times: dict.fromkeys(times, end))
    (window,) = replay_windows(live, facts, [KEY], WEEK, now=NOW, history=history).values()
    return window.offset, window.problem


def test_while_the_clusters_clock_cannot_be_read_nothing_is_sent(room: Room) -> None:
    live = Regrown({5: 1000, 6: 1000})
    room.live = live
    plan = room.plan()
    live.controller_at = ClusterError(
        "the controller's clock cannot be read (X)", "", code="CLOCK_UNREAD"
    )
    again = looked(room, plan)
    assert again.refused == {}
    assert again.unreadable[KEY].name == "target-unresolved"
    assert "so nobody knows whether this host's is right" in again.unreadable[KEY].reason
    live.controller_at = None
    assert [*looked(room, plan).allowed] == [KEY]
