"""Carries out one run over an open cluster, under the run's file lock and heartbeat.

The detached worker of a run and the service of policies both do it this way: whoever holds the lock
carries the run out, and a second one leaves it alone.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from dashboard.core.errors import JournalError, RefusedError, SettingsError
from dashboard.core.locks import take
from dashboard.purge.evidence.standards import Standards
from dashboard.purge.execute import stop_rules
from dashboard.purge.execute.archiving import Archiving, Reading
from dashboard.purge.execute.execute import Execution
from dashboard.purge.journal.gate import late, refuse_off, switched_off
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.rows import RestedOn, RunRow
from dashboard.purge.plan.cluster_seam import Cluster
from dashboard.purge.plan.plan import Plan
from dashboard.settings.policies.policy import Policy, is_open, next_open

_BEAT_SECONDS = 2.0


@contextmanager
def held(
    journal: Journal, state_dir: Path, run_id: str, now: Callable[[], datetime]
) -> Iterator[bool]:
    """The run's lock and heartbeat while the block lasts; False: another process or thread has it.

    Raises JournalError when the lock or the first beat cannot be written; the run says why.
    """
    with ExitStack() as stack:
        try:
            first = stack.enter_context(run_lock(state_dir, run_id))
        except JournalError as error:
            stop_rules.leave(journal, run_id, error, now())
            raise
        if first:
            stack.enter_context(_heartbeat(journal, run_id, now))
        yield first


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
    reading: Reading | None = None,
) -> RunRow:
    """Work until the run is closed, inside `held`; its head then. One that is closed is left.

    `read_only` says why the settings switch every purge off, None: they do not; the journal's is
    asked besides. `standards` are those of now for the plan, asked before each request. `policies`
    gives those that the settings define now: a run of another one, or of one that is off, sends
    nothing more. A run of which nothing was sent and that may no longer begin, at once or after a
    pause, is refused. `steady` is a clock in seconds that nobody sets. `reading`: how records are
    read that are kept first; a run that asks for that is refused without it. Raises JournalError:
    then nothing more is sent.
    """
    run = journal.head(run_id)
    if run.open:
        run.options.all_known(f"run {run_id}")
        plan = journal.plan(run_id)
        journal.carried(run_id, now())
        begin = Beginning(journal, run, plan, policies, now)
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
                standards=lambda: _judged_by(standards, journal, run, plan),
                may_begin=begin.ask,
                withdrawn=lambda: withdrawn(journal, run, policies),
                steady=steady,
                archiving=Archiving(live, journal, run, plan, reading, now, sleep)
                if reading is not None and run.options.archive is not None
                else None,
            ).execute()
        except RefusedError as error:
            stop_rules.close(journal, run, "refused", error, now())
    return journal.head(run_id)


def _judged_by(
    standards: Callable[[Plan], Standards], journal: Journal, run: RunRow, plan: Plan
) -> Standards:
    rested = _rested(journal, run, plan)  # others may hold the journal, while settings change
    return replace(standards(plan), rested=rested)


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
def run_lock(state_dir: Path, run_id: str) -> Iterator[bool]:
    """The run's file lock while the process lives; False when another holds it."""
    path = _lock_of(state_dir, run_id)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = path.open("a+")
    except OSError as error:
        raise _no_lock(path, error) from error
    with file:
        if not take(file.fileno()) or not _is_file(path, file.fileno()):
            yield False  # removed in between, it was held by who followed the run to its end
            return
        try:  # who holds it, for an operator who wonders
            file.truncate(0)
            os.write(file.fileno(), f"{os.getpid()}\n".encode())
        except OSError as error:
            raise _no_lock(path, error) from error
        yield True


def _is_file(path: Path, number: int) -> bool:
    with suppress(OSError):
        return os.path.samestat(path.stat(), os.fstat(number))
    return False


def forget_lock(state_dir: Path, run_id: str) -> None:
    """Remove the lock of a run that nobody follows any more, inside `run_lock`: policies make
    thousands of runs a day.
    """
    with suppress(OSError):
        _lock_of(state_dir, run_id).unlink()


def _lock_of(state_dir: Path, run_id: str) -> Path:
    return state_dir / "locks" / f"{run_id}.lock"


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
                say(f"{error.code}: {error.message}")

    journal.beat(run_id, now())
    thread = threading.Thread(target=beat, daemon=True, name="heartbeat")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


# Whether a queued run may still begin, hours later, and whether its policy still stands.

Policies = Callable[[], Sequence[Policy]]  # as the settings define them now; SettingsError


@dataclass
class Beginning:
    """Whether a run may begin; asked before each request until it has.

    The queue has asked all of it; but whoever was to send may have died before he did, and another
    takes the run over much later. A run whose request may have left has begun: `withdrawn` is
    asked of it before each further one. With a canary the rest begins when the rest is sent.
    """

    journal: Journal
    run: RunRow
    plan: Plan
    policies: Policies
    now: Callable[[], datetime]
    sent: int = 0  # partitions whose request may have left, as they were read last
    _begun: bool = False
    _for_good: bool = False

    def look(self) -> None:
        """Read what was sent, between two rounds: a request that was called off after its intent
        was written has begun nothing.
        """
        if self._for_good:
            return
        rows = self.journal.partitions(self.run.run_id)
        first = 1 if self.run.options.canary and len(rows) > 1 else 0
        sent = [row for row in rows if row.was_sent]
        self.sent, self._begun = len(sent), len(sent) > first
        self._for_good = sum(row.state != "sent" for row in sent) > first

    def ask(self, anew: bool = False) -> None:
        """While it has not begun, raises RefusedError POLICY_OFF, POLICY_CHANGED, SERVICE_SILENT,
        OUTSIDE_WINDOW or PLAN_EXPIRED. `anew` looks first.
        """
        if anew:
            self.look()
        if self._begun:
            return
        now = self.now()
        if self.run.policy is not None:
            _refuse_outside(self.run, _standing(self.journal, self.run, self.policies), now)
        # What began to be kept while the plan stood may take long: `unsent_for_ms` bounds it.
        if self.plan.expired(now) and self.journal.head(self.run.run_id).archive is None:
            late(self.plan)


def withdrawn(journal: Journal, run: RunRow, policies: Policies) -> RefusedError | None:
    """Why a policy's run may send nothing more; None: its policy stands, or a person queued it.

    POLICY_OFF, POLICY_CHANGED, SERVICE_SILENT, or the settings' own code where nobody can tell
    what they define.
    """
    if run.policy is None:
        return None
    try:
        _standing(journal, run, policies)
    except RefusedError as error:
        return error
    return None


def _standing(journal: Journal, run: RunRow, policies: Policies) -> Policy:
    """The policy, switched on and defined as it was when the run was queued, else RefusedError."""
    name, definition = str(run.policy), journal.run_definition(run.run_id)
    state = journal.policy_states(run.cluster_id).get(name)
    refuse_off(state, name, definition, run.cluster_name)
    try:
        policy = next((p for p in policies() if p.definition_sha256 == definition), None)
    except SettingsError as error:
        raise RefusedError(
            f"whether policy {name} is still defined cannot be told: {error.message}",
            error.next_step,
            code=error.code,
        ) from error
    if policy is None:
        raise RefusedError(
            f"policy {name} is not defined here as it was when run {run.run_id} was queued",
            f"Read it again, then confirm it with: lowwater policies on {name}.",
            code="POLICY_CHANGED",
        )
    return policy


def _refuse_outside(run: RunRow, policy: Policy, now: datetime) -> None:
    if not is_open(policy, now):
        name = run.policy
        raise RefusedError(
            f"no window of policy {name} is open, and run {run.run_id} has not begun in the last",
            f"The service plans anew in the next: {next_open(policy, now):%Y-%m-%d %H:%M} UTC.",
            code="OUTSIDE_WINDOW",
        )
