"""What left one replica between two looks at it, although producers went on writing. Pure.

Where a size did not fall, what it grew by is what was written: exact. Where it fell, records that
were written meanwhile hide a part of what left: they are in doubt, and count as many bytes as those
that were seen coming, before or after, so a later look makes an earlier one truer.

A purge frees the segments that it made deletable, which brokers delete all at once. The one that
its target lies in is not among them: it leaves with whatever moves the log start past its end.

Not all that leaves is the purge's. What leaves while a log start is below the target is
retention's: a purge moves the log start first, and segments leave later. Of a topic that is
compacted, too, the log cleaner takes from the same logs: what leaves beyond the most that the purge
can free is not counted. Nor is what a replica is without that begins anew, as on a disk that was
replaced (its log end goes back), that moves to another log dir (the copy begins at the log start,
not at its segment's first offset), or that a reassignment takes away.

Brokers delete segments at their next retention check, minutes later by default: a purge that begins
before it finds those of earlier purges on the disks still. They are not its own, and count once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from dashboard.domain.model import TopicPartition
from dashboard.purge.journal.rows import PartitionRow
from dashboard.purge.plan.cluster_seam import Cluster
from dashboard.purge.plan.facts import PartitionFacts
from dashboard.purge.plan.plan import PlannedPartition
from dashboard.purge.receipt.model import Place, Receipt, ReplicaReceipt, ReplicaSample, Sample

# A record that is a batch of its own has a header of 61 bytes (DefaultRecordBatch.RECORD_BATCH_
# OVERHEAD) that one among many in a batch has not.
BATCH_HEADER_BYTES = 61


def begun(
    replica: ReplicaSample, planned: PlannedPartition | None, target: int, earlier_bytes: int
) -> ReplicaReceipt:
    """A replica's part of a receipt, from its entry in the sample before its request.

    `earlier_bytes` of what leaves belong to an earlier purge (`leaving`).
    """
    estimate = planned.estimate if planned else None
    start, foreseen = replica.log_start_offset, planned.log_start_offset if planned else None
    first = _later(start, foreseen)
    now = replica.size_bytes, start, replica.log_end_offset  # as last looked at, and before
    return ReplicaReceipt(
        *replica.place,
        *now,
        *now,
        predicted_bytes=estimate.replicas.get(replica.broker_id) if estimate else None,
        earlier_bytes=earlier_bytes,
        first_offset=first,
        below_start=first,
        offsets=max(0, target - (first or 0)),
        moved_before=0 if start is None or foreseen is None else max(0, start - foreseen),
        cleaned=bool(estimate and estimate.cleaned_high),
        most_bytes=estimate.cleaned_high.get(replica.broker_id) if estimate else None,
        log_dir=replica.log_dir,
    )


def looked(
    old: ReplicaReceipt,
    new: ReplicaSample | None,
    target: int,
    *,
    undone: bool = False,
    away: bool = False,
    later: Collection[int] = (),
) -> ReplicaReceipt:
    """The replica's part after one more look; `new` is None where its broker gave no answer.

    `freed_bytes` are sure to `unsure_bytes`. A log that has `restarted`, moved to another log dir
    or is `away` (no replica of the partition any more) is not counted from then on, nor is one that
    the purge had not reached when it was `undone`: another purge will have to.
    `later` are the targets of later purges, which leave to this one what it made deletable.
    """
    if old.undone or (undone and not _reached(old, new, target)):
        return replace(old, undone=True)
    if away:
        return replace(old, moved=True)
    if new is None or _unplaced(old, new):  # what it holds is not known now
        return old
    if old.moved or elsewhere(old, new):
        return replace(_seen(old, new), moved=True)
    if old.restarted or _went_back(old, new):
        return replace(_seen(old, new), restarted=True)
    body = _below(_seen(counted(old, new), new), target)
    dropped = max(0, fallen_bytes(body) - body.earlier_bytes)
    below = body.below_fallen_bytes + round(body.below_doubt_records * record_bytes(body))
    early = min(dropped, max(0, below - body.earlier_bytes))
    body = _attributed(old, body, dropped - early, target, later)
    retention = dropped - _own(body, dropped - early, target)
    unsure = _unsure(body, target)
    cleaner = _beyond(body, dropped - retention - unsure)
    return replace(
        body,
        dropped_bytes=dropped,
        retention_bytes=retention,
        freed_bytes=dropped - retention - cleaner,
        produced_bytes=body.seen_bytes + fallen_bytes(body) - body.fallen_bytes,
        unsure_bytes=unsure,
        cleaner_bytes=cleaner,
    )


def _seen(old: ReplicaReceipt, new: ReplicaSample) -> ReplicaReceipt:
    start, end = new.log_start_offset, new.log_end_offset
    return replace(
        old, size_bytes=new.size_bytes, log_start_offset=start, log_end_offset=end,
        log_dir=new.log_dir or old.log_dir,
    )  # fmt: skip


def due_bytes(part: ReplicaReceipt) -> int:
    """What the purge made deletable: all that was seen leaving, as brokers delete at once. Before
    that by its estimate, less what left since the plan; without one by its offsets.
    """
    if part.fell:
        return part.own_bytes
    told, size = part.predicted_bytes, record_bytes(part)
    if told is None:  # older releases kept no offsets
        return round(part.offsets * size)
    return max(0, told - round(part.moved_before * size))


def _attributed(
    old: ReplicaReceipt, body: ReplicaReceipt, left: int, target: int, later: Collection[int]
) -> ReplicaReceipt:
    """`own_bytes` and `fell`; as they were once the log start has moved on, by retention."""
    start = body.log_start_offset
    if start is None or start <= target:
        # The cleaner's work tells nothing of whether what is due has left.
        drop = old.past and body.size_bytes < old.size_bytes and not body.cleaned
        return replace(body, own_bytes=left, fell=old.fell or drop)
    if start in later:
        return replace(body, own_bytes=max(old.own_bytes, min(left, due_bytes(body))))
    return body


def _own(body: ReplicaReceipt, left: int, target: int) -> int:
    """The purge's part of what left at or past the target: its share of the offsets, and no more
    than it made deletable, once retention or a later purge moved the log start on.
    """
    start = body.log_start_offset
    if start is None or start <= target:
        return left
    share = left - round(left * _retention_share(body, target))
    return min(left, max(body.own_bytes, min(share, due_bytes(body))))


def _reached(old: ReplicaReceipt, new: ReplicaSample | None, target: int) -> bool:
    start = None if new is None else new.log_start_offset
    return old.past or (start is not None and start >= target)


def _unplaced(old: ReplicaReceipt, new: ReplicaSample) -> bool:
    """Whether a size came without the log end that tells which log it is of."""
    return new.log_end_offset is None and old.log_end_offset is not None


def elsewhere(old: ReplicaReceipt, new: ReplicaSample) -> bool:
    """Whether it lies in another log dir of its broker; older receipts do not tell in which."""
    return None not in (old.log_dir, new.log_dir) and old.log_dir != new.log_dir


def _went_back(old: ReplicaReceipt, new: ReplicaSample) -> bool:
    before, after = old.log_end_offset, new.log_end_offset
    return before is not None and after is not None and after < before


def _beyond(body: ReplicaReceipt, surely_freed: int) -> int:
    """What left beyond the most that the purge frees, where the cleaner may have taken it."""
    return 0 if body.most_bytes is None else max(0, surely_freed - body.most_bytes)


def counted(old: ReplicaReceipt, new: ReplicaSample) -> ReplicaReceipt:
    """By how much the size fell, and what was written, with one more look."""
    change, written = new.size_bytes - old.size_bytes, _written(old, new)
    if change < 0:
        doubt = old.doubt_records + written
        return replace(old, fallen_bytes=old.fallen_bytes - change, doubt_records=doubt)
    return replace(old, seen_bytes=old.seen_bytes + change, seen_records=old.seen_records + written)


def fallen_bytes(body: ReplicaReceipt) -> int:
    """What left the replica, with what records in doubt hid of it."""
    return body.fallen_bytes + _hidden(body)


def _hidden(body: ReplicaReceipt) -> int:
    """What records in doubt hid of what left; where none was seen coming, no more than the replica
    held: a log start deep in its segment makes a record look as large as all before it together.
    """
    told = _in_doubt(body)
    return told if body.seen_bytes else min(told, max(0, body.before_bytes - body.fallen_bytes))


def _in_doubt(body: ReplicaReceipt) -> int:
    return round(body.doubt_records * record_bytes(body))


def _below(body: ReplicaReceipt, target: int) -> ReplicaReceipt:
    """What left by the last look that saw the log start below the target.

    Parts that older releases left open do not tell; what is past its target now counts as before.
    """
    start = body.log_start_offset
    if start is None or body.past:
        return body
    if start >= target:
        return replace(body, past=True)
    return replace(
        body,
        below_start=_later(start, body.below_start),
        below_fallen_bytes=body.fallen_bytes,
        below_doubt_records=body.doubt_records,
    )


def _later(start: int | None, than: int | None) -> int | None:
    return start if start is None or than is None else max(start, than)


def _written(old: ReplicaReceipt, new: ReplicaSample) -> int:
    before, after = old.log_end_offset, new.log_end_offset
    return 0 if before is None or after is None else max(0, after - before)


def record_bytes(body: ReplicaReceipt) -> float:
    """Bytes of a record: of those that were seen coming, else of those the replica held before.

    The log start of a later look has moved, but its segments may still be there.
    """
    if body.seen_records and body.seen_bytes:
        return body.seen_bytes / body.seen_records
    first, then = body.first_offset, body.end_before
    if first is None or then is None or then <= first:
        return 0.0
    # Below the first one lie segments that an earlier purge waits for.
    return max(0, body.before_bytes - body.earlier_bytes) / (then - first)


def _unsure(body: ReplicaReceipt, target: int) -> int:
    """By how much the freed bytes may be off: nothing where nobody writes.

    A size and a log end are read moments apart: one record more may lie between the two. So may one
    where offsets alone tell what was due: the log start moved on before that was seen leaving.
    """
    guessed = body.predicted_bytes is None and not body.fell
    guessed = guessed and (body.log_start_offset or 0) > target
    if not body.fallen_bytes or not (body.doubt_records + body.seen_records or guessed):
        return 0
    hidden = _hidden(body)
    if hidden < _in_doubt(body):  # it cannot have held more than that
        return hidden
    return round((body.doubt_records + 1) * (record_bytes(body) + BATCH_HEADER_BYTES))


def _retention_share(body: ReplicaReceipt, target: int) -> float:
    """The share of what left that lay above the target: retention took that."""
    start, first = body.log_start_offset, body.below_start
    if start is None or first is None or start <= target or start <= first:
        return 0.0
    return (start - max(target, first)) / (start - first)


# What earlier purges of the same partitions had yet to free when a run began.


def leaving(earlier: Iterable[Receipt], baseline: Sample | None) -> dict[Place, int]:
    """Bytes that earlier receipts, the newest first, expected to leave after `baseline`.

    For each replica the newest receipt that has it counts: what it predicted, and waited for
    itself, less what had left. As sure as its estimate was; without one the offsets count that it
    was purged by.
    """
    if baseline is None:
        return {}
    newest: dict[Place, tuple[ReplicaReceipt, Receipt]] = {}
    for receipt in earlier:
        # Of a topic that is gone nothing is left to leave.
        for part in (r for r in receipt.replicas if r.topic not in receipt.gone_topics):
            newest.setdefault(part.place, (part, receipt))
    found = {}
    for now in baseline.replicas:
        if (known := newest.get(now.place)) is None:
            continue
        old, receipt = known
        at = receipt.measured_at
        since = at is None or at <= (now.taken_at or baseline.taken_at)
        if not (receipt.final and since) and (left := _left(old, now, newer=since)):
            found[now.place] = left
    return found


def _left(old: ReplicaReceipt, now: ReplicaSample, *, newer: bool) -> int:
    """What `old` waits for by the look `now`; 0 where it lies within what producers wrote, and is
    less than half of what was expected: brokers delete all that is due at once. A policy purges as
    much as is written meanwhile, and none of it need have left. `newer`: than the last look at
    `old`, so that it is one more.
    """
    if old.left_out or old.undone or elsewhere(old, now):  # they left with the log, or stay
        return 0
    size = record_bytes(old)
    expected = due_bytes(old) + old.earlier_bytes
    before, after = old.end_before, now.log_end_offset
    written = 0 if before is None or after is None else max(0, after - before)
    if newer:
        fallen = fallen_bytes(counted(old, now))
    else:
        fallen = old.before_bytes + round(written * size) - now.size_bytes
    left = expected - max(0, fallen)
    doubt = (written + 1) * (size + BATCH_HEADER_BYTES)
    return min(left, now.size_bytes) if left > min(doubt, expected / 2) else 0


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
