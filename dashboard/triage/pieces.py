"""What purging each partition would free on the disk in need, and how sure its records are lost.

Tier 1: every known group has consumed the records and the topic's readers are declared. Tier 2:
the same, but nobody declared its readers. Tier 3: what waiving a dead group frees besides. Past
that nothing is offered: a partition with any other guard has no tier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dashboard.domain.model import TopicPartition
from dashboard.purge.evidence.estimates import segment_bytes
from dashboard.purge.plan.drafts import Read
from dashboard.purge.plan.plan import PlannedPartition

if TYPE_CHECKING:  # numpy is slow to import
    from dashboard.estimate.curve_tables import ReplicaCurves

DECLARED, UNDECLARED, WAIVED = 1, 2, 3
_READERS = "readers-undeclared"
# It speaks of how many partitions were read, not of these: the plan of the chosen ones says it.
_OF_THE_WHOLE = "over-limit"


@dataclass(frozen=True, slots=True)
class Here:
    """Bytes on the disk in need that leave at once, in whole segments: low <= likely <= high.

    `high` is None where nobody knows how much was written since the analysis.
    """

    low: int
    likely: int
    high: int | None

    @property
    def some(self) -> bool:
        """Whether anything may leave."""
        return self.high is None or self.high > 0

    def __add__(self, other: Here) -> Here:
        unknown = self.high is None or other.high is None
        high = None if unknown else (self.high or 0) + (other.high or 0)
        return Here(self.low + other.low, self.likely + other.likely, high)

    def __sub__(self, other: Here) -> Here:
        """What comes on top of `other`, so that the sum of both is this one again."""
        unknown = self.high is None or other.high is None
        high = None if unknown else (self.high or 0) - (other.high or 0)
        return Here(self.low - other.low, self.likely - other.likely, high)


NONE = Here(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Piece:
    """One step of a partition's log start and what it frees there.

    A piece of tier 3 is what a waiver frees beyond the piece of a lower tier, if there is one.
    `undeclared`: nobody declared the topic's readers.
    """

    key: TopicPartition
    tier: int
    here: Here
    undeclared: bool = False


@dataclass(frozen=True, slots=True)
class Blocked:
    """A partition that another guard keeps from any tier, and what it holds there."""

    key: TopicPartition
    guards: tuple[str, ...]
    here: Here


def pieces(read: Read, curves: ReplicaCurves) -> tuple[list[Piece], list[Blocked]]:
    """The pieces of tiers 1 and 2, and what is blocked; of partitions that free something.

    `curves` are those of the replicas in the log dir in need, and of no other.
    """
    freed = measured(read, curves)
    free: list[Piece] = []
    blocked: list[Blocked] = []
    for partition in read.only(freed).plan(()).partitions:
        here = freed[partition.key]
        names = _names(partition)
        if not here.some:
            continue
        if names <= {_READERS}:
            free.append(Piece(partition.key, UNDECLARED if names else DECLARED, here, bool(names)))
        else:
            blocked.append(Blocked(partition.key, tuple(sorted(names)), here))
    return free, blocked


def gains(waived: Read, curves: ReplicaCurves, before: Sequence[Piece]) -> list[Piece]:
    """The pieces of tier 3 of a reading with a waiver, beyond those without it."""
    already = {piece.key: piece.here for piece in before}
    found = []
    for piece in pieces(waived, curves)[0]:
        had = already.get(piece.key, NONE)
        more = piece.here - had
        if more.likely > 0:
            found.append(Piece(piece.key, WAIVED, more, piece.undeclared))
    return found


def measured(read: Read, curves: ReplicaCurves) -> dict[TopicPartition, Here]:
    """What each partition's replica in that log dir frees by its own curve, from live offsets.

    One without a curve is missing: not measurable, never zero.
    """
    import numpy as np

    places = curves.places.select(["topic", "partition", "topic_id"]).to_pylist()
    rows: list[int] = []
    keys: list[TopicPartition] = []
    starts: list[int] = []
    targets: list[int] = []
    for row, place in enumerate(places):
        key = TopicPartition(place["topic"], place["partition"])
        bounds = _bounds(read, key, place["topic_id"])
        if bounds is not None:
            rows.append(row)
            keys.append(key)
            starts.append(bounds[0])
            targets.append(bounds[1])
    if not rows:
        return {}
    sizes = {topic: segment_bytes(read.facts, topic) for topic in {key.topic for key in keys}}
    every = np.array([sizes.get(p["topic"], 1) for p in places], dtype=np.int64)
    chosen = curves.with_segment_bytes(every).curves.of(np.array(rows, dtype=np.int64))
    start, target = (np.array(offsets, dtype=np.int64) for offsets in (starts, targets))
    freed = chosen.freed(start, target)
    bounded = (chosen.bounded(target) | (target <= start)).tolist()
    columns = (freed.once_low.tolist(), freed.once.tolist(), freed.once_high.tolist(), bounded)
    return {
        key: Here(low, likely, high if known else None)
        for key, low, likely, high, known in zip(keys, *columns, strict=True)
    }


def _bounds(read: Read, key: TopicPartition, topic_id: str | None) -> tuple[int, int] | None:
    """Log start and target, both live; None where one is not known or the topic is another."""
    facts, target = read.facts.partitions.get(key), read.resolved.get(key)
    if facts is None or target is None or target.offset is None or facts.log_start_offset is None:
        return None
    if topic_id is not None and facts.topic_id not in (None, topic_id):
        return None
    return facts.log_start_offset, target.offset


def _names(partition: PlannedPartition) -> set[str]:
    return {guard.name for guard in partition.guards} - {_OF_THE_WHOLE}


def total(found: Mapping[TopicPartition, Here] | Sequence[Piece] | Sequence[Blocked]) -> Here:
    """The sum of all."""
    values = found.values() if isinstance(found, Mapping) else [piece.here for piece in found]
    return sum(values, NONE)
