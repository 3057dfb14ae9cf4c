"""What a purge frees of each planned partition, from curves of its replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dashboard.model import TopicPartition
from dashboard.purge.facts import PlanFacts
from dashboard.purge.plan import Estimate
from dashboard.purge.resolve import ResolvedTarget

if TYPE_CHECKING:  # numpy is slow to import; a plan without an analysis needs none
    from dashboard.curve_tables import ReplicaCurves
    from dashboard.curves import Curves

Replica = tuple[TopicPartition, int]  # and its broker


def of_curves(
    found: ReplicaCurves, facts: PlanFacts, resolved: Mapping[TopicPartition, ResolvedTarget]
) -> dict[TopicPartition, Estimate]:
    """Estimates by the curves of a findings table, in segments as they are configured now.

    A topic that was recreated since has none.
    """
    import numpy as np

    places = found.places
    names, partitions, brokers, ids = (
        places[name].to_pylist() for name in ("topic", "partition", "broker_id", "topic_id")
    )
    keys = list(map(TopicPartition, names, partitions))
    bounds = {key: _bounds(facts, key, resolved[key]) for key in set(keys) if key in resolved}
    unknown = (0, None)
    start, target = (
        zip(*(bounds.get(k) or unknown for k in keys), strict=True) if keys else ((), ())
    )
    sizes = {topic: segment_bytes(facts, topic) for topic in set(names)}
    curves = found.with_segment_bytes(np.array([sizes[n] for n in names], dtype=np.int64)).curves
    wanted = [
        (key, broker) if to is not None and _same_topic(facts, key, topic_id) else None
        for key, broker, topic_id, to in zip(keys, brokers, ids, target, strict=True)
    ]
    return estimates(curves, wanted, start, [to or 0 for to in target])


def leaders_keeping(
    found: ReplicaCurves, facts: PlanFacts, sizes: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Where `Curves.keeping` says so of each partition's leader; missing where it has no curve."""
    import numpy as np

    rows = found.places.select(["topic", "partition", "broker_id", "topic_id"]).to_pylist()
    keys = [TopicPartition(row["topic"], row["partition"]) for row in rows]
    wanted = np.array([sizes.get(key, 0) for key in keys], dtype=np.int64)
    kept: dict[TopicPartition, int] = {}
    for key, row, offset in zip(keys, rows, found.curves.keeping(wanted).tolist(), strict=True):
        if key not in sizes:
            continue
        is_leader = row["broker_id"] == facts.partitions[key].leader_id
        if is_leader and _same_topic(facts, key, row["topic_id"]):
            kept[key] = min(offset, kept.get(key, offset))
    return kept


def estimates(
    curves: Curves,
    replicas: Sequence[Replica | None],
    start: Sequence[int],
    target: Sequence[int],
) -> dict[TopicPartition, Estimate]:
    """One estimate per partition, summed over its replicas; None leaves a replica out.

    `start` and `target` are offsets, one per replica. A sum has the name of the least sure way
    that any of its replicas was measured.
    """
    import numpy as np

    from dashboard.curves import METHODS

    freed = curves.freed(np.array(start, dtype=np.int64), np.array(target, dtype=np.int64))
    later = freed.likely - freed.once
    later_low = np.maximum(freed.low - freed.once_high, 0)
    later_high = freed.high - freed.once_low
    columns = (freed.once_low, freed.once, freed.once_high, later_low, later, later_high)
    sums: dict[TopicPartition, list[int]] = {}
    split: dict[TopicPartition, dict[int, int]] = {}
    worst: dict[TopicPartition, int] = {}
    rows = zip(replicas, freed.method.tolist(), zip(*(c.tolist() for c in columns), strict=True),
               strict=True)  # fmt: skip
    for replica, method, values in rows:
        if replica is None:
            continue
        key, broker = replica
        if key in sums:
            sums[key] = [a + b for a, b in zip(sums[key], values, strict=True)]
        else:
            sums[key], split[key] = list(values), {}
        split[key][broker] = split[key].get(broker, 0) + values[1]
        worst[key] = max(worst.get(key, 0), method)
    return {
        key: Estimate(once, METHODS[worst[key]], split[key], once_low, once_high, *rest)
        for key, (once_low, once, once_high, *rest) in sums.items()
    }


def segment_bytes(facts: PlanFacts, topic: str) -> int:
    """The topic's `segment.bytes`, the broker's default where it is not known."""
    value = facts.configs.get(topic, {}).get("segment.bytes")
    return max(1, int(value)) if value else 1 << 30


def _same_topic(facts: PlanFacts, key: TopicPartition, topic_id: str | None) -> bool:
    """Curves of older minors, or of older brokers, carry no topic id: the name has to do."""
    return topic_id is None or facts.partitions[key].topic_id in (None, topic_id)


def _bounds(
    facts: PlanFacts, key: TopicPartition, target: ResolvedTarget
) -> tuple[int, int | None]:
    """Log start and target; no target where either is unknown."""
    start = facts.partitions[key].log_start_offset
    return (start or 0, target.offset if start is not None else None)
