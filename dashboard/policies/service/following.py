"""Follows the closed runs of policies, one after another, until each one's receipt is final.

A policy purges far more often than a receipt takes to become final: a process or a thread for each
run, as operators' runs have, would be dozens for one policy.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from dashboard.core.errors import LowwaterError, unexpected
from dashboard.purge.execute.carrying import forget_lock, run_lock
from dashboard.purge.journal.journal import Journal
from dashboard.purge.plan.cluster_seam import Cluster
from dashboard.purge.receipt.receipt import Checkpoints
from dashboard.purge.receipt.replica_watch import ReplicaWatch

_IDLE_SECONDS = 1.0
_ERROR_SECONDS = 5.0
_REST = 4  # times what a look took
_LONGEST = timedelta(seconds=10)  # no look is planned further ahead: then the clock stepped back


@dataclass
class Following:
    """The runs that are followed, each with when it is looked at next.

    `live` gives the open cluster; `told` is called with what went wrong. `add` and `clear` may be
    called beside `turn`, which is for one thread.
    """

    journal: Journal
    live: Callable[[], Cluster]
    now: Callable[[], datetime]
    sleep: Callable[[float], None]
    told: Callable[[LowwaterError], None]
    state_dir: Path
    checkpoints: Checkpoints
    steady: Callable[[], float] = time.monotonic  # a clock in seconds that nobody sets
    _next: dict[str, datetime] = field(default_factory=dict)
    _watches: dict[str, ReplicaWatch] = field(default_factory=dict)

    def add(self, run_id: str) -> None:
        """Follow a closed run from now on; one that is followed already stays as it is."""
        self._next.setdefault(run_id, self.now())

    def clear(self) -> None:
        """Follow none any more: another service does."""
        self._next.clear()
        self._watches.clear()

    @property
    def runs(self) -> tuple[str, ...]:
        """Those that are followed, the one with the most overdue look first. One that lies further
        ahead than any is planned was there before the clock stepped back: it is overdue.
        """
        known, latest = self._next.copy(), self.now() + _LONGEST
        return tuple(sorted(known, key=lambda run_id: (known[run_id] <= latest, known[run_id])))

    def turn(self) -> float:
        """Look at the run whose look is most overdue: seconds until the next turn.

        However many runs wait for theirs, looks take a fifth of the time: purges come first.
        """
        began, runs = self.now(), self.runs
        if not runs:
            return _IDLE_SECONDS
        at = self._next.get(runs[0], began)
        if began < at <= began + _LONGEST:
            return min(_IDLE_SECONDS, (at - began).total_seconds())
        since = self.steady()
        self.look(runs[0])
        return (self.steady() - since) * _REST

    def look(self, run_id: str) -> None:
        """One look at a run; it is followed no more when there is nothing left to see."""
        wait: float | None = _ERROR_SECONDS
        try:
            with run_lock(self.state_dir, run_id) as first:
                if first:
                    wait = self._step(run_id)
                    if wait is None:
                        forget_lock(self.state_dir, run_id)
                else:  # a worker follows it, and keeps what it sees: go on from that
                    self._watches.pop(run_id, None)
        except LowwaterError as error:
            self.told(error)
        except Exception as error:
            self.told(unexpected(error))
        finally:  # the next turn is another run's, whatever went wrong with this one
            self._again(run_id, wait)

    def _step(self, run_id: str) -> float | None:
        beat = self.journal.head(run_id).heartbeat_at
        watch = self._watches.get(run_id)
        if watch is None or watch.run.heartbeat_at != beat:  # a worker had it in between
            watch = self._watch(run_id)
        watch.live = self.live()
        self._watches[run_id] = watch
        return watch.step()

    def _again(self, run_id: str, wait: float | None) -> None:
        """Look again after so many seconds, or (None) no more."""
        if wait is None:
            self._next.pop(run_id, None)
            self._watches.pop(run_id, None)
        elif run_id in self._next:
            self._next[run_id] = self.now() + timedelta(seconds=wait)

    def _watch(self, run_id: str) -> ReplicaWatch:
        run, plan = self.journal.head(run_id), self.journal.plan(run_id)
        return ReplicaWatch(
            self.live(), self.journal, run, plan, self.now, self.sleep,
            checkpoints=self.checkpoints,
        )  # fmt: skip
