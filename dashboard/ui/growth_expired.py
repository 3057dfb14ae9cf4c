"""Which bytes are older than a retention, as an inventory's segments tell? Pure."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.curves import Flags, Floats
from dashboard.ui.growth_effects import Expired
from dashboard.ui.growth_facts import Disk, Parts

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
