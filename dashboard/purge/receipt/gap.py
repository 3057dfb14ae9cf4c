"""Why a receipt's freed bytes are not the predicted ones, or not all that left, in one sentence.

Apart from `receipt`, which asks for it at each look: that sums, this words.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

from dashboard.purge.journal.journal_rows import PartitionRow
from dashboard.purge.receipt.model import Receipt, ReplicaReceipt

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
