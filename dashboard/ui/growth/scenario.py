"""A what-if of the page Growth: what is asked, and its effect on every log dir. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.estimate.curve_tables import ReplicaCurves, integers
from dashboard.estimate.curves import Flags, Floats
from dashboard.ui.growth import what_if
from dashboard.ui.growth.what_if import Disk, Effect, Expired, Parts
from dashboard.views.what_if import freed

# How fast grows what nobody has consumed yet, which a policy leaves? From two analyses. Pure.

LEAST = timedelta(minutes=10)  # shorter, a single commit decides
MOST = timedelta(hours=24)
_BOUNDS = ("bytes_high", "bytes_likely", "bytes_low")  # most below the target: least is left


def earlier(taken: Sequence[tuple[str, datetime]], now: datetime) -> tuple[str, datetime] | None:
    """The oldest of these analyses that is LEAST to MOST before `now`; None: there is none."""
    fitting = [pair for pair in taken if LEAST <= now - pair[1] <= MOST]
    return min(fitting, key=lambda pair: pair[1], default=None)


def backlog(
    parts: Parts, now: pa.Table, before: pa.Table | None, hours: float
) -> tuple[Floats, Floats, Floats]:
    """Per topic of `parts`, low, likely, high: bytes per hour that came above the target.

    `now` and `before`, `hours` earlier, are facts of the same groups. Likely is NaN where it is
    not known: then it is anything from nothing (every group keeps up) to all that comes. It is
    never more than that.
    """
    weights = np.nan_to_num(parts.came)
    come = np.bincount(parts.topic, weights=weights, minlength=len(parts.names)).astype(np.float64)
    if before is None or hours <= 0:
        return np.zeros(len(come)), np.full(len(come), np.nan), come
    late, early = (_left(table, parts.names) for table in (now, before))
    low = (late[0] - early[2]) / hours
    likely = (late[1] - early[1]) / hours
    high = (late[2] - early[0]) / hours
    unknown = np.isnan(likely)
    return (
        np.where(unknown, 0.0, np.clip(low, -come, come)),
        np.clip(likely, -come, come),
        np.where(unknown, come, np.clip(high, -come, come)),
    )


def _left(facts: pa.Table, names: list[str]) -> tuple[Floats, Floats, Floats]:
    """Bytes at or above the target per topic: least, likely, most; NaN where any is not known."""
    topic = pc.fill_null(pc.index_in(facts["topic"], value_set=pa.array(names)), len(names))
    at = np.asarray(topic.to_numpy(), dtype=np.int64)
    size = _floats(facts["size_bytes"])
    sums = [
        np.bincount(at, weights=size - _floats(facts[name]), minlength=len(names) + 1)
        for name in _BOUNDS
    ]
    there = np.bincount(at, minlength=len(names) + 1) > 0
    least, likely, most = (np.where(there, values, np.nan)[: len(names)] for values in sums)
    return least, likely, most


def _floats(column: pa.ChunkedArray) -> Floats:
    return np.asarray(pc.cast(column, pa.float64()).to_numpy(), dtype=np.float64)


# Facts of the committed target without these groups, now and in an earlier analysis; hours between.
Facts = Callable[[tuple[str, ...]], pa.Table]
Earlier = Callable[[tuple[str, ...]], tuple[pa.Table | None, float]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """`keep` for the topics `kept`, groups `waived` for one purge, a policy on `purged` topics."""

    keep: timedelta | None = None
    kept: frozenset[str] = frozenset()
    waived: tuple[str, ...] = ()
    purged: frozenset[str] = frozenset()

    @property
    def asks(self) -> bool:
        return bool((self.keep and self.kept) or self.waived or self.purged)


@dataclass(frozen=True)
class Known:
    """All that a what-if reads. `retention_ms` by topic (below 0: for ever); `segments` of the
    snapshot, None without inventory; `taken_at` is the snapshot's.
    """

    disks: list[Disk]
    parts: Parts
    curves: ReplicaCurves
    facts: Facts
    earlier: Earlier
    retention_ms: Mapping[str, int]
    segments: pa.Table | None
    taken_at: datetime


def effect_of(known: Known, asked: Scenario) -> Effect:
    """Everything that is asked, at once."""
    purged = _purged(known, asked)
    if not asked.keep or not asked.kept:
        return purged
    return what_if.together(_kept(known, asked, asked.keep), purged)


def _kept(known: Known, asked: Scenario, keep: timedelta) -> Effect:
    parts = known.parts
    today = np.array([_hours(known.retention_ms.get(name)) for name in parts.names])[parts.topic]
    old = not_told(parts)
    if known.segments is not None:
        before = known.taken_at - keep
        old = expired(known.segments, parts, known.disks, asked.kept, before)
    hours = keep / timedelta(hours=1)
    return what_if.retention(parts, _of_topics(parts, asked.kept), hours, today, old)


def _hours(retention_ms: int | None) -> float:
    """Today's retention; one that is not known is taken to be longer."""
    return np.inf if retention_ms is None or retention_ms < 0 else retention_ms / 3_600_000


def _purged(known: Known, asked: Scenario) -> Effect:
    parts = known.parts
    if not asked.waived and not asked.purged:
        return what_if.nothing(parts)
    facts = known.facts(asked.waived)
    chosen = pc.is_in(facts["topic"], value_set=pa.array(sorted(asked.purged), pa.string()))
    consumed = _flags(facts["consumed"])
    going = _flags(chosen) | _moved(known.facts(()), facts)
    once = what_if.purged(parts, freed(facts, known.curves, going & consumed))
    if not asked.purged:
        return once
    before, hours = known.earlier(asked.waived)
    left = backlog(parts, facts, before, hours)
    return what_if.again_and_again(parts, once, _of_topics(parts, asked.purged), left)


def _moved(today: pa.Table, facts: pa.Table) -> Flags:
    """Where a waiver lets the target go on; both tables have the same rows."""
    was, now = (integers(table["target_offset"], -1) for table in (today, facts))
    return np.asarray(now > was)


def _of_topics(parts: Parts, topics: frozenset[str]) -> Flags:
    chosen = np.array([name in topics for name in parts.names], dtype=bool)
    return np.asarray(chosen[parts.topic]) if len(chosen) else np.zeros(0, dtype=bool)


def _flags(column: pa.ChunkedArray) -> Flags:
    return np.asarray(pc.fill_null(column, False).to_numpy(), dtype=bool)


# Which bytes are older than a retention, as an inventory's segments tell? Pure.

_FOLDER = ("broker_id", "log_dir", "directory")


def not_told(parts: Parts) -> Expired:
    """Without any inventory."""
    none = np.full(len(parts.size), np.nan)
    return Expired(none, none)


def expired(
    segments: pa.Table,
    parts: Parts,
    disks: list[Disk],
    topics: Collection[str],
    before: datetime,
) -> Expired:
    """Bytes of segments whose newest record is from `before` that, of parts that were all scanned.

    From the oldest on, up to the first that is not (UnifiedLog.deleteRetentionMsBreachedSegments).
    """
    names = pa.array(sorted(topics), pa.string())
    live = pc.and_(pc.equal(segments["kind"], "live"), segments["base_offset"].is_valid())
    rows = segments.filter(pc.and_(live, pc.is_in(segments["topic"], names)))
    rows = rows.sort_by([(name, "ascending") for name in (*_FOLDER, "base_offset")])
    if not rows.num_rows:
        return not_told(parts)
    first, last = _folders(rows)
    old = pc.fill_null(pc.less(rows["newest_at"], pa.scalar(before)), False)
    young = np.cumsum(~np.asarray(old.to_numpy(zero_copy_only=False)))
    folder = np.cumsum(first) - 1
    heads = np.flatnonzero(first)
    older = np.append(0, young)[heads]
    gone = young - older[folder] == 0
    size = np.asarray(rows["log_bytes"].to_numpy(), dtype=np.float64)
    part = _part_of(rows.take(pa.array(heads)), parts, disks)[folder]
    known = part >= 0
    count = len(parts.size)
    scanned = np.bincount(part[known & first], minlength=count) >= parts.replicas

    def sums(which: Flags) -> Floats:
        found = np.bincount(part[known], weights=(size * which)[known], minlength=count)
        return np.where(scanned, found, np.nan)

    return Expired(sums(gone & ~last), sums(gone))


def _folders(rows: pa.Table) -> tuple[Flags, Flags]:
    """Where a folder's first segment stands, and where its newest, the active one."""
    codes = [
        np.asarray(rows[name].combine_chunks().dictionary_encode().indices) for name in _FOLDER
    ]
    first = np.ones(rows.num_rows, dtype=bool)
    first[1:] = np.logical_or.reduce([code[1:] != code[:-1] for code in codes])
    return first, np.append(first[1:], True)


def _part_of(heads: pa.Table, parts: Parts, disks: list[Disk]) -> np.ndarray:
    """The part of each folder; -1: none."""
    places = {(disk.broker_id, disk.log_dir): at for at, disk in enumerate(disks)}
    topics = {name: at for at, name in enumerate(parts.names)}
    of = {
        pair: at
        for at, pair in enumerate(zip(parts.topic.tolist(), parts.disk.tolist(), strict=True))
    }
    columns = (heads[name].to_pylist() for name in ("topic", "broker_id", "log_dir"))
    found = [
        of.get((topics.get(topic, -1), places.get((broker, log_dir), -1)), -1)
        for topic, broker, log_dir in zip(*columns, strict=True)
    ]
    return np.array(found, dtype=np.int64)
