"""What pages keep of the journal between two looks: they read only what is new in the chain."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice

import streamlit as st

from dashboard.core.clock import utc_now
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.journal_chain import Chain
from dashboard.purge.journal.journal_pack import Stored
from dashboard.purge.journal.journal_rows import RunRow, Verification
from dashboard.purge.receipt.model import Receipt

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
