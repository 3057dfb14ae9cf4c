"""What a final receipt keeps for calibration, and which partitions tell nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dashboard.domain.model import TopicPartition
from dashboard.purge.journal.rows import Follower, PartitionRow
from dashboard.purge.plan.plan import Estimate, Plan
from dashboard.purge.plan.resolve import ResolvedTarget
from dashboard.purge.receipt.model import Receipt, ReplicaReceipt, TopicOutcome
from dashboard.purge.receipt.replica_watch import with_calibration
from tests.unit.purge.facts_of import NOW, TOPIC, facts, partition
from tests.unit.purge.room import Room
from tests.unit.purge.test_plan import plan_of

ESTIMATE = Estimate(500, "history", {1: 250, 2: 250}, 400, 600, 0, 0, 0)


def plan(*estimates: Estimate) -> Plan:
    """One partition per estimate, log start 5, target 40."""
    keys = [TopicPartition(TOPIC, number) for number in range(len(estimates))]
    world = facts(
        *(partition(start=5, number=key.partition) for key in keys),
        claims={key.partition: {"a": 40} for key in keys},
    )
    told = dict(zip(keys, estimates, strict=True))
    return plan_of(world, {key: ResolvedTarget(40) for key in keys}, estimates=told)


def replica(number: int = 0, broker: int = 1, **change: Any) -> ReplicaReceipt:
    before = ReplicaReceipt(TOPIC, number, broker, 770, 40, 100, before_bytes=1000, start_before=5)
    return replace(before, **{"freed_bytes": 230, **change})


def row(number: int = 0, state: str = "done", *, sent: bool = True) -> PartitionRow:
    return PartitionRow(TOPIC, number, 40, state, sent_at=NOW if sent else None)


def both(number: int = 0, **change: Any) -> list[ReplicaReceipt]:
    return [replica(number), replica(number, 2, **change)]


def calibration(replicas: list[ReplicaReceipt], found: Plan, *rows: PartitionRow) -> Any:
    body = Receipt(final=True, replicas=tuple(replicas))
    return with_calibration(body, rows, found).calibration


def test_partitions_are_summed_by_topic_and_estimator() -> None:
    sampled = replace(ESTIMATE, method="sampled")
    found = plan(ESTIMATE, sampled, ESTIMATE)
    lines = calibration(both(0) + both(1, unsure_bytes=7) + both(2), found, row(0), row(1), row(2))
    assert lines == (
        TopicOutcome(TOPIC, "history", 2, 800, 1_000, 1_200, 920, 0),
        TopicOutcome(TOPIC, "sampled", 1, 400, 500, 600, 460, 7),
    )


@pytest.mark.parametrize(
    "found", [row(state="reverted"), row(state="not_done"), row(sent=False)], ids=lambda r: r.state
)
def test_what_came_back_was_not_done_or_there_already_is_left_out(found: PartitionRow) -> None:
    assert calibration(both(), plan(ESTIMATE), found) == ()


def test_a_partition_with_a_replica_that_has_not_arrived_is_left_out() -> None:
    gone = (Follower(2, None, alive=False, arrived=False),)
    assert calibration(both(), plan(ESTIMATE), replace(row(), followers=gone)) == ()


@pytest.mark.parametrize(
    ("replicas", "why"),
    [
        ([replica()], "a replica that was predicted has no size"),
        ([*both(), replica(0, 3)], "a replica without a prediction"),
        (both(retention_bytes=1), "retention deleted too"),
        (both(start_before=6), "some of it had left before the purge"),
        (both(start_before=None), "what had left before is unknown"),
    ],
)
def test_what_cannot_be_told_apart_is_left_out(replicas: list[ReplicaReceipt], why: str) -> None:
    assert calibration(replicas, plan(ESTIMATE), row()) == (), why


def test_an_estimate_without_an_interval_is_left_out() -> None:
    old = Estimate(500, "history", {1: 250, 2: 250})
    assert calibration(both(), plan(old), row()) == ()


def test_a_receipt_that_is_not_final_keeps_nothing_yet() -> None:
    body = Receipt(final=False, replicas=tuple(both()))
    assert with_calibration(body, [row()], plan(ESTIMATE)) == body


def test_a_watched_run_keeps_it_in_its_journal_and_in_the_chain(tmp_path: Path) -> None:
    room = Room(tmp_path)
    room.live.answers = [7]
    made = room.plan()
    estimate = Estimate(150_000, "sampled", dict.fromkeys((1, 2, 3), 50_000), 90_000, 200_000)
    made = replace(made, partitions=(replace(made.partitions[0], estimate=estimate),))
    view = room.carry_out(made)
    room.live.parts[TopicPartition(TOPIC, 0)].starts = {1: 60, 2: 60, 3: 60}
    receipt = room.watch(view).to_json()["receipt"]
    (line,) = receipt["calibration"]
    assert (line["method"], line["predicted_bytes"], line["freed_bytes"]) == (
        "sampled", 150_000, 3 * 60_000,
    )  # fmt: skip
    (entry,) = [e for e in room.journal.entries() if e.kind == "receipt"]
    assert entry.body["receipt"]["calibration"] == [line]
    assert room.journal.verify().ok
    room.journal.close()
