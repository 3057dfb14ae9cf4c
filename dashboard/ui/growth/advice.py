"""Advice on topics: which are idle, and which retention fits; each with the text to copy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pandas as pd
import streamlit as st

from dashboard.core.arrow import records
from dashboard.core.clock import utc_now
from dashboard.history.findings_age import age_of
from dashboard.purge.evidence import standards
from dashboard.settings.settings import Settings
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore
from dashboard.topics import idle as idle_topics
from dashboard.topics import retention_fit
from dashboard.topics.idle import IDLE, UNKNOWN, Ask, Idle, IdleTopic, headline, idle, risks, sure
from dashboard.topics.retention_fit import (
    CAUTION,
    FORMS,
    SHORTER,
    RetentionFit,
    change,
    changes,
    in_order,
    span,
)
from dashboard.ui.components import grid, in_browser, markup, states
from dashboard.ui.session import access
from dashboard.ui.session.context import Screen, findings_of
from dashboard.views import formats

# Idle topics: who has not been written to or read for days, and the line that would delete one.

IDLE_TABLE = "idle_topics"
AGAIN = timedelta(seconds=20)  # so often a proposal asks whether its findings still tell of now
_MOST_DAYS = 3650


def show_idle(screen: Screen) -> None:
    """The sentence, the table of idle topics and those not known, and the chosen one's line."""
    found = findings_of(screen)
    if IDLE_TABLE not in found.manifest.tables:
        return
    st.html('<div class="lw"><h2 id="idle">Idle topics</h2></div>')
    days = st.number_input(
        "Quiet for days", 1, _MOST_DAYS, screen.settings.idle.days, key="idle-days", width=160
    )
    age = age_of(screen.cluster, found.manifest, screen.now, screen.settings.every)
    known = found.derived("idle topics", lambda: records(found.table(IDLE_TABLE), IdleTopic))
    judged = idle(known, int(days), age.unusable, asking(screen))
    st.html(f'<div class="lw">{markup.text(f"{age.said}: {headline(judged, screen.price)}")}</div>')
    rows = [row for row in judged.rows if row.verdict in (IDLE, UNKNOWN)]
    if not rows:
        return
    _file(screen, "idle", "csv", "CSV", lambda: idle_topics.as_csv(rows))
    show_chosen(screen, found.manifest, judged, idle_chosen(rows))


def _file(screen: Screen, what: str, ending: str, label: str, make: Callable[[], str]) -> None:
    """A download, made when it is asked for, of those who may still look then."""
    st.download_button(
        label,
        access.at_click(make),
        file_name=f"lowwater-{what}-{screen.key}.{ending}",
        mime="text/csv" if ending == "csv" else "text/plain",
        key=f"{what}-{ending}",
        on_click="ignore",
    )


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
    return standards.said(_settings, _cluster, topics, utc_now())


def idle_frame(rows: Sequence[IdleTopic]) -> tuple[pd.DataFrame, str]:
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


def idle_chosen(rows: Sequence[IdleTopic]) -> IdleTopic:
    """Draw the table; the row that is selected, else the first one."""
    shown, unit = idle_frame(rows)
    column = st.column_config
    at = grid.selected(
        shown,
        {
            "Topic": column.TextColumn(width=grid.room_for((row.topic for row in rows), 240)),
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
    in_browser.copyable(line)


# Retention that fits: the longest lag of declared readers, a shorter retention, and its text.

FIT_TABLE = "retention_fit"
_VERDICTS = {"shorter": "◆ may be shorter", "keep": "fits", "too-short": "⚠ too short"}
_ENDINGS = {"kafka-configs": "sh", "terraform": "tf", "strimzi": "yaml"}
_FREED = (("Frees", "freed_likely_bytes"), ("At least", "freed_low_bytes"),
          ("At most", "freed_high_bytes"))  # fmt: skip


def show_retention(screen: Screen) -> None:
    """The sentence, the table, and the chosen topic's change as text."""
    found = findings_of(screen)
    if FIT_TABLE not in found.manifest.tables:
        return
    rows = found.derived(
        "retention", lambda: in_order(records(found.table(FIT_TABLE), RetentionFit))
    )
    st.html('<div class="lw"><h2 id="retention">Retention that fits</h2></div>')
    if not rows:
        st.caption("No topic's readers are declared: nobody knows how long its records are needed.")
        return
    age = age_of(screen.cluster, found.manifest, screen.now, screen.settings.every)
    said = retention_fit.headline(rows, screen.price)
    st.html(f'<div class="lw">{markup.text(f"{age.said}: {said}")}</div>')
    row = fit_chosen(rows)
    _file(screen, "retention", "csv", "CSV", lambda: retention_fit.as_csv(rows))
    show_change(screen, found.manifest, row, rows)


def fit_frame(rows: Sequence[RetentionFit]) -> tuple[pd.DataFrame, str]:
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


def fit_chosen(rows: Sequence[RetentionFit]) -> RetentionFit:
    """Draw the table; the row that is selected, else the first one."""
    shown, unit = fit_frame(rows)
    number, text = st.column_config.NumberColumn, st.column_config.TextColumn
    at = grid.selected(
        shown,
        {
            "Topic": text(width=grid.room_for((row.topic for row in rows), 240)),
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
def show_change(
    screen: Screen, analysis: Manifest, row: RetentionFit, rows: Sequence[RetentionFit]
) -> None:
    """Why, and the change as text of the chosen tool, where one is proposed by findings of now; and
    those of all topics as a file.

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
    in_browser.copyable(change(row, form, servers, why) or "")
    every = [fit.topic for fit in rows if fit.verdict == SHORTER]

    def text() -> str:
        unusable = age_of(screen.cluster, analysis, utc_now(), screen.settings.every).unusable
        doubted = {} if unusable else asking(screen)(every)
        return changes(rows, form, servers, unusable, doubted)

    label = f"All {formats.plural(len(every), 'change')} as text"
    _file(screen, "retention", _ENDINGS[form], label, text)
