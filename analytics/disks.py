"""Per log dir: what its used bytes are made of, as far as the Kafka protocol shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.arrow import column, field, unfolded
from dashboard.tables import FINDING_TABLES

_LOG_DIR = ["broker_id", "log_dir"]
_Sums = Mapping[tuple[int, str], Mapping[str, Any]]
# These bytes are consumed by every known group; whether others read them is shown beside it.
_ONLY_UNDECLARED = pa.array(["readers-undeclared"])


def free(committed: pa.Table) -> pa.Array:
    """Whether every known group has consumed a partition up to its committed target.

    `committed` are the `reclaimable` rows of that target.
    """
    at, guards = unfolded(column(committed, "guards"))
    blocked = pc.unique(at.filter(pc.invert(pc.is_in(field(guards, "name"), _ONLY_UNDECLARED))))
    return pc.invert(pc.is_in(pa.array(np.arange(committed.num_rows)), blocked))


def disks(log_dirs: pa.Table, replicas: pa.Table, measured: pa.Table) -> pa.Table:
    """The `disks` table: one row per log dir. `measured` are the replicas of `free` partitions, as
    `freed.with_bytes` has them.

    reclaimable_bytes: whole segments below their committed target; held_bytes: above it;
    live_bytes: every other replica byte, needed or unknown. unexplained_bytes = total - usable -
    replicas - future copies: indexes, stray and deleted folders, other programs' files (all that
    shares the disk). Where that is negative (read at different moments) it is 0, `measured` is
    false and `error` says by how much; without DescribeLogDirs v4 it is null.
    """
    everything = _sums(replicas, "size_bytes")
    future = _sums(replicas.filter(replicas["is_future"]), "size_bytes")
    of_free = _sums(measured, "committed_at_once", "held_bytes")
    rows = [_row(log_dir, everything, future, of_free) for log_dir in log_dirs.to_pylist()]
    return pa.Table.from_pylist(rows, schema=FINDING_TABLES["disks"].schema).drop_columns(_STAMP)


_STAMP = ["snapshot_id", "taken_at"]


def _sums(rows: pa.Table, *names: str) -> _Sums:
    found = rows.group_by(_LOG_DIR).aggregate([(name, "sum") for name in names])
    return {(row["broker_id"], row["log_dir"]): row for row in found.to_pylist()}


def _row(
    log_dir: Mapping[str, Any], everything: _Sums, future: _Sums, of_free: _Sums
) -> dict[str, Any]:
    key = (log_dir["broker_id"], log_dir["log_dir"])
    row = {name: log_dir[name] for name in (*_LOG_DIR, "total_bytes", "usable_bytes", "error")}
    row["measured"] = False
    # A log dir that answered and lists no replica holds 0 bytes of them; one that did not answer
    # holds an unknown amount.
    if log_dir["error"] is not None and key not in everything:
        return row
    size, copies = (s.get(key, {}).get("size_bytes_sum") or 0 for s in (everything, future))
    reclaimable, held = (
        of_free.get(key, {}).get(f"{name}_sum") or 0 for name in ("committed_at_once", "held_bytes")
    )
    row |= {"reclaimable_bytes": reclaimable, "held_bytes": held, "future_bytes": copies,
            "live_bytes": size - copies - reclaimable - held}  # fmt: skip
    if None not in (log_dir["total_bytes"], log_dir["usable_bytes"]):
        rest = log_dir["total_bytes"] - log_dir["usable_bytes"] - size
        row |= {"unexplained_bytes": max(rest, 0), "measured": rest >= 0}
        if rest < 0 and log_dir["error"] is None:
            row["error"] = f"replicas add up to {-rest} bytes more than the disk's used bytes"
    return row
