"""Where the replay window of each partition begins, as far as kept snapshots show it."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc

from analytics.arrow import column, looked_up
from analytics.tables import newest_at_least
from dashboard.snapshot_files import Manifest
from dashboard.snapshots import ClusterStore

_SCHEMA = pa.schema(
    [("topic_no", pa.int32()), ("partition", pa.int32()), ("window_offset", pa.int64())]
)


def window_starts(cluster: ClusterStore, snapshot: Manifest, topics: pa.Table) -> pa.Table:
    """topic_no, partition, window_offset for every topic with a replay window.

    Offsets only grow, so the log end of a snapshot that is at least the window old bounds the
    first offset inside the window; no snapshot that old, no row.
    """
    found = [_SCHEMA.empty_table()]
    for window_ms in pc.unique(topics["replay_window_ms"]).to_pylist():
        old = window_ms and newest_at_least(cluster, snapshot, timedelta(milliseconds=window_ms))
        if old:
            windowed = topics.filter(pc.equal(topics["replay_window_ms"], window_ms))
            found.append(_log_ends(cluster, old[0], windowed))
    return pa.concat_tables(found)


def _log_ends(cluster: ClusterStore, old_id: str, topics: pa.Table) -> pa.Table:
    """Log ends of an old snapshot under today's topic numbers; a recreated topic has none."""
    today = {
        (row["topic"], row["topic_id"]): row["topic_no"]
        for row in topics.to_pylist()
        if row["topic_id"] is not None
    }
    before = cluster.read("snapshots", old_id, "topics")
    number = [today.get((row["topic"], row["topic_id"])) for row in before.to_pylist()]
    ends = cluster.read("snapshots", old_id, "partitions")
    numbers = looked_up(
        column(ends, "topic_no"), column(before, "topic_no"), pa.array(number, pa.int32())
    )
    renumbered = pa.table([numbers, ends["partition"], ends["high_watermark"]], schema=_SCHEMA)
    return renumbered.filter(numbers.is_valid())
