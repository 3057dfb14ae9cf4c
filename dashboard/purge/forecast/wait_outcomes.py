"""What became of the predicted waits of a run: request by request, and over all purges."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dashboard.core.words import duration, plural
from dashboard.purge.journal.journal_rows import PartitionRow, RunRow
from dashboard.purge.receipt.model import RequestWait

_TIMED_OUT = 7  # REQUEST_TIMED_OUT


@dataclass(frozen=True, slots=True)
class WaitErrors:
    """How far such predictions were off: waited - likely, in seconds.

    The median is of absolute values, the worst has its sign (below 0: sooner than predicted).
    """

    requests: int
    inside: int
    coverage: float
    median_error_seconds: float
    worst_error_seconds: float


@dataclass(frozen=True, slots=True)
class CauseWaits:
    """The requests of so many purges before which the same cause to wait was seen."""

    cause: str
    purges: int
    errors: WaitErrors

    def to_json(self) -> dict[str, object]:
        return {"cause": self.cause, "purges": self.purges, **asdict(self.errors)}


def requests(rows: Iterable[PartitionRow]) -> list[RequestWait]:
    """One entry per answered wait-all request that had a prediction, in the order of sending.

    A request is answered when its slowest partition is: its interval is the latest of its
    partitions'. Left out is what was sent more than once: its first answer is not kept.
    """
    groups: dict[tuple[Any, Any], list[PartitionRow]] = defaultdict(list)
    for row in rows:
        told = row.waited_seconds is not None and row.wait_forecast is not None
        if told and row.attempts == 1:
            groups[row.sent_at, row.sent_leader_id].append(row)
    return [_request(groups[key]) for key in sorted(groups)]


def _request(rows: Sequence[PartitionRow]) -> RequestWait:
    told = [row.wait_forecast for row in rows if row.wait_forecast is not None]
    slowest = max(told, key=lambda one: (one.likely_seconds, one.high_seconds, one.cause))
    low, high = max(one.low_seconds for one in told), max(one.high_seconds for one in told)
    waited = max(row.waited_seconds or 0.0 for row in rows)
    return RequestWait(
        leader_id=rows[0].sent_leader_id,
        partitions=len(rows),
        cause=slowest.cause,
        low_seconds=low,
        likely_seconds=slowest.likely_seconds,
        high_seconds=high,
        waited_seconds=waited,
        timed_out=any(row.answer_error_code == _TIMED_OUT for row in rows),
        inside=low <= waited <= high,
    )


def errors_of(found: Sequence[RequestWait]) -> WaitErrors:
    """How far these were off, one at least."""
    errors: list[float] = [one.waited_seconds - one.likely_seconds for one in found]
    worst = max(errors, key=abs)
    inside = sum(one.inside for one in found)
    return WaitErrors(
        requests=len(found),
        inside=inside,
        coverage=inside / len(found),
        median_error_seconds=round(statistics.median(map(abs, errors)), 3),
        worst_error_seconds=round(worst, 3),
    )


def said(found: Sequence[RequestWait]) -> str | None:
    """The comparison of one run in a sentence, or None where nothing was predicted."""
    if not found:
        return None
    slowest = max(found, key=lambda one: one.waited_seconds)
    inside, out = sum(one.inside for one in found), sum(one.timed_out for one in found)
    text = (
        f"the slowest of {plural(len(found), 'request')} took "
        f"{duration(slowest.waited_seconds)}; predicted {duration(slowest.low_seconds)} to "
        f"{duration(slowest.high_seconds)}, about {duration(slowest.likely_seconds)}: "
        f"{inside} of {len(found)} inside"
    )
    return text + (f"; {plural(out, 'request')} timed out" if out else "")


def calibration(runs: Iterable[RunRow]) -> list[CauseWaits]:
    """How far predictions were off per cause, over what receipts kept; most requests first."""
    by_cause: dict[str, list[RequestWait]] = defaultdict(list)
    purges: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        for one in run.receipt.waits if run.receipt else ():
            by_cause[one.cause].append(one)
            purges[one.cause].add(run.run_id)
    found = [CauseWaits(c, len(purges[c]), errors_of(listed)) for c, listed in by_cause.items()]
    return sorted(found, key=lambda line: (-line.errors.requests, line.cause))
