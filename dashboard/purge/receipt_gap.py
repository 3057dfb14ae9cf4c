"""Why a receipt's freed bytes are not the predicted ones, in one sentence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dashboard.purge.journal_rows import PartitionRow

_MOST_TOPICS = 3
# Of several estimators the least sure one explains the gap.
_WHY = {
    "proportional": "the estimate spreads a replica's bytes evenly over its offsets, but record "
    "sizes change, and the segment that holds the log start and the active one stay whole",
    "sampled": "segments are taken to be full, but some were rolled before",
    "history": "segments are taken to be full, but some were rolled before",
    "segments": "segments were written, rolled or deleted after the inventory was made",
}


def cause(receipt: Mapping[str, Any], rows: Sequence[PartitionRow]) -> str | None:
    """The cause of a gap between prediction and outcome, or None where there is none (yet)."""
    back = sum(row.state == "reverted" for row in rows)
    if back:
        return f"records came back on {back} partitions after an election"
    behind = sorted({f.broker_id for row in rows for f in row.followers if not f.arrived})
    if behind:
        names = ", ".join(str(b) for b in behind)
        counted = " and are not counted" if receipt["final"] else ""
        return f"replicas on broker {names} have not arrived{counted}"
    predicted, freed = receipt["predicted_bytes"], receipt["freed_bytes"]
    if freed is None:
        return "sizes cannot be read (DescribeLogDirs), so bytes are not measurable"
    if not receipt["final"]:
        return None if freed else "segments leave at the brokers' next retention check"
    if predicted is None or freed == predicted:
        return None
    return _estimate(receipt["replicas"], receipt.get("methods", ()))


def _estimate(replicas: Sequence[Mapping[str, Any]], methods: Collection[str]) -> str:
    """Names the topics where the estimate was furthest off, the furthest first."""
    predicted: dict[str, int] = defaultdict(int)
    freed: dict[str, int] = defaultdict(int)
    for replica in replicas:
        if replica["predicted_bytes"] is not None:
            predicted[replica["topic"]] += replica["predicted_bytes"]
            freed[replica["topic"]] += replica["freed_bytes"]
    off = sorted(predicted, key=lambda t: (-abs(freed[t] - predicted[t]), t))
    named = [
        f"of {topic} {freed[topic]:,} bytes left where {predicted[topic]:,} were predicted"
        for topic in off[:_MOST_TOPICS]
        if freed[topic] != predicted[topic]
    ]
    known = (found for name, found in _WHY.items() if name in methods)
    why = next(known, _WHY["sampled"])
    return f"{'; '.join(named)}: {why}" if named else why
