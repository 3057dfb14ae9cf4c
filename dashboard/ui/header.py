"""The header of every page: cluster, the data's age, brokers; it counts on by itself."""

from __future__ import annotations

from datetime import timedelta

import streamlit as st

from dashboard.clock import utc_now
from dashboard.ui import context, formats, markup
from dashboard.ui.context import Screen
from dashboard.ui.states import guarded

_EVERY = timedelta(seconds=5)


@st.fragment(run_every=_EVERY)
@guarded
def header(shown_snapshot: str, shown_analysis: str | None) -> None:
    """Draw the header from the newest manifest; offer what is newer than the page shows."""
    screen = context.load()
    st.html(header_html(screen))
    newest = screen.findings.id if screen.findings else None
    changed = newest != shown_analysis or (newest is None and screen.snapshot.id != shown_snapshot)
    if changed and st.button(
        "Show newer data", key="lw-newer", help="The page keeps its numbers until you ask."
    ):
        st.rerun(scope="app")


def header_html(screen: Screen) -> str:
    """`prod-eu · snapshot 38 s ago · 3 of 3 brokers`, amber when stale or a broker is missing."""
    present = len(screen.brokers) - len(screen.missing_brokers)
    warn = screen.stale or bool(screen.missing_brokers)
    parts = [
        f"<h1>{markup.text(screen.cluster.name)}</h1>",
        f"snapshot {markup.ago(screen.manifest.taken_at, screen.now)}",
        markup.hover(f"{present} of {len(screen.brokers)} brokers", _brokers(screen)),
    ]
    if screen.stale:
        every = formats.duration(screen.settings.every)
        parts.append(f"⚠ stale: no snapshot for over three intervals of {every}; is watch running?")
    if screen.missing_brokers:
        ids = ", ".join(str(broker["broker_id"]) for broker in screen.missing_brokers)
        parts.append(f"⚠ broker {ids} did not answer")
    if screen.findings is None:
        parts.append("no analysis yet")
    elif _behind(screen):
        parts.append(f"findings {markup.ago(screen.findings.manifest.taken_at, utc_now())}")
    if screen.settings.read_only:
        parts.append("⏸ read-only: purges are off")
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
