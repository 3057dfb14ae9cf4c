"""What a policy would have done last week, on the page: a sentence, two lines, what is unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import streamlit as st

from dashboard.policies.simulate import simulate
from dashboard.policies.simulate.simulate import Declared, Simulation
from dashboard.purge.evidence.memory import declarations
from dashboard.settings.policies.policy import Policy
from dashboard.store.snapshots import ClusterStore
from dashboard.ui.components import markup, style
from dashboard.ui.components.markup import text
from dashboard.ui.session.context import Screen
from dashboard.views import colours, formats

_KEPT_FOR = timedelta(minutes=5)
_WITH, _WITHOUT = "with the policy", "as it was"


def simulation(screen: Screen, policy: Policy) -> Simulation:
    """The simulation up to the snapshot that this page shows, kept for all who look at it.

    A large cluster's takes seconds: it is made anew once in five minutes at most.
    """
    seconds = int(screen.manifest.taken_at.timestamp())
    part = str(seconds // int(_KEPT_FOR.total_seconds()))
    windows = repr((screen.settings.topics, screen.cluster.declarations()))
    key = (screen.cluster.path, policy.definition_sha256, part, windows)
    declared = partial(declarations, screen.settings, screen.cluster)
    return _simulated(screen.cluster, policy, screen.manifest.taken_at, declared, key)


@st.cache_resource(max_entries=8, show_spinner="Reading the kept snapshots of a week …")
def _simulated(
    _cluster: ClusterStore,
    _policy: Policy,
    _now: datetime,
    _declared: Declared,
    key: tuple[str, ...],
) -> Simulation:
    del key  # what the others are known by
    return simulate.week(_cluster, _policy, _now, _declared)


def show(found: Simulation, policy: Policy) -> None:
    """The sentence, both backlogs as lines, and how it is known."""
    st.html(sentence_html(found))
    if not found.points:
        return
    if len(found.points) > 1:
        st.echarts_chart(
            option(found.points, dark=style.dark()),
            height=260,
            key="policy-past",
            alt=f"Bytes below the target of policy {policy.name}, with it and as it was",
        )
    with st.expander("How this is known, and what is not"):
        st.html(notes_html(found))


def sentence_html(found: Simulation) -> str:
    """What it would have purged, and what that had done to the backlog."""
    head = "<h2>What it would have done <small>from kept snapshots; nothing was asked</small></h2>"
    if not found.points:
        return f'<div class="lw">{head}<p>{text(" ".join(found.notes))}</p></div>'
    said = (
        f"{markup.strong(markup.size(found.bytes), colours.RECLAIMABLE)} purged in "
        f"{'at least ' if found.purges else ''}{formats.plural(found.purges, 'run')}, of "
        f"{formats.plural(found.partitions, 'partition')}, between "
        f"{markup.hover(*_times(found.from_))} and {markup.hover(*_times(found.to))}. The largest "
        f"backlog would have been at most <b>{markup.size(found.largest_backlog_bytes)}</b> "
        f"instead of <b>{markup.size(found.largest_backlog_without_bytes)}</b>."
    )
    return f'<div class="lw">{head}<p>{said}</p></div>'


def _times(moment: datetime) -> tuple[str, str]:
    return f"{moment:%a %d %b %H:%M}", formats.utc(moment)


def notes_html(found: Simulation) -> str:
    """Each note as a line."""
    lines = "".join(f"<li>{text(note)}</li>" for note in found.notes)
    return f'<div class="lw"><ul>{lines}</ul></div>'


def option(points: Sequence[tuple[datetime, int, int]], *, dark: bool) -> dict[str, Any]:
    """The ECharts option: both backlogs over time, in one unit from zero up."""
    unit, one = formats.common_unit(max(own, without) for _, own, without in points)
    quiet = {"color": "#cbd5e1" if dark else "#475569"}
    reclaimable, slate = colours.RECLAIMABLE, colours.LIVE
    return {
        "animation": False,
        "tooltip": {"show": True},
        "legend": {"data": [_WITHOUT, _WITH], "top": 0, "left": 70, "textStyle": quiet},
        "grid": {"left": 70, "right": 20, "top": 34, "bottom": 26},
        "xAxis": {"type": "time", "axisLabel": {**quiet, "hideOverlap": True}},
        "yAxis": {
            "type": "value",
            "min": 0,
            "name": f"backlog, {unit}",
            "nameLocation": "middle",
            "nameGap": 54,
            "nameTextStyle": quiet,
            "axisLabel": quiet,
            "splitLine": {"lineStyle": {"color": "#3b4657" if dark else "#d5dbe3"}},
        },
        "series": [
            _line(_WITHOUT, slate.on_dark if dark else slate.fill, "dashed", one,
                  [(at, without) for at, _, without in points]),
            _line(_WITH, reclaimable.on_dark if dark else reclaimable.fill, "solid", one,
                  [(at, own) for at, own, _ in points]),
        ],
    }  # fmt: skip


def _line(
    name: str, colour: str, kind: str, one: int, told: Sequence[tuple[datetime, int]]
) -> Mapping[str, Any]:
    return {
        "name": name,
        "type": "line",
        "symbolSize": 6 if len(told) <= 60 else 0,
        "lineStyle": {"color": colour, "type": kind},
        "itemStyle": {"color": colour},
        "data": [_point(name, at, size, one) for at, size in told],
    }


def _point(name: str, at: datetime, size: int, one: int) -> Mapping[str, Any]:
    said = f"{formats.size(size)} below the target {name}, {formats.utc(at)}"
    return {
        "value": [round(at.timestamp() * 1000), round(size / one, 3)],
        "tooltip": {"formatter": said},
    }
