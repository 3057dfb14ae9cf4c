"""Per log dir: what its used bytes are made of, as the Kafka protocol and inventories show it; and
what inventories and orphans put there beside the replicas that the cluster needs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.arrow import column, field, records, unfolded
from dashboard.domain.acts import CHECKPOINT_ENTRY
from dashboard.domain.model import LogDir
from dashboard.store.tables import FINDING_TABLES

Row = dict[str, Any]
Stock = dict[tuple[int, str], dict[str, int]]
Place = tuple[int, str, str | None]  # broker, log dir and folder
_PLACE = ("broker_id", "log_dir", "directory")
_KIND = ["broker_id", "log_dir", "kind"]
_BYTES = ["log_bytes", "allocated_bytes"]


def stock_sums(segments: pa.Table, orphans: Collection[Place]) -> pa.Table:
    """broker_id, log_dir, kind, log_bytes and allocated_bytes of `broker_facts.SEGMENTS`, without
    the folders of `orphans`. Sums of parts may be summed again.
    """
    names = pa.array(sorted({directory for _, _, directory in orphans if directory}), pa.string())
    # Few folders bear an orphan's name: only those are compared by their whole path.
    named = pc.is_in(column(segments, "directory"), names)
    at = np.flatnonzero(named.to_numpy(zero_copy_only=False))
    paths = segments.select(list(_PLACE)).take(pa.array(at)).to_pylist()
    dropped = [row for row, path in zip(at.tolist(), paths, strict=True)
               if tuple(path.values()) in orphans]  # fmt: skip
    kept = np.ones(segments.num_rows, dtype=bool)
    kept[dropped] = False
    return stock_summed(segments.filter(pa.array(kept)))


def stock_summed(rows: pa.Table) -> pa.Table:
    """One row per log dir and kind of folder."""
    found = rows.group_by(_KIND).aggregate([(name, "sum") for name in _BYTES])
    return found.rename_columns([*_KIND, *_BYTES])


def _folders(orphans: Sequence[Row]) -> list[Row]:
    """Those of `orphans.judged` whose bytes are orphans': folders that are there, but for
    `-stray` ones, which are told by their kind.
    """
    return [r for r in orphans if r["seen_now"] and _is_folder(r) and r["folder"] != "stray"]


def places(orphans: Sequence[Row]) -> frozenset[Place]:
    """Their broker, log dir and folder."""
    return frozenset((r["broker_id"], r["log_dir"], r["directory"]) for r in _folders(orphans))


def stock(found_sums: pa.Table, orphans: Sequence[Row]) -> Stock:
    """Broker and log dir -> bytes; a name that is missing is 0.

    `found_sums` are `sums` without the `places` of `orphans`, the rows of `orphans.judged`.
    stray_bytes: `-stray` folders, whatever is said of them; orphan_bytes: other orphans;
    delete_bytes: `-delete` folders that are on their way out; index_bytes: what live folders and
    future copies hold beside their logs; each by what the disk gave for it. listed_bytes (of
    future copies: listed_future_bytes too): what DescribeLogDirs counts of orphans.
    """
    found: Stock = {}
    for row in _folders(orphans):
        at = found.setdefault((row["broker_id"], row["log_dir"]), {})
        on_disk = row["allocated_bytes"]
        _add(at, "orphan_bytes", row["size_bytes"] if on_disk is None else on_disk)
        _add(at, "listed_bytes", row["told_bytes"] or 0)
        if row["folder"] == "future":
            _add(at, "listed_future_bytes", row["told_bytes"] or 0)
    for row in found_sums.to_pylist():
        at = found.setdefault((row["broker_id"], row["log_dir"]), {})
        allocated = row["allocated_bytes"] or 0
        if row["kind"] in ("stray", "delete"):
            _add(at, f"{row['kind']}_bytes", allocated)
        else:
            _add(at, "index_bytes", max(allocated - (row["log_bytes"] or 0), 0))
    return found


def _is_folder(row: Row) -> bool:
    return bool(row["kind"] != CHECKPOINT_ENTRY)


def _add(at: dict[str, int], name: str, size: int) -> None:
    at[name] = at.get(name, 0) + size


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
    """The `disks` table: one row per log dir. `found` are `sums`, `stock` is `disks.stock`,
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
    return pa.Table.from_pylist(rows, schema=FINDING_TABLES["disks"].unstamped.schema)


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
