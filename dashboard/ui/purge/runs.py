"""Purges on the pages: the journal, the runs of today, and a run's states in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import streamlit as st

from dashboard.purge.jobs import queue
from dashboard.purge.journal import journal as journals
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.journal_rows import RunRow
from dashboard.purge.receipt.alerts import Reverted, reverted
from dashboard.ui.components.markup import plain, text
from dashboard.ui.components.states import guarded
from dashboard.ui.session import context, routes
from dashboard.ui.session.context import Screen
from dashboard.ui.session.journal_memory import MOST_RUNS, memory
from dashboard.views import formats

RECENT = timedelta(hours=24)
ROWS = 5
_MONTH = timedelta(days=30)
RUN_WORDS = {
    "queued": "○ queued",
    "running": "▶ running",
    "paused": "⏸ paused",
    "done": "✔ done",
    "partial": "◐ partly done",
    "failed": "✖ failed",
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
    """Runs of a cluster (None: of all), newest first: what changed is read when the chain grew.

    Heartbeats and receipts that are not final yet are no links of the journal's chain. Of a long
    journal these are the newest runs; `left_out` says so.
    """
    return memory(open_journal()).runs(cluster_id)


def left_out() -> str:
    """What `past_runs` leaves out, in words: older runs of the journal, and those that were
    archived; "" where it has all.
    """
    journal = open_journal()
    count, begins = journal.run_count(), journal.begins()
    told = []
    if count > MOST_RUNS:
        told.append(
            f"The newest {formats.number(MOST_RUNS)} of {formats.number(count)} runs; all of them: "
            "`lowwater runs`, or Audit's export."
        )
    if begins is not None:
        told.append(f"Purges are {begins.words}.")
    return " ".join(told)


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
    found = open_journal().recent(screen.cluster.cluster_id, screen.now - RECENT, ROWS)
    links(found, screen.now)
    if not found:
        st.caption("None. A purge starts with a plan, or by a policy that was switched on.")
    if told := freed_said(past_runs(screen.cluster.cluster_id), screen.now):
        st.caption(told)


def freed_said(found: Iterable[RunRow], now: datetime) -> str:
    """What the final receipts of a month's runs add up to; empty where there is none."""
    freed = [
        run.receipt.freed_bytes
        for run in found
        if run.queued_at >= now - _MONTH and run.receipt and run.receipt.final
    ]
    known = [size for size in freed if size is not None]
    if not known:
        return ""
    rest = len(freed) - len(known)
    unknown = f"; of {rest} more it is not known" if rest else ""
    runs = formats.plural(len(known), "purge")
    return f"Freed in the last 30 days: {formats.size(sum(known))} by {runs}{unknown}."


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
    st.caption(
        "Where no purge can go as far again, since the topic was deleted or made anew, end this "
        f'with: lowwater run {alert.run_id} --dismiss "WHY"'
    )


def links(found: Sequence[RunRow], now: datetime) -> None:
    """Each run in one line, a link to itself."""
    topics = open_journal().topics_of([run.run_id for run in found])
    for run in found:
        words = said(run, topics[run.run_id], now)
        routes.link("purge", f"**{RUN_WORDS[run.outcome]}** {words}", run=run.run_id)


def said(run: RunRow, topics: Sequence[str], now: datetime) -> str:
    """Of what, when it was queued, by whom, and what it freed as far as that is known."""
    more = f" and {len(topics) - 1} more" if len(topics) > 1 else ""
    freed = run.receipt.freed_bytes if run.receipt else None
    yet = "" if run.receipt_final else " so far"
    tail = f", freed {formats.size(freed)}{yet}" if freed is not None else ""
    tail = ", nothing was purged" if run.outcome == "failed" else tail
    what = f"{plain(topics[0])}{more}, " if topics else ""
    return f"{what}{formats.ago(run.queued_at, now)} by {plain(run.who)}{tail}"
