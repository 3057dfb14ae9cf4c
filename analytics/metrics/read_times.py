"""When the log ends of a snapshot were read: those of two moments differ by what was written since.

A task sees a part of the replicas, so the first and the last moment are told beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from analytics.replicas.panes import SECOND
from dashboard.core.clock import microseconds
from dashboard.store.snapshots import ClusterStore

_TIMES = pa.schema([("snapshot_id", pa.string()), ("first", pa.int64()), ("last", pa.int64())])
_READ = ["topic_no", "is_future", "log_end_offset", "observed_at"]


def read_times(cluster: ClusterStore, ids: Sequence[str]) -> pa.Table:
    """snapshot_id, first and last (microseconds, null: no log end was read) of these snapshots, by
    the replicas that `points.told` tells of.
    """
    rows = []
    for snapshot_id in ids:
        found = cluster.read("snapshots", snapshot_id, "replicas", _READ)
        topics = cluster.read("snapshots", snapshot_id, "topics", ["topic_no"])["topic_no"]
        here = pc.and_(
            pc.invert(pc.fill_null(found["is_future"], False)),
            pc.is_in(found["topic_no"], value_set=topics),
        )
        taken_at = microseconds(cluster.manifest("snapshots", snapshot_id).taken_at)
        first, last = between(found.filter(here), taken_at)
        rows.append({"snapshot_id": snapshot_id, "first": first, "last": last})
    return pa.Table.from_pylist(rows, schema=_TIMES)


def between(replicas: pa.Table, taken_at: int) -> tuple[int | None, int | None]:
    """When the first and the last log end of `replicas` (log_end_offset, observed_at) were read;
    `taken_at` (microseconds) is that of their snapshot.
    """
    told = replicas.filter(replicas["log_end_offset"].is_valid())
    ends = pc.min_max(pc.fill_null(told["observed_at"].cast(pa.int64()), taken_at)).as_py()
    return ends["min"], ends["max"]


def summed(times: pa.Table) -> pa.Table:
    """`read_times` of parts: one row per snapshot."""
    found = times.group_by("snapshot_id").aggregate([("first", "min"), ("last", "max")])
    return found.rename_columns(_TIMES.names)


def seconds(times: pa.Table) -> dict[str, float]:
    """By snapshot the seconds between its first and its last log end."""
    return {
        row["snapshot_id"]: ((row["last"] or 0) - (row["first"] or 0)) / SECOND
        for row in times.to_pylist()
    }
