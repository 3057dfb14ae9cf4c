"""Whether the newest findings say what a policy's trigger waits for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from dashboard.clock import format_time
from dashboard.policy import Policy
from dashboard.sizes import binary

_STALE_AFTER = 3  # times `every`: two snapshots may be late


class Triggered(NamedTuple):
    """Whether the policy purges now, and why or why not, with the figures."""

    now: bool
    reason: str


def triggered(
    policy: Policy,
    disks: Sequence[Mapping[str, Any]],
    growth: Sequence[Mapping[str, Any]],
    *,
    now: datetime,
    every: timedelta,
) -> Triggered:
    """Judged by rows of the findings tables `disks` and `growth` of the newest analysis.

    What is not known triggers nothing: no rows, rows older than 3 x `every` (how often snapshots
    are taken), or a null in all of them.
    """
    trigger = policy.trigger
    if trigger.kind == "always":
        return Triggered(True, "always")
    rows = disks if trigger.kind == "disk-above" else growth
    stale = _unusable(rows, trigger.kind, now, every)
    if stale:
        return Triggered(False, stale)
    if trigger.share is not None:
        return _disk_above(rows, trigger.share, trigger.text)
    return _growth_above(policy, rows, trigger.bytes_per_hour or 0)


def _unusable(rows: Sequence[Mapping[str, Any]], kind: str, now: datetime, every: timedelta) -> str:
    if not rows:
        what = "disks" if kind == "disk-above" else "growth"
        return f"no findings about {what}: run `lowwater watch`, or collect and analyze"
    taken_at = rows[0]["taken_at"]  # that of the analysed snapshot, in every row
    if now - taken_at <= _STALE_AFTER * every:
        return ""
    return (
        f"the newest findings are of {format_time(taken_at)}, more than {_STALE_AFTER} x "
        f"{every.total_seconds():g} s ago: see whether `lowwater watch` runs"
    )


def _disk_above(rows: Sequence[Mapping[str, Any]], most: float, text: str) -> Triggered:
    """The fullest log dir of any broker decides: total - usable is all that is on its disk."""
    known = [
        ((row["total_bytes"] - row["usable_bytes"]) / row["total_bytes"], row)
        for row in rows
        if row["total_bytes"] and row["usable_bytes"] is not None
    ]
    if not known:
        return Triggered(False, "no broker tells how full its disks are (DescribeLogDirs v4)")
    used, row = max(known, key=lambda pair: pair[0])
    where = f"{row['log_dir']} of broker {row['broker_id']}"
    unknown = len(rows) - len(known)
    more = f"; {unknown} more not known" if unknown else ""
    return Triggered(used > most, f"{text}: fullest is {where}, {used:.1%}{more}")


def _growth_above(policy: Policy, rows: Sequence[Mapping[str, Any]], most: int) -> Triggered:
    """All topics of the policy together decide: bytes in minus out per hour, over all replicas."""
    # Rows of a topic's single log dirs would count it again.
    whole = [row for row in rows if row["topic"] is not None and row["broker_id"] is None]
    mine = [row for row in whole if policy.matches(row["topic"])]
    known = [r["growth_per_hour"] for r in mine if r["growth_per_hour"] is not None]
    if not known:
        why = "not enough history yet" if mine else "no topic of the policy among them"
        return Triggered(False, f"growth is not known: {why}")
    unknown = len(mine) - len(known)
    more = f"; {unknown} more topics not known" if unknown else ""
    said = f"{len(known)} topics grow by {binary(sum(known))} an hour{more}"
    return Triggered(sum(known) > most, f"{policy.trigger.text}: {said}")
