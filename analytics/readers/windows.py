"""Where the replay window of each partition begins, as far as kept snapshots show it."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.arrow import column
from dashboard.history.log_ends import LOG_ENDS, log_ends
from dashboard.safety import epochs
from dashboard.safety.epochs import EPOCH_ENDS
from dashboard.store.snapshot_clocks import clock_was_right
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore

_PLACE = ("topic_no", "partition", "leader_epoch")


def window_starts(cluster: ClusterStore, snapshot: Manifest, topics: pa.Table) -> pa.Table:
    """topic_no, partition, window_offset for every topic with a replay window.

    Offsets only grow, so the log end of a snapshot that is at least the window old bounds the
    first offset inside the window; no snapshot that old, no row. Where the log lost its end since,
    what follows that end was written later, inside the window or not.
    """
    found = [LOG_ENDS.empty_table()]
    for window_ms in pc.unique(topics["replay_window_ms"]).to_pylist():
        if window_ms and clock_was_right(snapshot):
            windowed = topics.filter(pc.equal(topics["replay_window_ms"], window_ms))
            since = snapshot.taken_at - timedelta(milliseconds=window_ms)
            found.append(log_ends(cluster, since, windowed))
    ends = pa.concat_tables(found)
    known = cluster.read("snapshots", snapshot.id, "epoch_ends", EPOCH_ENDS.names)
    topic_no, partition, epoch = (column(ends, name) for name in _PLACE)
    end = column(ends, "high_watermark")
    left = pc.min_element_wise(end, epochs.ends(topic_no, partition, epoch, known))
    window = pc.if_else(end.is_valid(), left, None)
    return ends.select(["topic_no", "partition"]).append_column("window_offset", window)
