"""Which offsets of waived, dead groups a purge moves to its targets, and when one may move. Pure.

A dead group left below the log start would reset by its own policy, which Kafka does not show:
moved to the target, it resumes there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from dashboard.core.errors import RefusedError
from dashboard.domain.model import Group, TopicPartition
from dashboard.purge.plan.claims import alive

if TYPE_CHECKING:
    from dashboard.purge.plan.plan import Plan

OPEN_MOVES = ("pending", "unknown")
MOST_ATTEMPTS = 4
# A coordinator's answers to a commit from outside a group that has members.
_ALIVE = frozenset(
    {
        "UNKNOWN_MEMBER_ID",
        "ILLEGAL_GENERATION",
        "REBALANCE_IN_PROGRESS",
        "FENCED_MEMBER_EPOCH",
        "STALE_MEMBER_EPOCH",
        "FENCED_INSTANCE_ID",
    }
)
# Refused before anything is written; after any other answer only reading tells.
_NOTHING_MOVED = frozenset(
    {
        "GROUP_AUTHORIZATION_FAILED",
        "TOPIC_AUTHORIZATION_FAILED",
        "INVALID_GROUP_ID",
        "GROUP_ID_NOT_FOUND",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNSUPPORTED_VERSION",
    }
)


@dataclass(frozen=True, slots=True)
class MoveRow:
    """One committed offset to move. State: pending, moved, refused or unknown.

    `unknown`: a request left, and the group's offset has not been read since, on the planned topic.
    """

    group_id: str
    topic: str
    partition: int
    from_offset: int
    to_offset: int
    state: str = "pending"
    error: str | None = None
    message: str | None = None
    attempts: int = 0

    @property
    def key(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def open(self) -> bool:
        return self.state in OPEN_MOVES

    def to_json(self) -> dict[str, object]:
        """The contract's keys of one move, the reason in words, and whether a request left."""
        found = {name: value for name, value in asdict(self).items() if name != "attempts"}
        return found | {"sent": self.attempts > 0}


def planned_moves(plan: Plan) -> tuple[MoveRow, ...]:
    """The moves that the plan's waivers ask for, sorted by group, topic and partition.

    Only of free partitions, only forward, and only of offsets that Kafka still holds: one that
    a kept snapshot alone remembers is gone, and moving it would make the group anew.
    """
    moving = {w.group_id for w in plan.waivers if w.move}
    found = [
        MoveRow(claim.group_id, p.topic, p.partition, claim.committed_offset, p.target_offset)
        for p in (plan.free_partitions if moving else ())
        for claim in p.groups
        if claim.group_id in moving
        and not claim.remembered
        and claim.committed_offset is not None
        and p.target_offset is not None
        and claim.committed_offset < p.target_offset
    ]
    return tuple(sorted(found, key=lambda m: (m.group_id, m.key)))


def refuse_alive(groups: Mapping[str, Group], waived: Collection[str]) -> None:
    """Nobody but its members moves a living group, and a share group commits no offsets.

    Raises RefusedError MOVE_GROUP_ALIVE or MOVE_SHARE_GROUP.
    """
    for group_id in sorted(waived):
        group = groups.get(group_id)
        if group is not None and group.type == "share":
            raise RefusedError(
                f"{group_id} is a share group: its start offset cannot be moved by a commit",
                "Move it with Kafka's kafka-share-groups tool, or leave --move-waived out.",
                code="MOVE_SHARE_GROUP",
            )
        if group is None or not alive(group):
            continue
        known = (
            "it cannot be read whether it has members"
            if group.members is None
            else f"it has {group.members} members"
        )
        raise RefusedError(
            f"the offset of group {group_id} cannot be moved from outside: {known}",
            "Stop its consumers and plan again, or leave --move-waived out and let it read on.",
            code="MOVE_GROUP_ALIVE",
        )


def judged(move: MoveRow, group: Group | None, committed_offset: int | None) -> MoveRow:
    """The move after its group was read: moved, refused by name, or `pending`: to be sent.

    Sent only while the group has no members and stands where the plan saw it.
    """
    if committed_offset is not None and committed_offset >= move.to_offset:
        ours = committed_offset == move.to_offset and move.attempts > 0
        said = None if ours else f"it was at {committed_offset} when it was read"
        if not move.attempts:
            said = f"it stood at {committed_offset} already, and nothing was sent"
        return replace(move, state="moved", error=None, message=said)
    if group is None or committed_offset is None:
        return refused(move, "GROUP_OFFSET_GONE", "the group holds no offset here any more")
    if group.members != 0:
        how_many = "an unknown number of" if group.members is None else group.members
        said = f"the group has {how_many} members now: only they move its offset"
        return refused(move, "GROUP_ALIVE", said)
    if committed_offset != move.from_offset:
        back = committed_offset < move.from_offset
        return refused(
            move,
            "OFFSET_MOVED_BACK" if back else "OFFSET_CHANGED",
            f"the plan saw it at {move.from_offset}, now it is at {committed_offset}",
        )
    if move.attempts >= MOST_ATTEMPTS:
        said = f"the group is still at {committed_offset} after {move.attempts} requests"
        return refused(move, move.error or "NOT_MOVED", said)
    return replace(move, state="pending")


def refused(move: MoveRow, error: str, message: str | None = None) -> MoveRow:
    """The move will not be made; the group's offset stays."""
    return replace(move, state="refused", error=error, message=message)


def skipped_records(moves: Iterable[MoveRow], key: TopicPartition) -> str | None:
    """For a partition whose records came back: which moved groups will not read them."""
    said = [
        f"group {m.group_id} was moved to {m.to_offset} and will skip them"
        for m in moves
        if m.key == key and m.state in ("moved", "unknown") and m.attempts
    ]
    return "; ".join(said) or None


def answered(move: MoveRow, error: str | None) -> MoveRow:
    """The move after its answer: refused when Kafka proves that nothing moved, else to be read."""
    if error in _ALIVE:
        return refused(move, "GROUP_ALIVE", f"its coordinator answered {error}: it has members")
    if error in _NOTHING_MOVED:
        return refused(move, error, "its coordinator refused")
    return replace(move, error=error, message=None)
