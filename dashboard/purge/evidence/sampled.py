"""Estimator `sampled`: bytes below a target from the sizes of a few record batches.

A topic whose records grew makes size x share of offsets wrong by any factor; its batches show it.
A sampled batch's own bytes are known; between two the bytes per offset follow a straight line, and
where they differ much, the middle is sampled too. What of a replica's size the sum over its offsets
leaves over lies below the log start, in the segment that holds it, as far as one segment goes;
the rest is the samples' error and is spread over them. Their timestamps tell how much is written in
`segment.ms`, where segments roll before they are full. `dashboard.estimate.curves` reads the curve.

The interval allows for records that change at once anywhere between two samples. All samples'
bytes together are known, so an error below an offset is no larger than the one above it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from dashboard.domain.model import Batch, TopicPartition
from dashboard.purge.evidence.estimates import estimates as of_replicas
from dashboard.purge.evidence.estimates import is_cleaned, segment_bytes, segment_ms
from dashboard.purge.plan.cluster_seam import Cluster
from dashboard.purge.plan.facts import PlanFacts
from dashboard.purge.plan.plan import Estimate
from dashboard.purge.plan.resolve import ResolvedTarget
from dashboard.purge.plan.tiers import is_remote

METHOD = "sampled"
_EVENLY = 17
_ROUNDS, _A_ROUND = 5, 6
_UNSURE = 0.002  # of a partition's bytes between two samples: then their middle is read
# As a rule 27 Fetches of one batch each, at most 47, some 50 ms a partition: the largest are
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
                segment_ms=segment_ms(facts, key.topic), cleaned=is_cleaned(facts, key.topic),
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
    cleaned: bool = False,
) -> Estimate:
    """What goes below `target` of each replica (broker id -> bytes of its log).

    Where it is `cleaned`, too, each replica's upper bound is told.
    """
    rolled = rolled_bytes(batches, segment_ms)
    segment = max(1, segment_bytes)
    one_segment = segment if rolled is None else min(segment, rolled)
    knots = _knots(batches, start, end)
    whole, unsure = knots[-1].below, knots[-1].unsure

    def told(side: int) -> Estimate:
        """By the least (-1), the likely (0) or the most (1) that may lie below each offset."""
        curves = []
        for size in sizes.values():
            # The first record of a partition is the first one of its segment too.
            left_over = int(size - whole + side * unsure)
            before_start = min(max(0, left_over), one_segment - 1, size) if start else 0
            curve = _fitted(knots, size - before_start, side)
            curves.append([(offset, before_start + below) for offset, below in curve])
        return _read_off(curves, list(sizes), (start, target), segment, rolled)

    low, likely, high = told(-1), told(0), told(1)
    return replace(
        likely,
        bytes_at_once_low=low.bytes_at_once_low,
        bytes_at_once_high=high.bytes_at_once_high,
        bytes_later_low=low.bytes_later_low,
        bytes_later_high=_later_high(high, low),
        cleaned_high=high.cleaned_high if cleaned else {},
    )


def _fitted(knots: Sequence[_Knot], size: int, side: int) -> list[tuple[int, int]]:
    """Offsets and the bytes below each, so that they add up to `size` at the end.

    What the samples miss goes where they are unsure; what is more than that, to every offset.
    Since it is known for all gaps together, it bounds what each side of an offset may have.
    """
    whole, unsure = knots[-1].below, knots[-1].unsure
    missed = min(max(size - whole, -unsure), unsure)
    scale = size / (whole + missed) if whole + missed > 0 else 1.0
    curve = []
    for offset, below, here in knots:
        beyond = unsure - here
        if side == 0:
            more = missed * here / unsure if unsure else 0.0
        elif side < 0:
            more = max(-here, missed - beyond)
        else:
            more = min(here, missed + beyond)
        curve.append((offset, int(scale * (below + more))))
    return [*curve[:-1], (knots[-1].offset, size)]


def _read_off(
    curves: Sequence[Sequence[tuple[int, int]]],
    brokers: Sequence[int],
    purge: tuple[int, int],
    segment: int,
    rolled: int | None,
) -> Estimate:
    """What the curves say of a `purge` from the first to the second offset."""
    import numpy as np

    from dashboard.estimate.curves import SAMPLED, curves_of

    count = len(curves)
    drawn = curves_of(curves, [segment] * count, SAMPLED)
    if rolled is not None:
        drawn = replace(drawn, rolled_bytes=np.full(count, rolled, dtype=np.int64))
    return of_replicas(
        drawn,
        np.zeros(count, dtype=np.int64),
        brokers,
        np.full(count, purge[0], dtype=np.int64),
        np.full(count, purge[1], dtype=np.int64),
        cleaned=(0,),
    )[0]


def _later_high(high: Estimate, low: Estimate) -> int | None:
    """The most that may leave in all, less the least at once; None: there is no bound."""
    if high.bytes_later_high is None:
        return None
    most = high.bytes_later_high + (high.bytes_at_once_low or 0)  # it counts from its own least
    return most - (low.bytes_at_once_low or 0)


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


class _Knot(NamedTuple):
    """Where a sampled batch begins or ends: the bytes below it by the samples, and how unsure.

    They are wrong by at most `unsure`, if the bytes per offset between two samples lie between
    those of the two.
    """

    offset: int
    below: float
    unsure: float


def _knots(batches: Sequence[Batch], start: int, end: int) -> list[_Knot]:
    """From `start` to `end` by rising offset; outside all samples the nearest one counts."""
    found = [_Knot(start, 0.0, 0.0)]

    def upto(offset: int, here: float, there: float) -> None:
        at, below, unsure = found[-1]
        width = min(offset, end) - at
        if width > 0:
            below += width * (here + there) / 2
            found.append(_Knot(at + width, below, unsure + width * abs(there - here) / 2))

    before = _each(batches[0])
    for batch in batches:
        upto(batch.base_offset, before, _each(batch))
        before = _each(batch)
        upto(batch.base_offset + batch.offsets, before, before)
    upto(end, before, before)
    return found


def bytes_between(batches: Sequence[Batch], start: int, upto: int) -> int:
    """Bytes of the offsets [start, upto) by the samples."""
    return round(_knots(batches, start, upto)[-1].below)


def between(batches: Sequence[Batch]) -> list[int]:
    """Offsets halfway between neighbours whose line is least sure, the least sure first."""
    knots = _knots(batches, batches[0].base_offset, batches[-1].base_offset)
    middles = (
        ((there.unsure - here.unsure) / 2, (here.offset + there.offset) // 2)
        for here, there in pairwise(knots)
    )
    unsure = sorted((m for m in middles if m[0] > _UNSURE * knots[-1].below), reverse=True)
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


def _each(batch: Batch) -> float:
    """Bytes per offset."""
    return batch.size_bytes / batch.offsets


def _worth(facts: PlanFacts, key: TopicPartition, target: ResolvedTarget) -> bool:
    start = facts.partitions[key].log_start_offset
    remote = is_remote(facts.configs.get(key.topic, {}))
    return not remote and target.offset is not None and start is not None and target.offset > start


def _evenly(facts: PlanFacts, key: TopicPartition) -> list[int]:
    """Offsets spread evenly from log start to the last one below the high watermark."""
    seen = facts.partitions[key]
    start, end = seen.log_start_offset or 0, seen.high_watermark or 0
    steps = max(1, min(_EVENLY, end - start) - 1)
    return sorted({start + i * (end - 1 - start) // steps for i in range(steps + 1)})
