"""What a simulation does not know, or what kept the policy back, in sentences with counts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from dashboard.policies.simulated_walk import Walk
from dashboard.policy import Policy


def notes(policy: Policy, walk: Walk) -> Iterator[str]:
    """The sentences, what concerns every number first."""
    yield _sparse(policy, walk)
    yield from _kept_back(policy, walk)
    yield from _guarded(walk)
    yield from _unknown(policy, walk)


def _sparse(policy: Policy, walk: Walk) -> str:
    count = len(walk.points)
    if count < 2:
        return (
            "One snapshot is kept of this time: what a single purge would have found, no history."
        )
    gaps = [b[0] - a[0] for a, b in zip(walk.points, walk.points[1:], strict=False)]
    gap = sorted(gaps)[len(gaps) // 2]
    said = f"{count} snapshots were read, {length(gap)} apart (median)."
    if gap <= policy.min_purge_interval:
        return said
    return (
        f"{said} Between two of them a purge is counted at most once, where the policy may start "
        f"one every {length(policy.min_purge_interval)}: more purges, and a smaller backlog "
        "between them, are to be expected."
    )


def _kept_back(policy: Policy, walk: Walk) -> Iterator[str]:
    count = len(walk.points)
    if walk.closed:
        yield (
            f"At {walk.closed} of {count} snapshots its windows were closed; whether they opened "
            "between two snapshots is not seen."
        )
    if walk.untriggered:
        yield (
            f"At {walk.untriggered} of {count} snapshots its trigger, {policy.trigger.text}, did "
            "not hold. Disks and growth are taken as they were, without the policy's purges."
        )
    if walk.without_groups:
        yield (
            f"At {walk.without_groups} of {count} snapshots the list of groups was incomplete: "
            "nothing would have been purged then."
        )
    if walk.over_budget:
        yield f"At {walk.over_budget} of {count} snapshots its budget left partitions out."


def _guarded(walk: Walk) -> Iterator[str]:
    if walk.guarded.names:
        stands = ", ".join(f"{name} on {n}" for name, n in walk.guarded.names.items())
        yield (
            f"{_partitions(walk.guarded.partitions)} guarded today, counted as guarded all "
            f"the time ({stands})."
        )
    for name, count in sorted(walk.not_waived.items()):
        yield (
            f"At {count} of {len(walk.points)} snapshots group {name} was listed: it is not waived "
            "then, and holds what it has not read."
        )
    if walk.forbidden.any():
        yield (
            f"{_partitions(int(walk.forbidden.sum()))} kept at some snapshot for the sake of "
            "groups: one had not read up to the target, or had committed no offset."
        )


def _unknown(policy: Policy, walk: Walk) -> Iterator[str]:
    if walk.unowned:
        topics = ", ".join(walk.unowned[:3]) + (" …" if len(walk.unowned) > 3 else "")
        yield f"No group is known that owns {topics}: nothing of it would be purged."
    if walk.moved.any():
        yield (
            f"The log start of {_partitions(int(walk.moved.sum()), 'moved')} by retention or by "
            "purges, this policy's own if it was on: those bytes are not counted for it, "
            "and both lines fall there."
        )
    if walk.young.any():
        yield (
            f"{_partitions(int(walk.young.sum()))} not told by any older snapshot what "
            f"{policy.target} keeps: nothing is counted there at first."
        )
    if walk.unmeasured.any():
        yield (
            f"{_partitions(int(walk.unmeasured.sum()))} not measured at some snapshot: those "
            "bytes are missing from the sums."
        )
    yield (
        "What is on disk is measured by the newest analysis; what has left since is spread evenly "
        "over its offsets. Bytes count as purged with their records; the segment around a target "
        "leaves the disk later. Guards of the moment (replicas out of sync, reassignments) are "
        "judged only when a purge is planned."
    )


def length(span: timedelta) -> str:
    """`30 s`, `5 min`, `1.5 h`: one figure."""
    seconds = span.total_seconds()
    if seconds < 120:
        return f"{round(seconds, 1):g} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _partitions(count: int, verb: str = "") -> str:
    be = verb or ("is" if count == 1 else "are")
    return f"{count} partition{'' if count == 1 else 's'} {be}"
