"""Per replica: bytes of log below an offset, by the surest estimator at hand.

Each snapshot's replicas go on from the curves of the snapshot before, so the newest analysis'
`curves` are all that is needed of the past; folding every kept snapshot again gives the same.
All replicas of a bucket at once: a step costs no more than reading the snapshot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.replicas import history
from analytics.replicas import points as cuts
from analytics.replicas.points import Points, matched, measured, told, with_records
from dashboard.core.arrow import column, places
from dashboard.core.clock import CLOCKS_AGREE, microseconds
from dashboard.core.errors import StoreError
from dashboard.domain.model import METHODS
from dashboard.estimate.curve_tables import (
    PLACE,
    ReplicaCurves,
    changes,
    from_table,
    integers,
    read,
)
from dashboard.estimate.curves import NO_EPOCH, PROPORTIONAL, SEGMENTS, Curves, Flags, Freed, Ints
from dashboard.store.snapshot_files import Manifest, time_of
from dashboard.store.snapshots import ClusterStore
from dashboard.store.tables import FINDING_TABLES

_NOTHING = FINDING_TABLES["curves"].schema.empty_table()
_NO_END = np.iinfo(np.int64).max


def fold(
    cluster: ClusterStore,
    snapshot: Manifest,
    base: Manifest | None,
    replicas: pa.Table,
    topics: pa.Table,
    *,
    each: Callable[[Manifest, pa.Table, history.Step], None] | None = None,
) -> ReplicaCurves:
    """The curves of `replicas`, the snapshot's `points.told`, those with a size and records.

    Goes on from the curves of `base`, an earlier analysis, over every snapshot since then: an
    inventory's segments where the snapshot has them and they fit, else history, else
    proportional (two knots: the log start and the log end). `topics`: topic, segment_bytes,
    segment_ms; they hold for every snapshot.
    `each` is called with every snapshot on the way, what it told, and the step that it was.
    """
    found = read(cluster, base.id) if base else from_table(_NOTHING)
    known_to = str(base.details["snapshot_id"]) if base else ""
    new = [i for i in cluster.ids("snapshots") if known_to < i < snapshot.id]
    at = known_to
    for between in [*new, snapshot.id]:
        try:
            rows = told(cluster, between) if between != snapshot.id else replicas
            manifest = cluster.manifest("snapshots", between)
            points = _with_records(rows, manifest)
            by = cuts.rolls(points.places, topics, cuts.took_ms(at, between))
            told_ends = cuts.ends_told(cluster, manifest, at)
            grown, step = history.extended(found, points, by, _looks(at, manifest), told_ends)
            inventory = cluster.read("snapshots", between, "segments", COLUMNS)
            after = ReplicaCurves(points.places, with_segments(inventory, found, grown, points))
            if each is not None:
                each(manifest, rows, step)
        except StoreError as error:
            if between == snapshot.id or error.code != "SNAPSHOT_NOT_FOUND":
                raise
            continue  # pruned meanwhile: one step less
        at, found = between, after
    return found.with_segment_bytes(by.segment_bytes)


def _with_records(rows: pa.Table, snapshot: Manifest) -> Points:
    points = with_records(measured(rows))
    if cuts.tells_epochs(snapshot):
        return points
    return replace(points, leader_epoch=np.full_like(points.leader_epoch, NO_EPOCH))


def _looks(before: str, now: Manifest) -> history.Looks:
    """Ids are times, and rise though a clock steps back; the snapshot before may be pruned."""
    began, own = time_of(before), time_of(now.id)
    read = max(now.taken_at, own or now.taken_at) + timedelta(seconds=now.seconds)
    return history.Looks(microseconds(began) if began else 0, microseconds(read))


def with_segments(
    inventory: pa.Table, before: ReplicaCurves, grown: Curves, points: Points
) -> Curves:
    """`grown`, the curves of `points` that went on from those `before`; of replicas that an
    inventory (`COLUMNS`) fits its own.
    """
    if not inventory.num_rows or not points.places.num_rows:
        return grown
    row = matched(points.places, before.places)
    ends = np.append(before.curves.offset[before.curves.last], _NO_END)[row]
    replica, exact = drawn(inventory, points, grown.since, ends)
    return _instead(grown, replica, exact)


def _instead(curves: Curves, replica: Ints, better: Curves) -> Curves:
    """`curves`, but those of the named replicas are the ones in `better`.

    What surely lies above a knot is what either of them tells.
    """
    whose = np.repeat(replica, better.last - better.first + 1)
    surely = np.maximum(better.surely, curves.of(whose).at_least(better.offset))
    start = curves.first.copy()
    length = curves.last - curves.first + 1
    start[replica] = len(curves.offset) + better.first
    length[replica] = better.last - better.first + 1
    first = np.cumsum(length) - length
    total = int(length.sum())
    at = np.repeat(start - first, length) + np.arange(total)
    return replace(
        curves,
        first=first.astype(np.int64),
        offset=np.concatenate([curves.offset, better.offset])[at],
        below=np.concatenate([curves.below, better.below])[at],
        base=np.concatenate([curves.base, better.base])[at],
        method=np.concatenate([curves.method, better.method])[at],
        above=np.concatenate([curves.surely, surely])[at],
    )


# Estimator `segments`: knots exactly where an inventory of the broker's disk found segments.

COLUMNS = [
    "broker_id", "log_dir", "base_offset", "topic", "partition", "topic_id", "kind", "log_bytes",
    "scanned_at",
]  # fmt: skip
_NONE_AFTER = np.iinfo(np.int64).max
_CLOCKS = CLOCKS_AGREE // timedelta(microseconds=1)


def drawn(
    segments: pa.Table, points: Points, since: Ints, ends_before: Ints
) -> tuple[Ints, Curves]:
    """The rows of `points` whose replica the inventory fits, and their curves in that order.

    `segments` are COLUMNS of the snapshot's table. An inventory may be older than the snapshot.
    It fits when it saw this topic id, its oldest segment holds the log start, its newest base is
    not past the log end, and the sizes of closed segments, which do not change any more, are not
    above the replica's size (the cleaner was there, or another disk). What the size holds
    beyond them lies after the newest base. Segments wholly below the log start are on their way out
    (UnifiedLog.deleteLogStartOffsetBreachedSegments): until the next retention check the size has
    them in it. Where it has, the curve does too, and begins before the log start: else their bytes
    would be taken for the active segment's, and promised to whoever purges next.

    What lies above a segment's base is sure where the scan began after `since` (`Curves.since`, one
    per replica), for which its host's clock has to agree with ours: of what an older one saw, a
    cleaner may have taken, or an election. See `_at_least` for how much. An older one that saw a
    base past where the log ended in the snapshot before (`ends_before`) saw what was lost since.
    """
    live = pc.and_(pc.equal(segments["kind"], "live"), segments["base_offset"].is_valid())
    rows = segments.filter(live)
    new = _new_run(rows)
    run = np.cumsum(new) - 1
    replica = _replicas(rows.take(pa.array(np.flatnonzero(new))), points)[run] if len(run) else run
    known = np.maximum(replica, 0)
    base, size = integers(rows["base_offset"], 0), integers(rows["log_bytes"], 0)
    next_base = np.append(base[1:], _NONE_AFTER)
    next_base[np.append(run[1:] != run[:-1], True)[: len(run)]] = _NONE_AFTER
    leaving = next_base <= points.start[known]
    kept = (replica >= 0) & (~leaving | _there(points, replica, new, (base, size), leaving))
    sure = integers(rows["scanned_at"].cast(pa.int64()), 0) - _CLOCKS > since[known]
    above = np.where(sure, _at_least(new, size, points.size[known]), 0)
    lost, first = ~sure & (base > ends_before[known]), np.flatnonzero(new)
    if len(run):  # what is leaving comes first in its log, and may be gone by now
        stays = first + np.add.reduceat(leaving, first, dtype=np.int64)
        above = np.where(leaving, above[stays[run]], above)
        kept &= ~np.logical_or.reduceat(lost, first)[run]
    return _fitting(points, replica[kept], base[kept], size[kept], above[kept])


def _there(
    points: Points, replica: Ints, new: Flags, files: tuple[Ints, Ints], leaving: Flags
) -> Flags:
    """Of each segment, whether the size of its replica still has in it those that are `leaving`;
    `files`: their base offsets and bytes.

    They go all at once. If they are gone, all that the size holds beyond the others is the active
    segment's: with them in it that is too much for its offsets, at what an offset took before.
    """
    base, size = files
    first = np.flatnonzero(new)
    if not leaving.any():
        return np.zeros(len(new), dtype=bool)
    run = np.cumsum(new) - 1
    newest = np.append(first[1:], len(new)) - 1
    whose = np.maximum(replica[newest], 0)
    out = np.add.reduceat(np.where(leaving, size, 0), first)
    closed = np.add.reduceat(size, first) - size[newest]
    rest = points.size[whose] - (closed - out)
    per_offset = closed / np.maximum(base[newest] - base[first], 1)
    active = per_offset * np.maximum(points.end[whose] - base[newest], 0)
    found = (out > 0) & (out <= rest) & (active < rest - out / 2)
    return np.asarray(found[run])


def _at_least(new: Flags, size: Ints, told: Ints) -> Ints:
    """Bytes at or above each segment's base, by the files from it on, and by what the replica's
    size, `told`, leaves beside the files below it: the less of both.

    The active segment's file is as long as segment.bytes from its first record where topics
    preallocate (FileRecords.open; it is cut when it rolls), and sizes are told without that. An
    inventory is made before a size is told: what was written or deleted in between only lowers
    what the size leaves. So segments on their way out count as below.
    """
    if not len(size):
        return size
    first = np.flatnonzero(new)
    run = np.cumsum(new) - 1
    before = np.cumsum(size) - size
    below = before - before[first][run]
    files = np.add.reduceat(size, first)[run] - below
    return np.asarray(np.clip(told - below, 0, files))


def _new_run(rows: pa.Table) -> Flags:
    """Where another replica begins: the table is sorted by folder, and a live one is `T-P`."""
    new = np.ones(rows.num_rows, dtype=bool)
    if rows.num_rows:
        new[1:] = np.logical_or.reduce([changes(rows[name]) for name in PLACE])
    return new


def _replicas(heads: pa.Table, points: Points) -> Ints:
    """The row of `points` of each folder; -1: none, or the folder is another topic id's."""
    row = matched(heads.select(PLACE), points.places)
    now = column(points.places, "topic_id").take(pa.array(row, mask=row < 0))
    other = pc.fill_null(pc.not_equal(column(heads, "topic_id"), now), False)
    return np.where(other.to_numpy(zero_copy_only=False), -1, row)


def _fitting(
    points: Points, replica: Ints, base: Ints, size: Ints, above: Ints
) -> tuple[Ints, Curves]:
    """Curves of the replicas whose segments fit; `replica` says whose each segment is."""
    new = np.ones(len(replica), dtype=bool)
    new[1:] = replica[1:] != replica[:-1]
    first, run = np.flatnonzero(new), np.cumsum(new) - 1
    last = np.append(first, len(replica))[1:] - 1
    before = np.cumsum(size) - size
    below = before - before[first][run] if len(run) else before
    whose = replica[first]
    fits = (
        (base[last] <= points.end[whose])
        & (base[first] <= points.start[whose])
        & (below[last] <= points.size[whose])
    )
    segments = fits[run] if len(run) else np.zeros(0, dtype=bool)
    count = (last - first + 1)[fits]
    knots = (base[segments], below[segments], above[segments])
    return whose[fits], _with_ends(points, whose[fits], count, knots)


def _with_ends(points: Points, whose: Ints, count: Ints, knots: tuple[Ints, Ints, Ints]) -> Curves:
    """Each replica's bases, then its log end, unless its active segment is empty.

    `knots`: base offsets, and the bytes below and above them.
    """
    base, below, above = knots
    newest = np.cumsum(count) - 1
    ends = base[newest] < points.end[whose]
    at = np.repeat(np.cumsum(ends) - ends, count) + np.arange(len(base))
    end_at = (newest + np.cumsum(ends))[ends]
    total = len(base) + int(ends.sum())
    offset, bytes_below = np.empty(total, dtype=np.int64), np.empty(total, dtype=np.int64)
    is_base, surely = np.ones(total, dtype=bool), np.zeros(total, dtype=np.int64)
    offset[at], bytes_below[at], surely[at] = base, below, above
    offset[end_at], bytes_below[end_at] = points.end[whose][ends], points.size[whose][ends]
    is_base[end_at] = False
    length = count + ends
    return Curves(
        first=(np.cumsum(length) - length).astype(np.int64),
        offset=offset,
        below=bytes_below,
        base=is_base,
        method=np.full(total, SEGMENTS, dtype=np.int64),
        segment_bytes=np.zeros(len(length), dtype=np.int64),
        above=surely,
    )


# Bytes below each partition's targets: read from its replicas' curves, then summed.

TARGETS = ("committed", "end", "without")


def with_bytes(
    partitions: pa.Table, replicas: pa.Table, curves: ReplicaCurves
) -> tuple[pa.Table, pa.Table]:
    """`partitions` with sums over their replicas, and `replicas` (`points.measured`) with theirs.

    Per target NAME: NAME_low, NAME_likely, NAME_high, NAME_at_once, NAME_later (bytes; null where
    the target or every replica is unknown) and NAME_method, the least sure of its replicas'
    estimators; held_bytes lie at or above the committed target. Replicas get at (the row of their
    partition; those of no partition are left out), committed_at_once and held_bytes.
    """
    at = pc.index_in(_where(replicas), value_set=_where(partitions))
    replicas = replicas.filter(at.is_valid()).append_column("at", at.drop_null())
    row = integers(replicas["at"], 0)
    curves = _of_these(curves, replicas)
    sums = {}
    for name in TARGETS:
        target = column(partitions, f"{name}_target").take(pa.array(row))
        freed, known, endless = _freed(replicas, curves, target)
        for part, values in _parts(freed):
            sums[f"{name}_{part}"] = _summed(row, values, known, partitions.num_rows)
        for part in ("high", "at_once_high"):
            sums[f"{name}_{part}"] = _without(sums[f"{name}_{part}"], row[endless])
        worst = np.zeros(partitions.num_rows, dtype=np.int64)
        np.maximum.at(worst, row[known], freed.method[known])
        sums[f"{name}_method"] = pa.array(METHODS).take(pa.array(worst))
        if name == "committed":
            held = integers(replicas["size_bytes"], 0) - freed.likely
            sums["held_bytes"] = _summed(row, held, known, partitions.num_rows)
            replicas = replicas.append_column(
                "committed_at_once", pa.array(freed.once, mask=~known)
            ).append_column("held_bytes", pa.array(held, mask=~known))
    for name, values in sums.items():
        partitions = partitions.append_column(name, values)
    return partitions, replicas


def _of_these(found: ReplicaCurves, replicas: pa.Table) -> ReplicaCurves:
    """The curves of these replicas alone."""
    there = matched(found.places, replicas) >= 0
    if there.all():
        return found
    rows = np.flatnonzero(there)
    return ReplicaCurves(found.places.take(pa.array(rows)), found.curves.of(rows))


def _where(table: pa.Table) -> pa.Array:
    return places(column(table, "topic_no"), column(table, "partition"))


def _parts(freed: Freed) -> tuple[tuple[str, Ints], ...]:
    return (
        ("low", freed.low),
        ("likely", freed.likely),
        ("high", freed.high),
        ("at_once", freed.once),
        ("at_once_low", freed.once_low),
        ("at_once_high", freed.once_high),
    )


def _freed(
    replicas: pa.Table, found: ReplicaCurves, target: pa.Array
) -> tuple[Freed, Flags, Flags]:
    """What each replica frees, where that is known, and where the most of it is not.

    A log without records frees nothing.
    """
    bounds = (column(replicas, "start"), column(replicas, "end"), target)
    known = np.logical_and.reduce([b.is_valid().to_numpy(zero_copy_only=False) for b in bounds])
    start, to = (integers(pa.chunked_array([b]), 0) for b in (bounds[0], target))
    row = matched(found.places, replicas)
    read = found.curves.freed(start[row], to[row])
    endless = (to[row] > start[row]) & ~found.curves.bounded(to[row])

    def spread(values: Ints, missing: int = 0) -> Ints:
        wide = np.full(replicas.num_rows, missing, dtype=np.int64)
        wide[row] = values
        return wide

    return (
        Freed(
            low=spread(read.low),
            likely=spread(read.likely),
            high=spread(read.high),
            once_low=spread(read.once_low),
            once=spread(read.once),
            once_high=spread(read.once_high),
            method=spread(read.method, PROPORTIONAL),
        ),
        known,
        known & (spread(endless.astype(np.int64)) > 0),
    )


def _summed(row: Ints, values: Ints, known: Flags, rows: int) -> pa.Array:
    """Sums per partition; null where no replica is known."""
    sums, counts = np.zeros(rows, dtype=np.int64), np.zeros(rows, dtype=np.int64)
    np.add.at(sums, row[known], values[known])
    np.add.at(counts, row[known], 1)
    return pa.array(sums, mask=counts == 0)


def _without(sums: pa.Array, rows: Ints) -> pa.Array:
    """`sums`, null in some rows."""
    unknown = np.zeros(len(sums), dtype=bool)
    unknown[rows] = True
    return pc.if_else(pa.array(unknown), None, sums)
