"""Purges on the pages: the journal, the runs of today, and a run's states in words."""

from __future__ import annotations

from datetime import timedelta

import streamlit as st

from dashboard.purge import journal as journals
from dashboard.purge import queue
from dashboard.purge.alerts import Reverted, reverted
from dashboard.purge.journal import Journal
from dashboard.purge.journal_rows import RunRow
from dashboard.ui import context, formats, routes
from dashboard.ui.context import Screen
from dashboard.ui.markup import text
from dashboard.ui.states import guarded

RECENT = timedelta(hours=24)
ROWS = 5
RUN_WORDS = {
    "queued": "○ queued",
    "running": "▶ running",
    "paused": "⏸ paused",
    "done": "✔ done",
    "partial": "◐ partly done",
    "refused": "⊘ refused",
    "cancelled": "■ cancelled",
}
PARTITION_WORDS = {
    "pending": ("○ pending", "not sent yet"),
    "sent": ("▶ sent", "the leader has the request; its answer is awaited"),
    "unknown": ("? unknown", "no proof yet: the current leader is being read"),
    "done": ("✔ done", "every live replica has reached the target"),
    "leader_done": ("◑ leader done", "the leader has; the named followers are behind"),
    "not_done": ("✖ not done", "nothing was truncated; the error says why"),
    "reverted": ("↺ reverted", "a later leader starts below the target: records are back"),
}


@st.cache_resource(show_spinner=False)
def open_journal() -> Journal:
    """The journal of this machine's state folder. Raises JournalError."""
    return journals.open_default(context.settings())


def past_runs(cluster_id: str | None = None) -> list[RunRow]:
    """All runs of a cluster (None: of all), newest first, read again when the chain has grown.

    Heartbeats and receipts that are not final yet are no links of the journal's chain.
    """
    journal = open_journal()
    return _past_runs(journal, str(journal.file.path), journal.newest_entry(), cluster_id)


@st.cache_resource(max_entries=4, show_spinner=False)
def _past_runs(
    _journal: Journal, path: str, newest_entry: int, cluster_id: str | None
) -> list[RunRow]:
    del path, newest_entry  # parts of the key
    return _journal.runs(cluster_id)


@st.fragment(run_every=timedelta(seconds=5))
@guarded
def recent(screen: Screen) -> None:
    """Runs that are open, or were queued within a day; newest first."""
    st.html('<div class="lw"><h2>Purges running or finished today</h2></div>')
    # A worker that died is started again by whoever looks first.
    queue.respawn_stale(screen.settings, open_journal())
    back = reverted(open_journal(), screen.cluster.cluster_id)
    for alert in back[:ROWS]:
        _came_back(alert)
    found = [
        run
        for run in open_journal().runs(screen.cluster.cluster_id)
        if run.open or screen.now - run.queued_at < RECENT
    ]
    for run in found[:ROWS]:
        routes.link("purge", f"**{RUN_WORDS[run.state]}** {_said(run, screen)}", run=run.run_id)
    if not found:
        st.caption("None. A purge starts with a plan; nothing runs by itself.")


def _came_back(alert: Reverted) -> None:
    """A run that an election undid: it stays here until its partitions are purged again."""
    topics = ", ".join(sorted(alert.topics))
    count = formats.plural(alert.partitions, "partition")
    st.html(
        f'<div class="lw lw-state alert" role="alert"><p><b>↺ Records came back</b> in {count} of '
        f"{text(topics)}: a later leader starts below the target.</p></div>"
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button("Plan again", key=f"again-{alert.run_id}"):
            routes.plan_purge(sorted(alert.topics))
        routes.link("purge", f"See run {alert.run_id}", run=alert.run_id)


def _said(run: RunRow, screen: Screen) -> str:
    freed = (run.receipt or {}).get("freed_bytes")
    tail = f", freed {formats.size(freed)}" if freed is not None else ""
    return f"{formats.ago(run.queued_at, screen.now)} by {run.who}{tail}"
