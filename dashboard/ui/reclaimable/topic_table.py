"""The table of topics: one unit per column, sortable numbers, guards in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
import streamlit as st

from dashboard.ui.components import grid
from dashboard.views import formats
from dashboard.views.facts import UNDECLARED
from dashboard.views.topic_rows import TopicRow

_SIZES = (
    ("On disk", "size_bytes", "All replicas together, .log files only"),
    ("Reclaimable", "reclaimable_bytes", "Below the target: every known group has passed it"),
    ("At once", "at_once_bytes", "Whole segments below the target: they leave minutes after"),
    ("Later", "later_bytes", "Below the target, in segments that hold newer records too"),
    ("Held back", "held_bytes", "Above the lowest commit: somebody has not read it"),
)
_WIDTHS = (84, 112, 84, 80, 104)
_NEEDED = "it takes 3 snapshots over 10 minutes."
GROWTH = "Growth per hour"
_GROWTH_WHY = (
    "Bytes written less bytes deleted, all replicas together, over the last 12 to 24 hours as far "
    "as snapshots reach"
)


def growth_of(growth: pa.Table) -> dict[str, int]:
    """Bytes per hour that each topic grows by; those without enough history are left out."""
    whole = growth.filter(growth["broker_id"].is_null())
    rows = whole.select(["topic", "growth_per_hour"]).to_pylist()
    known = (row for row in rows if row["topic"] and row["growth_per_hour"] is not None)
    return {row["topic"]: row["growth_per_hour"] for row in known}


def frame(
    rows: Sequence[TopicRow], growth: Mapping[str, int]
) -> tuple[pd.DataFrame, dict[str, str]]:
    """The rows as a frame, with the unit of each column of bytes: one for all sizes, another for
    `growth`, bytes per hour by topic.
    """
    sizes = [getattr(row, field) for row in rows for _, field, _ in _SIZES]
    unit, divisor = formats.common_unit(sizes)
    columns: dict[str, object] = {"Topic": [row.topic for row in rows]}
    for title, field, _ in _SIZES:
        columns[title] = [_scaled(getattr(row, field), divisor) for row in rows]
    units = dict.fromkeys((title for title, _, _ in _SIZES), unit)
    found = [growth.get(row.topic) for row in rows]
    units[GROWTH], divisor = formats.common_unit(None if g is None else abs(g) for g in found)
    columns[GROWTH] = pd.Series([_scaled(g, divisor) for g in found], dtype="float64")
    columns["Held by"] = [row.held_by or "" for row in rows]
    columns["Guards"] = [_guards(row) for row in rows]
    return pd.DataFrame(columns), units


def show(rows: Sequence[TopicRow], growth: Mapping[str, int], key: str) -> list[str]:
    """Draw the table; the topics whose rows are selected."""
    shown, units = frame(rows, growth)
    chosen = grid.selected(
        shown,
        _config(units),
        (row.topic for row in rows),
        key=key,
        several=True,
        alt="Topics with bytes on disk, reclaimable at once and later, held back, and guards",
    )
    new = sum(row.topic not in growth for row in rows)
    if new:
        st.caption(
            f"{GROWTH}: not enough history yet for {formats.plural(new, 'topic')}; {_NEEDED}"
        )
    if len(rows) == 1:  # there is nothing to choose between
        return [rows[0].topic]
    return [rows[index].topic for index in chosen]


def _config(units: Mapping[str, str]) -> dict[str, Any]:
    number, text = st.column_config.NumberColumn, st.column_config.TextColumn
    config: dict[str, Any] = {
        title: number(f"{title} ({units[title]})", format="%.2f", help=why, width=width)
        for (title, _, why), width in zip(_SIZES, _WIDTHS, strict=True)
    }
    short = f"Growth/h ({units[GROWTH]})"
    config[GROWTH] = number(short, format="%.2f", help=_GROWTH_WHY, width=104)
    config["Topic"] = text(width=150)
    config["Held by"] = text(help="The group that holds back most of it", width=90)
    config["Guards"] = text(help="What blocks a purge; select the row for the reasons", width=115)
    return config


def _scaled(size_bytes: int | None, divisor: int) -> float | None:
    return None if size_bytes is None else size_bytes / divisor


def _guards(row: TopicRow) -> str:
    if not row.guards:
        return "✔ none"
    some = f"{row.free_partitions}/{row.partitions} free; " if row.free_partitions else ""
    named = sorted(row.guards, key=lambda name: (name == UNDECLARED, name))
    return f"⊘ {some}{', '.join(named)}"
