"""How long an application is left alone whose purges come to nothing, run after run."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from dashboard.policies.outcome import Outcome
from dashboard.purge.journal_rows import PartitionRow

LONGEST = timedelta(hours=1)
_MOST_DOUBLED = 20

Key = tuple[str, str | None]  # policy, application


@dataclass(frozen=True, slots=True)
class _Failed:
    times: int
    at: datetime
    until: datetime
    outcome: Outcome


class Patience:
    """Doubles the interval after each run that purged no partition, up to an hour.

    The interval of a policy is a minimum (KIP-811), so waiting longer keeps it. Nothing is kept
    over a restart: a service that starts anew tries at once. Safe between threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failed: dict[Key, _Failed] = {}

    def learn(
        self,
        key: Key,
        outcome: Outcome,
        rows: Collection[PartitionRow],
        interval: timedelta,
        now: datetime,
    ) -> None:
        """Take in how a run ended: `outcome` is what it is told as, `rows` are its partitions."""
        with self._lock:
            before = self._failed.pop(key, None)
            if not rows or any(row.state != "not_done" for row in rows):
                return
            times = min(before.times + 1 if before else 1, _MOST_DOUBLED)
            longest = max(interval, LONGEST)
            until = now + min(interval * 2 ** (times - 1), longest)
            self._failed[key] = _Failed(times, now, until, outcome)

    def left_alone(self, key: Key, now: datetime) -> Outcome | None:
        """What there is to say while it is left alone; None: it may be purged."""
        with self._lock:
            failed = self._failed.get(key)
        # Before the last failure: the clock has stepped back.
        if failed is None or failed.times < 2 or not failed.at <= now < failed.until:
            return None
        said = f"its last {failed.times} runs purged nothing, the next is later: "
        return replace(
            failed.outcome, state="refused", reason=said + failed.outcome.reason,
            next_at=failed.until,
        )  # fmt: skip
