"""Where the replay window of each partition begins, as far as kept snapshots show it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc

from analytics.arrow import column, looked_up
from analytics.tables import older_than
from dashboard.errors import StoreError
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
        if window_ms:
            windowed = topics.filter(pc.equal(topics["replay_window_ms"], window_ms))
            age = timedelta(milliseconds=window_ms)
            found.append(_first_readable(cluster, older_than(cluster, snapshot, age), windowed))
    return pa.concat_tables(found)


def _first_readable(cluster: ClusterStore, ids: Iterator[str], topics: pa.Table) -> pa.Table:
    """The log ends of the first snapshot that can be read: each one after it is older still."""
    for old_id in ids:
        with suppress(StoreError):  # damaged, or pruned meanwhile
            return _log_ends(cluster, old_id, topics)
    return _SCHEMA.empty_table()


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
