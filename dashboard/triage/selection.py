"""The smallest set of partitions that frees the bytes, the safest ones first. Pure.

A tier is used up before the next one is touched. Within a tier the largest come first, so that
the fewest reach the need; the last one is exchanged for the smallest that still does. What later
pieces made superfluous is dropped again, the riskiest and smallest first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from dashboard.core.errors import UsageError
from dashboard.domain.model import TopicPartition
from dashboard.purge.plan.guards import Lift, Waive
from dashboard.triage.pieces import NONE, Here, Piece

SURE, LIKELY, POSSIBLE, SHORT = "sure", "likely", "possible", "short"


@dataclass(frozen=True, slots=True)
class Chosen:
    """One partition of the set: the riskiest tier that it needs, and what it frees there."""

    key: TopicPartition
    tier: int
    here: Here
    undeclared: bool = False


def choose(pieces: Iterable[Piece], need: int, most: int) -> tuple[Chosen, ...]:
    """At most `most` partitions whose low estimates reach `need` bytes, sorted.

    Where they reach it, none of them can be left out. Where all together do not, it is every
    partition that is likely to free something, up to `most`.
    """
    by_tier: dict[int, list[Piece]] = defaultdict(list)
    for piece in pieces:
        if piece.here.likely > 0:
            by_tier[piece.tier].append(piece)
    taken: list[Piece] = []
    for tier in sorted(by_tier):
        _take(taken, by_tier[tier], need, most)
        if _low(taken) >= need:
            return _partitions(_trimmed(taken, need))
    return _partitions(taken)


def sureness(here: Here, need: int) -> str:
    """How sure a sum reaches the need: by its low, its likely, its high estimate, or not at all."""
    for word, size in ((SURE, here.low), (LIKELY, here.likely), (POSSIBLE, here.high)):
        if size is None or size >= need:
            return word
    return SHORT


def _take(taken: list[Piece], tier: Sequence[Piece], need: int, most: int) -> None:
    """Add pieces of one tier, largest first, until the need is reached."""
    rest = sorted(tier, key=lambda p: (-p.here.low, -p.here.likely, p.key))
    keys, low = {p.key for p in taken}, _low(taken)
    for at, piece in enumerate(rest):
        if low >= need:
            return
        if not _fits(piece, keys, most):
            continue
        last = low + piece.here.low >= need
        found = _smallest(rest[at:], need - low, keys, most) if last else piece
        taken.append(found)
        keys.add(found.key)
        low += found.here.low


def _smallest(pieces: Sequence[Piece], missing: int, keys: set[TopicPartition], most: int) -> Piece:
    """The one that frees the least of those that free what is missing."""
    enough = [p for p in pieces if p.here.low >= missing and _fits(p, keys, most)]
    return min(enough, key=lambda p: (p.here.low, p.here.likely, p.key))


def _fits(piece: Piece, keys: set[TopicPartition], most: int) -> bool:
    return piece.key in keys or len(keys) < most


def _trimmed(taken: Sequence[Piece], need: int) -> list[Piece]:
    """Without the pieces that the need does not take: first single ones of the highest tier, then
    whole partitions.
    """
    kept = list(taken)
    for piece in sorted(taken, key=lambda p: (-p.tier, p.here.low, p.here.likely, p.key)):
        above = any(p.key == piece.key and p.tier > piece.tier for p in kept)
        if not above and _low(kept) - piece.here.low >= need:
            kept.remove(piece)
    for partition in sorted(_partitions(kept), key=lambda c: (-c.tier, c.here.low, c.key)):
        if _low(kept) - partition.here.low >= need:
            kept = [p for p in kept if p.key != partition.key]
    return kept


def _partitions(pieces: Iterable[Piece]) -> tuple[Chosen, ...]:
    found: dict[TopicPartition, Chosen] = {}
    for p in pieces:
        old = found.get(p.key, Chosen(p.key, 0, NONE))
        found[p.key] = Chosen(
            p.key, max(old.tier, p.tier), old.here + p.here, old.undeclared or p.undeclared
        )
    return tuple(found[key] for key in sorted(found))


def _low(pieces: Iterable[Piece]) -> int:
    return sum(p.here.low for p in pieces)


# What an operator asks at a full disk: so many bytes on that broker, within that time.


@dataclass(frozen=True, slots=True)
class Question:
    """`need_bytes` on one log dir of `broker_id` within a time; both are above 0.

    `log_dir` None asks for the broker's fullest. `accept_undeclared` is the reason why topics
    whose readers nobody declared may go too, `waive` names dead groups; without them
    neither is planned. `by` is recorded as who planned.
    """

    broker_id: int
    need_bytes: int
    within: timedelta
    log_dir: str | None = None
    accept_undeclared: str | None = None
    waive: tuple[Waive, ...] = ()
    by: str = "unknown"

    def __post_init__(self) -> None:
        if self.need_bytes <= 0 or self.within <= timedelta(0):
            raise UsageError(
                "a triage needs bytes and a time above 0",
                "Write for example --need 40GiB --within 30m.",
                code="TRIAGE_INVALID",
            )
        if self.accept_undeclared is not None and not self.accept_undeclared.strip():
            raise UsageError(
                "--accept-undeclared gives no reason",
                'Write --accept-undeclared "why nobody else reads these topics".',
                code="TRIAGE_INVALID",
            )

    @property
    def override(self) -> tuple[Lift, ...]:
        """The accepted loss as a plan lifts it."""
        why = self.accept_undeclared
        return () if why is None else (Lift("readers-undeclared", why.strip()),)

    @property
    def waived_groups(self) -> frozenset[str]:
        """The groups that `waive` names."""
        return frozenset(asked.group_id for asked in self.waive)
