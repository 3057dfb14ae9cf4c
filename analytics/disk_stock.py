"""What inventories and orphans put on each log dir beside the replicas that the cluster needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.orphans.words import CHECKPOINT_ENTRY
from dashboard.safety.arrow import column

Row = dict[str, Any]
Stock = dict[tuple[int, str], dict[str, int]]
_PLACE = ("broker_id", "log_dir", "directory")


def stock(segments: pa.Table, orphans: Sequence[Row]) -> Stock:
    """Broker and log dir -> bytes; a name that is missing is 0.

    `segments` are `broker_facts.SEGMENTS`, `orphans` the rows of `orphans.judged`.
    stray_bytes: `-stray` folders, whatever is said of them; orphan_bytes: other orphans;
    delete_bytes: `-delete` folders that are on their way out; index_bytes: what live folders and
    future copies hold beside their logs; each by what the disk gave for it. listed_bytes (of
    future copies: listed_future_bytes too): what DescribeLogDirs counts of orphans.
    """
    found: Stock = {}
    others = [r for r in orphans if r["seen_now"] and _is_folder(r) and r["folder"] != "stray"]
    for row in others:
        at = found.setdefault((row["broker_id"], row["log_dir"]), {})
        on_disk = row["allocated_bytes"]
        _add(at, "orphan_bytes", row["size_bytes"] if on_disk is None else on_disk)
        _add(at, "listed_bytes", row["told_bytes"] or 0)
        if row["folder"] == "future":
            _add(at, "listed_future_bytes", row["told_bytes"] or 0)
    for row in _by_kind(segments, {tuple(row[name] for name in _PLACE) for row in others}):
        at = found.setdefault((row["broker_id"], row["log_dir"]), {})
        allocated = row["allocated_bytes_sum"] or 0
        if row["kind"] in ("stray", "delete"):
            _add(at, f"{row['kind']}_bytes", allocated)
        else:
            _add(at, "index_bytes", max(allocated - (row["log_bytes_sum"] or 0), 0))
    return found


def _is_folder(row: Row) -> bool:
    return bool(row["kind"] != CHECKPOINT_ENTRY)


def _add(at: dict[str, int], name: str, size: int) -> None:
    at[name] = at.get(name, 0) + size


def _by_kind(segments: pa.Table, orphans: set[tuple[Any, ...]]) -> list[Row]:
    """Sums per broker, log dir and folder kind, without the folders in `orphans`."""
    names = pa.array(sorted({place[2] for place in orphans if place[2]}), pa.string())
    # Few folders bear an orphan's name: only those are compared by their whole path.
    named = pc.is_in(column(segments, "directory"), names)
    at = np.flatnonzero(named.to_numpy(zero_copy_only=False))
    paths = segments.select(list(_PLACE)).take(pa.array(at)).to_pylist()
    dropped = [row for row, path in zip(at.tolist(), paths, strict=True)
               if tuple(path.values()) in orphans]  # fmt: skip
    kept = np.ones(segments.num_rows, dtype=bool)
    kept[dropped] = False
    sums = segments.filter(pa.array(kept)).group_by(["broker_id", "log_dir", "kind"])
    return list(sums.aggregate([("log_bytes", "sum"), ("allocated_bytes", "sum")]).to_pylist())
