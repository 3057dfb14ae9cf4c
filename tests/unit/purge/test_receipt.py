"""The receipt tells apart what the purge freed, what producers wrote and what retention took."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from dashboard.domain.model import ConfigEntry
from dashboard.purge.journal.rows import Follower, PartitionRow
from dashboard.purge.plan.guards import Override
from dashboard.purge.plan.plan import Estimate
from dashboard.purge.plan.resolve import ResolvedTarget
from dashboard.purge.receipt import receipt, receipt_bytes
from dashboard.purge.receipt.model import Receipt, ReplicaSample, Sample
from tests.unit.purge.facts_of import KEY, NOW, TOPIC, facts, partition
from tests.unit.purge.test_plan import plan_of

SETTLE = timedelta(seconds=60)


def sample(size: int, start: int | None, end: int | None = 100, seconds: int = 0) -> Sample:
    replica = ReplicaSample(TOPIC, 0, 1, size, start, end)
    return Sample(NOW + timedelta(seconds=seconds), (replica,))


def row(state: str = "done", *, arrived: bool = True, sent: bool = True) -> PartitionRow:
    followers = (Follower(2, 40 if arrived else 0, alive=True, arrived=arrived),)
    return PartitionRow(TOPIC, 0, 40, state, sent_at=NOW if sent else None, followers=followers)


def started(estimate: Estimate | None = None, found: PartitionRow | None = None) -> Receipt:
    world = facts(claims={0: {"a": 40}})
    estimates = {KEY: estimate} if estimate else {}
    plan = plan_of(world, {KEY: ResolvedTarget(40)}, estimates=estimates)
    return receipt.start(sample(10_000, 0), [found or row()], plan)


def advance(body: Receipt, *samples: Sample, state: str = "done") -> Receipt:
    for number, found in enumerate(samples):
        now = NOW + timedelta(seconds=number)
        body = receipt.advance(body, found, [row(state)], SETTLE, now)
    return body


def test_freed_is_what_left_although_producers_wrote_meanwhile() -> None:
    body = advance(started(), sample(10_500, 0, 105), sample(7_000, 40, 105))
    assert (body.freed_bytes, body.produced_bytes) == (3_500, 500)


def test_bytes_written_in_the_interval_of_the_drop_are_added_by_offsets() -> None:
    body = advance(started(), sample(7_000, 40, 110))  # 10 records of 100 bytes came in
    assert (body.freed_bytes, body.produced_bytes) == (4_000, 1_000)


def test_bytes_written_count_as_before_although_the_log_start_moved_first() -> None:
    # The start moves at once, the segments leave a sample later: 10 records of 100 bytes came in.
    body = advance(started(), sample(10_000, 40), sample(5_000, 40, 110))
    assert (body.freed_bytes, body.produced_bytes) == (6_000, 1_000)


def test_bytes_written_count_as_those_written_just_before() -> None:
    # 5 records of 200 bytes are seen coming; 10 more come while segments leave.
    body = advance(started(), sample(11_000, 40, 105), sample(9_000, 40, 115))
    assert (body.freed_bytes, body.produced_bytes) == (4_000, 3_000)


def test_bytes_written_during_the_drop_count_as_those_seen_coming_after_it() -> None:
    # Records were 100 bytes in large batches; now each comes as a batch of its own, with a header.
    body = advance(started(), sample(7_161, 40, 101))
    assert (body.freed_bytes, body.produced_bytes) == (2_939, 100)
    body = advance(body, sample(7_322, 40, 102), sample(7_483, 40, 103))
    assert (body.freed_bytes, body.produced_bytes) == (3_000, 3 * 161)


def test_freed_bytes_are_unsure_by_what_was_written_while_segments_left() -> None:
    unsure = [
        advance(started(), *looks).replicas[0].unsure_bytes
        for looks in (
            [sample(7_000, 40)],  # nobody writes: exact
            [sample(10_161, 0, 101)],  # nothing left yet
            [sample(7_161, 40, 101), sample(7_322, 40, 102)],
            [sample(10_161, 0, 101), sample(7_161, 40, 101)],  # a size and an end a moment apart
        )
    ]
    assert unsure == [0, 0, 2 * (161 + 61), 161 + 61]


def test_no_replica_frees_more_than_it_held_however_large_its_few_records_look() -> None:
    """Its log start lay deep in a segment: two records, beside all before them, looked like half of
    it each, and 402 that came while it left were taken for hundreds of times what was there.
    """
    plan = plan_of(facts(claims={0: {"a": 40}}), {KEY: ResolvedTarget(40)})
    begun = receipt.start(sample(752_928, 38, 40), [row()], plan)
    body = advance(begun, sample(367_069, 40, 442))
    assert body.freed_bytes == 752_928
    assert body.replicas[0].unsure_bytes == 367_069
    later = advance(body, sample(368_069, 40, 443))  # the next record tells their size
    assert later.freed_bytes == 385_859 + 402 * 1_000


def test_a_receipt_that_an_older_release_left_open_goes_on() -> None:
    body = advance(started(), sample(10_500, 0, 105), sample(7_000, 40, 105))
    new = (
        "fallen_bytes", "seen_bytes", "seen_records", "doubt_records", "unsure_bytes", "past",
        "below_start", "below_fallen_bytes", "below_doubt_records", "own_bytes", "fell",
    )  # fmt: skip
    told: Any = body.to_json()
    (part,) = told["replicas"]
    told["replicas"] = [{name: value for name, value in part.items() if name not in new}]
    later = advance(Receipt.from_json(told), sample(6_000, 40, 105))
    assert (later.freed_bytes, later.produced_bytes) == (4_500, 500)


def test_retentions_share_above_the_target_is_told_apart() -> None:
    body = advance(started(), sample(2_000, 80))  # retention moved on from 40 to 80
    assert (body.freed_bytes, body.retention_bytes) == (4_000, 4_000)


def test_prediction_stands_beside_it_and_a_gap_has_a_cause() -> None:
    begun = started(Estimate(5_000, "proportional", {1: 5_000}))
    assert (begun.predicted_bytes, begun.replicas[0].predicted_bytes) == (5_000, 5_000)
    body = advance(begun, sample(6_000, 40))
    late = receipt.advance(body, sample(6_000, 40), [row()], SETTLE, NOW + SETTLE)
    assert (late.final, late.freed_bytes) == (True, 4_000)
    told = f"of {KEY.topic} 4,000 bytes left where 5,000 were predicted: the estimate"
    assert late.gap.startswith(told)
    assert "stay whole" in late.gap


def test_a_gap_is_explained_by_what_its_estimator_assumes() -> None:
    begun = started(Estimate(5_000, "sampled", {1: 5_000}))
    assert begun.methods == ("sampled",)
    late = receipt.advance(begun, sample(6_000, 40), [row()], timedelta(0), NOW)
    assert late.gap.endswith("rolled before")


def test_the_segment_of_the_target_leaves_with_what_moves_the_log_start_past_its_end() -> None:
    begun = started(Estimate(2_000, "segments", {1: 2_000}))  # 0-20 is one, 20-60 the next
    body = advance(begun, sample(4_000, 60))
    assert (body.freed_bytes, body.retention_bytes, body.gap) == (2_000, 4_000, None)


def test_what_was_seen_leaving_tells_what_was_due_whatever_was_estimated() -> None:
    begun = started(Estimate(5_000, "proportional", {1: 5_000}))
    body = advance(begun, sample(10_000, 40), sample(8_000, 40), sample(1_000, 80))
    assert (body.freed_bytes, body.retention_bytes) == (2_000, 7_000)
    at_once = advance(begun, sample(8_000, 40), sample(1_000, 80))  # may be of before its arrival
    assert (at_once.freed_bytes, at_once.retention_bytes) == (4_500, 4_500)


def test_a_log_start_that_moved_on_is_the_cause_before_any_estimator_is() -> None:
    begun = started(Estimate(5_000, "segments", {1: 5_000}))
    late = receipt.advance(begun, sample(2_000, 80), [row()], timedelta(0), NOW)
    told = f"of {TOPIC} 4,000 bytes left where 5,000 were predicted: the log"
    assert late.gap.startswith(told)
    assert "retention or a later purge" in late.gap
    still = receipt.advance(begun, sample(2_000, 40), [row()], timedelta(0), NOW)
    assert "inventory" in still.gap


def test_it_is_final_only_after_every_replica_rested_for_the_settle_time() -> None:
    body = receipt.advance(started(), sample(6_000, 40), [row()], SETTLE, NOW)
    assert not body.final
    almost = NOW + SETTLE - timedelta(seconds=1)
    assert not receipt.advance(body, sample(6_000, 40), [row()], SETTLE, almost).final
    behind = row("leader_done", arrived=False)
    again = receipt.advance(body, sample(6_000, 40), [behind], SETTLE, NOW + SETTLE)
    assert (again.final, again.arrived_at) == (False, None)
    assert "broker 2" in again.gap


def down(state: str = "done") -> PartitionRow:
    gone = Follower(3, None, alive=False, arrived=False)
    return replace(row(state), followers=(*row().followers, gone))


def test_a_dead_replica_is_waited_for_until_the_last_look_and_then_named() -> None:
    end = NOW + SETTLE
    for found, gap in ((down(), "broker 3 have not arrived and are not counted"),
                       (row("reverted"), "records came back")):  # fmt: skip
        body = receipt.advance(started(), sample(6_000, 40), [found], SETTLE, NOW)
        assert not receipt.advance(body, sample(6_000, 40), [found], SETTLE, end).final
        early = receipt.advance(started(), sample(6_000, 40), [found], SETTLE, NOW, last=True)
        assert not early.final, "its bytes may still be leaving"
        last = receipt.advance(body, sample(6_000, 40), [found], SETTLE, end, last=True)
        assert last.final and last.arrived_at is None
        assert gap in last.gap
    behind = row("leader_done", arrived=False)
    body = receipt.advance(started(), sample(6_000, 40), [behind], SETTLE, NOW)
    assert not receipt.advance(body, sample(6_000, 40), [behind], SETTLE, end, last=True).final


def test_what_was_there_already_frees_nothing() -> None:
    body = started(found=row(sent=False))
    assert (body.final, body.predicted_bytes, body.freed_bytes) == (True, 0, 0)


def test_sizes_that_cannot_be_read_are_not_zero() -> None:
    plan = plan_of(facts(claims={0: {"a": 40}}), {KEY: ResolvedTarget(40)})
    empty = Sample(NOW, ())
    body = advance(receipt.start(empty, [row()], plan), empty)
    assert (body.freed_bytes, body.predicted_bytes) == (None, None)
    assert "not measurable" in body.gap


def test_a_broker_without_an_answer_keeps_its_last_size() -> None:
    empty = Sample(NOW, ())
    body = advance(started(), sample(6_000, 40), empty)
    assert body.freed_bytes == 4_000


def test_a_replica_that_a_sample_lacks_is_unread_unless_no_size_is_known() -> None:
    one = {KEY: partition(replicas=(1,))}
    assert receipt_bytes.unread(sample(10_000, 0), one) == set()
    assert receipt_bytes.unread(sample(10_000, 0), {KEY: partition(replicas=(1, 2))}) == {KEY}
    assert receipt_bytes.unread(sample(10_000, None), one) == {KEY}
    assert receipt_bytes.unread(Sample(NOW, ()), one) is None


def test_the_settle_time_is_read_from_configs_and_else_kafkas_default() -> None:
    entries = [
        ConfigEntry("broker", "1", "log.retention.check.interval.ms", "5000", "STATIC"),
        ConfigEntry("broker", "2", "log.retention.check.interval.ms", "7000", "STATIC"),
        ConfigEntry("topic", TOPIC, "file.delete.delay.ms", "1000", "TOPIC"),
    ]
    minute = timedelta(seconds=60)
    assert receipt.settle_time(entries) == (timedelta(seconds=7 + 1), minute)
    assert receipt.settle_time([]) == (timedelta(seconds=300 + 60), minute)


@pytest.mark.parametrize("before", [0, 4_000])
def test_nothing_is_counted_where_local_retention_works_below_a_log_start_that_stays(
    before: int,
) -> None:
    """With remote storage older records lie elsewhere: segments leave the disk, the log start not.

    `before`: what left by local retention alone, before the target was reached.
    """
    world = facts(claims={0: {"a": 40}}, configs={"remote.storage.enable": "true"})
    override = Override("remote-storage", None, "r", "ann", NOW)
    plan = plan_of(
        world, {KEY: ResolvedTarget(40)}, overrides=(override,),
        estimates={KEY: Estimate(1_000, "proportional", {1: 1_000}, 0, 2_000)},
    )  # fmt: skip
    assert [found.name for found in plan.partitions[0].lifted] == ["remote-storage"]
    body = receipt.start(sample(10_000, 0), [row()], plan)
    for size, start in ((10_000 - before, 0), (10_000 - before, 40), (3_000, 40)):
        body = receipt.advance(body, sample(size, start), [row()], SETTLE, NOW)
    body = receipt.advance(body, sample(3_000, 40), [row()], SETTLE, NOW + SETTLE)
    assert (body.predicted_bytes, body.freed_bytes, body.retention_bytes) == (None, None, None)
    assert (body.replicas, body.final, body.unmeasured_partitions) == ((), True, 1)
    assert body.to_json()["remote_topics"] == [TOPIC]
    assert Receipt.from_json(body.to_json()) == body
    assert "remote_topics" not in started().to_json()
    assert body.gap == (
        "bytes of orders are not measurable: with remote storage local retention deletes segments, "
        "too, and the log start does not tell it"
    )


def test_what_offsets_alone_tell_apart_is_off_by_a_record_at_least() -> None:
    """Segments of 10 records, no estimate: the purge frees those up to 50, and 28 offsets of them.

    Nobody writes. Then a later purge moves the log start on before its segments were seen leaving.
    """
    world = facts(partition(start=25, high=68), claims={0: {"a": 53}})
    plan = plan_of(world, {KEY: ResolvedTarget(53)})
    sent = [replace(row(), target_offset=53)]
    body = receipt.start(sample(4_800, 25, 68), sent, plan)
    for size, start in ((4_800, 53), (4_800, 67), (800, 67)):
        later = {KEY: {67}} if start == 67 else {}
        body = receipt.advance(body, sample(size, start, 68), sent, SETTLE, NOW, later=later)
    (part,) = body.replicas
    assert (part.predicted_bytes, part.fell, part.freed_bytes) == (None, False, 3_126)
    assert 126 <= part.unsure_bytes <= 200, "3,000 bytes have left"
