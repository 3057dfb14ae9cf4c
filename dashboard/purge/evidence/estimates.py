"""What a purge frees of each planned partition, from curves of its replicas; and how long it takes
to archive them first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dashboard.domain.model import DEFAULT_SEGMENT_BYTES, METHODS, TopicPartition
from dashboard.purge.journal.reads import told_by_journal
from dashboard.purge.plan.facts import PlanFacts
from dashboard.purge.plan.plan import Estimate, Plan, PlannedPartition
from dashboard.purge.plan.preview import Pace
from dashboard.purge.plan.resolve import Keeping, LogEnd, ResolvedTarget
from dashboard.purge.plan.tiers import is_remote
from dashboard.purge.receipt.model import KeptRecords
from dashboard.settings.settings import Settings

if TYPE_CHECKING:  # numpy is slow to import; a plan without an analysis needs none
    from dashboard.estimate.curve_tables import ReplicaCurves
    from dashboard.estimate.curves import Curves, Ints


def of_curves(
    found: ReplicaCurves, facts: PlanFacts, resolved: Mapping[TopicPartition, ResolvedTarget]
) -> dict[TopicPartition, Estimate]:
    """Estimates by the curves of a findings table, in segments as they are configured now.

    A topic that was recreated since has none, nor one with remote storage, of whose bytes only
    local ones are seen (KIP-405). Where a replica has no curve, its broker was not
    asked: what it frees is unknown, so there is no upper bound. Nor is there where `Curves.bounded`
    denies it.
    """
    import numpy as np

    from dashboard.estimate.curve_tables import changes

    places = found.places
    if not places.num_rows:
        return {}
    new = np.ones(places.num_rows, dtype=bool)
    new[1:] = changes(places["topic"]) | changes(places["partition"])
    row = np.cumsum(new) - 1
    heads = places.take(np.flatnonzero(new))
    names, ids = heads["topic"].to_pylist(), heads["topic_id"].to_pylist()
    keys = list(map(TopicPartition, names, heads["partition"].to_pylist()))
    bounds = [
        _bounds(facts, key, resolved[key])
        if key in resolved
        and _same_topic(facts, key, topic_id)
        and not is_remote(facts.configs.get(key.topic, {}))
        else None
        for key, topic_id in zip(keys, ids, strict=True)
    ]
    start, target = np.array([bound or (0, 0) for bound in bounds], dtype=np.int64).T
    of_topic = {topic: segment_bytes(facts, topic) for topic in set(names)}
    segments = np.array([of_topic[name] for name in names], dtype=np.int64)
    told = estimates(
        found.with_segment_bytes(segments[row]).curves,
        row,
        places["broker_id"].to_pylist(),
        start[row],
        target[row],
        cleaned={n for n, name in enumerate(names) if is_cleaned(facts, name)},
    )
    rows = zip(keys, bounds, told, strict=True)
    return {
        key: _bounded(estimate, facts.partitions[key].replicas)
        for key, bound, estimate in rows
        if bound is not None
    }


def _bounded(estimate: Estimate, replicas: Sequence[int]) -> Estimate:
    if set(replicas) <= set(estimate.replicas):
        return estimate
    return replace(estimate, bytes_at_once_high=None, bytes_later_high=None)


def leaders_keeping(
    found: ReplicaCurves, facts: PlanFacts, sizes: Mapping[TopicPartition, int]
) -> dict[TopicPartition, Keeping]:
    """Where `Curves.keeping` says so of each partition's leader, and the log end up to which bytes
    were counted; missing where it has no curve, or the cleaner may take of what lies there: its
    topic is compacted, or nobody knows.
    """
    import numpy as np

    rows = found.places.select(["topic", "partition", "broker_id", "topic_id"]).to_pylist()
    keys = [TopicPartition(row["topic"], row["partition"]) for row in rows]
    wanted = np.array([sizes.get(key, 0) for key in keys], dtype=np.int64)
    knots, sure = (told.tolist() for told in found.curves.keeping(wanted))
    offsets, ends = [at if s else None for at, s in zip(knots, sure, strict=True)], _log_ends(found)
    kept: dict[TopicPartition, Keeping] = {}
    for key, row, offset, end in zip(keys, rows, offsets, ends, strict=True):
        if key not in sizes or is_cleaned(facts, key.topic):
            continue
        is_leader = row["broker_id"] == facts.partitions[key].leader_id
        if is_leader and _same_topic(facts, key, row["topic_id"]):
            # Two log dirs of one broker: the partition is on its way from one to the other.
            of_both = [Keeping(offset, end), *([kept[key]] if key in kept else [])]
            kept[key] = min(of_both, key=lambda one: -1 if one.offset is None else one.offset)
    return kept


def _log_ends(found: ReplicaCurves) -> list[LogEnd | None]:
    """Where each log ended when it was measured, and in which leader epoch; None: nobody can tell
    whether the log of today is that one, as by analyses of earlier versions.
    """
    from dashboard.estimate.curves import NO_EPOCH

    curves = found.curves
    told = zip(
        curves.offset[curves.last].tolist(),
        curves.epoch.tolist(),
        found.places["topic_id"].to_pylist(),
        strict=True,
    )
    return [
        None if epoch == NO_EPOCH or topic_id is None else LogEnd(end, epoch)
        for end, epoch, topic_id in told
    ]


def estimates(
    curves: Curves,
    row: Ints,
    brokers: Sequence[int],
    start: Ints,
    target: Ints,
    *,
    cleaned: Collection[int] = (),
) -> list[Estimate]:
    """One estimate per partition, summed over its replicas, from offsets for each of these.

    `row` is the partition of each replica; they count from 0. A sum has the name of the least
    sure way that any of its replicas was measured, and no upper bound where one of them has none.
    Of the partitions in `cleaned` each replica's upper bound is told, too.
    """
    import numpy as np

    freed = curves.freed(start, target)
    count = int(row[-1]) + 1

    def summed(values: Ints) -> list[int]:
        sums = np.zeros(count, dtype=np.int64)
        np.add.at(sums, row, values)
        found: list[int] = sums.tolist()
        return found

    worst, endless = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=bool)
    np.maximum.at(worst, row, freed.method)
    unbounded = (target > start) & ~curves.bounded(target)
    np.logical_or.at(endless, row, unbounded)

    def most(values: Ints) -> list[int | None]:
        sums = zip(summed(values), endless.tolist(), strict=True)
        return [None if unknown else size for size, unknown in sums]

    split: list[dict[int, int]] = [{} for _ in range(count)]
    for at, broker, size in zip(row.tolist(), brokers, freed.once.tolist(), strict=True):
        split[at][broker] = split[at].get(broker, 0) + size
    bounds: list[dict[int, int | None]] = [{} for _ in range(count)]
    for n in np.flatnonzero(np.isin(row, list(cleaned))).tolist() if cleaned else ():
        of, size = bounds[row[n]], int(freed.once_high[n])
        known = None if unbounded[n] else of.get(brokers[n], 0)
        of[brokers[n]] = None if known is None else known + size
    columns = (
        summed(freed.once),
        (METHODS[method] for method in worst.tolist()),
        split,
        summed(freed.once_low),
        most(freed.once_high),
        summed(np.maximum(freed.low - freed.once_high, 0)),
        summed(freed.likely - freed.once),
        most(freed.high - freed.once_low),
        bounds,
    )
    return [Estimate(*values) for values in zip(*columns, strict=True)]


def most_freed(partition: PlannedPartition) -> int | None:
    """The most that purging it may free at once, which is what budgets are charged with.

    None: nobody knows, so that no budget of bytes may let it in.
    """
    return partition.estimate.bytes_at_once_high if partition.estimate else None


def is_cleaned(facts: PlanFacts, topic: str) -> bool:
    """Whether the log cleaner works on the topic, or may, where nobody tells its policy: bytes
    leave it that no purge frees.
    """
    policy = facts.configs.get(topic, {}).get("cleanup.policy")
    return policy is None or "compact" in policy


def segment_bytes(facts: PlanFacts, topic: str) -> int:
    """The topic's `segment.bytes`, the broker's default where it is not known."""
    value = facts.configs.get(topic, {}).get("segment.bytes")
    return max(1, int(value)) if value else DEFAULT_SEGMENT_BYTES


def segment_ms(facts: PlanFacts, topic: str) -> int | None:
    """The topic's `segment.ms`: after so long a segment rolls although it is not full."""
    value = facts.configs.get(topic, {}).get("segment.ms")
    return int(value) if value else None


def _same_topic(facts: PlanFacts, key: TopicPartition, topic_id: str | None) -> bool:
    """Curves of older minors, or of older brokers, carry no topic id: the name has to do."""
    return topic_id is None or facts.partitions[key].topic_id in (None, topic_id)


def _bounds(
    facts: PlanFacts, key: TopicPartition, target: ResolvedTarget
) -> tuple[int, int] | None:
    """Log start and target; None where either is unknown."""
    start = facts.partitions[key].log_start_offset
    return None if start is None or target.offset is None else (start, target.offset)


# How long an archive takes, by those that were made before.

_RUNS, _ARCHIVES = 200, 5  # so many of the newest are looked through, and counted


def archive_pace(settings: Settings, plan: Plan) -> Pace:
    """How fast the newest archives of the plan's cluster were, and the rate that is set; nothing of
    a plan that keeps nothing.
    """
    if plan.archive is None:
        return Pace()
    runs = told_by_journal(settings, lambda journal: journal.runs(plan.cluster_id, most=_RUNS))
    return pace_of([run.archive for run in runs or ()], settings.archive.bytes_per_second)


def pace_of(archives: Iterable[KeptRecords | None], limit: int | None) -> Pace:
    """Of archives, the newest first: what the last worker of each read, and how long that took."""
    paces = [pace for a in archives if a is not None and (pace := a.pace) is not None][:_ARCHIVES]
    seconds = sum(pace.seconds for pace in paces)
    if not seconds:
        return Pace(limit)
    return Pace(
        limit, len(paces),
        sum(pace.raw_bytes for pace in paces) / seconds,
        sum(pace.records for pace in paces) / seconds,
    )  # fmt: skip
