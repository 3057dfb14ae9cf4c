"""The table of slow replicas, furthest behind first, each with how its lag went."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from dashboard.ui import formats
from dashboard.ui.follower_rows import Row, trend
from dashboard.ui.lag_points import Point, Replica, spark

SHOWN = 1000
ROW_HEIGHT = 30
_MOST_ROWS = 15


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
    listed = zlib.crc32("\n".join(map(str, map(replica, rows))).encode())
    number, text = st.column_config.NumberColumn, st.column_config.TextColumn
    event = st.dataframe(
        shown,
        key=f"slow-{listed}",
        hide_index=True,
        placeholder=formats.UNKNOWN,
        row_height=ROW_HEIGHT,
        height=ROW_HEIGHT * (min(len(rows), _MOST_ROWS) + 1) + 4,
        column_config={
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
        on_select="rerun",
        selection_mode="single-row",
        alt="Slow replicas with lag in seconds, records and bytes, trend, log start and reason",
    )  # fmt: skip
    chosen = [index for index in event.selection.rows if index < len(rows)]
    return rows[chosen[0]] if chosen else rows[0]


def _log_start(row: Row) -> str | None:
    lag = row["log_start_lag"]
    if lag is None:
        return None
    if not lag:
        return "level"
    held = ", holds" if row["holds_low_watermark"] else ""
    return f"{formats.plural(lag, 'record')}{held}"
