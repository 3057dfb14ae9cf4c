"""Retention that fits: the longest lag of declared readers, a shorter retention, and its text."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from dashboard.core.arrow import records
from dashboard.core.clock import utc_now
from dashboard.history.findings_age import age_of
from dashboard.store.snapshot_files import Manifest
from dashboard.topics.retention_fit import (
    CAUTION,
    FORMS,
    SHORTER,
    RetentionFit,
    change,
    headline,
    in_order,
    span,
)
from dashboard.ui.components import grid, markup, states
from dashboard.ui.growth.idle_table import AGAIN, asking
from dashboard.ui.session.context import Screen
from dashboard.ui.session.loading import findings_of
from dashboard.views import formats

TABLE = "retention_fit"
_VERDICTS = {"shorter": "◆ may be shorter", "keep": "fits", "too-short": "⚠ too short"}
_LANGUAGES = {"kafka-configs": "bash", "terraform": "hcl", "strimzi": "yaml"}
_FREED = (("Frees", "freed_likely_bytes"), ("At least", "freed_low_bytes"),
          ("At most", "freed_high_bytes"))  # fmt: skip


def show(screen: Screen) -> None:
    """The sentence, the table, and the chosen topic's change as text."""
    found = findings_of(screen)
    if TABLE not in found.manifest.tables:
        return
    rows = in_order(records(found.table(TABLE), RetentionFit))
    st.html('<div class="lw"><h2 id="retention">Retention that fits</h2></div>')
    if not rows:
        st.caption("No topic's readers are declared: nobody knows how long its records are needed.")
        return
    age = age_of(screen.cluster, found.manifest, screen.now, screen.settings.every)
    st.html(f'<div class="lw">{markup.text(f"{age.said}: {headline(rows)}")}</div>')
    show_change(screen, found.manifest, chosen(rows))


def frame(rows: Sequence[RetentionFit]) -> tuple[pd.DataFrame, str]:
    """The rows as a frame, and the unit of the columns of bytes."""
    unit, divisor = formats.common_unit(getattr(row, name) for row in rows for _, name in _FREED)
    columns: dict[str, object] = {
        "Topic": [row.topic for row in rows],
        "Verdict": [_VERDICTS.get(row.verdict, "? not known") for row in rows],
        "Longest lag": [span(row.lag_high_ms) for row in rows],
        "Kept now": [span(row.retention_ms) for row in rows],
        "Would fit": [span(row.fits_ms) for row in rows],
    }
    for title, name in _FREED:
        sizes = [None if (size := getattr(row, name)) is None else size / divisor for row in rows]
        columns[title] = pd.Series(sizes, dtype="float64")
    columns["Owner"] = [row.owner or "" for row in rows]
    return pd.DataFrame(columns), unit


def chosen(rows: Sequence[RetentionFit]) -> RetentionFit:
    """Draw the table; the row that is selected, else the first one."""
    shown, unit = frame(rows)
    number, text = st.column_config.NumberColumn, st.column_config.TextColumn
    at = grid.selected(
        shown,
        {
            "Topic": text(width=240),
            "Verdict": text(width=130),
            "Longest lag": text(
                width=100, help="At most so long what its readers had not read had been there"
            ),
            "Kept now": text(width=85, help="retention.ms of the topic"),
            "Would fit": text(width=85, help="That lag with its margin, rounded up"),
            **{
                title: number(f"{title} ({unit})", format="%.2f", width=115)
                for title, _ in _FREED
            },
            "Owner": text(width=115),
        },
        (row.topic for row in rows),
        key="retention",
        alt="Topics with declared readers: longest lag, retention now and one that would fit",
    )  # fmt: skip
    return rows[at[0]] if at else rows[0]


@st.fragment(run_every=AGAIN)
@states.guarded
def show_change(screen: Screen, analysis: Manifest, row: RetentionFit) -> None:
    """Why, and the change as text of the chosen tool, where one is proposed by findings of now.

    It redraws itself, as the proposal of an idle topic does.
    """
    age = age_of(screen.cluster, analysis, utc_now(), screen.settings.every)
    st.html(
        f'<div class="lw"><p><b>{markup.text(row.topic)}</b>: {markup.text(row.reason)}.</p></div>'
    )
    if row.verdict != SHORTER:
        return
    why = age.unusable or asking(screen)([row.topic]).get(row.topic, "")
    if why:
        st.html(f'<div class="lw"><p>No change is given: {markup.text(why)}.</p></div>')
        return
    form = st.selectbox("As text for", FORMS, key="retention-form", width=220)
    servers = screen.cluster.connection().bootstrap_servers
    st.caption(CAUTION)
    st.code(change(row, form, servers, why) or "", language=_LANGUAGES[form], wrap_lines=True)
