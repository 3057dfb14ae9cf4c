"""A topic's segments as inventories of the log dirs counted them: what a purge can take whole."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow.compute as pc
import streamlit as st

from dashboard.store.buckets import files_of
from dashboard.store.snapshots import ClusterStore
from dashboard.ui.components import markup
from dashboard.ui.components.markup import text
from dashboard.ui.session.context import Screen
from dashboard.views import formats

MOST = 30  # replicas that are shown, those with most bytes in closed segments
_REPLICA = ["partition", "broker_id", "log_dir"]
_COLUMNS = ["topic", "kind", *_REPLICA, "base_offset", "log_bytes", "newest_at"]
_HEADS = ("Partition", "Broker · log dir", "Segments", "Closed", "Active", "Oldest written until")


def of_topic_html(screen: Screen, topic: str, partitions: int) -> str:
    """A row per replica. Segments are deleted whole, and the active one never: records of it leave
    the disk once it has rolled.
    """
    snapshot = screen.snapshot.manifest
    if "segments" not in snapshot.tables:
        return ""
    rows = _replicas(screen.cluster, screen.cluster.path, snapshot.id, topic, partitions)
    if not rows:
        return (
            '<div class="lw"><h2>Segments</h2><p>Not counted: no inventory of a log dir that holds '
            "this topic is as new as the newest snapshot. Make one on each broker's host "
            "(<code>lowwater inventory scan</code>) and collect with them.</p></div>"
        )
    rows = sorted(rows, key=lambda row: (-row["closed"], row["partition"], row["broker_id"]))
    cells = [_cells(row, screen.now) for row in rows[:MOST]]
    more = f"<p><small>and {formats.plural(len(rows) - MOST, 'replica')} more</small></p>"
    closed, active = (sum(row[part] for row in rows) for part in ("closed", "active"))
    return (
        f'<div class="lw"><h2>Segments <small>{markup.size(closed)} in closed ones, which go '
        f"whole once a target is past them; {markup.size(active)} in active ones, which go once "
        "they have rolled</small></h2>"
        f"{markup.table(_HEADS, cells, (0, 2, 3, 4))}{more if len(rows) > MOST else ''}</div>"
    )


def _cells(row: dict[str, Any], now: datetime) -> tuple[str, ...]:
    place = f"{row['broker_id']} · {text(row['log_dir'])}"
    sizes = (markup.size(row["closed"]), markup.size(row["active"]))
    count = formats.number(row["segments"])
    return f"{row['partition']}", place, count, *sizes, markup.ago(row["oldest_at"], now)


@st.cache_data(max_entries=200, show_spinner=False)
def _replicas(
    _cluster: ClusterStore, path: str, snapshot_id: str, topic: str, partitions: int
) -> list[dict[str, Any]]:
    """Per replica that an inventory saw: how many segments, the bytes of the closed ones and of the
    active one, and when the oldest was written last.
    """
    del path  # part of the key: two clusters may hold the same id
    manifest = _cluster.manifest("snapshots", snapshot_id)
    rows = _cluster.read_files(
        "snapshots", manifest, "segments",
        files_of(manifest.files("segments"), topic, partitions), _COLUMNS,
        only=(pc.field("topic") == topic) & (pc.field("kind") == "live"),
    )  # fmt: skip
    rows = rows.filter(rows["base_offset"].is_valid())
    by = rows.sort_by([(name, "ascending") for name in (*_REPLICA, "base_offset")]).group_by(
        _REPLICA, use_threads=False
    )
    found = by.aggregate(
        [("base_offset", "count"), ("log_bytes", "sum"), ("log_bytes", "last"),
         ("newest_at", "first")]
    )  # fmt: skip
    return [
        {
            **{name: row[name] for name in _REPLICA},
            "segments": row["base_offset_count"],
            "closed": row["log_bytes_sum"] - row["log_bytes_last"],
            "active": row["log_bytes_last"],
            "oldest_at": row["newest_at_first"],
        }
        for row in found.to_pylist()
    ]
