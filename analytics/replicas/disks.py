"""Per log dir: what its used bytes are made of, as the Kafka protocol and inventories show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.arrow import column, field, records, unfolded
from dashboard.domain.model import LogDir
from dashboard.store.tables import FINDING_TABLES

_LOG_DIR = ["broker_id", "log_dir"]
_Key = tuple[int, str]
_TOLD_APART = ("committed_at_once", "held_bytes", "guarded_bytes")
_SUMS = ("size_bytes", "future_bytes", *_TOLD_APART)


@dataclass(frozen=True, slots=True)
class _Sums:
    """A row of `sums`; its log dir is not known where no log dir of the broker is."""

    broker_id: int
    log_dir: str | None
    size_bytes: int | None = None
    future_bytes: int | None = None
    committed_at_once: int | None = None
    held_bytes: int | None = None
    guarded_bytes: int | None = None


# These bytes are consumed by every known group; whether others read them is shown beside it.
_ONLY_UNDECLARED = pa.array(["readers-undeclared"])


def told_apart(replicas: pa.Table, committed: pa.Table) -> pa.Table:
    """broker_id, log_dir and the bytes of `replicas` (of `curves.with_bytes`): where every known
    group has consumed the partition up to its committed target, committed_at_once and held_bytes;
    elsewhere guarded_bytes, all that it holds. `committed` are `reclaimable` rows of that target.
    """
    own = _free(committed).take(column(replicas, "at"))
    bytes_of = {name: pc.if_else(own, replicas[name], None) for name in _TOLD_APART[:2]}
    bytes_of["guarded_bytes"] = pc.if_else(own, None, replicas["size_bytes"])
    return pa.table({name: replicas[name] for name in _LOG_DIR} | bytes_of)


def _free(committed: pa.Table) -> pa.Array:
    at, guards = unfolded(column(committed, "guards"))
    blocked = pc.unique(at.filter(pc.invert(pc.is_in(field(guards, "name"), _ONLY_UNDECLARED))))
    return pc.invert(pc.is_in(pa.array(np.arange(committed.num_rows)), blocked))


def sums(replicas: pa.Table, told_apart: pa.Table) -> pa.Table:
    """broker_id, log_dir and bytes there: size_bytes of all `replicas` of a snapshot, future_bytes
    of those that are future copies, and what is `told_apart`. Sums of parts may be summed again.
    """
    future = pc.if_else(pc.fill_null(replicas["is_future"], False), replicas["size_bytes"], None)
    everything = replicas.select([*_LOG_DIR, "size_bytes"]).append_column("future_bytes", future)
    return summed(pa.concat_tables([everything, told_apart], promote_options="default"))


def summed(rows: pa.Table) -> pa.Table:
    """One row per log dir; a sum is null where nothing is known of it."""
    found = rows.group_by(_LOG_DIR).aggregate([(name, "sum") for name in _SUMS])
    return found.rename_columns([*_LOG_DIR, *_SUMS])


def disks(
    log_dirs: pa.Table,
    found: pa.Table,
    stock: Mapping[_Key, Mapping[str, int]],
    scans: Mapping[_Key, datetime],
) -> pa.Table:
    """The `disks` table: one row per log dir. `found` are `sums`, `stock` is `disk_stock.stock`,
    `scans` says when a log dir was taken stock of.

    reclaimable_bytes: whole segments below their committed target; held_bytes: above it;
    live_bytes: every other replica byte, needed or unknown; guarded_bytes: those of them that are
    of partitions with a guard, consumed or not. The parts of `stock` are null without
    an inventory (but orphans that DescribeLogDirs lists). unexplained_bytes = total - usable - all
    of these: other programs' files (all that shares the disk), and what only an inventory would
    show. It is `inferred`; where it is negative (read at different moments) it is 0, `measured`
    is false and `error` says by how much; without DescribeLogDirs v4 it is null.
    """
    by_dir = {(row.broker_id, row.log_dir): row for row in records(found, _Sums)}
    rows = []
    for log_dir in records(log_dirs, LogDir):
        key = (log_dir.broker_id, log_dir.log_dir)
        here, scanned_at = stock.get(key, {}), scans.get(key)
        parts = _inventoried(here, scanned=scanned_at is not None)
        if log_dir.error is None or key in by_dir:
            parts |= _of_replicas(by_dir.get(key, _Sums(*key)), here)
        rows.append(_row(log_dir, parts) | {"inventory_at": scanned_at})
    return pa.Table.from_pylist(rows, schema=FINDING_TABLES["disks"].schema).drop_columns(_STAMP)


_STAMP = ["snapshot_id", "taken_at"]
_OF_LIVE = "guarded_bytes"
_INVENTORIED = ("stray_bytes", "orphan_bytes", "delete_bytes", "index_bytes")


def _inventoried(here: Mapping[str, int], *, scanned: bool) -> dict[str, int]:
    """What an inventory shows; without one, the orphans that DescribeLogDirs lists."""
    if scanned:
        return {name: here.get(name, 0) for name in _INVENTORIED}
    return {"orphan_bytes": here["orphan_bytes"]} if here.get("orphan_bytes") else {}


def _of_replicas(found: _Sums, here: Mapping[str, int]) -> dict[str, int]:
    """A log dir that answered and lists no replica holds 0 bytes of them; one that did not answer
    holds an unknown amount. Orphans that DescribeLogDirs lists do not count as live.
    """
    reclaimable, held = found.committed_at_once or 0, found.held_bytes or 0
    copies = (found.future_bytes or 0) - here.get("listed_future_bytes", 0)
    size = (found.size_bytes or 0) - here.get("listed_bytes", 0)
    live = size - copies - reclaimable - held
    return {"reclaimable_bytes": reclaimable, "held_bytes": held, "future_bytes": copies,
            "live_bytes": live, _OF_LIVE: found.guarded_bytes or 0}  # fmt: skip


def _row(log_dir: LogDir, parts: Mapping[str, int]) -> dict[str, object]:
    row = {**asdict(log_dir), **parts, "measured": False, "inferred": []}
    total, usable = log_dir.total_bytes, log_dir.usable_bytes
    if "live_bytes" in parts and total is not None and usable is not None:
        known = sum(size for name, size in parts.items() if name != _OF_LIVE)
        rest = total - usable - known
        row |= {"unexplained_bytes": max(rest, 0), "measured": rest >= 0,
                "inferred": ["unexplained"]}  # fmt: skip
        if rest < 0 and log_dir.error is None:
            row["error"] = f"replicas add up to {-rest} bytes more than the disk's used bytes"
    return row
