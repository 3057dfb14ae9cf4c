"""The table of slow replicas, furthest behind first, each with how its lag went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from dashboard.ui.components import grid
from dashboard.views import formats
from dashboard.views.follower_rows import Row, trend
from dashboard.views.lag_points import Point, Replica, spark

SHOWN = 1000


def replica(row: Row) -> Replica:
    """Topic, partition and broker."""
    return row["topic"], row["partition"], row["broker_id"]


def frame(rows: Sequence[Row], told: Mapping[Replica, Sequence[Point]]) -> tuple[pd.DataFrame, str]:
    """The rows as a frame, and the unit of the column of bytes."""
    sizes = [row["lag_bytes"] for row in rows]
    unit, divisor = formats.common_unit(sizes)
    scaled = [None if size is None else size / divisor for size in sizes]
    columns = {
        "Replica": [f"{row['topic']}-{row['partition']}" for row in rows],
        "Broker": [row["broker_id"] for row in rows],
        "Log dir": [row["log_dir"] for row in rows],
        "Seconds": pd.Series([row["lag_seconds"] for row in rows], dtype="float64"),
        "Records": pd.Series([row["lag_records"] for row in rows], dtype="Int64"),
        "Bytes": pd.Series(scaled, dtype="float64"),
        "Lag lately": [spark(told.get(replica(row), ())) for row in rows],
        "Trend": [trend(row) for row in rows],
        "Log start": [_log_start(row) for row in rows],
        "Since": pd.Series(pd.to_datetime([row["behind_since"] for row in rows], utc=True)),
        "Cause": [row["cause"] for row in rows],
        "Reason": [row["reason"] for row in rows],
    }
    return pd.DataFrame(columns), unit


def show(rows: Sequence[Row], told: Mapping[Replica, Sequence[Point]]) -> Row:
    """Draw the table; the row that is selected, else the first one."""
    shown, unit = frame(rows, told)
    unit = "" if unit == "bytes" else f" ({unit})"
    number, text = st.column_config.NumberColumn, st.column_config.TextColumn
    at = grid.selected(
        shown,
        {
            "Replica": text(width=150),
            "Broker": number(width=58),
            "Log dir": text(width=70),
            "Seconds": number("Behind (s)", format="%.1f", width=80,
                              help="By what its leader appends a second; unknown behind a leader "
                              "that wrote nothing"),
            "Records": number(format="localized", width=82),
            "Bytes": number(f"Bytes{unit}", format="%.2f", width=92),
            "Lag lately": st.column_config.LineChartColumn(
                width=100, y_min=0, help="Records behind over the last half hour, as measured"),
            "Trend": text(width=125),
            "Log start": text(width=150, help="How far its log start is behind its leader's; "
                              "a wait-all purge waits for the one that holds the low watermark"),
            "Since": st.column_config.DatetimeColumn(format="distance", width=95),
            "Cause": text(width=90),
            "Reason": text(width=270),
        },
        map(str, map(replica, rows)),
        key="slow",
        placeholder=formats.UNKNOWN,
        alt="Slow replicas with lag in seconds, records and bytes, trend, log start and reason",
    )  # fmt: skip
    return rows[at[0]] if at else rows[0]


def _log_start(row: Row) -> str | None:
    lag = row["log_start_lag"]
    if lag is None:
        return None
    if not lag:
        return "level"
    held = ", holds" if row["holds_low_watermark"] else ""
    return f"{formats.plural(lag, 'record')}{held}"
