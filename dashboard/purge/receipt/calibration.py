"""How true were the estimates? Predicted against freed bytes of past purges, by estimator."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from dashboard.core.clock import format_time
from dashboard.purge.forecast import wait_outcomes
from dashboard.purge.journal.journal_rows import RunRow

# From the surest to the least sure; a name that is not here comes last.
ORDER = ("segments", "history", "sampled", "proportional")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One topic of one purge as one estimator saw it; bytes at once, over all its replicas.

    What producers wrote while segments left makes freed bytes unsure by as many as are told.
    """

    run_id: str
    finished_at: datetime
    method: str
    topic: str
    low_bytes: int
    predicted_bytes: int
    high_bytes: int
    freed_bytes: int
    unsure_bytes: int = 0

    @property
    def inside(self) -> bool:
        low, high = self.low_bytes - self.unsure_bytes, self.high_bytes + self.unsure_bytes
        return low <= self.freed_bytes <= high

    @property
    def error(self) -> float | None:
        """(freed - predicted) ÷ predicted; None where 0 bytes were predicted."""
        off = self.freed_bytes - self.predicted_bytes
        return off / self.predicted_bytes if self.predicted_bytes else None


@dataclass(frozen=True, slots=True)
class Point:
    """One purge as one estimator saw it, summed over its topics."""

    run_id: str
    finished_at: datetime
    method: str
    predicted_bytes: int
    freed_bytes: int

    @property
    def ratio(self) -> float | None:
        """Predicted ÷ freed; None where nothing was freed."""
        return self.predicted_bytes / self.freed_bytes if self.freed_bytes else None

    def to_json(self) -> dict[str, object]:
        return {
            "run_id": self.run_id,
            "finished_at": format_time(self.finished_at),
            "method": self.method,
            "predicted_bytes": self.predicted_bytes,
            "freed_bytes": self.freed_bytes,
        }


@dataclass(frozen=True, slots=True)
class Calibration:
    """One estimator over all purges. A topic counts once for each purge it was in.

    `median_error` is of the errors' absolute values; `worst_error` has its sign (below 0: less
    was freed than predicted). Both leave out the `zero_topics` of which 0 bytes were predicted;
    `zero_worst_bytes` is the most that was freed of one of these. None: there is none.
    """

    method: str
    purges: int
    topics: int
    median_error: float | None
    worst_error: float | None
    inside: int
    zero_topics: int
    zero_worst_bytes: int | None

    @property
    def coverage(self) -> float:
        """Share of topics whose freed bytes lay inside low to high, 0 to 1."""
        return self.inside / self.topics

    def to_json(self) -> dict[str, object]:
        return {
            "method": self.method,
            "purges": self.purges,
            "topics": self.topics,
            "median_error": self.median_error,
            "worst_error": self.worst_error,
            "inside": self.inside,
            "coverage": self.coverage,
            "zero_topics": self.zero_topics,
            "zero_worst_bytes": self.zero_worst_bytes,
        }


def outcomes(runs: Iterable[RunRow]) -> list[Outcome]:
    """What final receipts kept, oldest first. Receipts of older releases kept nothing."""
    found = []
    for run in runs:
        receipt = run.receipt
        if receipt is None or not receipt.final or receipt.measured_at is None:
            continue
        for kept in receipt.calibration or ():
            found.append(
                Outcome(
                    run.run_id,
                    receipt.measured_at,
                    kept.method,
                    kept.topic,
                    kept.low_bytes,
                    kept.predicted_bytes,
                    kept.high_bytes,
                    kept.freed_bytes,
                    kept.unsure_bytes,
                )
            )
    return sorted(found, key=lambda o: (o.finished_at, o.run_id, rank(o.method), o.topic))


def by_method(found: Iterable[Outcome]) -> list[Calibration]:
    """One line per estimator that any purge used, the surest first."""
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in found:
        groups[outcome.method].append(outcome)
    return [_calibration(method, groups[method]) for method in sorted(groups, key=rank)]


def points(found: Iterable[Outcome]) -> list[Point]:
    """One point per purge and estimator, in the order of `outcomes`."""
    sums: dict[tuple[datetime, str, str], list[int]] = {}
    for o in found:
        total = sums.setdefault((o.finished_at, o.run_id, o.method), [0, 0])
        total[0] += o.predicted_bytes
        total[1] += o.freed_bytes
    return [Point(run_id, at, method, *sums[at, run_id, method]) for at, run_id, method in sums]


def to_json(runs: Iterable[RunRow]) -> dict[str, object]:
    """The key `calibration` of `lowwater runs --json`."""
    listed = list(runs)
    found = outcomes(listed)
    return {
        "methods": [line.to_json() for line in by_method(found)],
        "points": [point.to_json() for point in points(found)],
        "waits": [line.to_json() for line in wait_outcomes.calibration(listed)],
    }


def _calibration(method: str, found: list[Outcome]) -> Calibration:
    errors = [outcome.error for outcome in found if outcome.error is not None]
    zeros = [outcome.freed_bytes for outcome in found if outcome.error is None]
    return Calibration(
        method=method,
        purges=len({outcome.run_id for outcome in found}),
        topics=len(found),
        median_error=statistics.median(map(abs, errors)) if errors else None,
        worst_error=max(errors, key=abs) if errors else None,
        inside=sum(outcome.inside for outcome in found),
        zero_topics=len(zeros),
        zero_worst_bytes=max(zeros, default=None),
    )


def rank(method: str) -> tuple[int, str]:
    """Sorts estimators from the surest to the least sure."""
    return (ORDER.index(method) if method in ORDER else len(ORDER), method)
