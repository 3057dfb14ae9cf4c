"""What waiving one dead group would free on the disk in need: shown, planned only when named."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from dashboard.core.errors import RefusedError
from dashboard.domain.model import Group
from dashboard.purge.plan.cluster_seam import Cluster
from dashboard.purge.plan.drafts import Read
from dashboard.purge.plan.lifting import Waiver
from dashboard.purge.plan.resolve import resolve
from dashboard.triage.pieces import Here, Piece, gains, total

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
    groups: Sequence[Mapping[str, Any]],
) -> list[Offer]:
    """An offer per group that has no member now and frees something, most bytes first.

    `groups` are rows of `Known.dead_groups`; only the waiver of that one group is computed.
    """
    found = []
    for row in groups:
        group_id = row["group_id"]
        if not is_dead(read.facts.groups.get(group_id)):
            continue
        waiver = Waiver(group_id, "offered", read.request.by, read.now)
        more = gains(waived(live, read, [waiver]), curves, free)
        if more:
            undeclared = sum(piece.undeclared for piece in more)
            found.append(Offer(group_id, total(more), len(more), undeclared, row["last_commit_at"]))
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
    return group is None or (group.type != "share" and group.members == 0)
