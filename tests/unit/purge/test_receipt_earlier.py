"""Segments that an earlier purge waits for are its own, and count once."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.domain.model import LogDirsAnswer, ReplicaSize
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.reads import EARLIER
from dashboard.purge.journal.rows import Follower, PartitionRow, RunView
from dashboard.purge.plan.plan import Estimate
from dashboard.purge.plan.resolve import ResolvedTarget
from dashboard.purge.receipt import receipt
from dashboard.purge.receipt.model import Receipt, ReplicaSample, Sample
from dashboard.purge.receipt.receipt_bytes import leaving
from dashboard.purge.receipt.replica_watch import with_calibration
from tests.unit.purge.facts_of import KEY, NOW, TOPIC, facts, partition
from tests.unit.purge.room import Room
from tests.unit.purge.test_plan import plan_of

HERE = (TOPIC, 0, 1)


def sample(size: int, start: int | None, end: int | None = 100, seconds: int = 0) -> Sample:
    replica = ReplicaSample(TOPIC, 0, 1, size, start, end)
    return Sample(NOW + timedelta(seconds=seconds), (replica,))


def row(target: int) -> PartitionRow:
    followers = (Follower(2, target, alive=True, arrived=True),)
    return PartitionRow(TOPIC, 0, target, "done", sent_at=NOW, followers=followers)


def plan(start: int, target: int, predicted: int | None) -> Any:
    estimates = (
        {KEY: Estimate(predicted, "segments", {1: predicted}, predicted, predicted)}
        if (predicted is not None)
        else {}
    )
    world = facts(partition(start=start), claims={0: {"a": target}})
    return plan_of(world, {KEY: ResolvedTarget(target)}, estimates=estimates)


def begun(predicted: int | None = 4_000, **change: Any) -> Receipt:
    """The first purge: 10,000 bytes in 100 records, to offset 40; nothing has left yet."""
    found = receipt.start(sample(10_000, 0), [row(40)], plan(0, 40, predicted))
    return replace(found, **change)


def test_what_an_earlier_purge_waits_for_is_what_it_predicted_less_what_has_left() -> None:
    assert leaving([begun()], sample(10_000, 40)) == {HERE: 4_000}
    assert leaving([begun()], sample(8_000, 40)) == {HERE: 2_000}
    assert leaving([begun()], sample(6_000, 40)) == {}
    # 10 records of 100 bytes came in meanwhile, and none of the segments has left.
    assert leaving([begun()], sample(11_000, 40, 110)) == {HERE: 4_000}
    # Nor where records are smaller by now: a size that grew tells of nothing that left.
    assert leaving([begun()], sample(10_250, 40, 125)) == {HERE: 4_000}


def test_what_lies_within_the_bytes_that_producers_wrote_is_nothing() -> None:
    assert leaving([begun()], sample(7_100, 40, 110)) == {}


@pytest.mark.parametrize(
    "earlier",
    [
        [begun(final=True, measured_at=NOW)],
        [],
        # The newest knows: an older one whose broker was down need not be asked.
        [begun(final=True, measured_at=NOW), begun()],
    ],
)
def test_nothing_is_left_of_one_that_is_over(earlier: list[Receipt]) -> None:
    assert leaving(earlier, sample(10_000, 40, seconds=5)) == {}


def test_without_an_estimate_it_waits_for_the_offsets_that_it_was_purged_by() -> None:
    assert leaving([begun(None)], sample(10_000, 40, seconds=5)) == {HERE: 4_000}
    assert leaving([begun(None)], sample(7_000, 40, seconds=5)) == {HERE: 1_000}
    assert leaving([begun(None)], sample(10_000, 0, seconds=5)) == {HERE: 4_000}  # it lags


def test_one_that_became_final_after_the_look_waited_still() -> None:
    late = begun(final=True, measured_at=NOW + timedelta(seconds=60))
    assert leaving([late], sample(10_000, 40, seconds=5)) == {HERE: 4_000}


def test_a_third_purge_knows_of_the_first_by_the_second() -> None:
    left = leaving([begun()], sample(10_000, 40))
    second = receipt.start(sample(10_000, 40), [row(60)], plan(40, 60, 2_000), left)
    assert leaving([second, begun()], sample(10_000, 60)) == {HERE: 6_000}


@pytest.mark.parametrize("predicted", [1_000, None])
def test_a_policy_that_purges_as_much_as_is_written_counts_each_byte_once(
    predicted: int | None,
) -> None:
    # The newest first; ten purges of ten records before the brokers' check.
    receipts: list[Receipt] = []
    for start in range(0, 100, 10):
        before = sample(100 * (100 + start), start, 100 + start)
        left = leaving(receipts, before)
        found = plan(start, start + 10, predicted)
        receipts.insert(0, receipt.start(before, [row(start + 10)], found, left))
    after = sample(100 * 190 - 10_000, 100, 190)
    freed = [
        receipt.advance(one, after, [row(target)], timedelta(0), NOW).freed_bytes
        for one, target in zip(receipts, range(100, 0, -10), strict=True)
    ]
    assert freed == [1_000] * 10


def test_bytes_of_an_earlier_purge_are_not_freed_again_and_tell_nothing_of_an_estimator() -> None:
    left = leaving([begun()], sample(10_000, 40))
    found = plan(40, 60, 2_000)
    second = receipt.start(sample(10_000, 40), [row(60)], found, left)
    half = receipt.advance(second, sample(7_000, 60), [row(60)], timedelta(days=1), NOW)
    assert half.freed_bytes == 0  # what left first was the earlier one's
    last = receipt.advance(half, sample(4_000, 60), [row(60)], timedelta(0), NOW)
    assert (last.freed_bytes, last.gap, last.final) == (2_000, None, True)
    assert with_calibration(last, [row(60)], found).calibration == ()


def test_a_gap_beside_an_earlier_purge_says_so() -> None:
    second = receipt.start(sample(10_000, 40), [row(60)], plan(40, 60, 1_000), {HERE: 4_000})
    last = receipt.advance(second, sample(4_000, 60), [row(60)], timedelta(0), NOW)
    assert last.freed_bytes == 2_000
    assert "segments of an earlier purge were leaving still" in last.gap


def test_a_replica_without_an_estimate_is_the_cause_that_is_named() -> None:
    first = receipt.start(sample(10_000, 0), [row(40)], plan(0, 40, 0))
    (one,) = first.replicas
    first = replace(first, replicas=(one, replace(one, broker_id=2, predicted_bytes=None)))
    here, there = sample(10_000, 40), sample(6_000, 40).replicas[0]
    both = replace(here, replicas=(*here.replicas, replace(there, broker_id=2)))
    last = receipt.advance(first, both, [row(40)], timedelta(0), NOW)
    told = "4,000 bytes left on broker 2, where nothing could be estimated"
    assert last.gap == told


def test_a_replica_whose_size_was_not_read_is_the_cause_that_is_named() -> None:
    first = receipt.start(sample(10_000, 0), [row(40)], plan(0, 40, 4_000))
    # Broker 2 was estimated, and down when the run began.
    first = replace(first, predicted_bytes=8_000)
    last = receipt.advance(first, sample(6_000, 40), [row(40)], timedelta(0), NOW)
    assert last.gap == "4,000 predicted bytes lie on broker 2, whose sizes were not read"
    worse = receipt.advance(first, sample(7_000, 40), [row(40)], timedelta(0), NOW)
    assert worse.gap.startswith("4,000 predicted bytes lie on broker 2")
    assert "of orders 3,000 bytes left where 4,000 were predicted" in worse.gap


def test_the_journal_finds_the_earlier_runs_of_a_topic(tmp_path: Path) -> None:
    room = Room(tmp_path)
    first = room.carry_out()
    room.live.offsets_of["a"] = {0: 80}
    second = room.carry_out()
    since = NOW - timedelta(hours=1)
    assert [r.run_id for r in room.journal.earlier(second.run, since)] == [first.run.run_id]
    assert room.journal.earlier(first.run, since) == []
    assert room.journal.earlier(second.run, NOW + timedelta(seconds=1)) == []


def test_earlier_runs_are_found_without_walking_through_all(journal: Journal) -> None:
    steps = journal.file.rows(f"EXPLAIN QUERY PLAN {EARLIER}", "c", "2", "2", "r", "r")
    assert not [step["detail"] for step in steps if step["detail"].startswith("SCAN")]
    assert "USING INDEX watched_runs" in steps[0]["detail"]


def test_one_that_was_queued_long_ago_and_has_just_sent_is_an_earlier_one(tmp_path: Path) -> None:
    room = Room(tmp_path)
    long = 86_400_000  # as where plans live for a day
    waited = room.queue(room.plan(), unsent_for_ms=long, most_silence_ms=long)
    room.clock.sleep(7_200)
    assert room.execution(waited).execute() == "done"
    room.live.offsets_of["a"] = {0: 80}
    second = room.carry_out()
    since = room.clock() - timedelta(hours=1)
    assert [r.run_id for r in room.journal.earlier(second.run, since)] == [waited]


def receipts_of(room: Room, views: list[RunView]) -> list[Receipt]:
    found = [room.journal.run(view.run.run_id).run.receipt for view in views]
    return [one for one in found if one is not None]


def disks(room: Room, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The offset below which the brokers' retention check has taken all from the disks so far."""
    below = [0]

    def log_dirs(_: Any = None) -> LogDirsAnswer:
        size = 1000 * (100 - below[0])
        replicas = (ReplicaSize(b, "/d", *KEY, size, 0, False) for b in (1, 2, 3))
        return LogDirsAnswer((), tuple(replicas), {})

    monkeypatch.setattr(room.live, "log_dirs", log_dirs)
    return below


def purged(room: Room, start: int, target: int, *, estimated: bool, **change: Any) -> RunView:
    size = 1000 * (target - start)
    found = {KEY: Estimate(3 * size, "segments", dict.fromkeys((1, 2, 3), size))}
    room.estimates = found if estimated else {}
    room.live.offsets_of["a"] = {0: target}
    return room.carry_out(**change)


@pytest.mark.further_but("1-False")
@pytest.mark.parametrize("estimated", [True, False])
@pytest.mark.parametrize("first_to_begin", [0, 1])
def test_two_purges_count_each_byte_once_whichever_receipt_begins_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first_to_begin: int, *, estimated: bool
) -> None:
    """The first one's worker died as its run closed; the second purge began before another was."""
    room = Room(tmp_path)
    deleted_below = disks(room, monkeypatch)
    views = []
    for start, target in ((0, 60), (60, 80)):
        views.append(purged(room, start, target, estimated=estimated))
    watches = [room.watching(view) for view in views]
    watches[first_to_begin].step()
    watches[1 - first_to_begin].step()
    deleted_below[0] = 80
    for watch in watches:
        watch.watch()
    found = receipts_of(room, views)
    assert [(r.freed_bytes, r.final) for r in found] == [(180_000, True), (60_000, True)]
    assert room.journal.verify().ok
    room.journal.close()


@pytest.mark.further_but("10000-40")
@pytest.mark.parametrize("left_between", [0, 40])
@pytest.mark.parametrize("first", [10_000, 40_000])  # its segment's bytes, of 80,000 in all
def test_a_segment_that_two_purges_cut_is_freed_by_the_later_one(
    room: Room, monkeypatch: pytest.MonkeyPatch, first: int, left_between: int
) -> None:
    """Segments 0-40 and 40-80, a purge to 60, then one to 80: its target lay in the second."""
    below, sizes = disks(room, monkeypatch), (first, 80_000 - first)
    views, watches = [], []
    for target, size in zip((60, 80), sizes, strict=True):
        room.estimates = {KEY: Estimate(3 * size, "segments", dict.fromkeys((1, 2, 3), size))}
        room.live.offsets_of["a"] = {0: target}
        views.append(room.carry_out())
        watches.append(room.watching(views[-1]))
        for _ in range(2):
            for watch in watches:
                watch.step()
            if target == 60:
                below[0] = first // 1000 * left_between // 40
    below[0] = 80
    while {watch.step() for watch in watches} != {None}:
        room.clock.sleep(5)
    found = receipts_of(room, views)
    assert [(r.freed_bytes, r.gap) for r in found] == [(3 * size, None) for size in sizes]


@pytest.mark.further
@pytest.mark.parametrize("estimated", [True, False])
def test_of_followers_that_were_behind_each_purge_counts_its_own_part(
    room: Room, monkeypatch: pytest.MonkeyPatch, *, estimated: bool
) -> None:
    below = disks(room, monkeypatch)
    room.live.answers = [7]  # the leader has truncated itself, no follower has
    views = [purged(room, 0, 20, estimated=estimated, mode="leader-only-verified")]
    watches = [room.watching(views[0])]
    watches[0].step()
    for start, target in ((20, 30), (30, 40)):
        views.append(purged(room, start, target, estimated=estimated))
        watches.append(room.watching(views[-1]))
        watches[-1].step()
    below[0] = 40
    while {watch.step() for watch in watches} != {None}:
        room.clock.sleep(5)
    found = receipts_of(room, views)
    freed = [[r.freed_bytes for r in one.replicas] for one in found]
    if estimated:
        assert freed == [[20_000] * 3, [10_000] * 3, [10_000] * 3]
    # Without, a record's size is that of the disk, which has segments below the log start still.
    assert all(37_000 < sum(of_broker) <= 40_000 for of_broker in zip(*freed, strict=True)), freed


@pytest.mark.further
@pytest.mark.parametrize("estimated", [True, False])
def test_what_came_back_is_freed_by_the_purge_after_that(room: Room, *, estimated: bool) -> None:
    found = {KEY: Estimate(180_000, "segments", dict.fromkeys((1, 2, 3), 60_000))}
    room.estimates = found if estimated else {}
    room.live.answers = [7]  # the leader has truncated itself, no follower has
    first = room.carry_out(mode="leader-only-verified")
    watches = [room.watching(first)]
    watches[0].step()
    room.live.elect(2)
    watches[0].step()
    assert room.journal.run(first.run.run_id).counts == {"reverted": 1}
    second = room.carry_out(room.plan("offset:60"))
    watches.append(room.watching(second))
    while {watch.step() for watch in watches} != {None}:
        room.clock.sleep(5)
    receipts = receipts_of(room, [first, second])
    assert [(r.freed_bytes, r.final) for r in receipts] == [(60_000, True), (120_000, True)]
    gap = receipts[1].gap
    told = "of orders 120,000 bytes left where 180,000 were predicted: "
    assert (gap or "").startswith(told) if estimated else gap is None
    assert "earlier purge" not in (gap or "")
