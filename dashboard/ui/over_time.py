"""Bytes of a topic, of a disk, or that a group holds back, over time: a line, whose points are kept
snapshots or analyses; what is not known has no point. On a demo's pages a second, dashed line shows
the week that the demo made up before itself; nothing but these charts reads that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pyarrow.compute as pc
import streamlit as st

from dashboard.core import demo_faults
from dashboard.core.errors import StoreError
from dashboard.store.buckets import files_of
from dashboard.store.snapshot_files import Kind, time_of
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.ui.components import markup, style
from dashboard.ui.session.context import Screen
from dashboard.views import formats
from dashboard.views.colours import HELD, LIVE, Meaning
from dashboard.views.facts import known_total

MOST = 12  # snapshots that are read: each costs the replicas' tables of its time
_KEPT = 5_000  # snapshots are never changed: what one said of a topic is read once
_SPANS = {"1 h": 1, "24 h": 24, "7 d": 168, "30 d": 720, "all": None}

_RECORDED = (
    "Dashed, recorded: the week before this demo, made by the clock of its workload. Charts alone "
    "read it: no guard, forecast or plan counts it."
)

Point = tuple[datetime, int]


def topic_line(screen: Screen, topic: str) -> None:
    """A topic's bytes over all replicas."""
    since = _since(screen, "Its bytes over", "topic-span")
    lines = [sizes(screen, topic, since, cluster) for cluster in _clusters(screen)]
    _draw(lines, f"bytes-{topic}", "Bytes on disk over all replicas")


def disk_line(screen: Screen, broker_id: int, log_dir: str) -> None:
    """The used bytes of the disk that a log dir is on, Kafka's or not."""
    since = _since(screen, "Used bytes of that disk over", "disk-span")
    lines = [
        _points(cluster, "snapshots", since, partial(_used, broker_id=broker_id, log_dir=log_dir))
        for cluster in _clusters(screen)
    ]
    _draw(lines, f"used-{broker_id}-{log_dir}", f"Used bytes of {log_dir} on broker {broker_id}")


def group_line(screen: Screen, group: str) -> None:
    """What a group held back in kept analyses, as its page says it of the newest."""
    since = _since(screen, "What it holds back, over", "group-span")
    lines = [
        _points(cluster, "findings", since, partial(_held, group=group))
        for cluster in _clusters(screen)
    ]
    _draw(lines, f"held-{group}", f"Bytes that {group} holds back", HELD)


def _clusters(screen: Screen) -> list[ClusterStore]:
    """The store of what is shown; behind it, on a demo's pages, that of the week before."""
    room = demo_faults.room()
    if room is None:
        return [screen.cluster]
    before = Store(str(room / demo_faults.RECORDED))
    return [screen.cluster, ClusterStore(before, screen.cluster.cluster_id)]


def _points(
    cluster: ClusterStore, kind: Kind, since: datetime | None, point: Callable[..., Point | None]
) -> list[Point]:
    found = []
    for item_id in spread(cluster.ids(kind), since):
        with suppress(StoreError):  # pruned meanwhile
            one = point(cluster, cluster.path, item_id)
            found += [one] if one else []
    return found


def _since(screen: Screen, label: str, key: str) -> datetime | None:
    chosen = st.segmented_control(label, list(_SPANS), default="all", key=key, required=True)
    hours = _SPANS[chosen or "all"]
    return None if hours is None else screen.now - timedelta(hours=hours)


def _draw(lines: Sequence[Sequence[Point]], key: str, alt: str, meaning: Meaning = LIVE) -> None:
    if sum(map(len, lines)) < 2:
        st.caption("It was measured less than twice in that time: there is no line.")
        return
    drawn = option(*lines, dark=style.dark(), meaning=meaning)
    st.echarts_chart(drawn, height=180, key=key, alt=f"{alt}, over time")
    if any(lines[1:]):
        st.caption(_RECORDED)


def sizes(
    screen: Screen,
    topic: str,
    since: datetime | None = None,
    cluster: ClusterStore | None = None,
) -> list[Point]:
    """Bytes over all replicas in some kept snapshots, oldest first, of the topic as it is now: an
    earlier one of its name is another one.
    """
    table, cluster = screen.snapshot.table("partitions"), cluster or screen.cluster
    topics = screen.snapshot.table("topics")
    (now,) = topics.filter(pc.equal(topics["topic"], topic)).to_pylist() or [None]
    if now is None:
        return []
    count = pc.sum(pc.equal(table["topic_no"], now["topic_no"])).as_py() or 0
    of_topic = partial(_size, topic=topic, topic_id=now["topic_id"], partitions=count)
    return _points(cluster, "snapshots", since, of_topic)


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


@st.cache_data(max_entries=_KEPT, show_spinner=False)
def _used(
    _cluster: ClusterStore, path: str, snapshot_id: str, broker_id: int, log_dir: str
) -> Point | None:
    del path
    mine = (pc.field("broker_id") == broker_id) & (pc.field("log_dir") == log_dir)
    columns = ["broker_id", "log_dir", "total_bytes", "usable_bytes"]
    rows = _cluster.read("snapshots", snapshot_id, "log_dirs", columns, only=mine).to_pylist()
    if not rows or None in rows[0].values():
        return None
    taken_at = _cluster.manifest("snapshots", snapshot_id).taken_at
    return taken_at, rows[0]["total_bytes"] - rows[0]["usable_bytes"]


@st.cache_data(max_entries=_KEPT, show_spinner=False)
def _held(_cluster: ClusterStore, path: str, analysis_id: str, group: str) -> Point | None:
    del path
    rows = _cluster.read(
        "findings", analysis_id, "blockers", ["group_id", "bytes_held_alone"],
        only=pc.field("group_id") == group,
    )  # fmt: skip
    size = known_total(rows, "bytes_held_alone")
    if not rows.num_rows or size is None:
        return None
    return _cluster.manifest("findings", analysis_id).taken_at, size


def option(*lines: Sequence[Point], dark: bool, meaning: Meaning = LIVE) -> dict[str, Any]:
    """The ECharts option of the line; those behind the first are dashed."""
    unit, one = formats.common_unit(size for points in lines for _, size in points)
    ink = "#b3bfce" if dark else "#475569"
    colour = meaning.on_dark if dark else meaning.fill
    return {
        "animation": False,
        "tooltip": {"show": True},
        "grid": {"left": 60, "right": 16, "top": 12, "bottom": 26},
        "xAxis": {"type": "time", "axisLabel": {"color": ink, "hideOverlap": True}},
        "yAxis": {"type": "value", "min": 0, "name": unit, "nameLocation": "middle",
                  "nameGap": 44, "nameTextStyle": {"color": ink}, "axisLabel": {"color": ink}},
        "series": [{
            "type": "line", "itemStyle": {"color": colour},
            "lineStyle": {"color": colour, "type": "dashed" if before else "solid"},
            "data": [
                {"value": [round(at.timestamp() * 1000), round(size / one, 3)],
                 "tooltip": {"formatter": f"{formats.size(size)}, {markup.exact(at)}"
                             + ", recorded" * bool(before)}}
                for at, size in points
            ],
        } for before, points in enumerate(lines) if points],
    }  # fmt: skip
