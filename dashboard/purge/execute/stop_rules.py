"""When a run sends nothing more: by wishes, the switches, and the policy that no longer stands; or
by itself, as too many answered partitions failed, or a replica left the ISR.

Asked before each request. What was sent is read to its end as always; what a rule holds back
becomes `not_done`. A run with which nobody goes on is closed, and what was never sent says why; or
it waits for another worker.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from dashboard.core.clock import Mark, Stopwatch, format_time
from dashboard.core.errors import ClusterError, LowwaterError, RefusedError
from dashboard.domain.model import REQUEST_TIMED_OUT, TopicPartition
from dashboard.purge.execute.states import followed, not_sent, run_state, unanswered
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.rows import Options, PartitionRow, RunRow
from dashboard.purge.journal.wishes import silent
from dashboard.purge.plan.cluster_seam import Cluster
from dashboard.purge.plan.moves import refused

ERROR_RATE = "STOPPED_ERROR_RATE"
ISR_SHRANK = "STOPPED_ISR_SHRANK"
_NEXT = {
    ERROR_RATE: "Read the partitions' errors and correct their cause, then plan the rest again.",
    ISR_SHRANK: "Bring the broker that is named back in sync, then plan the rest again.",
}
_ASK_EVERY = timedelta(seconds=1)
_ASK_SHARE = 10  # a metadata read that takes long comes that many times its time later again
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Stop:
    """Why nothing more is sent."""

    code: str
    message: str

    def holds(self, row: PartitionRow) -> bool:
        """Whether this pending row is held back.

        A partition that was sent and whose answer was lost with its leader is followed to its
        end: that leader has left the ISR too.
        """
        return self.code == ERROR_RATE or row.attempts == 0


class _Placed(Protocol):
    @property
    def replicas(self) -> tuple[int, ...]: ...
    @property
    def isr(self) -> tuple[int, ...]: ...


@dataclass
class StopRules:
    """The rules of one run as its worker sees them. Thread-safe."""

    live: Cluster
    options: Options
    mode: str
    now: Callable[[], datetime]
    _outcomes: dict[TopicPartition, str] = field(default_factory=dict)
    _failed: Counter[str] = field(default_factory=Counter)  # of _outcomes, by error
    _in_sync: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    _applied: set[str] = field(default_factory=set)
    _stop: Stop | None = None
    _ask_at: datetime | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def sends_nothing(self) -> bool:
        """Whether a stop was applied that holds every request back, repetitions too."""
        return ERROR_RATE in self._applied

    def saw(self, rows: Iterable[PartitionRow]) -> None:
        """Take in what answers and reads have shown of partitions."""
        with self._lock:
            for row in rows:
                if before := self._outcomes.pop(row.key, None):
                    self._failed[before] -= 1
                found = outcome(row, self.mode)
                if found is not None:
                    self._outcomes[row.key] = found
                if found:
                    self._failed[found] += 1

    def placed(self, partitions: Mapping[TopicPartition, _Placed]) -> None:
        """Take in replicas as just read; each partition's first ISR is what it is held to."""
        with self._lock:
            if self._ask_at is None:
                self._ask_at = self.now() + _ASK_EVERY
            for key, found in partitions.items():
                self._in_sync.setdefault(key, found.isr)
            self._judge_isr(partitions)

    def tripped(self) -> Stop | None:
        """The stop that is to be applied, or None; asks for metadata about once a second."""
        with self._lock:
            if self._stop is None:
                self._judge_errors()
            if self._stop is None and self.options.stop_on_isr_loss and self._due():
                self._ask()
            return self._stop

    def applied(self, stop: Stop) -> None:
        """The stop took effect: its rule says nothing more."""
        with self._lock:
            self._applied.add(stop.code)
            self._stop = None

    def _judge_errors(self) -> None:
        answered, bad = len(self._outcomes), self._failed.total()
        if answered < self.options.stop_at_least_answered or not bad:
            return
        if bad / answered > self.options.stop_at_error_share:
            (commonest, count), *_ = sorted(
                self._failed.items(), key=lambda item: (-item[1], item[0])
            )
            self._trip(
                ERROR_RATE,
                f"{bad} of {answered} answered partitions failed, {count} of them with {commonest}",
            )

    def _due(self) -> bool:
        wanted = bool(self._in_sync) and ISR_SHRANK not in self._applied
        return wanted and self._ask_at is not None and self.now() >= self._ask_at

    def _ask(self) -> None:
        began = self.now()
        try:
            states = self.live.topics(sorted({key.topic for key in self._in_sync}))
        except ClusterError:  # the next request, or the next look, meets it
            states = {}
        took = self.now() - began
        self._ask_at = self.now() + max(_ASK_EVERY, took * _ASK_SHARE)
        self._judge_isr(
            {
                TopicPartition(topic, p.partition): p
                for topic, state in states.items()
                for p in state.partitions
            }
        )

    def _judge_isr(self, partitions: Mapping[TopicPartition, _Placed]) -> None:
        if not self.options.stop_on_isr_loss:
            return
        lost: dict[int, list[str]] = defaultdict(list)
        for key, first in sorted(self._in_sync.items()):
            if (found := partitions.get(key)) is not None:
                # A replica that a reassignment took away has not fallen behind.
                for broker_id in set(first) & set(found.replicas) - set(found.isr):
                    lost[broker_id].append(f"{key.topic}-{key.partition}")
        if lost:
            self._trip(ISR_SHRANK, "; ".join(_left(b, lost[b]) for b in sorted(lost)))

    def _trip(self, code: str, message: str) -> None:
        if self._stop is None and code not in self._applied:
            self._stop = Stop(code, message)


def outcome(row: PartitionRow, mode: str) -> str | None:
    """The error that a partition's newest answer or reading ended with, "" for none.

    None: no answer came yet, or one that only reading tells about.
    """
    if not row.was_tried or (row.state == "sent" and row.answer_error_code is None):
        return None
    if row.state in ("sent", "done"):
        return ""
    if row.state == "unknown" and mode != "wait-all" and row.answer_error_code == REQUEST_TIMED_OUT:
        return None  # sent with timeout 0: this error is the answer that was wanted
    if row.state == "leader_done":
        return row.error or ""
    return row.error or "NOT_TRUNCATED"


def run_error(
    rows: Sequence[PartitionRow], state: str, refused_by: RefusedError | None
) -> Mapping[str, str] | None:
    """The error object of a run that ends: a rule's, or what refused it, or its first partition's;
    None: it has none.
    """
    if (error := _stop_error(rows) or _expired_error(rows)) is not None:
        return error
    if refused_by is not None:
        return refused_by.to_json()["error"]
    if state != "refused":
        return None
    first = rows[0]
    return {
        "code": "REFUSED",
        "message": f"nothing was sent: {first.topic}-{first.partition} {first.error}"
        + (f": {first.message}" if first.message else ""),
        "next": "Read each partition's error, then plan again.",
    }


def _stop_error(rows: Iterable[PartitionRow]) -> dict[str, str] | None:
    """Where a rule held partitions back."""
    held = [row for row in rows if row.error in _NEXT]
    if not held:
        return None
    code, message = str(held[0].error), held[0].message
    return {
        "code": code,
        "message": f"stopped with {len(held)} partitions left: {message}",
        "next": _NEXT[code],
    }


def _left(broker_id: int, partitions: list[str]) -> str:
    more = len(partitions) - _MOST_NAMED
    named = ", ".join(partitions[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f"broker {broker_id} left the in-sync replicas of {named}"


PAUSED, CANCELLED, READ_ONLY = "PAUSED", "CANCELLED", "READ_ONLY"


@dataclass(frozen=True, slots=True)
class Holding:
    """An operator's wish, the read-only switch, a policy's run's policy.

    `may_begin` raises RefusedError, see `asked`; `withdrawn` says why the policy no longer stands.
    """

    journal: Journal
    run_id: str
    now: Callable[[], datetime]
    read_only: Callable[[], str | None]
    may_begin: Callable[[bool], None]
    withdrawn: Callable[[], RefusedError | None]

    def asked(self) -> str | RefusedError | None:
        """CANCELLED or READ_ONLY: nothing more is sent; PAUSED: not now; None: go on.

        A RefusedError when the policy was withdrawn, paused or not: nothing more is sent either.
        `may_begin` is asked each time: a run may wait long, in a pause or for its cluster.
        """
        run = self._run()
        if run.wish == "cancel" or self.read_only():
            return CANCELLED if run.wish == "cancel" else READ_ONLY
        if (gone := self.withdrawn()) is not None:
            return gone
        if run.wish == "pause":
            if run.state != "paused":
                self.journal.set_run(self.run_id, "paused", self.now())
            return PAUSED
        try:
            self.may_begin(True)
        except RefusedError as error:
            return error
        if run.state == "paused":
            self.journal.set_run(self.run_id, "running", self.now())
        return None

    def may_send(self) -> bool:
        """Whether nobody wishes otherwise: asked before each request, from any thread."""
        if silent(self.journal.head(self.run_id), self.now()):
            return False
        if self.journal.wish(self.run_id) is not None or self.read_only():
            return False
        try:
            self.may_begin(False)
        except RefusedError:
            return False  # the next round says why
        return self.withdrawn() is None

    def _run(self) -> RunRow:
        self.journal.carried(self.run_id, self.now())  # somebody may have claimed it meanwhile
        run = self.journal.head(self.run_id)
        if run.wish is None and silent(run, self.now()):
            # The machine stood still, and this thread goes on before the one that beats.
            self.journal.beat(self.run_id, self.now())
            return self.journal.head(self.run_id)
        return run


def close(journal: Journal, run: RunRow, kind: str, error: LowwaterError, now: datetime) -> None:
    """Close the run for this error, with one entry of `kind`; what was sent stays unknown.

    Also what waited to be sent again: nobody has read since whether the first request took effect.
    """
    rows = [r for r in journal.partitions(run.run_id) if r.state in ("pending", "sent")]
    changed = [
        unanswered(r, error.code) if r.was_sent else not_sent(r, error.code, error.message)
        for r in rows
    ]
    journal.record(run.run_id, kind, changed, now, code=error.code)
    moves = [m for m in journal.moves(run.run_id) if m.state == "pending"]
    if moves:
        unmoved = [refused(m, error.code, error.message) for m in moves]
        journal.record_moves(run.run_id, "moves-refused", unmoved, now)
    after = journal.partitions(run.run_id)
    watched = any(map(followed, after))
    journal.set_run(
        run.run_id,
        run_state(after, run.mode, cancelled=run.wish == "cancel"),
        now,
        error=error.to_json()["error"],
        watched_until=now + timedelta(milliseconds=run.options.watch_for_ms if watched else 0),
    )


def leave(journal: Journal, run_id: str, error: LowwaterError, now: datetime) -> None:
    """Leave the run open for another worker, with why this one could not start; one entry each why.

    What says why a run waits for a person stays. One that a person resumed is `paused` until a
    worker goes on with it, and waits for that alone. One that is closed is left as it is.
    """
    run = journal.head(run_id)
    if not run.open or run.wish == "pause":
        return
    if run.error is None or run.error["code"] != error.code:
        message = f"no worker could start, so it waits for another one: {error.message}"
        why = {"code": error.code, "message": message, "next": error.next_step}
        journal.set_run(run_id, run.state, now, error=why)


# Until when a run may send: what was confirmed long ago is not sent, whoever takes the run up.

EXPIRED = "PLAN_EXPIRED"
_LATE_NEXT = "Plan the rest again: what the plan saw may have changed."


def expires_at(run: RunRow) -> datetime:
    """From then on nothing is sent, nor sent again.

    The run itself keeps how long that is from when it was queued (`plan_expires_after` of those
    settings), so that neither a later setting nor a plan's text extends it.
    """
    return run.queued_at + timedelta(milliseconds=run.options.unsent_for_ms)


def is_over(run: RunRow, watch: Stopwatch, began: Mark) -> bool:
    """Whether a run has expired: by the wall clock, or by what passed since a worker `began`."""
    until = expires_at(run)
    return watch.now() >= until or watch.since(began) >= until - began.at


def expired(row: PartitionRow, run: RunRow) -> PartitionRow:
    """A partition that waited for too long, with the reason."""
    text = f"nothing of run {run.run_id} is sent from {format_time(expires_at(run))} on"
    return not_sent(row, EXPIRED, text)


def _expired_error(rows: Iterable[PartitionRow]) -> Mapping[str, str] | None:
    """Where partitions waited for too long."""
    late = [row for row in rows if row.error == EXPIRED]
    if not late:
        return None
    return {
        "code": EXPIRED,
        "message": f"{len(late)} partitions were not sent in time: {late[0].message}",
        "next": _LATE_NEXT,
    }
