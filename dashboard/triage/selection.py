"""The smallest set of partitions that frees the bytes, the safest ones first; and what waiving one
dead group would free besides: shown, planned only when named. Pure.

A tier is used up before the next one is touched. Within a tier the largest come first, so that the
fewest reach the need; the last one is exchanged for the smallest that still does. What later pieces
made superfluous is dropped again, the riskiest and smallest first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from dashboard.core.errors import RefusedError, UsageError
from dashboard.domain.model import Group, TopicPartition
from dashboard.purge.plan.claims import alive
from dashboard.purge.plan.cluster_seam import Cluster
from dashboard.purge.plan.drafts import Read
from dashboard.purge.plan.guards import Lift, Waive, Waiver
from dashboard.purge.plan.resolve import resolve
from dashboard.store.finding_rows import Blocker
from dashboard.triage.pieces import DOWN, NONE, OFFLINE, SILENT, Disk, Here, Piece, gains, total

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


if TYPE_CHECKING:
    from dashboard.estimate.curve_tables import ReplicaCurves


@dataclass(frozen=True, slots=True)
class Offer:
    """One dead group: bytes there beyond the lower tiers, and of how many partitions.

    `undeclared`: how many of those are in topics whose readers nobody declared.
    """

    group_id: str
    here: Here
    partitions: int
    undeclared: int
    last_commit_at: datetime | None


def waived(live: Cluster, read: Read, waivers: Collection[Waiver]) -> Read:
    """The same reading with the targets that these groups no longer hold back."""
    targets = resolve(
        live,
        read.facts,
        read.request.target,
        chosen_groups=(),
        waived={w.group_id for w in waivers},
        declarations=read.declared,
        now=read.now,
        history=read.history,
    )
    resolved = {key: target for key, target in targets.items() if key in read.resolved}
    return replace(read, waivers=list(waivers), resolved=resolved)


def offers(
    live: Cluster,
    read: Read,
    curves: ReplicaCurves,
    free: Sequence[Piece],
    groups: Sequence[Blocker],
) -> list[Offer]:
    """An offer per group that has no member now and frees something, most bytes first.

    `groups` are those of `Known.dead_groups`; only the waiver of that one group is computed.
    """
    found = []
    for row in groups:
        group_id = row.group_id
        if not is_dead(read.facts.groups.get(group_id)):
            continue
        waiver = Waiver(group_id, "offered", read.request.by, read.now)
        more = gains(waived(live, read, [waiver]), curves, free)
        if more:
            undeclared = sum(piece.undeclared for piece in more)
            found.append(Offer(group_id, total(more), len(more), undeclared, row.last_commit_at))
    return sorted(found, key=lambda o: (-o.here.low, -o.here.likely, o.group_id))


def refuse_alive(groups: Mapping[str, Group], waivers: Collection[Waiver]) -> None:
    """In a hurry only a group that nobody runs is waived. Raises RefusedError GROUP_ALIVE."""
    for waiver in waivers:
        group = groups.get(waiver.group_id)
        if not is_dead(group):
            raise RefusedError(
                f"group {waiver.group_id} is not dead: it has members, shares a topic, or cannot "
                "be read",
                "Triage waives dead groups only; let it read on, or leave --waive out.",
                code="GROUP_ALIVE",
            )


def is_dead(group: Group | None) -> bool:
    """Gone, or without members; one whose members cannot be read counts as alive."""
    return not alive(group) and (group is None or group.type != "share")


# What to do about a disk that no purge can give room to, the cheapest first, each with its price.
#
# Purging deletes segments through the broker that holds them. Where the log dir is offline or the
# broker is down nothing is deleted, whatever a leader elsewhere answers.

_WHY = {
    OFFLINE: "Log dir {log_dir} of broker {broker} is offline ({error}): it met an I/O error, as "
    "a full disk is one. The broker deletes nothing there until it is restarted, so a purge frees "
    "nothing on this disk.",
    DOWN: "Broker {broker} is not alive: nothing on {log_dir} is deleted while it is down. A "
    "broker halts when its last log dir goes offline, as on a full disk.",
    SILENT: "Broker {broker} does not say what is on {log_dir} ({error}): no purge can be weighed.",
}
_ROOM = (
    "Make room beside the segments, or make the disk larger: extend the volume, or move what is "
    "not Kafka's (its own logs, dumps, packages) off it. Price: none for the data."
)
_RESTART = (
    "Then restart broker {broker}: an offline log dir comes back by a restart alone. Without "
    "room it fails again, so make room first. Its replicas catch up from their leaders; do not "
    "restart a second broker meanwhile."
)
_PURGE_NOW = (
    "Purge the same topics now all the same, from their leaders elsewhere: lowwater plan with "
    '--override "under-replicated=WHY", apply --mode leader-only-verified. What that frees here '
    "leaves after the restart, once the replicas have fetched their leaders' log starts and the "
    "retention check has run. Price: a replica from here that is elected as it comes back "
    "(uncleanly, or as an eligible leader replica, Kafka 4.1) brings the records back."
)
_MOVE = (
    "With the broker stopped, move whole partition folders to another of its log dirs with room "
    "(on the same file system mv is a rename and frees nothing) and keep no copy: a partition in "
    "two log dirs keeps the broker from starting. Price: their checkpoints stay behind, so "
    "recovery takes longer and a log start that a purge moved may fall back to its first segment; "
    "a mistake costs that replica."
)
_REPLICA = (
    "With the broker stopped, delete the folder of a partition that has other replicas in sync: "
    "the broker copies it again after its start, so the room is for minutes unless the replica is "
    "reassigned elsewhere first. Price: one copy less until then; where this was the last one in "
    "sync the records are lost. Never delete single segment files."
)
_TOPIC = (
    "Deleting a topic, or reassigning replicas away, frees nothing here while the log dir is "
    "offline: after the restart the folders are set aside as -stray and keep their bytes until "
    "somebody deletes them (lowwater orphans). Price of deleting: all of the topic."
)
_UNCLEAN = (
    "A partition whose last in-sync replica is on this disk has no leader now. An unclean "
    "election (kafka-leader-election --election-type unclean) makes it available at once. Price: "
    "every record that the chosen replica had not copied is lost for good, and groups may find "
    "their offsets past its end. Bringing this disk back loses nothing: try that first."
)
_ASK = (
    "See whether the broker answers at all (lowwater doctor names what it refuses or delays), and "
    "look at the mount and at the broker's own log: a log dir that it cannot read goes offline at "
    "its next write."
)


def why(disk: Disk) -> str:
    """Why no purge gives this disk room: one or two sentences. Only for a disk with an obstacle."""
    text = _WHY[disk.obstacle or SILENT]
    return text.format(broker=disk.broker_id, log_dir=disk.log_dir, error=disk.error)


def instead(disk: Disk) -> list[str]:
    """What to do instead; empty for a disk without an obstacle."""
    if disk.obstacle is None:
        return []
    if disk.obstacle == SILENT:
        return [_ASK]
    steps = (_ROOM, _RESTART, _PURGE_NOW, _MOVE, _REPLICA, _TOPIC, _UNCLEAN)
    return [step.format(broker=disk.broker_id) for step in steps]
