"""Whether what was accepted with a plan is still all that is lost, and a waived group as it was.

Who waives a group judges it as it stands. One that lives again, or starts over further back, is
another case, and its records would be lost without a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from dashboard.core.clock import microseconds
from dashboard.domain.model import Group
from dashboard.purge.plan.claims import GroupClaim, alive
from dashboard.purge.plan.facts import PlanFacts
from dashboard.purge.plan.guards import Waive, Waiver
from dashboard.purge.plan.plan import Plan, PlannedPartition


def in_force(asked: Iterable[Waive], facts: PlanFacts) -> list[Waive]:
    """Those that count now. One that is asked for a group that is `gone` does while no coordinator
    lists it, by a list that is complete, and while an offset of it is remembered here: another
    that is known to nobody may have been forgotten, and is no mistake. Nor does one that came back
    since it was asked for: whoever did judged it as it was before.
    """
    known = facts.reading_groups
    return [
        each
        for each in asked
        if not each.gone
        or (
            each.group_id in known - facts.groups.keys()
            and not facts.incomplete
            and not came_back(each.group_id, each.since, facts)
        )
    ]


def came_back(group_id: str, since: datetime | None, facts: PlanFacts) -> bool:
    """Whether a snapshot after the one of `since` met a waived group, or saw an offset of it here.

    `since` tells an order, as the times of what was met do: no clock is asked.
    """
    if since is None:
        return False
    met = (at for (group, _), at in facts.met.items() if group == group_id)
    seen = (at for (_, group), at in facts.seen.items() if group == group_id and at)
    # Ids, and manifests, tell milliseconds, and a row's own time microseconds.
    newest = microseconds(since) // 1000
    return any(at // 1000 > newest for at in (*met, *map(microseconds, seen)))


def still_waived(plan: Plan, facts: PlanFacts) -> frozenset[str]:
    """The waived groups that no snapshot met since: whoever waived the others judged them before
    they came back, and they count as ever, also where they are gone again.
    """
    return frozenset(
        waiver.group_id
        for waiver in plan.waivers
        if not came_back(waiver.group_id, waiver.since, facts)
    )


def more_lost(
    plan: Plan,
    planned: PlannedPartition,
    start: int,
    facts: PlanFacts,
    places: Mapping[str, int | None],
) -> str | None:
    """Why more is lost here than was accepted with the plan; None: no more is.

    `start` is where the log starts by now, `places` the offset of each group that reads the
    partition, None where it tells nothing (`purge.plan.standing.places`), the waived ones among
    them.
    """
    claims, target = facts.claims.get(planned.key, ()), planned.target_offset
    if target is None:
        return None
    return (
        _moved_back(planned, target, claims)
        or _starts_lower(plan, planned, start, claims)
        or _revived(plan, planned, target, facts, places)
    )


def _moved_back(planned: PlannedPartition, target: int, claims: Iterable[GroupClaim]) -> str | None:
    """An override accepts what a group had not read when it was planned, and no more."""
    lifted = {found.group_id for found in planned.lifted if found.name == "unread-by-group"}
    then = {
        c.group_id: c.committed_offset for c in planned.groups if c.committed_offset is not None
    }
    for claim in claims:
        was, now = then.get(claim.group_id, target), claim.committed_offset
        if claim.group_id in lifted and now is not None and now < was:
            return (
                f"Group {claim.group_id} moved back from {was} to {now} since the plan: "
                "more would be lost than was accepted."
            )
    return None


def _starts_lower(
    plan: Plan, planned: PlannedPartition, start: int, claims: Iterable[GroupClaim]
) -> str | None:
    """What was accepted began at the log start that was shown, and an older one may come back.

    A replica that missed an earlier purge is elected: the records below the planned start are
    there again. Where nothing was accepted every known group has read them.
    """
    then = planned.log_start_offset
    if then is None or start >= then:
        return None
    stood = {c.group_id: c.committed_offset for c in claims if c.group_id in plan.waived_groups}
    stood |= planned.waived  # who reads without an offset that tells, too
    unread = [group_id for group_id, at in stood.items() if at is None or at < then]
    if not planned.lifted and not unread:
        return None
    names = [found.name for found in planned.lifted] or [f"waived {name}" for name in unread]
    return (
        f"Its log starts at {start} again, below the {then} of the plan: more records would go "
        f"than were accepted ({', '.join(sorted({*names}))}). Plan again."
    )


def _revived(
    plan: Plan,
    planned: PlannedPartition,
    target: int,
    facts: PlanFacts,
    places: Mapping[str, int | None],
) -> str | None:
    """Why a waived group loses more here than the plan said, naming it; None: it does not."""
    live = {c.group_id for c in facts.claims.get(planned.key, ()) if not c.remembered}
    for waiver in plan.waivers:
        name = waiver.group_id
        place = places.get(name)
        why = _lives_again(waiver, facts.groups.get(name), place if name in live else None, target)
        if name in planned.waived:
            why = why or _further_back(waiver, planned.waived[name], place, target)
        elif name in places and (place is None or place < target):
            why = why or _came(waiver, place, target)
        if why:
            return f"{why}. Plan again."
    return None


def _lives_again(waiver: Waiver, group: Group | None, place: int | None, target: int) -> str | None:
    if group is None or not (waiver.gone or (alive(group) and not waiver.alive)):
        return None
    # Its members may come upon the topic at any moment: by a pattern, or while they rebalance.
    if place is not None and place >= target:
        return None
    members = "members nobody can tell" if group.members is None else f"{group.members} members"
    stands = "without an offset here" if place is None else f"at {place}"
    now = "lives again" if alive(group) else "is listed again"
    return (
        f"Group {waiver.group_id} was waived as gone and {now}: it has {members} and stands "
        f"{stands}, below the target {target}"
    )


def _came(waiver: Waiver, place: int | None, target: int) -> str:
    stands = "without an offset that tells what it has read" if place is None else f"at {place}"
    return (
        f"Group {waiver.group_id}, which is waived, reads this partition since the plan, {stands}, "
        f"below the target {target}: that loss was not shown"
    )


def _further_back(waiver: Waiver, was: int | None, place: int | None, target: int) -> str | None:
    if was is None and place is None:
        return None
    if place is not None and place >= (target if was is None else min(was, target)):
        return None
    stood = f"from {was}" if was is not None else "from no offset"
    stands = f"to {place}" if place is not None else "to no offset that tells what it has read"
    return (
        f"Group {waiver.group_id}, which is waived, moved back {stood} {stands} since the plan: "
        "more would be lost than was shown"
    )
