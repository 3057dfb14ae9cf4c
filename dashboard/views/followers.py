"""Slow followers: a sentence per thing that is at fault, as an operator would say it; which rows of
the findings table `slow_followers` are slow and which are kept; and how a replica's lag went
lately.

The panes of `trends` hold the first and the last lag of 15 minutes each, and the last but one: at
most five points over half an hour, as the analysis measured them. Kept snapshots would tell more,
and cost a read of each at every look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core import words
from dashboard.views import formats

Row = Mapping[str, Any]
# Their reason already counts the replicas of what stands out.
_COUNTED = ("rack", "broker", "log dir")
_LEAST_PACE = 0.5  # seconds a minute: below it nobody would call it falling


@dataclass(frozen=True, slots=True)
class SlowUnit:
    """Slow followers with one reason. `replicas` of them; `text` is the whole sentence.

    `lag_seconds` is their median (None: unknown), `falls` by how many seconds it grows a minute.
    """

    cause: str
    reason: str
    replicas: int
    lag_seconds: float | None
    falls: float | None
    text: str


def slow_units(followers: pa.Table) -> list[SlowUnit]:
    """The slow rows of the findings table `slow_followers` by reason, most replicas first."""
    slow = followers.filter(pc.fill_null(followers["slow"], False)).to_pylist()
    by_reason: dict[tuple[str, str], list[Row]] = {}
    for row in slow:
        by_reason.setdefault((row["cause"], row["reason"]), []).append(row)
    found = [_unit(cause, reason, rows) for (cause, reason), rows in by_reason.items()]
    return sorted(found, key=lambda unit: (-unit.replicas, unit.reason))


def _unit(cause: str, reason: str, rows: Sequence[Row]) -> SlowUnit:
    seconds = _median(row["lag_seconds"] for row in rows)
    falls = _median(_falls(row) for row in rows)
    said = reason if cause in _COUNTED else f"{reason}: {_replicas(rows)}"
    parts = [said, _behind(rows, seconds), _pace(rows, falls)]
    text = ", ".join(part for part in parts if part)
    return SlowUnit(cause, reason, len(rows), seconds, falls, text)


def _replicas(rows: Sequence[Row]) -> str:
    if len(rows) > 1:
        return words.plural(len(rows), "replica")
    (row,) = rows
    return f"{row['topic']}-{row['partition']} on broker {row['broker_id']}"


def _behind(rows: Sequence[Row], seconds: float | None) -> str:
    if seconds is not None:
        return f"{words.duration(seconds)} behind"
    records = _median(row["lag_records"] for row in rows)
    return "" if records is None else f"{words.plural(round(records), 'record')} behind"


def _pace(rows: Sequence[Row], falls: float | None) -> str:
    """How it goes on; nothing of replicas that do not answer: their lag is a guess already."""
    alive = [row for row in rows if row["alive"]]
    if not alive:
        return ""
    if 2 * sum(row["trend"] == "stuck" for row in alive) > len(alive):
        return "standing still"
    if falls is None:
        return ""
    if abs(falls) < _LEAST_PACE:
        return "steady"
    if falls > 0:
        return f"falling {words.duration(falls)} a minute"
    left = _median(row["catch_up_seconds"] for row in alive)
    level = "" if left is None else f", level in {words.duration(left)}"
    return f"catching up {words.duration(-falls)} a minute{level}"


def _falls(row: Row) -> float | None:
    """Seconds of lag that a minute adds; None where the leader writes nothing."""
    if row["lag_per_second"] is None or not row["append_per_second"]:
        return None
    return float(60 * row["lag_per_second"] / row["append_per_second"])


def _median(values: Any) -> float | None:
    known = [value for value in values if value is not None]
    return float(median(known)) if known else None


@dataclass(frozen=True, slots=True)
class Place:
    """The followers in one log dir; of a broker that does not answer that is None.

    `lag_seconds` is the longest that is known, `lag_bytes` the sum as far as it is; None: of none.
    """

    broker_id: int
    log_dir: str | None
    followers: int
    slow: int
    out_of_sync: int
    lag_seconds: float | None
    lag_bytes: int | None


def places(followers: pa.Table) -> list[Place]:
    """Rows of `slow_followers` by broker and log dir: most slow ones first, then longest lags."""
    flagged = pa.table({
        "broker_id": followers["broker_id"], "log_dir": followers["log_dir"],
        "slow": pc.cast(pc.fill_null(followers["slow"], False), pa.int64()),
        "out": pc.cast(pc.invert(pc.fill_null(followers["in_sync"], True)), pa.int64()),
        "seconds": followers["lag_seconds"], "bytes": followers["lag_bytes"],
    })  # fmt: skip
    sums = flagged.group_by(["broker_id", "log_dir"]).aggregate(
        [([], "count_all"), ("slow", "sum"), ("out", "sum"), ("seconds", "max"), ("bytes", "sum")]
    )
    found = [
        Place(
            row["broker_id"], row["log_dir"], row["count_all"], row["slow_sum"], row["out_sum"],
            row["seconds_max"], row["bytes_sum"],
        )
        for row in sums.to_pylist()
    ]  # fmt: skip
    return sorted(
        found, key=lambda p: (-p.slow, -(p.lag_seconds or 0), p.broker_id, p.log_dir or "")
    )


FURTHEST = [
    ("lag_seconds", "descending"), ("lag_records", "descending"), ("topic", "ascending"),
    ("partition", "ascending"), ("broker_id", "ascending"),
]  # fmt: skip
TREND_WORDS = {
    "falling behind": "↘ falling behind", "catching up": "↗ catching up", "steady": "→ steady",
    "stuck": "■ stuck",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the reader chose above the table; None means everything."""

    topic: str | None = None
    broker: str | None = None
    cause: str | None = None

    def kept(self, followers: pa.Table) -> pa.Table:
        """The rows that pass all of them."""
        found = followers
        for column, value in (("topic", self.topic), ("cause", self.cause)):
            if value is not None:
                found = found.filter(pc.fill_null(pc.equal(found[column], value), False))
        if self.broker is not None:
            found = found.filter(pc.equal(found["broker_id"], int(self.broker)))
        return found


def slow(followers: pa.Table) -> pa.Table:
    """The slow ones, furthest behind first; those whose lag is unknown come last."""
    return followers.filter(pc.fill_null(followers["slow"], False)).sort_by(FURTHEST)


def furthest(followers: pa.Table) -> Row | None:
    """The follower with the longest known lag, slow or not."""
    known = followers.filter(pc.is_valid(followers["lag_seconds"])).sort_by(FURTHEST)
    rows: Sequence[Row] = known.slice(0, 1).to_pylist()
    return rows[0] if rows else None


def name(row: Row) -> str:
    """`orders-4 on broker 3`."""
    return f"{row['topic']}-{row['partition']} on broker {row['broker_id']}"


def behind(row: Row) -> str:
    """`41 s behind (12 000 records)`; where the lag is unknown, why."""
    if row["lag_records"] is None:
        return f"lag unknown: {why_unknown(row)}"
    return words.behind(row["lag_records"], row["lag_seconds"])


def why_unknown(row: Row) -> str:
    """The reason for a lag that is not known."""
    if not row["alive"]:
        return f"broker {row['broker_id']} does not answer, and no earlier answer is known"
    if row["lag_records"] is not None:
        return "its leader wrote nothing in the window, so only records are known"
    return "its log end, or its leader's, was not read"


def trend(row: Row) -> str:
    """How it goes on, with an arrow; nothing is known of one that does not answer."""
    if not row["alive"]:
        return "? no answer"
    return TREND_WORDS.get(row["trend"] or "", formats.UNKNOWN)


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
