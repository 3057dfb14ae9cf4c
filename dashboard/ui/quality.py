"""What was predicted against what happened, on the page Quality: bytes freed, and waits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
import streamlit as st

from dashboard.core.words import duration
from dashboard.domain.model import METHODS
from dashboard.purge.forecast import waits
from dashboard.purge.forecast.waits import CauseWaits
from dashboard.purge.receipt import gap
from dashboard.purge.receipt.gap import Calibration, Point
from dashboard.ui.components import grid, markup, states, style
from dashboard.ui.purge.runs import left_out, past_runs
from dashboard.ui.session.context import Screen
from dashboard.views import delete_requests, formats
from dashboard.views.delete_requests import DeleteRequests

# Predicted against freed bytes on the page Quality: a table and points over time.

# One hue, the surest estimator strongest; the symbol tells them apart without colour.
_SYMBOLS = ("circle", "rect", "triangle", "diamond")
_ON_LIGHT = ("#0f172a", "#334155", "#64748b", "#94a3b8")
_ON_DARK = ("#f8fafc", "#cbd5e1", "#94a3b8", "#64748b")


def show_estimators(screen: Screen) -> None:
    """How true past estimates were, or why nothing can be told yet."""
    st.html('<div class="lw"><h2>Predicted against freed, by estimator</h2></div>')
    found = gap.outcomes(past_runs(screen.cluster.cluster_id))
    if not found:
        states.show(
            "No finished purge yet",
            "Once a purge's receipt is final, this shows how far its prediction was off.",
            "Plan a purge; a receipt is final minutes after the last replica has arrived.",
        )
        if cut := left_out():
            st.caption(cut)
        return
    left, right = st.columns([5, 6], gap="medium")
    with left:
        _table(gap.by_method(found))
    with right:
        drawn = gap.points(found)
        st.echarts_chart(
            option(drawn, dark=style.dark()),
            height=260,
            key="estimator-chart",
            alt="Predicted divided by freed bytes over time, by estimator",
        )
        st.caption(caption(drawn))
        if cut := left_out():
            st.caption(cut)


def _table(lines: Sequence[Calibration]) -> None:
    right = st.column_config.TextColumn(alignment="right")
    grid.show(
        pd.DataFrame(
            {
                "Estimator": [line.method for line in lines],
                "Purges": [line.purges for line in lines],
                "Median error": [_percent(line.median_error) for line in lines],
                "Worst": [worst(line.worst_error) for line in lines],
                "Inside the interval": [f"{line.inside} of {line.topics}" for line in lines],
            }
        ),
        dict.fromkeys(("Median error", "Worst", "Inside the interval"), right),
        alt="Purges, median and worst error, and topics inside the interval, by estimator",
        key="estimator-table",
    )
    st.caption(
        "Errors are per topic, freed against predicted bytes. An interval keeps its word when "
        "about 9 of 10 topics lie inside."
    )
    for line in lines:
        if line.zero_topics:
            st.caption(zeros(line))


def worst(error: float | None) -> str | None:
    """The worst error with its direction in words."""
    if not error:
        return _percent(error)
    return f"{_percent(abs(error))} {'less' if error < 0 else 'more'}"


def zeros(line: Calibration) -> str:
    """What became of topics of which nothing was predicted: an error in bytes, not in percent."""
    count = formats.plural(line.zero_topics, "topic")
    freed = formats.size(line.zero_worst_bytes)
    return f"{line.method}: 0 bytes were predicted of {count}; at most {freed} of one were freed."


def caption(drawn: Sequence[Point]) -> str:
    """What the chart shows, and how many purges it cannot show."""
    said = "One point per purge and estimator. 1: freed as predicted; above: less was freed."
    left_out = sum(not point.ratio for point in drawn)
    if not left_out:
        return said
    verb = "is" if left_out == 1 else "are"
    return f"{said} {formats.plural(left_out, 'point')} with 0 bytes {verb} not drawn."


def option(drawn: Sequence[Point], *, dark: bool) -> dict[str, Any]:
    """The ECharts option: predicted ÷ freed over time, a series per estimator, a line at 1.

    The axis is logarithmic: twice too much and half of it lie equally far from 1.
    """
    farthest = max((abs(math.log2(p.ratio)) for p in drawn if p.ratio), default=0)
    steps = max(1, math.ceil(farthest))
    methods = sorted({p.method for p in drawn}, key=gap.rank)
    colour = {"color": "#cbd5e1" if dark else "#475569"}
    grid = {"lineStyle": {"color": "#3b4657" if dark else "#d5dbe3"}}
    return {
        "animation": False,
        "tooltip": {"show": True},
        "legend": {"top": 0, "left": 0, "textStyle": colour},
        "grid": {"left": 56, "right": 16, "top": 40, "bottom": 28},
        "xAxis": {"type": "time", "axisLabel": {**colour, "hideOverlap": True}},
        "yAxis": {
            "type": "log",
            "logBase": 2,
            "min": 2.0**-steps,
            "max": 2.0**steps,
            "name": "predicted ÷ freed",
            "nameLocation": "middle",
            "nameGap": 40,
            "nameTextStyle": colour,
            "axisLabel": colour,
            "splitLine": grid,
        },
        "series": [_series(method, drawn, dark=dark) for method in methods],
    }


def _series(method: str, drawn: Sequence[Point], *, dark: bool) -> dict[str, Any]:
    place = METHODS.index(method) if method in METHODS else len(METHODS) - 1
    fill = (_ON_DARK if dark else _ON_LIGHT)[place]
    return {
        "type": "line",
        "name": method,
        "symbol": _SYMBOLS[place],
        "symbolSize": 9,
        "itemStyle": {"color": fill},
        "lineStyle": {"color": fill, "width": 1},
        "markLine": {
            "silent": True,
            "symbol": "none",
            "label": {"show": False},
            "lineStyle": {"color": "#94a3b8", "type": "dashed"},
            "data": [{"yAxis": 1}],
        },
        "data": [_point(p) for p in drawn if p.method == method and p.ratio],
    }


def _point(point: Point) -> dict[str, Any]:
    told = (
        f"{point.method}: predicted {formats.size(point.predicted_bytes)}, "
        f"freed {formats.size(point.freed_bytes)}, {markup.exact(point.finished_at)}"
    )
    at = round(point.finished_at.timestamp() * 1000)
    return {"value": [at, point.ratio], "tooltip": {"formatter": told}}


def _percent(share: float | None) -> str | None:
    return None if share is None else f"{share:.1%}".replace("%", " %")


# Predicted waits against what happened, on the page Quality.

CAUSES = {
    "keeps-up": "followers keep up",
    "fetches": "a follower is behind, and fetches",
    "behind": "a follower stands still",
    "silent": "a broker does not answer",
    "unreadable": "a replica cannot be read",
    "log-dir-move": "the leader moves log dirs",
}


def show_waits(screen: Screen) -> None:
    """How true past forecasts of waiting were, or why nothing can be told yet."""
    st.html('<div class="lw"><h2>Predicted waits against what happened</h2></div>')
    lines = waits.calibration(past_runs(screen.cluster.cluster_id))
    if not lines:
        states.show(
            "No purge has waited for all replicas yet",
            "Each wait-all request keeps how long its answer was expected to take, and how long "
            "it took.",
            "Purge in the mode wait-all; it appears here once the receipt is final.",
        )
        if cut := left_out():
            st.caption(cut)
        return
    right = st.column_config.TextColumn(alignment="right")
    grid.show(
        waits_table(lines),
        dict.fromkeys(("Median error", "Worst", "Inside the interval"), right),
        alt="Requests, median and worst error of predicted waits, and requests inside, by cause",
        key="wait-table",
    )
    st.caption("Per request: the time from sending to the answer, against the most likely one.")
    if cut := left_out():
        st.caption(cut)


def show_requests(screen: Screen, traffic: pa.Table) -> None:
    """DeleteRecords as brokers count it, by the newest snapshot with their metrics."""
    st.html('<div class="lw"><h2>DeleteRecords requests, as brokers count them</h2></div>')
    rows = delete_requests.of_findings(traffic)
    if not rows:
        st.caption("No broker tells: name their metrics in the settings (metrics.urls).")
        return
    right = st.column_config.TextColumn(alignment="right")
    grid.show(
        requests_table(rows),
        dict.fromkeys(("An hour", "Waiting", "Mean", "99 of 100 within"), right),
        alt="DeleteRecords requests an hour, waiting, mean time and 99th percentile, by broker",
        key="requests-table",
    )
    at = markup.exact(screen.manifest.taken_at)
    st.caption(
        f"As of {at}: requests that waited for followers then, the mean time since each broker's "
        "start, and the time within which 99 of 100 were answered lately."
    )


def requests_table(rows: Sequence[DeleteRequests]) -> pd.DataFrame:
    """One row per broker that tells."""
    return pd.DataFrame(
        {
            "Broker": [str(row.broker_id) for row in rows],
            "An hour": [formats.cell(row.per_hour) for row in rows],
            "Waiting": [formats.cell(row.waiting) for row in rows],
            "Mean": [_ms(row.mean_ms) for row in rows],
            "99 of 100 within": [_ms(row.p99_ms) for row in rows],
        }
    )


def _ms(milliseconds: float | None) -> str:
    return formats.MISSING if milliseconds is None else f"{formats.number(round(milliseconds))} ms"


def waits_table(lines: Sequence[CauseWaits]) -> pd.DataFrame:
    """One row per reason to wait."""
    return pd.DataFrame(
        {
            "Seen before sending": [CAUSES.get(x.cause, x.cause) for x in lines],
            "Purges": [x.purges for x in lines],
            "Requests": [x.errors.requests for x in lines],
            "Median error": [duration(x.errors.median_error_seconds) for x in lines],
            "Worst": [_worst(x.errors.worst_error_seconds) for x in lines],
            "Inside the interval": [f"{x.errors.inside} of {x.errors.requests}" for x in lines],
        }
    )


def _worst(seconds: float) -> str:
    if not seconds:
        return duration(0)
    return f"{duration(abs(seconds))} {'sooner' if seconds < 0 else 'later'}"
