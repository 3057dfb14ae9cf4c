"""Idle topics: who has not been written to or read for days, and the line that would delete one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pandas as pd
import streamlit as st

from dashboard.core.arrow import records
from dashboard.core.clock import utc_now
from dashboard.history.findings_age import age_of
from dashboard.purge.evidence import doubts
from dashboard.settings.settings import Settings
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore
from dashboard.topics.idle import IDLE, UNKNOWN, Ask, Idle, IdleTopic, headline, idle, risks, sure
from dashboard.ui.components import grid, markup, states
from dashboard.ui.session.context import Screen
from dashboard.ui.session.loading import findings_of
from dashboard.views import formats

TABLE = "idle_topics"
AGAIN = timedelta(seconds=20)  # so often a proposal asks whether its findings still tell of now
_MOST_DAYS = 3650


def show(screen: Screen) -> None:
    """The sentence, the table of idle topics and those not known, and the chosen one's line."""
    found = findings_of(screen)
    if TABLE not in found.manifest.tables:
        return
    st.html('<div class="lw"><h2 id="idle">Idle topics</h2></div>')
    days = st.number_input(
        "Quiet for days", 1, _MOST_DAYS, screen.settings.idle.days, key="idle-days", width=160
    )
    age = age_of(screen.cluster, found.manifest, screen.now, screen.settings.every)
    judged = idle(records(found.table(TABLE), IdleTopic), int(days), age.unusable, asking(screen))
    st.html(f'<div class="lw">{markup.text(f"{age.said}: {headline(judged)}")}</div>')
    rows = [row for row in judged.rows if row.verdict in (IDLE, UNKNOWN)]
    if not rows:
        return
    show_chosen(screen, found.manifest, judged, chosen(rows))


def asking(screen: Screen) -> Ask:
    """What a purge of these topics would be asked, kept until a snapshot more is there."""
    cluster = screen.cluster
    key = (cluster.path, cluster.latest("snapshots") or "")
    return lambda topics: _asked(screen.settings, cluster, tuple(topics), key)


@st.cache_data(max_entries=16, ttl=60, show_spinner="Looking for readers that no group shows …")
def _asked(
    _settings: Settings, _cluster: ClusterStore, topics: tuple[str, ...], key: tuple[str, str]
) -> dict[str, str]:
    del key  # what the others are known by
    return doubts.said(_settings, _cluster, topics, utc_now())


def frame(rows: Sequence[IdleTopic]) -> tuple[pd.DataFrame, str]:
    """The rows as a frame, and the unit of the column of bytes."""
    unit, divisor = formats.common_unit(row.size_bytes for row in rows)
    sizes = [None if (size := row.size_bytes) is None else size / divisor for row in rows]
    columns = {
        "Topic": [row.topic for row in rows],
        "Verdict": ["◆ idle" if row.verdict == IDLE else "? not known" for row in rows],
        "Kind": [row.tool or row.kind or formats.UNKNOWN for row in rows],
        "On disk": pd.Series(sizes, dtype="float64"),
        "Quiet since": _times(row.quiet_since for row in rows),
        "Groups": pd.Series([row.groups for row in rows], dtype="Int64"),
        "Last commit": _times(row.last_commit_at for row in rows),
        "Sure by": [sure(row) for row in rows],
        "Owner": [row.owner or "" for row in rows],
    }
    return pd.DataFrame(columns), unit


def _times(found: Iterable[datetime | None]) -> pd.Series[pd.Timestamp]:
    return pd.Series(pd.to_datetime(pd.Series(list(found), dtype="object"), utc=True))


def chosen(rows: Sequence[IdleTopic]) -> IdleTopic:
    """Draw the table; the row that is selected, else the first one."""
    shown, unit = frame(rows)
    column = st.column_config
    at = grid.selected(
        shown,
        {
            "Topic": column.TextColumn(width=240),
            "Verdict": column.TextColumn(width=95),
            "Kind": column.TextColumn(width=95),
            "On disk": column.NumberColumn(
                f"On disk ({unit})", format="%.2f", width=105,
                help="All replicas together: what deleting the topic would give back",
            ),
            "Quiet since": column.DatetimeColumn(
                format="distance", width=110, help="No log end has moved since then"
            ),
            "Groups": column.NumberColumn(width=65, help="Groups that hold an offset on it"),
            "Last commit": column.DatetimeColumn(format="distance", width=110),
            "Sure by": column.TextColumn(width=125),
            "Owner": column.TextColumn(width=110),
        },
        (f"{row.topic} {row.verdict}" for row in rows),
        key="idle",
        alt="Idle topics and those not known, with bytes on disk, quiet since, groups, evidence",
    )  # fmt: skip
    return rows[at[0]] if at else rows[0]


@st.fragment(run_every=AGAIN)
@states.guarded
def show_chosen(screen: Screen, analysis: Manifest, judged: Idle, row: IdleTopic) -> None:
    """Why it is idle or not known; what deleting it risks, and the line, where it is proposed.

    It redraws itself: a page that stays open must not go on offering what it may offer no more.
    """
    age = age_of(screen.cluster, analysis, utc_now(), screen.settings.every)
    found = replace(judged, unusable=age.unusable)
    said = f"<p><b>{markup.text(row.topic)}</b>: {markup.text(row.reason)}.</p>"
    line = found.delete_command(row, screen.cluster.connection().bootstrap_servers)
    if line is None:
        why = found.not_proposed(row) if row.verdict == IDLE else None
        said += f"<p>Not proposed: {markup.text(why)}.</p>" if why else ""
        st.html(f'<div class="lw">{said}</div>')
        return
    listed = "".join(f"<li>{markup.text(risk)}</li>" for risk in risks(row))
    st.html(f'<div class="lw">{said}<ul>{listed}</ul></div>')
    st.caption("Lowwater deletes no topic. The line to copy:")
    st.code(line, language="bash", wrap_lines=True)
