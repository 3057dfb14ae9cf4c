"""Which topics fill a log dir: bytes in and out per hour of each topic there."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import streamlit as st

from dashboard.ui.components import grid
from dashboard.ui.growth.growth_what_if import Outcome
from dashboard.ui.session.context import Screen
from dashboard.ui.session.loading import findings_of
from dashboard.views import formats

_COLUMNS = (
    ("Growth/h", "growth_per_hour", "Bytes written less bytes deleted, in this log dir"),
    ("Written/h", "bytes_in_per_hour", "Bytes that came in an hour, replicated ones too"),
    ("Deleted/h", "bytes_out_per_hour", "Bytes that left: retention, purges, the cleaner"),
)


NOT_KAFKAS = "not Kafka's logs"
WHOLE = "the whole disk"
_REST_WHY = (
    f"{NOT_KAFKAS}: what the disk's used bytes grow by beside these topics, as files of other "
    "programs, indexes and other log dirs on it."
)


def show(screen: Screen, found: Sequence[Outcome]) -> None:
    """Choose one of the log dirs, the first to be full first; its topics, fastest first."""
    st.html('<div class="lw"><h2>What fills it</h2></div>')
    names = {f"broker {o.disk.broker_id} · {o.disk.log_dir}": o.disk for o in found}
    chosen = names[st.selectbox("Log dir", list(names), key="growth-dir")]
    rows = of_dir(findings_of(screen).table("growth"), chosen.broker_id, chosen.log_dir)
    if not rows.num_rows:
        st.caption("How fast its topics grow is not known yet: it takes 3 snapshots over 10 min.")
        return
    shown, unit = frame(rows, chosen.likely)
    number = st.column_config.NumberColumn
    grid.show(
        shown,
        {
            "Topic": st.column_config.TextColumn(width=320),
            **{
                title: number(f"{title} ({unit})", format="%.2f", help=why)
                for title, _, why in _COLUMNS
            },
        },
        alt="Topics of the chosen log dir with bytes per hour written, deleted, and growth",
        placeholder=formats.MISSING,
    )
    st.caption(_REST_WHY if chosen.likely is not None else "How fast the disk grows is unknown.")


def of_dir(growth: pa.Table, broker_id: int, log_dir: str) -> pa.Table:
    """The rows of topics in one log dir whose growth is known, fastest first."""
    here = pc.and_(pc.equal(growth["broker_id"], broker_id), pc.equal(growth["log_dir"], log_dir))
    known = pc.and_(growth["topic"].is_valid(), growth["growth_per_hour"].is_valid())
    rows = growth.filter(pc.fill_null(pc.and_(here, known), False))
    return rows.sort_by([("growth_per_hour", "descending"), ("topic", "ascending")])


def frame(rows: pa.Table, whole: int | float | None) -> tuple[pd.DataFrame, str]:
    """The rows as a frame, and the one unit of its bytes; above them what `whole`, the growth of
    the disk's used bytes, has besides, so that all that is shown adds up to it.
    """
    values = {title: rows[name].to_pylist() for title, name, _ in _COLUMNS}
    names = rows["topic"].to_pylist()
    unit, divisor = formats.common_unit(abs(v or 0) for column in values.values() for v in column)
    if whole is not None:
        growth, *others = values.values()
        growth[:0] = [whole, whole - sum(growth)]
        for column in others:
            column[:0] = [None, None]
        names[:0] = [WHOLE, NOT_KAFKAS]
    scaled = {
        title: pd.Series([None if v is None else v / divisor for v in column], dtype="float64")
        for title, column in values.items()
    }
    return pd.DataFrame({"Topic": names, **scaled}), unit
