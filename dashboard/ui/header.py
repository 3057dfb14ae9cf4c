"""The header of every page: cluster, the data's age, brokers, counting on; and the report."""

from __future__ import annotations

from datetime import datetime, timedelta

import streamlit as st

from dashboard import read_only
from dashboard.clock import utc_now
from dashboard.ui import access, context, formats, markup, signing_in
from dashboard.ui.context import Screen
from dashboard.ui.report_button import report_button
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
    left, *right = st.columns([11, *([1] * (1 + leaves))], vertical_alignment="center")
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
    newest = context.newest()
    st.html(header_html(shown, newest, utc_now()))
    if _id(newest) != _id(shown) and st.button(
        "Show newer data", key="lw-newer", help="A page keeps its numbers until you ask."
    ):
        context.show_newest()
        st.rerun(scope="app")


def _id(screen: Screen) -> str:
    """What a reader would see change: the analysis, or the snapshot while there is none."""
    return screen.findings.id if screen.findings else screen.snapshot.id


def header_html(screen: Screen, newest: Screen, now: datetime) -> str:
    """`prod-eu · snapshot 38 s ago · 3 of 3 brokers`, amber when stale or a broker is missing.

    The age is that of what is shown; stale is said of the newest snapshot there is.
    """
    present = len(screen.brokers) - len(screen.missing_brokers)
    warn = newest.stale or bool(screen.missing_brokers)
    parts = [
        f"<h1>{markup.text(screen.cluster.name)}</h1>",
        f"snapshot {markup.ago(screen.manifest.taken_at, now)}",
        markup.hover(f"{present} of {len(screen.brokers)} brokers", _brokers(screen)),
    ]
    if newest.stale:
        every = formats.duration(screen.settings.every)
        parts.append(f"⚠ stale: no snapshot for over three intervals of {every}; is watch running?")
    if screen.missing_brokers:
        ids = ", ".join(str(broker["broker_id"]) for broker in screen.missing_brokers)
        parts.append(f"⚠ broker {ids} did not answer")
    if screen.findings is None:
        parts.append("no analysis yet")
    elif _behind(screen):
        parts.append(f"findings {markup.ago(screen.findings.manifest.taken_at, now)}")
    if screen.settings.people is not None:
        who = access.actor()
        parts.append(markup.hover(f"{who.name} ({who.role})", "what you do is kept in this name"))
    if (reason := read_only.why(screen.settings)) is not None:
        parts.append(markup.hover("⏸ read-only: purges are off", reason))
    kind = " warn" if warn else ""
    return f'<div class="lw lw-head{kind}" role="status">{" · ".join(parts)}</div>'


def _brokers(screen: Screen) -> str:
    return "; ".join(
        f"broker {b['broker_id']}: {b.get('error') or 'answered'}" for b in screen.brokers
    )


def _behind(screen: Screen) -> bool:
    """Whether the newest findings are of an older snapshot: the analysis runs right now."""
    if screen.findings is None:
        return False
    of = screen.findings.manifest.details.get("snapshot_id")
    return of is not None and of != screen.snapshot.id
