"""What an operator lifts by name and reason: waived groups and overridden guards."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from dashboard.core.canonical import LATER
from dashboard.core.sealed import Moment, Text
from dashboard.domain.model import Guard
from dashboard.purge.plan.guards import Finding
from dashboard.safety.guard_texts import NEVER_LIFTABLE


@dataclass(frozen=True, slots=True)
class Waiver:
    """A group whose offsets no longer count, because `by` said why at `at`.

    `move`: once the records below a target are gone, its offset there follows to the target.
    `alive`: it had members when the plan was made, or nobody could tell; the plan says so. `gone`:
    no coordinator listed it then, and one that is listed before a request is refused (`revived`).
    `since`: where none did, by whomever it was waived, it is as it was when a snapshot of that
    moment was the newest (`clocks.newest_seen`); one that a later one met counts as ever.
    """

    group_id: Text
    reason: Text
    by: str
    at: Moment
    move: bool = field(default=False, metadata=LATER)
    alive: bool = field(default=False, metadata=LATER)
    gone: bool = field(default=False, metadata=LATER)
    since: Moment | None = field(default=None, metadata=LATER)


@dataclass(frozen=True, slots=True)
class Override:
    """A guard lifted with a reason; `group_id` None lifts the guard that speaks of no group.

    In a request None means every group; in a plan each group that was lifted is named.
    """

    name: Text
    group_id: Text | None
    reason: Text
    by: str
    at: Moment


@dataclass(frozen=True, slots=True)
class Lifted:
    """A guard that an override lifted on one partition, the group and the fact it spoke of.

    A group may have no offset for many reasons: who accepts one has not accepted the next.
    """

    name: Text
    group_id: Text | None
    fact: Text | None = field(default=None, metadata=LATER)


def lift(
    findings: Iterable[Finding], overrides: Iterable[Override], *, has_target: bool
) -> tuple[tuple[Guard, ...], list[tuple[Override, Lifted]]]:
    """The guards that still block, and each override with what it lifted, naming the group.

    Without a target offset nothing can be lifted: there is nothing to send. An override that
    names no group lifts its guard of every group.
    """
    blocking: list[Guard] = []
    lifted: list[tuple[Override, Lifted]] = []
    for finding in findings:
        found = _matching(finding, overrides) if has_target else None
        if found is None:
            blocking.append(finding.guard)
        else:
            lifted.append((replace(found, group_id=finding.group_id), _as_lifted(finding)))
    return tuple(blocking), lifted


def still_blocking(
    findings: Iterable[Finding], overrides: Iterable[Override], lifted: Collection[Lifted]
) -> list[Finding]:
    """What blocks before sending: all that these overrides of a plan did not lift as `lifted`."""
    named = {(o.name, o.group_id) for o in overrides}
    return [
        found
        for found in findings
        if found.guard.name in NEVER_LIFTABLE
        or _as_lifted(found) not in lifted
        or (found.guard.name, found.group_id) not in named
    ]


def _as_lifted(finding: Finding) -> Lifted:
    return Lifted(finding.guard.name, finding.group_id, finding.fact)


def _matching(finding: Finding, overrides: Iterable[Override]) -> Override | None:
    if finding.guard.name in NEVER_LIFTABLE:
        return None
    return next(
        (
            o
            for o in overrides
            if o.name == finding.guard.name and o.group_id in (None, finding.group_id)
        ),
        None,
    )
