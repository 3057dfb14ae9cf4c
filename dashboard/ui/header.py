"""The header of every page: cluster, the data's age, brokers, counting on; and the report."""

from __future__ import annotations

from datetime import datetime, timedelta

import streamlit as st

from dashboard.clock import utc_now
from dashboard.errors import JournalError
from dashboard.purge import queue_refusals
from dashboard.ui import access, collector, context, markup, signing_in
from dashboard.ui.collector import Standing
from dashboard.ui.context import Screen
from dashboard.ui.report_button import report_button
from dashboard.ui.runs import open_journal
from dashboard.ui.states import guarded

_EVERY = timedelta(seconds=5)


def header(screen: Screen) -> None:
    """The header for what this page shows; it redraws itself, and offers what is newer.

    Beside it, once there are findings, the button that hands them out as files; and the way out.
    """
    leaves = access.signs_in()
    if screen.findings is None and not leaves:
        _header(screen)
        return
    left, *right = st.columns([11, *([1] * (1 + leaves))], vertical_alignment="top")
    with left:
        _header(screen)
    with right[0]:
        report_button(screen)
    if leaves:
        with right[1]:
            signing_in.sign_out()


@st.fragment(run_every=_EVERY)
@guarded
def _header(shown: Screen) -> None:
    newest, now = context.newest(), utc_now()
    found = collector.standing(newest, now)
    st.html(header_html(shown, found, stopped(), now))
    if found.failure is not None:
        st.html(collector.failure_html(found, shown.manifest.taken_at, now))
    if _id(newest) != _id(shown) and st.button(
        "Show newer data", key="lw-newer", help="A page keeps its numbers until you ask."
    ):
        context.show_newest()
        st.rerun(scope="app")


def _id(screen: Screen) -> str:
    """What a reader would see change: the analysis, or the snapshot while there is none."""
    return screen.findings.id if screen.findings else screen.snapshot.id


def stopped() -> str | None:
    """Why no purge can be sent now: the switch, in the settings or the journal; None: it can."""
    try:
        return queue_refusals.stopped(context.settings(), open_journal())
    except JournalError as error:  # nothing is queued without it
        return f"the purge journal cannot be used: {error.message}"


def header_html(screen: Screen, found: Standing, stop: str | None, now: datetime) -> str:
    """`prod-eu · snapshot 38 s ago · 3 of 3 brokers`, amber when something is wrong.

    The age is that of what is shown; brokers are those of the newest attempt to collect.
    """
    parts = [
        f"<h1>{markup.text(screen.cluster.name)}</h1>",
        f"snapshot {markup.ago(screen.manifest.taken_at, now)}",
        markup.hover(found.brokers, found.each_broker),
        *(f"⚠ {markup.text(warning)}" for warning in found.warnings),
    ]
    if screen.findings is None:
        parts.append("no analysis yet")
    elif _behind(screen):
        parts.append(f"findings {markup.ago(screen.findings.manifest.taken_at, now)}")
    if screen.settings.people is not None:
        who = access.actor()
        parts.append(markup.hover(f"{who.name} ({who.role})", "what you do is kept in this name"))
    if stop is not None:
        parts.append(f"<b>⏸ every purge is stopped</b>: {markup.text(stop)}")
    kind = " warn" if found.warnings or stop is not None else ""
    return f'<div class="lw lw-head{kind}" role="status">{" · ".join(parts)}</div>'


def _behind(screen: Screen) -> bool:
    """Whether the newest findings are of an older snapshot: the analysis runs right now."""
    if screen.findings is None:
        return False
    of = screen.findings.manifest.details.get("snapshot_id")
    return of is not None and of != screen.snapshot.id
