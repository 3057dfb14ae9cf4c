"""What became of the predicted waits of a run: request by request, and over all purges."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dashboard.core.words import duration, plural
from dashboard.purge.journal.journal_rows import PartitionRow, RunRow

_TIMED_OUT = 7  # REQUEST_TIMED_OUT


def requests(rows: Iterable[PartitionRow]) -> list[dict[str, Any]]:
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


def _request(rows: Sequence[PartitionRow]) -> dict[str, Any]:
    told = [row.wait_forecast for row in rows if row.wait_forecast is not None]
    slowest = max(told, key=lambda one: (one.likely_seconds, one.high_seconds, one.cause))
    low, high = max(one.low_seconds for one in told), max(one.high_seconds for one in told)
    waited = max(row.waited_seconds or 0.0 for row in rows)
    return {
        "leader_id": rows[0].sent_leader_id,
        "partitions": len(rows),
        "cause": slowest.cause,
        "low_seconds": low,
        "likely_seconds": slowest.likely_seconds,
        "high_seconds": high,
        "waited_seconds": waited,
        "timed_out": any(row.answer_error_code == _TIMED_OUT for row in rows),
        "inside": low <= waited <= high,
    }


def summary(found: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """`requests, inside, coverage, median_error_seconds, worst_error_seconds` of such entries.

    An error is waited - likely in seconds: the median is of absolute values, the worst has its
    sign (below 0: sooner than predicted). None where there is nothing to compare.
    """
    if not found:
        return None
    errors: list[float] = [one["waited_seconds"] - one["likely_seconds"] for one in found]
    worst = max(errors, key=abs)
    inside = sum(bool(one["inside"]) for one in found)
    return {
        "requests": len(found),
        "inside": inside,
        "coverage": inside / len(found),
        "median_error_seconds": round(statistics.median(map(abs, errors)), 3),
        "worst_error_seconds": round(worst, 3),
    }


def said(found: Sequence[Mapping[str, Any]]) -> str | None:
    """The comparison of one run in a sentence, or None where nothing was predicted."""
    if not found:
        return None
    told = summary(found)
    assert told is not None
    slowest = max(found, key=lambda one: float(one["waited_seconds"]))
    out = sum(bool(one["timed_out"]) for one in found)
    text = (
        f"the slowest of {plural(len(found), 'request')} took "
        f"{duration(slowest['waited_seconds'])}; predicted {_interval(slowest)}, about "
        f"{duration(slowest['likely_seconds'])}: {told['inside']} of {len(found)} inside"
    )
    return text + (f"; {plural(out, 'request')} timed out" if out else "")


def calibration(runs: Iterable[RunRow]) -> list[dict[str, Any]]:
    """`cause, purges` and `summary` per cause, over what receipts kept; most requests first."""
    by_cause: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    purges: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        for one in (run.receipt or {}).get("waits", ()):
            by_cause[one["cause"]].append(one)
            purges[one["cause"]].add(run.run_id)
    found = [
        {"cause": cause, "purges": len(purges[cause]), **(summary(listed) or {})}
        for cause, listed in by_cause.items()
    ]
    return sorted(found, key=lambda line: (-int(line["requests"]), line["cause"]))


def _interval(one: Mapping[str, Any]) -> str:
    return f"{duration(one['low_seconds'])} to {duration(one['high_seconds'])}"
