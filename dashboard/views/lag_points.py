"""How a replica's lag went lately: the measured points that `trends` keeps, as lines.

Its panes hold the first and the last lag of 15 minutes each, and the last but one: at most five
points over half an hour, as the analysis measured them. Kept snapshots would tell more, and cost a
read of each at every look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.views import formats

Point = tuple[datetime, int]
Replica = tuple[str, int, int]
_WINDOW = timedelta(
    minutes=45
)  # of a replica that was not read for long, only what belongs together
_COLUMNS = (("lag_first_at", "lag_first"), ("before_at", "lag_before"), ("lag_last_at", "lag_last"))
_STEPS = 9


def points(trends: pa.Table, replicas: Iterable[Replica]) -> dict[Replica, tuple[Point, ...]]:
    """Time and records behind of these replicas (topic, partition, broker), oldest first."""
    wanted = set(replicas)
    names = pa.array(sorted({topic for topic, _, _ in wanted}), pa.string())
    rows = trends.filter(pc.is_in(trends["topic"], names)).select(_READ).to_pylist()
    found: dict[Replica, set[Point]] = {}
    for row in rows:
        replica = (row["topic"], row["partition"], row["broker_id"])
        if replica in wanted and row["lag_n"]:
            told = ((row[at], row[lag]) for at, lag in _COLUMNS)
            found.setdefault(replica, set()).update(p for p in told if None not in p)
    return {replica: _recent(told) for replica, told in found.items()}


_READ = ["topic", "partition", "broker_id", "lag_n", *(name for pair in _COLUMNS for name in pair)]


def _recent(told: Iterable[Any]) -> tuple[Point, ...]:
    ordered = sorted(told)
    newest = ordered[-1][0] if ordered else None
    return tuple(p for p in ordered if newest is not None and newest - p[0] <= _WINDOW)


def spark(told: Sequence[Point]) -> list[float] | None:
    """Lags at equal distances in time for a sparkline, straight between measured points."""
    if len(told) < 2:
        return None
    at = [moment.timestamp() for moment, _ in told]
    values = np.interp(np.linspace(at[0], at[-1], _STEPS), at, [lag for _, lag in told])
    return [float(value) for value in values]


def option(told: Sequence[Point], *, dark: bool) -> dict[str, Any]:
    """The ECharts option of one replica's line, from zero up."""
    colour = {"color": "#cbd5e1" if dark else "#475569"}
    line = "#6f9fea" if dark else "#2f6fd6"
    return {
        "animation": False,
        "tooltip": {"show": True},
        "grid": {"left": 70, "right": 20, "top": 12, "bottom": 26},
        "xAxis": {"type": "time", "axisLabel": {**colour, "hideOverlap": True}},
        "yAxis": {
            "type": "value",
            "min": 0,
            "name": "records behind",
            "nameLocation": "middle",
            "nameGap": 54,
            "nameTextStyle": colour,
            "axisLabel": colour,
            "splitLine": {"lineStyle": {"color": "#3b4657" if dark else "#d5dbe3"}},
        },
        "series": [
            {
                "type": "line",
                "symbolSize": 8,
                "lineStyle": {"color": line},
                "itemStyle": {"color": line},
                "data": [_drawn(point) for point in told],
            }
        ],
    }


def _drawn(point: Point) -> Mapping[str, Any]:
    moment, lag = point
    said = f"{formats.number(lag)} records behind at {formats.utc(moment)}"
    return {"value": [round(moment.timestamp() * 1000), lag], "tooltip": {"formatter": said}}
