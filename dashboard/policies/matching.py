"""Which of a cluster's topics a policy is for, whose commits decide about each, and whether its
trigger waits for what stands; alerts are judged by the same rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

from dashboard.core.arrow import records
from dashboard.core.words import binary
from dashboard.domain.system_topics import application_of
from dashboard.history.findings_age import clock_of, told_interval, unusable
from dashboard.settings.policies.policy import PRESET_LIFTS, REPARTITION, Policy
from dashboard.store.finding_rows import DiskRow, GrowthRow, OrphanRow
from dashboard.store.snapshots import ClusterStore


def owner_of(policy: Policy, topic: str, group_ids: Collection[str]) -> str | None:
    """The known group whose commits alone count for `topic`; None where there is none.

    None too where all groups count. With the preset it is the Streams application that the name
    tells (`application_of`): should that be wrong, it has no commits there and guards refuse.
    """
    if policy.committed_by != "owner":
        return None
    if policy.preset != REPARTITION:
        return policy.owner if policy.owner in group_ids else None
    return application_of(topic, group_ids)


def lifted(
    policy: Policy,
    topic: str,
    owner: str | None,
    streams: Collection[str],
    readers: Collection[str],
) -> dict[str, str]:
    """The policy's overrides that count for this topic: what the preset lifts by itself, only
    where its owner is or was known as a Kafka Streams application. Where all groups count it is
    the application that the name tells, if it is among the topic's `readers`, groups that have
    or had an offset there: a topic may be called as any application, or any group as a topic.
    """
    own = owner or application_of(topic, streams)
    known = own in streams and (owner is not None or own in readers)
    return {
        name: why
        for name, why in policy.overrides.items()
        if known or policy.preset != REPARTITION or PRESET_LIFTS.get(name) != why
    }


def applications(
    policy: Policy, topics: Iterable[str], group_ids: Collection[str]
) -> dict[str | None, tuple[str, ...]]:
    """The policy's topics by the group whose commits count, both sorted; None comes last.

    Where all groups count, all topics stand under None. Where the owner's alone count
    (`policy.committed_by == "owner"`), those under None have no known owner: nothing says what
    was read there, so they are not to be purged.
    """
    known = frozenset(group_ids)
    found: dict[str | None, list[str]] = {}
    for topic in sorted(topics):
        if policy.matches(topic):
            found.setdefault(owner_of(policy, topic, known), []).append(topic)
    owners = sorted(found, key=lambda owner: (owner is None, owner or ""))
    return {owner: tuple(found[owner]) for owner in owners}


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
    if why := unusable(rows[0].taken_at, found.clock, now, every, found.every):
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

    `clock` as `clock_of` has it, `every` as `told_interval`. Rows tell when the
    snapshot was taken.
    """

    disks: Sequence[DiskRow] = ()
    growth: Sequence[GrowthRow] = ()
    orphans: Sequence[OrphanRow] = ()
    clock: str = ""
    every: timedelta = timedelta(0)


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
        told_interval(store),
    )
