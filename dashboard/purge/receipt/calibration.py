"""How true were the estimates? Predicted against freed bytes of past purges, by estimator."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime

from dashboard.core.clock import format_time
from dashboard.purge.forecast import waits
from dashboard.purge.journal.journal_rows import RunRow
from dashboard.purge.receipt.model import TopicOutcome

# From the surest to the least sure; a name that is not here comes last.
ORDER = ("segments", "history", "sampled", "proportional")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One topic of one purge as one estimator saw it."""

    run_id: str
    finished_at: datetime
    of: TopicOutcome


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
        return {**asdict(self), "finished_at": format_time(self.finished_at)}


@dataclass(frozen=True, slots=True)
class Calibration:
    """One estimator over all purges. A topic counts once for each purge it was in.

    `coverage`: the share of topics whose freed bytes lay inside low to high, 0 to 1.
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
    coverage: float
    zero_topics: int
    zero_worst_bytes: int | None


def outcomes(runs: Iterable[RunRow]) -> list[Outcome]:
    """What final receipts kept, oldest first. Receipts of older releases kept nothing."""
    found = [
        Outcome(run.run_id, at, kept)
        for run in runs
        if (receipt := run.receipt) and receipt.final and (at := receipt.measured_at)
        for kept in receipt.calibration or ()
    ]
    return sorted(found, key=lambda o: (o.finished_at, o.run_id, rank(o.of.method), o.of.topic))


def by_method(found: Iterable[Outcome]) -> list[Calibration]:
    """One line per estimator that any purge used, the surest first."""
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in found:
        groups[outcome.of.method].append(outcome)
    return [_calibration(method, groups[method]) for method in sorted(groups, key=rank)]


def points(found: Iterable[Outcome]) -> list[Point]:
    """One point per purge and estimator, in the order of `outcomes`."""
    sums: dict[tuple[datetime, str, str], list[int]] = {}
    for o in found:
        total = sums.setdefault((o.finished_at, o.run_id, o.of.method), [0, 0])
        total[0] += o.of.predicted_bytes
        total[1] += o.of.freed_bytes
    return [Point(run_id, at, method, *sums[at, run_id, method]) for at, run_id, method in sums]


def to_json(runs: Iterable[RunRow]) -> dict[str, object]:
    """The key `calibration` of `lowwater runs --json`."""
    listed = list(runs)
    found = outcomes(listed)
    return {
        "methods": [asdict(line) for line in by_method(found)],
        "points": [point.to_json() for point in points(found)],
        "waits": [line.to_json() for line in waits.calibration(listed)],
    }


def _calibration(method: str, found: list[Outcome]) -> Calibration:
    errors = [one.of.error for one in found if one.of.error is not None]
    zeros = [one.of.freed_bytes for one in found if one.of.error is None]
    inside = sum(one.of.inside for one in found)
    return Calibration(
        method=method,
        purges=len({one.run_id for one in found}),
        topics=len(found),
        median_error=statistics.median(map(abs, errors)) if errors else None,
        worst_error=max(errors, key=abs) if errors else None,
        inside=inside,
        coverage=inside / len(found),
        zero_topics=len(zeros),
        zero_worst_bytes=max(zeros, default=None),
    )


def rank(method: str) -> tuple[int, str]:
    """Sorts estimators from the surest to the least sure."""
    return (ORDER.index(method) if method in ORDER else len(ORDER), method)
