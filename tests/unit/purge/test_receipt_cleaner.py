"""Neither the log cleaner's work nor what a log is without that begins anew was freed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dashboard.purge.plan.plan import Estimate, Plan
from dashboard.purge.plan.resolve import ResolvedTarget
from dashboard.purge.receipt import receipt, receipt_bytes
from dashboard.purge.receipt.model import Receipt, Sample, TopicOutcome
from dashboard.purge.receipt.replica_watch import with_calibration
from tests.unit.purge.facts_of import KEY, NOW, facts, partition
from tests.unit.purge.test_plan import plan_of
from tests.unit.purge.test_receipt import SETTLE, row, sample

DELETED = Estimate(1_000, "segments", {1: 1_000}, 1_000, 1_000, 0, 0, 0)
CLEANED = Estimate(1_000, "segments", {1: 1_000}, 1_000, 1_000, 0, 0, 0, {1: 1_000})
UNBOUNDED = Estimate(1_000, "history", {1: 1_000}, 500, None, 0, 0, None, {1: None})
CLEANER = "the log cleaner works on orders, too"


def planned(estimate: Estimate) -> Plan:
    world = facts(partition(replicas=(1,)), claims={0: {"a": 40}})
    return plan_of(world, {KEY: ResolvedTarget(40)}, estimates={KEY: estimate})


def watched(plan: Plan, *looks: Sample) -> Receipt:
    """The receipt of one replica of 10,000 bytes after these looks, final at the last."""
    body = receipt.start(sample(10_000, 0), [row()], plan)
    for look in looks[:-1]:
        body = receipt.advance(body, look, [row()], SETTLE, NOW)
    return receipt.advance(body, looks[-1], [row()], SETTLE, NOW + SETTLE)


def calibrated(plan: Plan, *looks: Sample) -> tuple[TopicOutcome, ...] | None:
    return with_calibration(watched(plan, *looks), [row()], plan).calibration


BOTH = (sample(9_000, 40), sample(3_000, 40))  # the purge's segments, then the cleaner's
REBUILT = (sample(9_500, 40), sample(0, 40, end=40), sample(8_000, 40))


def test_what_leaves_beyond_the_upper_estimate_of_a_compacted_topic_is_not_the_purges() -> None:
    body = watched(planned(CLEANED), *BOTH)
    assert (body.freed_bytes, body.cleaner_bytes) == (1_000, 6_000)
    assert body.gap == (
        f"{CLEANER}: the 6,000 bytes that left beyond the upper estimate are not told apart "
        "from its work, and are not counted"
    )
    assert calibrated(planned(CLEANED), *BOTH) == ()


def test_what_was_written_meanwhile_does_not_make_the_cleaner_suspect() -> None:
    # 1,000 left and 10 records of 161 bytes came in: as unsure as those records are.
    looks = (sample(10_000 - 1_000 + 10 * 161, 40, end=110), sample(9_000 + 11 * 161, 40, end=111))
    body = watched(planned(CLEANED), *looks)
    assert body.cleaner_bytes == 0
    assert calibrated(planned(CLEANED), *looks) not in (None, ())


def test_without_an_upper_estimate_the_cleaners_work_is_counted_and_the_gap_says_so() -> None:
    body = watched(planned(UNBOUNDED), *BOTH)
    assert (body.freed_bytes, body.cleaner_bytes) == (7_000, 0)
    assert body.gap.endswith(
        f"{CLEANER}, and no upper estimate tells its work apart: it is counted"
    )
    assert calibrated(planned(UNBOUNDED), *BOTH) == ()


def test_of_a_topic_that_is_only_deleted_all_that_leaves_is_the_purges() -> None:
    body = watched(planned(DELETED), *BOTH)
    assert (body.freed_bytes, body.cleaner_bytes) == (7_000, 0)
    assert "cleaner" not in body.gap


def test_a_replica_whose_log_end_goes_back_is_not_counted_from_then_on() -> None:
    body = watched(planned(DELETED), *REBUILT)
    assert (body.freed_bytes, body.produced_bytes) == (500, 0)
    assert body.gap == (
        "what left or came since the log of orders-0 on broker 1 began anew (its end went back) "
        "is not counted"
    )
    assert calibrated(planned(DELETED), *REBUILT) == ()


def test_a_log_end_that_is_not_read_for_a_moment_hides_no_new_beginning() -> None:
    blind = sample(0, 40, end=None)
    body = watched(planned(DELETED), sample(9_500, 40), blind, *REBUILT[1:])
    assert body.freed_bytes == 500


def test_a_log_that_begins_anew_before_the_receipt_is_final_is_named_at_once() -> None:
    body = receipt.start(sample(10_000, 0), [row()], planned(DELETED))
    body = receipt.advance(body, sample(0, 40, end=40), [row()], SETTLE, NOW)
    assert (body.final, "began anew" in body.gap) == (False, True)


def test_what_an_earlier_purge_waited_for_in_a_log_that_began_anew_leaves_no_more() -> None:
    body = receipt.start(sample(10_000, 0), [row()], planned(DELETED))
    body = receipt.advance(body, sample(9_900, 40, end=40), [row()], SETTLE, NOW)
    assert receipt_bytes.leaving([body], sample(9_900, 40, end=100)) == {}


def test_a_receipt_of_an_older_release_goes_on() -> None:
    body: Any = watched(planned(DELETED), sample(9_500, 40)).to_json()
    (replica,) = body["replicas"]
    old = {**body, "final": False, "replicas": [{k: v for k, v in replica.items() if k in _OLD}]}
    del old["cleaner_bytes"]
    told = Receipt.from_json(old)
    later = receipt.advance(told, sample(9_000, 40), [row()], SETTLE, NOW + SETTLE)
    assert (later.freed_bytes, later.cleaner_bytes) == (1_000, 0)


_OLD = (
    "topic", "partition", "broker_id", "size_bytes", "log_start_offset", "log_end_offset",
    "before_bytes", "start_before", "end_before", "predicted_bytes", "earlier_bytes",
    "dropped_bytes", "freed_bytes", "retention_bytes", "produced_bytes", "fallen_bytes",
    "seen_bytes", "seen_records", "doubt_records", "unsure_bytes",
)  # fmt: skip


@pytest.mark.parametrize("estimate", [CLEANED, UNBOUNDED, DELETED])
def test_a_plan_carries_how_much_a_cleaned_replica_may_free(
    estimate: Estimate, tmp_path: Path
) -> None:
    plan = planned(estimate)
    again = Plan.from_json_text(plan.to_json_text(), str(tmp_path))
    assert again.partitions[0].estimate == estimate
    assert again.sha256 == plan.sha256
    assert ("cleaned_high" in plan.to_json_text()) == bool(estimate.cleaned_high)


def test_the_sentence_names_no_topic_that_lost_nothing_beyond() -> None:
    body = watched(planned(CLEANED), sample(9_000, 40))
    assert (body.freed_bytes, body.gap) == (1_000, None)
