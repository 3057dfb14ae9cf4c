"""One topic's bytes: what can be done about them, and how they went."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import pyarrow.compute as pc
import streamlit as st

from dashboard.core.errors import StoreError
from dashboard.store.buckets import files_of
from dashboard.store.snapshot_files import time_of
from dashboard.store.snapshots import ClusterStore
from dashboard.topics.retention_fit import SHORTER, span
from dashboard.ui.components import markup, style
from dashboard.ui.components.markup import plain, text
from dashboard.ui.growth.advice import FIT_TABLE
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
    _say(waiting(row))
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
        _say("Waive: no group alone keeps anything here that would leave at once.")
    if freeing:
        _say("Waive: a group that shall not count loses what it has not read here; with a reason.")
    for blocker in freeing:
        group, size = blocker["group_id"], formats.size(blocker["bytes_freed_if_waived"])
        label = f"Waive {plain(group)}: {size} at once"
        if st.button(label, key=f"waive {group}"):
            routes.plan_purge([row.topic], [group])


def shorten(screen: Screen, topic: str) -> None:
    """What would leave if records were kept for less: by the retention that fits its declared
    readers, and by any other one, as the page Growth counts it.
    """
    if not deletable(screen, [topic]):
        _say("Shorten retention: it is compacted, so retention deletes nothing.")
        return
    if fits := fitting(screen, topic):
        _say(fits)
        routes.link("growth", "The change as text, on Growth")
    keep = st.selectbox("Keep records for", list(KEEPS), index=None, key=f"topic-keep-{topic}",
                        placeholder="today's retention")  # fmt: skip
    if keep is None:
        if not fits:
            _say("Shorten retention: choose for how long, and see what would leave.")
        return
    known = known_of(screen)
    asked = Scenario(keep=KEEPS[keep], kept=frozenset({topic}))
    gone = [o.gone for o in outcomes(known.disks, known.parts, effect_of(known, asked))]
    least, likely, most = (
        formats.size(_sum([getattr(g, side) for g in gone]))
        for side in ("soonest", "likely", "latest")
    )
    _say(f"Shorten retention to {keep}: {likely} leave ({least} to {most}), whether read or not.")


def fitting(screen: Screen, topic: str) -> str:
    """The retention that fits its declared readers, where it is shorter; else nothing."""
    found = findings_of(screen)
    if FIT_TABLE not in found.manifest.tables:
        return ""
    table = found.table(FIT_TABLE)
    rows = table.filter(pc.equal(table["topic"], topic)).to_pylist()
    if not rows or rows[0]["verdict"] != SHORTER:
        return ""
    low, likely, high = (
        formats.size(rows[0][f"freed_{side}_bytes"]) for side in ("low", "likely", "high")
    )
    return (
        f"Shorten retention: {span(rows[0]['fits_ms'])} fit its declared readers, it is "
        f"{span(rows[0]['retention_ms'])}; {likely} would leave ({low} to {high})."
    )


def _say(said: str) -> None:
    answer, _, rest = said.partition(": ")
    st.html(f'<div class="lw"><p><b>{text(answer)}: </b>{text(rest)}</p></div>')


def _sum(sizes: Sequence[float | None]) -> float | None:
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


# A topic's bytes in kept snapshots, as a line: a snapshot that lacks a broker tells no sum.

MOST = 12  # snapshots that are read: each costs the replicas' tables of its time
_KEPT = 5_000  # snapshots are never changed: what one said of a topic is read once
_SPANS = {"1 h": 1, "24 h": 24, "7 d": 168, "30 d": 720, "all": None}

Point = tuple[datetime, int]


def show_line(screen: Screen, topic: str) -> None:
    """The line over a chosen time; a caption while there are fewer than two points."""
    chosen = st.segmented_control(
        "Its bytes over", list(_SPANS), default="all", key="topic-span", required=True
    )
    hours = _SPANS[chosen or "all"]
    since = None if hours is None else screen.now - timedelta(hours=hours)
    points = sizes(screen, topic, since)
    if len(points) < 2:
        st.caption("Its bytes were measured less than twice in that time: there is no line.")
        return
    st.echarts_chart(
        option(points, dark=style.dark()),
        height=180,
        key=f"bytes-{topic}",
        alt="Bytes on disk over all replicas in kept snapshots",
    )


def sizes(screen: Screen, topic: str, since: datetime | None = None) -> list[Point]:
    """Bytes over all replicas in some kept snapshots, oldest first, of the topic as it is now: an
    earlier one of its name is another one.
    """
    table, cluster = screen.snapshot.table("partitions"), screen.cluster
    topics = screen.snapshot.table("topics")
    (now,) = topics.filter(pc.equal(topics["topic"], topic)).to_pylist() or [None]
    if now is None:
        return []
    count = pc.sum(pc.equal(table["topic_no"], now["topic_no"])).as_py() or 0
    found = []
    for snapshot_id in spread(cluster.ids("snapshots"), since):
        with suppress(StoreError):  # pruned meanwhile
            point = _size(cluster, cluster.path, snapshot_id, topic, now["topic_id"], count)
            found += [point] if point else []
    return found


def spread(ids: Sequence[str], since: datetime | None = None) -> list[str]:
    """At most MOST + 1 of the ids over the whole time: the newest of each slice of it. Slices lie
    where they lay an hour ago, so that one more snapshot has one more read and not a dozen.
    """
    times = {i: at for i in ids if (at := time_of(i)) and (since is None or at >= since)}
    if not times:
        return []
    seconds = (max(times.values()) - min(times.values())).total_seconds()
    width = 2.0 ** math.ceil(math.log2(max(seconds / MOST, 1.0)))
    newest = {at.timestamp() // width: i for i, at in sorted(times.items(), key=lambda t: t[1])}
    return list(newest.values())


@st.cache_data(max_entries=_KEPT, show_spinner=False)
def _size(
    _cluster: ClusterStore, path: str, snapshot_id: str, topic: str, topic_id: str, partitions: int
) -> Point | None:
    del path  # part of the key: two clusters may hold the same id
    manifest = _cluster.manifest("snapshots", snapshot_id)
    if any(not b.get("reachable", True) for b in manifest.details.get("brokers", ())):
        return None
    named = _cluster.read(
        "snapshots", snapshot_id, "topics", ["topic", "topic_no", "topic_id"],
        only=pc.field("topic") == topic,
    )  # fmt: skip
    if named["topic_id"].to_pylist() != [topic_id]:
        return None
    rows = _cluster.read_files(
        "snapshots", manifest, "replicas",
        files_of(manifest.files("replicas"), topic, partitions), ["topic_no", "size_bytes"],
        only=pc.field("topic_no") == named["topic_no"][0].as_py(),
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
                 "tooltip": {"formatter": f"{formats.size(size)}, {markup.exact(at)}"}}
                for at, size in points
            ],
        }],
    }  # fmt: skip
