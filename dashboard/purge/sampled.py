"""Estimator `sampled`: bytes below a target from the sizes of a few record batches.

A topic whose records grew makes size x share of offsets wrong by any factor; its batches show it.
Between sampled batches the bytes per offset follow a straight line; where two neighbours differ
much, the middle between them is sampled too. What of a replica's size the sum over its offsets
leaves over lies below the log start, in the segment that holds it, as far as one segment goes;
the rest is the samples' error and is spread over them. Their timestamps tell how much is written in
`segment.ms`, where segments roll before they are full. `dashboard.curves` reads the curve.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from dashboard.model import Batch, TopicPartition
from dashboard.purge.cluster_seam import Cluster
from dashboard.purge.estimates import estimates as of_replicas
from dashboard.purge.estimates import segment_bytes, segment_ms
from dashboard.purge.facts import PlanFacts
from dashboard.purge.plan import Estimate
from dashboard.purge.resolve import ResolvedTarget

METHOD = "sampled"
_EVENLY = 16
_ROUNDS, _A_ROUND = 5, 6
_UNSURE = 0.002  # of a partition's bytes between two samples: then their middle is read
# As a rule 26 Fetches of one batch each, at most 46, some 50 ms a partition: the largest are
# worth them.
MOST_PARTITIONS = 500


def estimates(
    live: Cluster, facts: PlanFacts, resolved: Mapping[TopicPartition, ResolvedTarget]
) -> dict[TopicPartition, Estimate]:
    """Sampled estimates of the largest partitions with something to purge; needs READ.

    Topics with remote storage are left out: their old batches lie elsewhere. A partition whose
    batches cannot be read is left out too, and keeps the estimate that it had.
    """
    sizes: dict[TopicPartition, dict[int, int]] = {}
    for r in live.log_dirs(resolved).replicas:
        if not r.is_future:
            sizes.setdefault(TopicPartition(r.topic, r.partition), {})[r.broker_id] = r.size_bytes
    wanted = sorted(
        (key for key in resolved if key in sizes and _worth(facts, key, resolved[key])),
        key=lambda key: (-sum(sizes[key].values()), key),
    )[:MOST_PARTITIONS]
    samples = _read(live, {key: _evenly(facts, key) for key in wanted})
    found = {}
    for key, batches in samples.items():
        seen, target = facts.partitions[key], resolved[key].offset
        start, end = seen.log_start_offset, seen.high_watermark
        if batches and start is not None and end is not None and target is not None:
            found[key] = estimate(
                batches, sizes[key], start=start, end=end, target=target,
                segment_bytes=segment_bytes(facts, key.topic),
                segment_ms=segment_ms(facts, key.topic),
            )  # fmt: skip
    return found


def estimate(
    batches: Sequence[Batch],
    sizes: Mapping[int, int],
    *,
    start: int,
    end: int,
    target: int,
    segment_bytes: int,
    segment_ms: int | None = None,
) -> Estimate:
    """What goes below `target` of each replica (broker id -> bytes of its log)."""
    import numpy as np

    from dashboard.curves import SAMPLED, curves_of

    segment = max(1, segment_bytes)
    rolled = rolled_bytes(batches, segment_ms)
    one_segment = segment if rolled is None else min(segment, rolled)
    middles = (round(b.base_offset + b.offsets / 2) for b in batches)
    offsets = sorted({start, end, *(o for o in middles if start < o < end)})
    below = [bytes_between(batches, start, upto) for upto in offsets]
    curves = []
    for size in sizes.values():
        # The first record of a partition is the first one of its segment too.
        before_start = min(max(0, size - below[-1]), one_segment - 1) if start else 0
        scale = (size - before_start) / below[-1] if below[-1] else 1.0
        curves.append(
            [(o, before_start + int(b * scale)) for o, b in zip(offsets, below, strict=True)]
        )
    count = len(sizes)
    drawn = curves_of(curves, [segment] * count, SAMPLED)
    if rolled is not None:
        drawn = replace(drawn, rolled_bytes=np.full(count, rolled, dtype=np.int64))
    return of_replicas(
        drawn,
        np.zeros(count, dtype=np.int64),
        list(sizes),
        np.full(count, start, dtype=np.int64),
        np.full(count, target, dtype=np.int64),
    )[0]


def rolled_bytes(batches: Sequence[Batch], segment_ms: int | None) -> int | None:
    """Bytes written in `segment.ms`, which is when a segment rolls (LogSegment.shouldRoll).

    None where it is not known: no limit, no timestamps, or all batches are of one moment.
    """
    times = [batch.max_timestamp_ms for batch in batches if batch.max_timestamp_ms is not None]
    if segment_ms is None or len(times) < len(batches) or not times:
        return None
    took = max(times) - min(times)
    if not took:
        return None
    written = bytes_between(batches, batches[0].base_offset, batches[-1].base_offset)
    return max(1, round(written / took * segment_ms))


def bytes_between(batches: Sequence[Batch], start: int, upto: int) -> int:
    """Bytes of the offsets [start, upto): a trapezoid under the sampled bytes per offset."""
    points = [_point(b) for b in batches]
    knots = [(float(start), points[0][1]), *(p for p in points if start < p[0] < upto)]
    knots.append((float(upto), _density_at(points, upto)))
    return round(
        sum((right - left) * (here + there) / 2
            for (left, here), (right, there) in pairwise(knots))
    )  # fmt: skip


def between(batches: Sequence[Batch]) -> list[int]:
    """Offsets halfway between neighbours whose line is least sure, the least sure first."""
    points = [_point(b) for b in batches]
    gaps = [
        (abs(there - here) * (right - left) / 4, int(left + right) // 2)
        for (left, here), (right, there) in pairwise(points)
    ]
    whole = bytes_between(batches, batches[0].base_offset, batches[-1].base_offset)
    unsure = sorted((gap for gap in gaps if gap[0] > _UNSURE * whole), reverse=True)
    return sorted(offset for _, offset in unsure[:_A_ROUND])


def _read(
    live: Cluster, offsets: Mapping[TopicPartition, Sequence[int]]
) -> dict[TopicPartition, list[Batch]]:
    """Batches by rising offset of each partition that could be read."""
    found: dict[TopicPartition, dict[int, Batch]] = {}
    asked = dict(offsets)
    for _ in range(1 + _ROUNDS):
        for key, samples in live.batches(asked).items() if asked else ():
            for batch in samples.batches:
                found.setdefault(key, {})[batch.base_offset] = batch
        ordered = {key: [by[o] for o in sorted(by)] for key, by in found.items()}
        asked = {key: more for key, batches in ordered.items() if (more := between(batches))}
    return ordered


def _point(batch: Batch) -> tuple[float, float]:
    """The middle of a batch, and its bytes per offset."""
    return batch.base_offset + batch.offsets / 2, batch.size_bytes / batch.offsets


def _density_at(points: Sequence[tuple[float, float]], offset: float) -> float:
    if offset <= points[0][0]:
        return points[0][1]
    for (left, here), (right, there) in pairwise(points):
        if offset <= right:
            return here + (there - here) * (offset - left) / (right - left)
    return points[-1][1]


def _worth(facts: PlanFacts, key: TopicPartition, target: ResolvedTarget) -> bool:
    start = facts.partitions[key].log_start_offset
    remote = facts.configs.get(key.topic, {}).get("remote.storage.enable") == "true"
    return not remote and target.offset is not None and start is not None and target.offset > start


def _evenly(facts: PlanFacts, key: TopicPartition) -> list[int]:
    """Offsets spread evenly between log start and high watermark."""
    seen = facts.partitions[key]
    start, end = seen.log_start_offset or 0, seen.high_watermark or 0
    count = min(_EVENLY, end - start)
    return [start + (2 * i + 1) * (end - start) // (2 * count) for i in range(count)]
