"""What triggers and alerts are judged by, and whether that is what a policy's trigger waits for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

from dashboard.core.arrow import records
from dashboard.core.words import binary
from dashboard.history.findings_age import clock_of, unusable
from dashboard.settings.policies.policy import Policy
from dashboard.store.finding_rows import DiskRow, GrowthRow, OrphanRow
from dashboard.store.snapshots import ClusterStore


class Triggered(NamedTuple):
    """Whether the policy purges now, and why or why not, with the figures."""

    now: bool
    reason: str


def triggered(policy: Policy, found: Newest, *, now: datetime, every: timedelta) -> Triggered:
    """Judged by rows of the findings tables `disks` and `growth` of the newest analysis.

    What is not known triggers nothing: no rows, rows that are `unusable`, or a null in all of them.
    """
    trigger = policy.trigger
    if trigger.kind == "always":
        return Triggered(True, "always")
    by_disk = trigger.kind == "disk-above"
    table = "disks" if by_disk else "growth"
    rows: Sequence[DiskRow | GrowthRow] = found.disks if by_disk else found.growth
    if not rows:
        why = f"no findings about {table}: run `lowwater watch`, or collect and analyze"
        return Triggered(False, why)
    if why := unusable(rows[0].taken_at, found.clock, now, every):
        return Triggered(False, why)
    if trigger.share is not None:
        return _disk_above(found.disks, trigger.share, trigger.text)
    return _growth_above(policy, found.growth, trigger.bytes_per_hour or 0)


def _disk_above(rows: Sequence[DiskRow], most: float, text: str) -> Triggered:
    """The fullest log dir of any broker decides: total - usable is all that is on its disk."""
    known = [(used, row) for row in rows if (used := row.used_share) is not None]
    if not known:
        return Triggered(False, "no broker tells how full its disks are (DescribeLogDirs v4)")
    used, row = max(known, key=lambda pair: pair[0])
    where = f"{row.log_dir} of broker {row.broker_id}"
    unknown = len(rows) - len(known)
    more = f"; {unknown} more not known" if unknown else ""
    return Triggered(used > most, f"{text}: fullest is {where}, {used:.1%}{more}")


def _growth_above(policy: Policy, rows: Sequence[GrowthRow], most: int) -> Triggered:
    """All topics of the policy together decide: bytes in minus out per hour, over all replicas."""
    # Rows of a topic's single log dirs would count it again.
    whole = [(row.topic, row) for row in rows if row.topic is not None and row.broker_id is None]
    mine = [row for topic, row in whole if policy.matches(topic)]
    known = [r.growth_per_hour for r in mine if r.growth_per_hour is not None]
    if not known:
        why = "not enough history yet" if mine else "no topic of the policy among them"
        return Triggered(False, f"growth is not known: {why}")
    unknown = len(mine) - len(known)
    more = f"; {unknown} more topics not known" if unknown else ""
    said = f"{len(known)} topics grow by {binary(sum(known))} an hour{more}"
    return Triggered(sum(known) > most, f"{policy.trigger.text}: {said}")


# What triggers and alerts are judged by: rows of the newest analysis, and by what clock.

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Newest:
    """Tables of the newest analysis; without any analysis all are empty.

    `clock` as `clock_of` has it. Rows tell when the snapshot was taken.
    """

    disks: Sequence[DiskRow] = ()
    growth: Sequence[GrowthRow] = ()
    orphans: Sequence[OrphanRow] = ()
    clock: str = ""


def newest(store: ClusterStore) -> Newest:
    """`disks` and `growth` of the newest analysis. Raises StoreError."""
    analysis = store.latest("findings")
    return Newest() if analysis is None else read(store, analysis, ("disks", "growth"))


def read(store: ClusterStore, analysis: str, names: Sequence[str]) -> Newest:
    """These tables of an analysis. Raises StoreError."""

    def table(name: str, kind: type[_T]) -> list[_T]:
        return records(store.read("findings", analysis, name), kind) if name in names else []

    return Newest(
        table("disks", DiskRow),
        table("growth", GrowthRow),
        table("orphans", OrphanRow),
        clock_of(store, store.manifest("findings", analysis)),
    )
