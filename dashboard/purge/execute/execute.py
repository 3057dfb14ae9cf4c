"""Carries out one run: recheck, send, read back, until all is settled, or it may send no more.

Requests are grouped by leader, leaders work side by side, and partitions that are forecast to
stall travel in requests of their own: a request is answered when its slowest partition is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from dashboard.core.clock import Mark, Stopwatch
from dashboard.core.errors import (
    ArchiveError,
    ClusterError,
    LowwaterError,
    PlanError,
    RefusedError,
    SettingsError,
    StoreError,
)
from dashboard.domain.model import TopicPartition
from dashboard.purge.evidence.standards import Standards
from dashboard.purge.execute.archive_gate import Proofs, refuse_without_archive
from dashboard.purge.execute.archiving import FAILURES, INCOMPLETE, Archiving
from dashboard.purge.execute.fresh import Fresh
from dashboard.purge.execute.move_waived import Mover
from dashboard.purge.execute.readback import Seen, read_back
from dashboard.purge.execute.recheck import Rechecked, recheck
from dashboard.purge.execute.send import Sender
from dashboard.purge.execute.states import (
    followed,
    held_back,
    looked_after,
    not_sent,
    run_state,
    settled,
    unasked,
    unheard,
    unproved_canary,
    unread,
    without_canary,
)
from dashboard.purge.execute.stop_rules import (
    EXPIRED,
    PAUSED,
    READ_ONLY,
    Holding,
    StopRules,
    expired,
    is_over,
    run_error,
)
from dashboard.purge.forecast.waits import expected, long_polls
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.rows import OPEN_STATES, PartitionRow, RunRow, WaitForecast
from dashboard.purge.plan.cluster_seam import Cluster
from dashboard.purge.plan.facts import PartitionFacts
from dashboard.purge.plan.plan import Plan
from dashboard.purge.receipt import receipt_bytes
from dashboard.purge.receipt.model import Sample

_PAUSE = timedelta(milliseconds=300)
_LONGEST_PAUSE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class _Before:
    """What was read just before sending: the sample of `receipt_bytes.measure`, and in the run's
    first round followers' long polls.
    """

    sample: Sample
    polls: Mapping[int, int]


@dataclass
class Execution:
    """One run being carried out. `now` and `sleep` are the clock, `steady` one in seconds that
    nobody sets: what is fresh, and what expired, goes by whichever says older.

    `read_only` says why every purge is switched off, None: it is not. `standards` are asked anew
    before each request, and so is `withdrawn`: why the run's policy no longer stands. `may_begin`
    raises RefusedError where a run that has not begun no longer may; True: look anew whether it
    has. `archiving` keeps the records before anything is sent, where the run asks for it.
    """

    live: Cluster
    journal: Journal
    run: RunRow
    plan: Plan
    now: Callable[[], datetime]
    sleep: Callable[[float], None]
    read_only: Callable[[], str | None]
    standards: Callable[[], Standards]
    may_begin: Callable[[bool], None] = lambda _: None
    withdrawn: Callable[[], RefusedError | None] = lambda: None
    steady: Callable[[], float] = time.monotonic
    archiving: Archiving | None = None
    cancelled: bool = False
    rules: StopRules = field(init=False)
    holding: Holding = field(init=False)
    _watch: Stopwatch = field(init=False)
    _began: Mark = field(init=False)
    _patience: timedelta = field(init=False)
    _moved_at: Mark | None = None
    _unread: str | None = None
    _refused: RefusedError | None = None
    _waits: Mapping[TopicPartition, WaitForecast] = field(default_factory=dict)

    def __post_init__(self) -> None:
        options, mode = self.run.options, self.run.mode
        refuse_without_archive(self.run, self.plan, keeps=self.archiving is not None)
        self._watch = Stopwatch(self.now, self.steady)
        self._began, self._patience = self._watch.mark(), timedelta(milliseconds=options.timeout_ms)
        self.rules = StopRules(self.live, options, mode, self.now)
        self.holding = Holding(
            self.journal, self.run.run_id, self.now, self.read_only, self.may_begin,
            self.withdrawn,
        )  # fmt: skip

    def execute(self) -> str:
        """Work until nothing is open, or what is open could not be read for the timeout.

        Gives the state of the closed run. Raises JournalError: then nothing more is sent.
        """
        head = self.journal.head(self.run.run_id)
        if head.state != "paused" or head.wish is None:  # resumed: nobody else may have told
            self.journal.set_run(self.run.run_id, "running", self.now())
        self._moved_at = self._watch.mark()
        self.rules.saw(self._rows())
        self._close_what_was_sent()
        while self._rows(OPEN_STATES):
            if self._round():
                self._moved_at = self._watch.mark()
            elif self._waited_out() and self.holding.asked() != PAUSED:
                self._give_up()
                break
            else:
                self.sleep(_PAUSE.total_seconds())
        self._await_followers()
        self._mover().finish()
        return self._close()

    def _mover(self) -> Mover:
        def hold() -> str | None:
            held = EXPIRED if self._over() else self.holding.asked()
            return held.code if isinstance(held, RefusedError) else held

        return Mover(
            self.live, self.journal, self.run, self.plan.topic_ids, self._watch, self.sleep, hold
        )

    def _round(self) -> bool:
        """One pass over what is open; whether anything moved."""
        moved = self._close_what_was_sent()
        pending = self._rows(("pending",))
        if not pending:
            return moved
        if self._expired(pending):
            return True
        if self._held(pending):
            return moved
        if self.archiving is not None and not self.archiving.done:
            return self._keep(self.archiving, pending) or moved
        if self.run.options.canary and (canary := unproved_canary(self._rows(), self.run.mode)):
            return self._canary_holds(canary, pending) or moved
        return self._send(pending) or moved

    def _keep(self, archiving: Archiving, pending: list[PartitionRow]) -> bool:
        """Keep what these are to lose, before anything is sent; whether anything moved.

        What cannot be kept whole is refused; where the archive itself fails, all of it.
        """
        before = archiving.offsets_done
        try:
            kept = archiving.keep(pending, lambda: self._over() or self.holding.asked() is not None)
        except FAILURES as error:
            self._refused = RefusedError(error.message, error.next_step, code=error.code)
            code, why_all = error.code, error.message
            self._hold_back(
                "refused", pending, lambda row: not_sent(row, INCOMPLETE, why_all), code=code
            )
            return True
        except ClusterError as error:
            self._unreadable(error)
            return archiving.offsets_done > before
        why = kept.incomplete
        self._hold_back(
            "refused", [row for row in pending if row.key in why],
            lambda row: not_sent(row, INCOMPLETE, why[row.key]),
        )  # fmt: skip
        return True

    def _canary_holds(self, canary: PartitionRow, pending: list[PartitionRow]) -> bool:
        """Fail the rest with the canary, once it has ended; whether anything moved.

        It may be unread as yet, or wait for its next request: then it goes alone again.
        """
        if canary.state in ("sent", "unknown"):
            return False
        if canary.state == "pending":
            return self._send([canary])
        self._hold_back("cancelled", pending, lambda row: without_canary(row, canary))
        return True

    def _held(self, pending: list[PartitionRow]) -> bool:
        """Obey pause, cancel, the switches and a policy's end; whether nothing may be sent now."""
        held = self.holding.asked()
        if isinstance(held, RefusedError):
            code, message = held.code, held.message
            self._hold_back("refused", pending, lambda row: not_sent(row, code, message), code=code)
            self._refused = held
        elif held == PAUSED:
            self._moved_at = self._watch.mark()  # a pause is nobody's fault
        elif held:
            why = self.read_only() if held == READ_ONLY else None
            self._hold_back("cancelled", pending, lambda row: not_sent(row, held, why))
            self.cancelled = True
        return held is not None

    def _expired(self, pending: list[PartitionRow]) -> bool:
        """Close what has waited for too long, paused or not; whether it had."""
        if not self._over():
            return False
        self._hold_back("expired", pending, lambda row: expired(row, self.run))
        return True

    def _stopped(self) -> bool:
        """Obey the stop rules: what they hold back is not done; whether anything was."""
        stop = self.rules.tripped()
        if stop is None:
            return False
        held = [row for row in self._rows(("pending",)) if stop.holds(row)]
        if held:
            self._hold_back(
                "stopped", held, lambda row: not_sent(row, stop.code, stop.message),
                code=stop.code, message=stop.message,
            )  # fmt: skip
        self.rules.applied(stop)
        return bool(held)

    def _hold_back(
        self,
        kind: str,
        rows: Sequence[PartitionRow],
        closed: Callable[[PartitionRow], PartitionRow],
        **details: str,
    ) -> None:
        """Close what will not be sent, or not again, by `closed`.

        What was sent before is read once more: since its leader was seen below the target, a
        broker that holds the truncation may lead again. Unread it stays `unknown`.
        """
        sent = [row for row in rows if row.was_sent]
        seen: Mapping[TopicPartition, Seen] = {}
        entry = self.journal.newest_entry()
        if sent:
            with suppress(ClusterError):
                targets = {row.key: row.target_offset for row in sent}
                seen = read_back(self.live, targets, self.plan.topic_ids)
        wait_all = self.run.mode == "wait-all"
        after = [
            looked_after(row, held_back(row, seen.get(row.key), closed, wait_all=wait_all), entry)
            if row.was_sent
            else closed(row)
            for row in rows
        ]
        self._record(kind, after, **details)
        self.rules.saw([row for row in after if row.was_sent])

    def _send(self, pending: list[PartitionRow]) -> bool:
        tried = max(row.attempts for row in pending)
        if tried:  # a leader that just refused needs a moment to learn who leads
            self.sleep(min(_LONGEST_PAUSE_SECONDS, _PAUSE.total_seconds() * 2**tried))
        kept = self.journal.baseline(self.run.run_id)
        try:
            # Before the look, which counts for seconds: of thousands it takes longer.
            in_place = (
                self.archiving.in_place([row.key for row in pending]) if self.archiving else None
            )
            standards = self.standards()  # the journal may keep it waiting
            began = self._watch.mark()
            checked, before = self._look(pending, standards, began.at, with_polls=kept is None)
            proofs: Proofs = {}
            if self.archiving is not None and in_place is not None:
                checked, proofs = self.archiving.gate(checked, in_place)
            look = Fresh.now_ready(self._watch, began)  # before the journal, which may wait
        except PlanError as error:  # more guards than can be told
            self._refused = RefusedError(error.message, error.next_step, code=error.code)
            code, why_all = error.code, error.message
            self._hold_back("refused", pending, lambda row: not_sent(row, code, why_all), code=code)
            return True
        except (ClusterError, SettingsError, StoreError, ArchiveError) as error:
            self._unreadable(error)  # nothing to judge it by
            return False
        by_key = {row.key: row for row in pending}
        if why := checked.refused:
            self._hold_back(
                "refused", [by_key[k] for k in why],
                lambda row: not_sent(row, why[row.key].name, why[row.key].reason),
            )  # fmt: skip
        self._note_unreadable(by_key, checked)
        arrived = self._read_and_settle("arrived", [by_key[k] for k in sorted(checked.arrived)])
        sent = False
        if checked.allowed:
            if kept is None:
                self._foresee(checked.allowed, before)
            going = [by_key[k] for k in sorted(checked.allowed)]
            sizes = receipt_bytes.renewed(kept, before.sample, going)
            self.journal.write_baseline(self.run.run_id, sizes, self.now())
            first = not any(row.was_tried for row in self._rows())
            canary = first and self.run.options.canary
            self.rules.placed(checked.allowed)
            sender = Sender(
                self.live, self.journal, self.run, self._watch, self._may_send, self.rules.saw,
                self._waits, checked.known_since, proofs, self.plan.topic_ids,
            )  # fmt: skip
            silent = receipt_bytes.unread(before.sample, checked.allowed)
            sent = sender.send(by_key, checked.allowed, look, only_one=canary, silent=silent)
            self._close_what_was_sent()
        return bool(checked.refused) or arrived or sent

    def _look(
        self,
        pending: Sequence[PartitionRow],
        standards: Standards,
        at: datetime,
        *,
        with_polls: bool,
    ) -> tuple[Rechecked, _Before]:
        """The recheck, and beside it replicas' sizes: anew each round, since retention goes on."""
        keys = [row.key for row in pending]
        with ThreadPoolExecutor(2, thread_name_prefix="sizes") as pool:
            sizes = pool.submit(receipt_bytes.measure, self.live, keys, at)
            polls = pool.submit(long_polls, self.live) if with_polls else None
            found = recheck(self.live, self.plan, pending, self.now(), standards)
            return found, _Before(sizes.result(), polls.result() if polls else {})

    def _foresee(self, allowed: Mapping[TopicPartition, PartitionFacts], before: _Before) -> None:
        """Only wait-all waits for anybody; a canary's run is foreseen once, at its start."""
        if self.run.mode == "wait-all":
            timeout_ms = self.run.options.timeout_ms
            self._waits = expected(
                self.live, allowed, before.sample, before.polls, timeout_ms,
                now=self.now, sleep=self.sleep,
            )  # fmt: skip

    def _note_unreadable(
        self, rows: Mapping[TopicPartition, PartitionRow], checked: Rechecked
    ) -> None:
        """Why a partition waits; it is refused with that reason when the run gives up."""
        noted = [
            replace(rows[key], error=why.name, message=why.reason)
            for key, why in sorted(checked.unreadable.items())
        ]
        if changed := [row for row in noted if row != rows[row.key]]:
            self.journal.note(self.run.run_id, changed)

    def _over(self) -> bool:
        return is_over(self.run, self._watch, self._began)

    def _may_send(self) -> bool:
        # The rules read the cluster, which may hang: who stops the run meanwhile is heard after it.
        return self.rules.tripped() is None and not self._over() and self.holding.may_send()

    def _close_what_was_sent(self) -> bool:
        # First the rules: they decide whether what was not truncated may be sent again.
        stopped = self._stopped()
        return self._read_and_settle("read", self._rows(("sent", "unknown"))) or stopped

    def _read_and_settle(self, kind: str, rows: list[PartitionRow]) -> bool:
        if not rows:
            return False
        entry = self.journal.newest_entry()
        try:
            targets = {row.key: row.target_offset for row in rows}
            seen = read_back(self.live, targets, self.plan.topic_ids)
        except ClusterError as error:
            self._unreadable(error)
            return False
        wait_all, may_resend = self.run.mode == "wait-all", not self.rules.sends_nothing
        found = (settled(r, seen[r.key], wait_all=wait_all, may_resend=may_resend) for r in rows)
        after = [looked_after(old, new, entry) for old, new in zip(rows, found, strict=True)]
        changed = [new for old, new in zip(rows, after, strict=True) if new != old]
        self._record(kind, changed)
        self.rules.saw(changed)
        return any(new.state != old.state for old, new in zip(rows, after, strict=True))

    def _await_followers(self) -> None:
        """Read on where the leader has truncated and nobody hears whether followers have: they get
        the rest of the time that their request gave them.
        """
        pause = _PAUSE.total_seconds()
        while self.run.mode == "wait-all" and self._watch.since(self._began) < self._patience:
            begin = self.now() - self._patience
            rows = [row for row in self._rows(("leader_done",)) if unheard(row, begin)]
            if not rows or self.journal.wish(self.run.run_id):
                break
            self.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            self._read_and_settle("read", rows)

    def _unreadable(self, error: LowwaterError) -> None:
        """Nothing could be read; one entry for each new reason, not for each attempt."""
        if error.code != self._unread:
            self._record("unread", [], code=error.code, message=error.message)
            self._unread = error.code

    def _waited_out(self) -> bool:
        return self._moved_at is not None and self._watch.since(self._moved_at) >= self._patience

    def _give_up(self) -> None:
        """The leader stayed unreachable: what was not sent is not done, the rest is unknown."""
        self._record("unread", [unread(row, self._unread) for row in self._rows(("sent",))])
        if not self.run.options.canary:
            self._hold_back("gave-up", self._rows(("pending",)), unasked)
            return
        tried = [row for row in self._rows(("pending",)) if row.was_sent]
        self._hold_back("gave-up", tried, unasked)  # the canary itself: the rest names its end
        canary = unproved_canary(self._rows(), self.run.mode)
        self._hold_back(
            "gave-up", self._rows(("pending",)),
            lambda row: without_canary(row, canary) if canary else unasked(row),
        )  # fmt: skip

    def _close(self) -> str:
        rows = self._rows()
        state = run_state(rows, self.run.mode, cancelled=self.cancelled)
        until = self.now() + timedelta(milliseconds=self.run.options.watch_for_ms)
        self.journal.set_run(
            self.run.run_id,
            state,
            self.now(),
            error=run_error(rows, state, self._refused),
            watched_until=until if any(map(followed, rows)) else self.now(),
        )
        return state

    def _rows(self, states: Sequence[str] | None = None) -> list[PartitionRow]:
        return list(self.journal.partitions(self.run.run_id, states))

    def _record(self, kind: str, rows: list[PartitionRow], **details: str) -> None:
        if rows or details:
            self.journal.record(self.run.run_id, kind, rows, self.now(), **details)
