"""A topic's bytes in kept snapshots, as a line: a snapshot that lacks a broker tells no sum."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import pyarrow.compute as pc
import streamlit as st

from dashboard.core.errors import StoreError
from dashboard.store.snapshots import ClusterStore
from dashboard.ui.components import style
from dashboard.ui.session.context import Screen
from dashboard.ui.session.loading import findings_of
from dashboard.views import formats
from dashboard.views.colours import LIVE

MOST = 12  # snapshots that are read: each costs the replicas' table of its time

Point = tuple[datetime, int]


def show(screen: Screen, topic: str) -> None:
    """The line; a caption while there are fewer than two points."""
    found = findings_of(screen)
    points = found.derived(f"bytes of {topic}", lambda: sizes(screen.cluster, topic))
    if len(points) < 2:
        st.caption("Its bytes were measured less than twice: no line can be drawn yet.")
        return
    st.echarts_chart(
        option(points, dark=style.dark()),
        height=180,
        key=f"bytes-{topic}",
        alt="Bytes on disk over all replicas in kept snapshots",
    )


def sizes(cluster: ClusterStore, topic: str) -> tuple[Point, ...]:
    """Bytes over all replicas in some kept snapshots from the oldest to the newest."""
    ids = sorted(cluster.ids("snapshots"))
    step = max(1, -(-len(ids) // MOST))
    chosen = sorted({*ids[::-1][::step]})
    found = []
    for snapshot_id in chosen:
        with suppress(StoreError):  # pruned meanwhile
            if (point := _size(cluster, snapshot_id, topic)) is not None:
                found.append(point)
    return tuple(found)


def _size(cluster: ClusterStore, snapshot_id: str, topic: str) -> Point | None:
    manifest = cluster.manifest("snapshots", snapshot_id)
    if any(not b.get("reachable", True) for b in manifest.details.get("brokers", ())):
        return None
    names = cluster.read(
        "snapshots", snapshot_id, "topics", ["topic", "topic_no"], only=pc.field("topic") == topic
    )
    if not names.num_rows:
        return None
    number = names["topic_no"][0].as_py()
    rows = cluster.read(
        "snapshots", snapshot_id, "replicas", ["topic_no", "size_bytes"],
        only=pc.field("topic_no") == number,
    )  # fmt: skip
    size = pc.sum(rows["size_bytes"]).as_py()
    return None if size is None or rows["size_bytes"].null_count else (manifest.taken_at, size)


def option(points: Sequence[Point], *, dark: bool) -> dict[str, Any]:
    """The ECharts option of the line."""
    unit, one = formats.common_unit(size for _, size in points)
    ink = "#b3bfce" if dark else "#475569"
    colour = LIVE.on_dark if dark else LIVE.fill
    return {
        "animation": False,
        "tooltip": {"show": True},
        "grid": {"left": 60, "right": 16, "top": 12, "bottom": 26},
        "xAxis": {"type": "time", "axisLabel": {"color": ink, "hideOverlap": True}},
        "yAxis": {"type": "value", "min": 0, "name": unit, "nameLocation": "middle",
                  "nameGap": 44, "nameTextStyle": {"color": ink}, "axisLabel": {"color": ink}},
        "series": [{
            "type": "line", "lineStyle": {"color": colour}, "itemStyle": {"color": colour},
            "data": [
                {"value": [round(at.timestamp() * 1000), round(size / one, 3)],
                 "tooltip": {"formatter": f"{formats.size(size)}, {formats.utc(at)}"}}
                for at, size in points
            ],
        }],
    }  # fmt: skip
