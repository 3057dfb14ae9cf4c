"""Purges on the pages: the journal and what pages keep of it between two looks, of which they read
only what is new; the runs of today, and a run's states in words.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice

import streamlit as st

from dashboard.core.clock import utc_now
from dashboard.core.errors import JournalError
from dashboard.purge.jobs import queue
from dashboard.purge.journal import journal as journals
from dashboard.purge.journal.chain import Chain
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.pack import Stored
from dashboard.purge.journal.rows import RunRow, Verification
from dashboard.purge.receipt.alerts import Reverted, reverted
from dashboard.purge.receipt.model import Receipt
from dashboard.settings.sections import Price, beside
from dashboard.ui.components.markup import plain, text
from dashboard.ui.components.states import guarded, show_error
from dashboard.ui.session import context, routes
from dashboard.ui.session.context import Screen
from dashboard.views import formats

# A policy may add 2,880 runs a day; who wants all of them exports the journal.
MOST_RUNS = 2_000
# What was changed behind the journal's back in links seen before is found at the next whole look.
WHOLE_LOOK = timedelta(minutes=10)


class JournalMemory:
    """The runs and the chain of one journal as last read; safe between threads."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lock = threading.Lock()
        self._first, self._newest = 0, 0
        self._runs: dict[str, RunRow] = {}
        self._chain = Chain()
        self._since: datetime | None = None

    def runs(self, cluster_id: str | None = None) -> list[RunRow]:
        """Runs of a cluster (None: of all), newest first, of the newest MOST_RUNS in the journal.

        What heartbeats change may lag. Receipts are without their `replicas`.
        """
        with self._lock:
            first, newest = self._journal.first_entry(), self._journal.newest_entry()
            if first != self._first or newest < self._newest:  # archived, or another file
                self._runs, self._newest = {}, 0
            if newest != self._newest:
                changed = (
                    self._journal.runs_since(self._newest)
                    if self._newest
                    else self._journal.runs(most=MOST_RUNS)[::-1]
                )
                self._runs.update((run.run_id, _slim(run)) for run in changed)
                for run_id in [*islice(self._runs, max(0, len(self._runs) - MOST_RUNS))]:
                    del self._runs[run_id]
                self._first, self._newest = first, newest
            found = reversed(self._runs.values())
            return [run for run in found if cluster_id in (None, run.cluster_id)]

    def verify(self, now: datetime) -> Verification:
        """Check what is new in the chain, and all of it when the last whole look is long ago."""
        with self._lock:
            if self._since is None or not self._since <= now < self._since + WHOLE_LOOK:
                self._chain, self._since = Chain(), now
            self._chain, found = self._journal.verify_on(self._chain)
            return found


def _slim(run: RunRow) -> RunRow:
    """Without the sizes of each replica, most of a receipt's bytes."""
    kept = run.kept_receipt
    return replace(run, kept_receipt=kept.then(_slim_receipt)) if isinstance(kept, Stored) else run


def _slim_receipt(whole: Receipt) -> Receipt:
    return replace(whole, replicas=())


@st.cache_resource(max_entries=2, show_spinner=False)
def _memory(_journal: Journal, path: str) -> JournalMemory:
    del path  # the key
    return JournalMemory(_journal)


def memory(journal: Journal) -> JournalMemory:
    """The memory of this journal's file, one for all pages and people."""
    return _memory(journal, str(journal.file.path))


def verify(journal: Journal) -> Verification:
    """Whether the chain verifies, now."""
    return memory(journal).verify(utc_now())


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
    try:
        queue.respawn_stale(screen.settings, open_journal())
    except JournalError as error:  # of a copy too what it has is shown
        show_error(error)
    back = reverted(open_journal(), screen.cluster.cluster_id)
    for alert in back[:ROWS]:
        _came_back(alert)
    past = past_runs(screen.cluster.cluster_id)
    found = fold(of_today(screen.cluster.cluster_id, past, screen.now))
    links([fresh(line) for line in found[:ROWS]], screen.now)
    if not found:
        st.caption("None. A purge starts with a plan, or by a policy that was switched on.")
    elif len(found) > ROWS:
        routes.link("audit", f"and {formats.number(len(found) - ROWS)} more, on Audit")
    if told := freed_said(past, screen.now, cut=cut(), price=screen.price):
        st.caption(plain(told))


def cut() -> bool:
    """Whether the journal has more runs than `past_runs` tells of."""
    return open_journal().run_count() > MOST_RUNS


def of_today(cluster_id: str, past: Sequence[RunRow], now: datetime) -> list[RunRow]:
    """Runs that are open, however old, and those of `past` that were queued within a day; newest
    first.
    """
    found = {run.run_id: run for run in past if not run.open and run.queued_at >= now - RECENT}
    found |= {run.run_id: run for run in open_journal().recent(cluster_id, now, MOST_RUNS)}
    return sorted(found.values(), key=lambda run: (run.queued_at, run.run_id), reverse=True)


@dataclass(frozen=True, slots=True)
class Freed:
    """What the final receipts of a month's runs add up to.

    `unknown` are purges of which it is not known; `newest` says that older ones are not in it.
    """

    size_bytes: int
    purges: int
    unknown: int
    newest: bool


def freed(found: Sequence[RunRow], now: datetime, *, cut: bool) -> Freed | None:
    """Of the newest runs, as `past_runs` gives them: all of them, or those that a `cut` left. None
    where no receipt tells anything.
    """
    month = [run for run in found if run.queued_at >= now - _MONTH]
    final = [run.receipt.freed_bytes for run in month if run.receipt and run.receipt.final]
    known = [size for size in final if size is not None]
    newest = cut and len(month) == len(found)
    return Freed(sum(known), len(known), len(final) - len(known), newest) if known else None


def freed_said(
    found: Sequence[RunRow], now: datetime, *, cut: bool = False, price: Price | None = None
) -> str:
    """The same in a sentence, with what it costs; empty where there is nothing to tell."""
    if (told := freed(found, now, cut=cut)) is None:
        return ""
    unknown = f"; of {told.unknown} more it is not known" if told.unknown else ""
    purges = formats.plural(told.purges, "purge")
    by = f"the newest {purges}" if told.newest else purges
    size = formats.size(told.size_bytes) + beside(price, told.size_bytes)
    return f"Freed in the last 30 days: {size} by {by}{unknown}."


# A policy may purge every 30 s: its runs that went alike are one line, led by the newest.


@dataclass(frozen=True, slots=True)
class Line:
    """A run, and how many of its policy's went as it did, itself counted: a person's is one.

    `freed_bytes` are those of all of them, as far as receipts tell; None: nothing is known.
    """

    run: RunRow
    count: int
    freed_bytes: int | None


def fold(found: Iterable[RunRow]) -> list[Line]:
    """A line for each policy and outcome, and for each run of a person, or that is open yet."""
    alike: dict[object, list[RunRow]] = {}
    for run in found:
        folds = run.policy is not None and not run.open
        key = (run.cluster_id, run.policy, run.outcome) if folds else run.run_id
        alike.setdefault(key, []).append(run)
    return [_line(runs) for runs in alike.values()]


def each(found: Iterable[RunRow]) -> list[Line]:
    """A line for each run."""
    return [_line([run]) for run in found]


def _line(alike: Sequence[RunRow]) -> Line:
    sizes = [run.receipt.freed_bytes for run in alike if run.receipt]
    known = [size for size in sizes if size is not None]
    return Line(alike[0], len(alike), sum(known) if known else None)


def fresh(line: Line) -> Line:
    """A run that stands alone as it is now: its receipt may have moved on without a new entry."""
    return each([open_journal().head(line.run.run_id)])[0] if line.count == 1 else line


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


def links(found: Sequence[Line], now: datetime) -> None:
    """Each line a link to its run, the newest of those that it stands for."""
    topics = open_journal().topics_of([line.run.run_id for line in found])
    for line in found:
        words = said(line, topics[line.run.run_id], now)
        label = f"**{RUN_WORDS[line.run.outcome]}** {words}"
        routes.link("purge", label, run=line.run.run_id)


def said(line: Line, topics: Sequence[str], now: datetime) -> str:
    """Of what, when it was queued, by whom, and what it freed as far as that is known."""
    run, more = line.run, f" and {len(topics) - 1} more" if len(topics) > 1 else ""
    yet = "" if run.receipt_final else " so far"
    tail = f", freed {formats.size(line.freed_bytes)}{yet}" if line.freed_bytes is not None else ""
    tail = ", nothing was purged" if run.outcome == "failed" else tail
    if line.count > 1:
        purges = formats.plural(line.count, "purge")
        ago = formats.ago(run.queued_at, now)
        return f"{purges} of policy {plain(run.policy)}, the newest {ago}{tail}"
    what = f"{plain(topics[0])}{more}, " if topics else ""
    return f"{what}{formats.ago(run.queued_at, now)} by {plain(run.who)}{tail}"
