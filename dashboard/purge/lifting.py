"""What an operator lifts by name and reason: waived groups and overridden guards."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from dashboard.guard_texts import NEVER_LIFTABLE
from dashboard.model import Guard
from dashboard.purge.guards import Finding


@dataclass(frozen=True, slots=True)
class Waiver:
    """A group whose offsets no longer count, because `by` said why at `at`.

    `move`: once the records below a target are gone, its offset there follows to the target.
    `alive`: it had members when the plan was made, or nobody could tell; the plan says so.
    """

    group_id: str
    reason: str
    by: str
    at: datetime
    move: bool = False
    alive: bool = False


@dataclass(frozen=True, slots=True)
class Override:
    """A guard lifted with a reason; `group_id` None lifts the guard that speaks of no group.

    In a request None means every group; in a plan each group that was lifted is named.
    """

    name: str
    group_id: str | None
    reason: str
    by: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Lifted:
    """A guard that an override lifted on one partition, and the group that it spoke of."""

    name: str
    group_id: str | None


def lift(
    findings: Iterable[Finding],
    overrides: Iterable[Override],
    *,
    has_target: bool,
    every_group: bool = True,
) -> tuple[tuple[Guard, ...], list[Override]]:
    """The guards that still block, and the overrides that lifted the others, naming each group.

    Without a target offset nothing can be lifted: there is nothing to send. `every_group` is
    how a request reads an override that names no group; before sending `accepted` says which
    may lift, and each lifts the group that it names.
    """
    blocking: list[Guard] = []
    lifted: list[Override] = []
    for finding in findings:
        found = _matching(finding, overrides, every_group) if has_target else None
        if found is None:
            blocking.append(finding.guard)
        else:
            lifted.append(Override(found.name, finding.group_id, found.reason, found.by, found.at))
    return tuple(blocking), lifted


def accepted(overrides: Iterable[Override], lifted: Collection[Lifted]) -> list[Override]:
    """A plan's overrides that lifted something on one partition: no other may lift there again."""
    return [o for o in overrides if Lifted(o.name, o.group_id) in lifted]


def _matching(
    finding: Finding, overrides: Iterable[Override], every_group: bool
) -> Override | None:
    if finding.guard.name in NEVER_LIFTABLE:
        return None
    return next(
        (
            o
            for o in overrides
            if o.name == finding.guard.name
            and (o.group_id == finding.group_id or (every_group and o.group_id is None))
        ),
        None,
    )
