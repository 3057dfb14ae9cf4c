"""Sizes and log starts of replicas: what a receipt begins with, and each look at them since."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from dashboard.domain.model import TopicPartition
from dashboard.purge.journal.journal_rows import PartitionRow
from dashboard.purge.plan.cluster_seam import Cluster
from dashboard.purge.plan.facts import PartitionFacts
from dashboard.purge.receipt.model import ReplicaSample, Sample

# As long as a worker's look at the cluster may count, and its request take to leave.
_SIZES_LAST = timedelta(seconds=60)


def measure(live: Cluster, keys: Iterable[TopicPartition], now: datetime) -> Sample:
    """Size, log start, log end of every replica of `keys`; of future ones only where they are."""
    wanted = set(keys)
    if not wanted:  # an empty list asks a broker for all that it has
        return Sample(now, ())
    answer = live.log_dirs(wanted)
    offsets = {
        (r.broker_id, r.topic, r.partition): r for r in live.replica_offsets(sorted(wanted), None)
    }
    replicas = []
    for r in sorted(answer.replicas, key=lambda r: (r.topic, r.partition, r.broker_id)):
        if r.is_future or TopicPartition(r.topic, r.partition) not in wanted:
            continue
        seen = offsets.get((r.broker_id, r.topic, r.partition))
        start, end = (seen.log_start_offset, seen.log_end_offset) if seen else (None, None)
        place, size = (r.topic, r.partition, r.broker_id), r.size_bytes
        replicas.append(ReplicaSample(*place, size, start, end, log_dir=r.log_dir))
    future = sorted(
        (r.topic, r.partition, r.broker_id)
        for r in answer.replicas
        if r.is_future and TopicPartition(r.topic, r.partition) in wanted
    )
    return Sample(now, tuple(replicas), tuple(future))


def renewed(kept: Sample | None, sample: Sample, going: Iterable[PartitionRow]) -> Sample:
    """The sizes that a receipt begins with: of partitions whose request is about to leave the new
    sample's, so that what retention took since the run began is nobody's.

    Of one that was sent before, only replicas whose log start is below the target: a request took
    no effect there. A replica that was never sent and does not answer now is left out once what is
    kept of it is old: its size is unknown.
    """
    if kept is None:
        return sample
    rows = {row.key: row for row in going}
    found = {}
    for r in kept.replicas:
        row = rows.get(r.key)
        age = sample.taken_at - (r.taken_at or kept.taken_at)
        if row is None or row.was_sent or age <= _SIZES_LAST:
            found[r.place] = r
    for r in sample.replicas:
        row, start = rows.get(r.key), r.log_start_offset
        if row and (not row.was_sent or (start is not None and start < row.target_offset)):
            found[r.place] = replace(r, taken_at=sample.taken_at)
    return replace(kept, replicas=tuple(found[name] for name in sorted(found)))


def furthest(kept: Sample | None) -> dict[TopicPartition, int]:
    """The furthest log start among a partition's replicas; without those that did not tell."""
    found: dict[TopicPartition, int] = {}
    for r in kept.replicas if kept else ():
        if (start := r.log_start_offset) is not None:
            found[r.key] = max(start, found.get(r.key, start))
    return found


def without(sample: Sample, replicas: Mapping[TopicPartition, Collection[int]]) -> Sample:
    """The sample without some replicas, which keep what was measured of them last."""
    kept = (r for r in sample.replicas if r.broker_id not in replicas.get(r.key, ()))
    return replace(sample, replicas=tuple(kept))


def unread(
    sample: Sample, partitions: Mapping[TopicPartition, PartitionFacts]
) -> set[TopicPartition] | None:
    """Partitions with a replica whose offsets a sample of `measure` lacks.

    None where sizes cannot be read at all: then the sample tells nothing of replicas either.
    """
    if not sample.replicas:
        return None
    known: dict[TopicPartition, set[int]] = {}
    for r in sample.replicas:
        if r.log_start_offset is not None:
            known.setdefault(r.key, set()).add(r.broker_id)
    return {key for key, seen in partitions.items() if set(seen.replicas) - known.get(key, set())}
