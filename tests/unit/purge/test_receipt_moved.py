"""What a replica is without that lies elsewhere now, the purge did not free: it is not counted."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.domain.model import LogDirsAnswer, ReplicaSize, TopicPartition
from dashboard.purge.journal.rows import Follower, PartitionRow
from dashboard.purge.plan.plan import Estimate, Plan
from dashboard.purge.plan.resolve import ResolvedTarget
from dashboard.purge.receipt import receipt, receipt_bytes
from dashboard.purge.receipt.model import Receipt, ReplicaReceipt, ReplicaSample, Sample
from dashboard.purge.receipt.replica_watch import with_calibration
from tests.unit.purge.facts_of import KEY, NOW, TOPIC, facts
from tests.unit.purge.room import Room
from tests.unit.purge.test_plan import plan_of

Size = tuple[int, str]  # bytes, log dir
ESTIMATE = Estimate(6_000, "segments", {1: 3_000, 2: 3_000}, 6_000, 6_000, 0, 0, 0)
BEFORE: dict[int, Size] = {1: (10_000, "/a"), 2: (10_000, "/a")}


def sample(after: int, sizes: dict[int, Size], start: int = 60) -> Sample:
    return Sample(
        NOW + timedelta(seconds=after),
        tuple(
            ReplicaSample(TOPIC, 0, b, size, start, 100, log_dir=where)
            for b, (size, where) in sizes.items()
        ),
    )


def row(*followers: int, state: str = "done") -> PartitionRow:
    return PartitionRow(
        TOPIC, 0, 60, state, sent_at=NOW, attempts=1, leader_id=1, leader_log_start_offset=60,
        followers=tuple(Follower(i, 60, True, True) for i in followers),
    )  # fmt: skip


def followed(*looks: tuple[dict[int, Size], PartitionRow]) -> tuple[Receipt, Plan]:
    plan = plan_of(
        facts(claims={0: {"a": 60}}), {KEY: ResolvedTarget(60)}, estimates={KEY: ESTIMATE}
    )
    body = receipt.start(sample(0, BEFORE, start=0), [row(2)], plan)
    for n, (sizes, found) in enumerate(looks):
        at = 1 + 60 * n
        now = NOW + timedelta(seconds=at)
        body = receipt.advance(body, sample(at, sizes), [found], timedelta(seconds=60), now)
    assert body.final
    return with_calibration(body, [looks[-1][1]], plan), plan


def test_a_follower_that_moved_to_another_log_dir_counts_up_to_then() -> None:
    freed = {1: (7_000, "/a"), 2: (7_000, "/a")}
    copied = {1: (7_000, "/a"), 2: (4_000, "/b")}  # without its first segment's beginning
    body, _ = followed((freed, row(2)), (copied, row(2)), (copied, row(2)))
    assert [(r.freed_bytes, r.moved) for r in body.replicas] == [(3_000, False), (3_000, True)]
    assert body.gap == (
        "what left or came since the log of orders-0 on broker 2 was moved (to another log dir, or "
        "off that broker) is not counted"
    )
    assert body.calibration == ()
    again = Receipt.from_json(body.to_json())
    assert again == body


def test_a_replica_that_was_reassigned_away_is_named_and_judges_no_estimator() -> None:
    waits = {1: (7_000, "/a"), 2: (10_000, "/a")}
    body, _ = followed((waits, row(2)), ({1: (7_000, "/a")}, row(3)), ({1: (7_000, "/a")}, row(3)))
    assert (body.predicted_bytes, body.freed_bytes) == (6_000, 3_000)
    assert [r.moved for r in body.replicas] == [False, True]
    assert body.gap is not None and "orders-0 on broker 2 was moved" in body.gap
    assert "inventory" not in body.gap
    assert body.calibration == ()


def test_a_partition_that_was_not_read_takes_no_replica_away() -> None:
    """Its leader and its followers may be of two looks."""
    plan = plan_of(facts(), {KEY: ResolvedTarget(60)}, estimates={KEY: ESTIMATE})
    body = receipt.start(sample(0, BEFORE, start=0), [row(2)], plan)
    for found in (row(1, 3, state="unknown"), row(2, 3)):
        body = receipt.advance(body, sample(1, BEFORE), [found], timedelta(seconds=60), NOW)
    assert not [r for r in body.measured if r.moved]


def test_what_an_earlier_purge_waited_for_does_not_leave_a_copy_of_its_log() -> None:
    part = ReplicaReceipt(
        TOPIC, 0, 1, 10_000, 60, 100, 10_000, 0, 100, predicted_bytes=3_000, log_dir="/a"
    )
    waiting = Receipt(replicas=(part,))
    for where, left in (("/a", 3_000), ("/b", 0)):
        now = sample(1, {1: (10_000, where)})
        assert receipt_bytes.leaving([waiting], now).get(part.place, 0) == left


@pytest.mark.further_but("False")
@pytest.mark.parametrize("moves", [False, True])
def test_a_watch_sees_the_log_dirs_of_all_replicas(tmp_path: Path, moves: bool) -> None:
    room = Room(tmp_path)
    room.estimates = {KEY: Estimate(180_000, "segments", dict.fromkeys((1, 2, 3), 60_000),
                                    180_000, 180_000, 0, 0, 0)}  # fmt: skip
    view = room.carry_out()
    real = room.live.log_dirs

    def dirs(wanted: set[TopicPartition] | None = None) -> LogDirsAnswer:
        found = real(wanted)
        return replace(found, replicas=tuple(elsewhere(r) for r in found.replicas))

    def elsewhere(r: ReplicaSize) -> ReplicaSize:
        return replace(r, log_dir="/other", size_bytes=1) if moves and r.broker_id == 3 else r

    room.live.log_dirs = dirs  # type: ignore[assignment]
    found = room.watch(view).run.receipt
    assert found is not None and found.final
    assert [r.broker_id for r in found.replicas if r.moved] == ([3] if moves else [])
    assert ("was moved" in (found.gap or "")) is moves
    room.journal.close()
