"""The table of orphans: one line each, what may go first."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from dashboard.ui.components import grid
from dashboard.ui.orphans.orphan_rows import VERDICT_WORDS, Row, name, on_disk, path
from dashboard.views import formats

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
    """Draw the first rows; those that are selected."""
    rest, rows = len(rows) - SHOWN, rows[:SHOWN]
    shown, unit = frame(rows)
    number, text, time = (
        st.column_config.NumberColumn,
        st.column_config.TextColumn,
        st.column_config.DatetimeColumn,
    )
    chosen = grid.selected(
        shown,
        {
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
        map(path, rows),
        key="orphans",
        several=True,
        alt="Orphans with verdict, kind, broker, log dir, folder, bytes on disk, times and reason",
    )
    if rest > 0:
        st.caption(
            f"The first {formats.number(SHOWN)}; {formats.number(rest)} more: filter to see them, "
            "the CSV has all."
        )
    return [rows[index] for index in chosen]


def _times(rows: Sequence[Row], column: str) -> pd.Series:
    return pd.Series(pd.to_datetime([row[column] for row in rows], utc=True))
