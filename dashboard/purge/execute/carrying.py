"""Carries out one run over an open cluster, under the run's file lock and heartbeat.

The detached worker of a run and the service of policies both do it this way: whoever holds the lock
carries the run out, and a second one leaves it alone.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from dashboard.core.errors import JournalError, RefusedError
from dashboard.purge.evidence.standards import Standards
from dashboard.purge.execute import beginning, unsent
from dashboard.purge.execute.execute import Execution
from dashboard.purge.jobs.queue_refusals import switched_off
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.journal_rows import RestedOn, RunRow
from dashboard.purge.plan.cluster_seam import Cluster
from dashboard.purge.plan.plan import Plan
from dashboard.settings.policies.policy import Policy

_BEAT_SECONDS = 2.0


@contextmanager
def held(
    journal: Journal, state_dir: Path, run_id: str, now: Callable[[], datetime]
) -> Iterator[bool]:
    """The run's lock and heartbeat while the block lasts; False: another process or thread has it.

    Raises JournalError when the lock or the first beat cannot be written.
    """
    with _run_lock(state_dir, run_id) as first:
        if not first:
            yield False
            return
        with _heartbeat(journal, run_id, now):
            yield True


def carry_out(
    live: Cluster,
    journal: Journal,
    run_id: str,
    *,
    now: Callable[[], datetime],
    sleep: Callable[[float], None],
    read_only: Callable[[], str | None],
    standards: Callable[[Plan], Standards],
    policies: Callable[[], Sequence[Policy]] = tuple,
    steady: Callable[[], float] = time.monotonic,
) -> RunRow:
    """Work until the run is closed, inside `held`; its head then. One that is closed is left.

    `read_only` says why the settings switch every purge off, None: they do not; the journal's is
    asked besides. `standards` are those of now for the plan, asked before each request. `policies`
    gives those that the settings define now: a run of another one, or of one that is off, sends
    nothing more. A run of which nothing was sent and that may no longer begin, at once or after a
    pause, is refused. `steady` is a clock in seconds that nobody sets. Raises JournalError: then
    nothing more is sent.
    """
    run = journal.head(run_id)
    if run.open:
        plan = journal.plan(run_id)
        begin = beginning.Beginning(journal, run, plan, policies, now)
        begin.look()
        try:
            if not begin.sent:  # what was sent is read to its end, whatever the rest may
                begin.ask()
            Execution(
                live=live,
                journal=journal,
                run=run,
                plan=plan,
                now=now,
                sleep=sleep,
                read_only=lambda: read_only() or switched_off(journal),
                standards=lambda: replace(standards(plan), rested=_rested(journal, run, plan)),
                may_begin=begin.ask,
                withdrawn=lambda: beginning.withdrawn(journal, run, policies),
                steady=steady,
            ).execute()
        except RefusedError as error:
            unsent.close(journal, run, "refused", error, now())
    return journal.head(run_id)


def _rested(journal: Journal, run: RunRow, plan: Plan) -> list[RestedOn]:
    """What the newest run before and this one rested on: the folder may be another by now."""
    own = plan.known_since and RestedOn(run.run_id, run.queued_at, plan.known_since)
    return [found for found in (journal.rested_on(run.cluster_id, but=run.run_id), own) if found]


def say(text: str) -> None:
    """A line for the log of who carries out, which may lie on the very disk that is full."""
    # Past the buffer: what stays in there is tried again at the end, and Python exits with 120.
    with suppress(OSError):
        os.write(2, f"{text}\n".encode(errors="backslashreplace"))


@contextmanager
def _run_lock(state_dir: Path, run_id: str) -> Iterator[bool]:
    """The run's file lock while the process lives; False when another holds it."""
    path = state_dir / "locks" / f"{run_id}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = path.open("a+")
    except OSError as error:
        raise _no_lock(path, error) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        try:  # who holds it, for an operator who wonders
            file.truncate(0)
            os.write(file.fileno(), f"{os.getpid()}\n".encode())
        except OSError as error:
            raise _no_lock(path, error) from error
        yield True


def _no_lock(path: Path, error: OSError) -> JournalError:
    return JournalError(
        f"the lock {path} cannot be written: {error.strerror}",
        "Free disk space or correct its rights; nothing is sent without a journal.",
    )


@contextmanager
def _heartbeat(journal: Journal, run_id: str, now: Callable[[], datetime]) -> Iterator[None]:
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(_BEAT_SECONDS):
            try:
                journal.beat(run_id, now())
            except JournalError as error:  # the work itself meets it, and ends in good order
                say(error.message)

    journal.beat(run_id, now())
    thread = threading.Thread(target=beat, daemon=True, name="heartbeat")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
