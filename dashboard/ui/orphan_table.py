"""The table of orphans: one line each, what may go first."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import pandas as pd
import streamlit as st

from dashboard.ui import formats
from dashboard.ui.orphan_rows import VERDICT_WORDS, Row, name, on_disk, path

ROW_HEIGHT = 30
_MOST_ROWS = 15
SHOWN = 1000  # rows that can be selected cannot be fetched as they are scrolled to


def frame(rows: Sequence[Row]) -> tuple[pd.DataFrame, str]:
    """The rows as a frame, and the unit of the column of bytes."""
    sizes = [on_disk(row) for row in rows]
    unit, divisor = formats.common_unit(sizes)
    shown = {
        "Verdict": [VERDICT_WORDS[row["verdict"]] for row in rows],
        "Kind": [row["kind"] for row in rows],
        "Broker": [row["broker_id"] for row in rows],
        "Log dir": [row["log_dir"] for row in rows],
        "Folder": [name(row) for row in rows],
        "On disk": pd.Series([None if s is None else s / divisor for s in sizes], dtype="float64"),
        "Newest record": _times(rows, "newest_at"),
        "First seen": _times(rows, "first_seen_at"),
        "Reason": [row["reason"] for row in rows],
    }
    return pd.DataFrame(shown), unit


def show(rows: Sequence[Row]) -> list[Row]:
    """Draw the first rows; those that are selected. With other rows it is another table."""
    rest, rows = len(rows) - SHOWN, rows[:SHOWN]
    shown, unit = frame(rows)
    listed = zlib.crc32("\n".join(path(row) for row in rows).encode())
    number, text, time = (
        st.column_config.NumberColumn,
        st.column_config.TextColumn,
        st.column_config.DatetimeColumn,
    )
    event = st.dataframe(
        shown,
        key=f"orphans-{listed}",
        hide_index=True,
        placeholder=formats.MISSING,
        row_height=ROW_HEIGHT,
        height=ROW_HEIGHT * (min(len(rows), _MOST_ROWS) + 1) + 4,
        column_config={
            "Verdict": text(width=100),
            "Kind": text(width=110),
            "Broker": number(width=60),
            "Log dir": text(width=90),
            "Folder": text(width=220),
            "On disk": number(f"On disk ({unit})", format="%.2f", width=100),
            "Newest record": time(format="distance", width=115),
            "First seen": time(format="distance", width=105),
            "Reason": text(width=280),
        },
        on_select="rerun",
        selection_mode="multi-row",
        alt="Orphans with verdict, kind, broker, log dir, folder, bytes on disk, times and reason",
    )
    if rest > 0:
        st.caption(
            f"The first {formats.number(SHOWN)}; {formats.number(rest)} more: filter to see them, "
            "the CSV has all."
        )
    return [rows[index] for index in event.selection.rows if index < len(rows)]


def _times(rows: Sequence[Row], column: str) -> pd.Series:
    return pd.Series(pd.to_datetime([row[column] for row in rows], utc=True))
