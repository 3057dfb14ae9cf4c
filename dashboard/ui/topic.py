"""One topic's bytes: what can be done about them, and how they went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import pyarrow.compute as pc
import streamlit as st

from dashboard.core.errors import StoreError
from dashboard.store.snapshots import ClusterStore
from dashboard.ui.components import style
from dashboard.ui.components.markup import plain
from dashboard.ui.growth.choice import KEEPS, deletable, known_of
from dashboard.ui.growth.scenario import Scenario, effect_of
from dashboard.ui.growth.what_if import outcomes
from dashboard.ui.session import routes
from dashboard.ui.session.context import Screen, findings_of
from dashboard.views import formats
from dashboard.views.colours import LIVE
from dashboard.views.topic_rows import TopicRow

# What can be done about a topic's bytes: purge, wait, waive, or shorten its retention.


def show_answers(screen: Screen, row: TopicRow, blockers: Sequence[Mapping[str, Any]]) -> None:
    """Each answer with its bytes; nothing here changes the cluster."""
    st.html('<div class="lw"><h2>What can be done</h2></div>')
    if row.free_partitions and row.free_bytes:
        label = f"Plan a purge: {formats.size(row.free_bytes)} below its targets"
        if st.button(label, type="primary", key="topic-purge"):
            routes.plan_purge([row.topic])
    st.caption(plain(waiting(row)))
    waive(row, blockers)
    shorten(screen, row.topic)


def waiting(row: TopicRow) -> str:
    """What comes by itself."""
    later, held = row.later_bytes, row.held_bytes
    said = f"Wait: {formats.size(later)} of what is consumed leave once active segments roll."
    if row.held_by:
        said += f" {formats.size(held)} are held back until {row.held_by} has read on."
    if row.guarded_bytes != 0:
        guards = ", ".join(row.guards)
        said += f" {formats.size(row.guarded_bytes)} are held by guards: {guards}."
    return said


def waive(row: TopicRow, blockers: Sequence[Mapping[str, Any]]) -> None:
    """The groups whose waiver would free something, each with a plan."""
    freeing = [b for b in blockers if b["bytes_freed_if_waived"]]
    if not freeing:
        st.caption("Waive: no group alone keeps anything here that would leave at once.")
    for blocker in freeing:
        group, size = blocker["group_id"], formats.size(blocker["bytes_freed_if_waived"])
        label = f"Waive {plain(group)}: {size} at once"
        if st.button(label, key=f"waive {group}", help="It loses what it has not read there."):
            routes.plan_purge([row.topic], [group])


def shorten(screen: Screen, topic: str) -> None:
    """What would leave if records were kept for less, as the page Growth counts it."""
    if not deletable(screen, [topic]):
        st.caption("Shorten retention: it is compacted, so retention deletes nothing.")
        return
    keep = st.selectbox("Keep records for", list(KEEPS), index=None, key=f"topic-keep-{topic}",
                        placeholder="today's retention")  # fmt: skip
    if keep is None:
        st.caption("Shorten retention: choose for how long, and see what would leave.")
        return
    known = known_of(screen)
    asked = Scenario(keep=KEEPS[keep], kept=frozenset({topic}))
    gone = [o.gone for o in outcomes(known.disks, known.parts, effect_of(known, asked))]
    least, likely, most = (
        formats.size(_sum([getattr(g, side) for g in gone]))
        for side in ("soonest", "likely", "latest")
    )
    st.caption(
        f"Shorten retention to {keep}: {likely} leave ({least} to {most}), whether read or not. "
        "Growth has the retention that fits its readers."
    )


def _sum(sizes: Sequence[float | None]) -> float | None:
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


# A topic's bytes in kept snapshots, as a line: a snapshot that lacks a broker tells no sum.

MOST = 12  # snapshots that are read: each costs the replicas' table of its time

Point = tuple[datetime, int]


def show_line(screen: Screen, topic: str) -> None:
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
