"""What inventories and orphans put on each log dir beside the replicas that the cluster needs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.arrow import column
from dashboard.safety.orphan_words import CHECKPOINT_ENTRY

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
