"""What a final receipt keeps for calibration: per topic and estimator, predicted against freed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dashboard.domain.model import TopicPartition
from dashboard.purge.journal.journal_rows import PartitionRow
from dashboard.purge.plan.plan import Plan, PlannedPartition

_SUMS = (
    "partitions", "low_bytes", "predicted_bytes", "high_bytes", "freed_bytes", "unsure_bytes",
)  # fmt: skip


def with_calibration(
    receipt: Mapping[str, Any], rows: Iterable[PartitionRow], plan: Plan
) -> dict[str, Any]:
    """A final receipt with its `calibration`; any other one as it is."""
    if not receipt["final"]:
        return dict(receipt)
    there = [row for row in rows if row.topic not in receipt.get("gone_topics", ())]
    return {**receipt, "calibration": _by_topic(receipt["replicas"], there, plan)}


def _by_topic(
    replicas: Iterable[Mapping[str, Any]], rows: Iterable[PartitionRow], plan: Plan
) -> list[dict[str, Any]]:
    """Sums over the partitions that tell something of an estimator, sorted by topic and method.

    Left out are partitions that were not done on every replica, came back, were there already or
    are gone, have no interval or no size of some replica, and those where retention or the log
    cleaner deleted too, an earlier purge's segments were leaving or a log began anew: what is whose
    is then not measured.
    """
    done = {
        row.key
        for row in rows
        if row.was_sent and row.state == "done" and all(f.arrived for f in row.followers)
    }
    of_partition: dict[TopicPartition, list[Mapping[str, Any]]] = defaultdict(list)
    for replica in replicas:
        of_partition[TopicPartition(replica["topic"], replica["partition"])].append(replica)
    sums: dict[tuple[str, str], list[int]] = {}
    for planned in plan.partitions:
        if planned.key not in done:
            continue
        found = _outcome(planned, of_partition[planned.key])
        if found is None:
            continue
        method, values = found
        total = sums.setdefault((planned.topic, method), [0] * len(_SUMS))
        total[:] = [a + b for a, b in zip(total, values, strict=True)]
    return [
        {"topic": topic, "method": method, **dict(zip(_SUMS, sums[topic, method], strict=True))}
        for topic, method in sorted(sums)
    ]


def _outcome(
    planned: PlannedPartition, replicas: Sequence[Mapping[str, Any]]
) -> tuple[str, tuple[int, ...]] | None:
    estimate = planned.estimate
    if estimate is None or planned.log_start_offset is None:
        return None
    likely = estimate.bytes_at_once
    low, high = estimate.bytes_at_once_low, estimate.bytes_at_once_high
    if likely is None or low is None or high is None:
        return None
    if {replica["broker_id"] for replica in replicas} != set(estimate.replicas):
        return None
    for replica in replicas:
        start = replica["start_before"]
        if start is None or start > planned.log_start_offset or replica["retention_bytes"]:
            return None
        if any(replica.get(name) for name in ("earlier_bytes", "cleaner_bytes", "restarted")):
            return None
    freed = sum(replica["freed_bytes"] for replica in replicas)
    unsure = sum(replica.get("unsure_bytes", 0) for replica in replicas)
    return estimate.method, (1, low, likely, high, freed, unsure)
