"""The table of topics: one unit per column, sortable numbers, guards in words."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from dashboard.ui import formats
from dashboard.ui.facts import UNDECLARED
from dashboard.ui.topic_rows import TopicRow

ROW_HEIGHT = 30
_MOST_ROWS = 15
_SIZES = (
    ("On disk", "size_bytes", "All replicas together, .log files only"),
    ("Reclaimable", "reclaimable_bytes", "Below the target: every known group has passed it"),
    ("At once", "at_once_bytes", "Whole segments below the target: they leave minutes after"),
    ("Later", "later_bytes", "Below the target, in segments that hold newer records too"),
    ("Held back", "held_bytes", "Above the lowest commit: somebody has not read it"),
)
_WIDTHS = (84, 112, 84, 80, 104)


def frame(rows: Sequence[TopicRow]) -> tuple[pd.DataFrame, str]:
    """The rows as a frame, bytes in one unit for all four columns; and that unit's name."""
    sizes = [getattr(row, field) for row in rows for _, field, _ in _SIZES]
    unit, divisor = formats.common_unit(sizes)
    columns: dict[str, object] = {"Topic": [row.topic for row in rows]}
    for title, field, _ in _SIZES:
        columns[title] = [_scaled(getattr(row, field), divisor) for row in rows]
    columns["Held by"] = [row.held_by or "" for row in rows]
    columns["Guards"] = [_guards(row) for row in rows]
    return pd.DataFrame(columns), unit


def show(rows: Sequence[TopicRow], key: str) -> list[str]:
    """Draw the table; the topics whose rows are selected.

    The browser selects by row number: with other rows it is another table, nothing selected.
    """
    shown, unit = frame(rows)
    listed = zlib.crc32("/".join(row.topic for row in rows).encode())
    event = st.dataframe(
        shown,
        key=f"{key}-{listed}",
        hide_index=True,
        placeholder=formats.MISSING,
        row_height=ROW_HEIGHT,
        height=ROW_HEIGHT * (min(len(rows), _MOST_ROWS) + 1) + 4,
        column_config=_config(unit),
        on_select="rerun",
        selection_mode="multi-row",
        alt="Topics with bytes on disk, reclaimable at once and later, held back, and guards",
    )
    chosen = [index for index in event.selection.rows if index < len(rows)]
    if len(rows) == 1:  # there is nothing to choose between
        return [rows[0].topic]
    return [rows[index].topic for index in chosen]


def _config(unit: str) -> dict[str, Any]:
    number, text = st.column_config.NumberColumn, st.column_config.TextColumn
    config: dict[str, Any] = {
        title: number(f"{title} ({unit})", format="%.2f", help=why, width=width)
        for (title, _, why), width in zip(_SIZES, _WIDTHS, strict=True)
    }
    config["Topic"] = text(width=180)
    config["Held by"] = text(help="The group that holds back most of it", width=110)
    config["Guards"] = text(help="What blocks a purge; select the row for the reasons", width=165)
    return config


def _scaled(size_bytes: int | None, divisor: int) -> float | None:
    return None if size_bytes is None else size_bytes / divisor


def _guards(row: TopicRow) -> str:
    if not row.guards:
        return "✔ none"
    some = f"{row.free_partitions}/{row.partitions} free; " if row.free_partitions else ""
    named = sorted(row.guards, key=lambda name: (name == UNDECLARED, name))
    return f"⊘ {some}{', '.join(named)}"
