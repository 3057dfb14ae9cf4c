"""Predicted bytes against freed ones: why those of a receipt differ, or are not all that left, in
one sentence; and how true the estimates of past purges were, by estimator.

Apart from `receipt`, which asks for the sentence at each look: that sums, this words.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from dashboard.core.clock import format_time
from dashboard.domain.model import METHODS
from dashboard.purge.forecast import waits
from dashboard.purge.journal.rows import PartitionRow, RunRow
from dashboard.purge.receipt.model import Receipt, ReplicaReceipt, TopicOutcome

_MOST_NAMED = 3
# Of several estimators the least sure one explains the gap.
_WHY = {
    "proportional": "the estimate spreads a replica's bytes evenly over its offsets, but record "
    "sizes change, and the segment that holds the log start and the active one stay whole",
    "sampled": "segments are taken to be full, but some were rolled before",
    "history": "segments are taken to be full, but some were rolled before",
    "segments": "segments were written, rolled or deleted after the inventory was made",
}


# Then not all that was predicted was seen leaving, and shares of bytes are told by offsets.
_MOVED_ON = (
    "the log start moved on past the target, by retention or a later purge, and what left with it "
    "is told apart by offsets"
)
_LEFT_BEFORE = "the log start had moved on since the plan, before the request left"
_EARLIER = "segments of an earlier purge were leaving still, and its estimate tells which are whose"


def cause(receipt: Receipt, rows: Sequence[PartitionRow]) -> str | None:
    """The cause of a gap between prediction and outcome, and what was not counted; None where there
    is neither (yet).
    """
    told = (
        _gap(receipt, rows), _restarted(receipt), _moved(receipt), _cleaner(receipt),
        _tiered(receipt),
    )  # fmt: skip
    return "; ".join(filter(None, told)) or None


def _gap(receipt: Receipt, rows: Sequence[PartitionRow]) -> str | None:
    if missing := _missing(receipt, rows):
        return missing
    predicted, freed = receipt.predicted_bytes, receipt.freed_bytes
    if freed is None and receipt.remote_topics:
        return None  # named by themselves
    if freed is None:
        return "sizes cannot be read (DescribeLogDirs), so bytes are not measurable"
    if not receipt.final:
        return None if freed else "segments leave at the brokers' next retention check"
    if predicted is None:
        return None
    anew = [r for r in receipt.replicas if r.left_out]  # named by themselves
    off = freed - predicted - sum(r.freed_bytes - (r.predicted_bytes or 0) for r in anew)
    # Over topics errors may cancel out; each of them has its cause.
    wrong = off or _off(receipt.replicas)
    return _of_replicas(receipt, rows, predicted, off) if wrong else None


def _restarted(receipt: Receipt) -> str | None:
    """Logs that began anew: what they were without then, the purge did not free."""
    found = [r for r in receipt.replicas if r.restarted]
    if not found:
        return None
    return (
        f"what left or came since the log of {_logs(found)} began anew (its end went back) is not "
        "counted"
    )


def _moved(receipt: Receipt) -> str | None:
    """Logs that lie elsewhere now: copies hold none of what was to be deleted."""
    if not (found := [r for r in receipt.replicas if r.moved and not r.restarted]):
        return None
    return (
        f"what left or came since the log of {_logs(found)} was moved (to another log dir, or off "
        "that broker) is not counted"
    )


def _logs(replicas: Iterable[ReplicaReceipt]) -> str:
    return _first(f"{r.topic}-{r.partition} on broker {r.broker_id}" for r in replicas)


def _cleaner(receipt: Receipt) -> str | None:
    """What the log cleaner may have taken of topics that are compacted, too."""
    if not receipt.final:
        return None
    found = [r for r in receipt.replicas if r.cleaned and r.dropped_bytes]
    if size := receipt.cleaner_bytes:
        names = _first(r.topic for r in found if r.cleaner_bytes)
        return (
            f"the log cleaner works on {names}, too: the {size:,} bytes that left beyond the upper "
            "estimate are not told apart from its work, and are not counted"
        )
    if unbounded := [r.topic for r in found if r.most_bytes is None]:
        return (
            f"the log cleaner works on {_first(unbounded)}, too, and no upper estimate tells its "
            "work apart: it is counted"
        )
    return None


def _tiered(receipt: Receipt) -> str | None:
    """Topics of which nothing is counted."""
    if not (topics := receipt.remote_topics):
        return None
    return (
        f"bytes of {_first(topics)} are not measurable: with remote storage local retention "
        "deletes segments, too, and the log start does not tell it"
    )


def _first(names: Iterable[str]) -> str:
    """The first few names, and how many more there are."""
    found = sorted(set(names))
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    return ", ".join(found[:_MOST_NAMED]) + more


def _missing(receipt: Receipt, rows: Sequence[PartitionRow]) -> str | None:
    """All that the receipt cannot count: records that are back, logs that are gone or behind."""
    told = (_back(rows), _gone(receipt), _behind(receipt, rows))
    return "; ".join(filter(None, told)) or None


def _back(rows: Iterable[PartitionRow]) -> str | None:
    back = sum(row.state == "reverted" for row in rows)
    return f"records came back on {back} partitions after an election" if back else None


def _gone(receipt: Receipt) -> str | None:
    if not (gone := receipt.gone_topics):
        return None
    return (
        f"{', '.join(gone)} was deleted, or made anew, before its receipt was final: what left "
        "after the last look before that is not counted"
    )


def _behind(receipt: Receipt, rows: Iterable[PartitionRow]) -> str | None:
    behind = {
        f.broker_id
        for row in rows
        if row.state not in ("not_done", "reverted") and row.topic not in receipt.gone_topics
        for f in row.followers
        if not f.arrived
    }
    if not behind:
        return None
    counted = " and are not counted" if receipt.final else ""
    return f"replicas on broker {_listed(behind)} have not arrived{counted}"


def _of_replicas(receipt: Receipt, rows: Sequence[PartitionRow], predicted: int, off: int) -> str:
    """First what only one side knows of: replicas without an estimate, and without a size."""
    replicas, told = receipt.replicas, []
    counted = [r for r in replicas if not r.left_out]
    unforeseen = [r for r in counted if r.predicted_bytes is None and r.freed_bytes]
    if size := sum(r.freed_bytes for r in unforeseen):
        brokers = _listed(r.broker_id for r in unforeseen)
        told.append(f"{size:,} bytes left on broker {brokers}, where nothing could be estimated")
    lost = predicted - sum(r.predicted_bytes or 0 for r in replicas)
    if lost > 0:
        brokers = _listed(_unmeasured(replicas, rows))
        told.append(f"{lost:,} predicted bytes lie on broker {brokers}, whose sizes were not read")
    if abs(off - size + lost) > sum(r.unsure_bytes for r in replicas) or not told:
        told.append(_estimate(counted, receipt.methods))
    return "; ".join(told)


def _unmeasured(replicas: Sequence[ReplicaReceipt], rows: Sequence[PartitionRow]) -> Iterator[int]:
    """Brokers of partitions that were sent and whose replica there is not in the receipt."""
    known = {r.place for r in replicas}
    for row in (r for r in rows if r.was_sent and r.state != "not_done"):
        leader = () if row.leader_id is None else (row.leader_id,)
        for broker_id in (*leader, *(f.broker_id for f in row.followers)):
            if (row.topic, row.partition, broker_id) not in known:
                yield broker_id


def _listed(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(set(brokers)))) or "unknown"


def _estimate(replicas: Sequence[ReplicaReceipt], methods: Collection[str]) -> str:
    """Names the topics where the estimate was furthest off, the furthest first."""
    off = _off(replicas)
    named = [
        f"of {topic} {freed:,} bytes left where {predicted:,} were predicted"
        for topic, predicted, freed in off[:_MOST_NAMED]
    ]
    known = (found for name, found in _WHY.items() if name in methods)
    why = next(known, _WHY["sampled"])
    furthest = [r for r in replicas if off and r.topic == off[0][0]]
    if any(r.retention_bytes for r in furthest):
        why = _MOVED_ON
    elif any(r.earlier_bytes for r in furthest):
        why = _EARLIER
    elif any(r.moved_before for r in furthest):
        why = _LEFT_BEFORE
    return f"{'; '.join(named)}: {why}" if named else why


def _off(replicas: Iterable[ReplicaReceipt]) -> list[tuple[str, int, int]]:
    """Topic, predicted and freed bytes where they differ, the furthest off first."""
    predicted: dict[str, int] = defaultdict(int)
    freed: dict[str, int] = defaultdict(int)
    for r in replicas:
        if r.predicted_bytes is not None and not r.left_out:
            predicted[r.topic] += r.predicted_bytes
            freed[r.topic] += r.freed_bytes
    found = [(t, predicted[t], freed[t]) for t in predicted if predicted[t] != freed[t]]
    return sorted(found, key=lambda one: (-abs(one[2] - one[1]), one[0]))


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
    """Sorts estimators from the surest to the least sure; a name that we do not know comes last."""
    return (METHODS.index(method) if method in METHODS else len(METHODS), method)
