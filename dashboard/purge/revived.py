"""Whether a waived group is still as the plan saw it: a waiver says that nobody will miss records.

Who waives a group judges it as it stands. One that lives again, or starts over further back, is
another case, and its records would be lost without a word.
"""

from __future__ import annotations

from dashboard.model import Group
from dashboard.purge.facts import GroupClaim, PlanFacts
from dashboard.purge.lifting import Waiver
from dashboard.purge.plan import Plan, PlannedPartition


def revived(plan: Plan, planned: PlannedPartition, facts: PlanFacts) -> str | None:
    """Why a waived group loses more here than the plan said, naming it; None: it does not."""
    target = planned.target_offset
    then = {claim.group_id: claim for claim in planned.groups}
    now = {claim.group_id: claim for claim in facts.claims.get(planned.key, ())}
    if target is None:
        return None
    for waiver in plan.waivers:
        before, after = then.get(waiver.group_id), now.get(waiver.group_id)
        why = _lives_again(waiver, facts.groups.get(waiver.group_id), after, target)
        why = why or _further_back(waiver, before, after, target)
        if why:
            return f"{why}. Plan again."
    return None


def alive(group: Group | None) -> bool:
    """Whether a group has members, or nobody can tell."""
    return group is not None and group.members != 0


def _lives_again(
    waiver: Waiver,
    group: Group | None,
    claim: GroupClaim | None,
    target: int,
) -> str | None:
    if waiver.alive or group is None or not alive(group):
        return None
    offset = None if claim is None or claim.remembered else claim.committed_offset
    # Its members may come upon the topic at any moment: by a pattern, or while they rebalance.
    if offset is not None and offset >= target:
        return None
    members = "members nobody can tell" if group.members is None else f"{group.members} members"
    stands = "without an offset here" if offset is None else f"at {offset}"
    return (
        f"Group {waiver.group_id} was waived as gone and lives again: it has {members} and stands "
        f"{stands}, below the target {target}"
    )


def _further_back(
    waiver: Waiver, before: GroupClaim | None, after: GroupClaim | None, target: int
) -> str | None:
    if after is None or after.committed_offset is None or after.committed_offset >= target:
        return None
    was = before.committed_offset if before is not None else None
    if was is not None and after.committed_offset >= was:
        return None
    stood = f"from {was}" if was is not None else "from no offset"
    return (
        f"Group {waiver.group_id}, which is waived, moved back {stood} to "
        f"{after.committed_offset} since the plan: more would be lost than was shown"
    )
