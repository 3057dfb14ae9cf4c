"""What a plan would do, as an operator reads it before confirming: the CLI contract's object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from datetime import datetime
from itertools import groupby
from operator import attrgetter

from dashboard.core.clock import format_time
from dashboard.core.sums import whole_sum
from dashboard.domain.model import Guard
from dashboard.purge.plan.moves import MoveRow, planned_moves
from dashboard.purge.plan.plan import INTERVAL, Plan, PlannedPartition, decisions

_BYTES = ("bytes_at_once", *INTERVAL)


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the free partitions; bytes over all replicas, None where none was measured.

    A bound is None where one partition's is, as in plans of older journals: a part of a range is
    no range.
    """

    topics: int
    partitions: int
    free_partitions: int
    guarded_partitions: int
    records: int
    bytes_at_once: int | None
    bytes_at_once_low: int | None
    bytes_at_once_high: int | None
    bytes_later_low: int | None
    bytes_later: int | None
    bytes_later_high: int | None
    unmeasured_partitions: int
    methods: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class GroupLoss:
    """A group on so many planned partitions, and the range of records that it would lose.

    A group left behind the log start resets to earliest (it loses what lies below the target)
    or to latest (all up to the log end); Kafka does not show which. One without an offset that
    tells may want everything. `reason`: of its waiver.
    """

    group_id: str
    waived: bool
    reason: str | None
    remembered: bool = True
    partitions: int = 0
    records_unread_below_targets: int = 0
    loss_if_earliest: int = 0
    loss_if_latest: int = 0


@dataclass(frozen=True, slots=True)
class GroupPartitions:
    """Partitions of one topic on which something holds of a group."""

    group_id: str
    partitions: list[int]


@dataclass(frozen=True, slots=True)
class TopicCoverage:
    """What of a topic's planned partitions no group's offset covers; waived groups count too.

    `without_group` are partitions on which no group's offset tells how far it has read.
    `never_committed` are groups of the topic with the partitions where they have none; a share
    group that has not begun there counts among them. `past_end` are offsets past the end of the
    log, or of their leader epoch in it, which tell nothing. `remembered` are offsets that only
    kept snapshots show: expired, or the group is gone.
    """

    topic: str
    partitions: int
    without_group: list[int]
    never_committed: list[GroupPartitions]
    past_end: list[GroupPartitions]
    remembered: list[GroupPartitions]


@dataclass(frozen=True, slots=True)
class ToKeep:
    """What an archive at `url` would read, of one replica each: at most so many records, about so
    many bytes (None: not all was measured); how long at least and at most, at the pace of so many
    `earlier` archives or the rate that is set. None: neither tells.
    """

    url: str
    partitions: int
    records: int
    size_bytes: int | None
    seconds: float | None
    seconds_high: float | None = None
    earlier: int = 0


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast records are archived: the `limit` that is set in bytes a second, and what so many
    `earlier` archives of the cluster came to, in bytes (before compression) and records a second.
    """

    limit: int | None = None
    earlier: int = 0
    bytes_per_second: float = 0.0
    records_per_second: float = 0.0

    def seconds(self, size_bytes: int | None, records: int) -> tuple[float, float] | None:
        """At least and at most, for so many bytes on disk (None: unknown) and records at most."""
        found = []
        if self.earlier:
            found.append(records / self.records_per_second)
            if size_bytes is not None:  # compressed: what is read of them may be more
                found.append(size_bytes / self.bytes_per_second)
        least = 0.0
        if self.limit is not None and size_bytes is not None:
            least = size_bytes / self.limit
            found.append(least)
        return (max(least, min(found)), max(found)) if found else None


@dataclass(frozen=True, slots=True)
class Preview:
    """A plan, and what it comes to: what the command line, the page and the report show."""

    plan: Plan
    expired: bool
    groups: tuple[GroupLoss, ...]
    coverage: tuple[TopicCoverage, ...]
    totals: Totals
    moves: tuple[MoveRow, ...]
    archive: ToKeep | None = None

    def to_json(self) -> dict[str, object]:
        """The contract's keys."""
        plan = self.plan
        return {
            "plan_id": plan.plan_id,
            "sha256": plan.sha256,
            "confirmation": plan.confirmation,
            "created_at": format_time(plan.created_at),
            "expires_at": format_time(plan.expires_at),
            "expired": self.expired,
            "cluster_id": plan.cluster_id,
            "cluster_name": plan.cluster_name,
            "target": plan.target,
            "partitions": [row(p) for p in plan.partitions],
            "groups": [asdict(group) for group in self.groups],
            "coverage": [asdict(topic) for topic in self.coverage],
            "totals": asdict(self.totals),
            "waivers": [
                {"group_id": w.group_id, "reason": w.reason, "by": w.by, "at": format_time(w.at),
                 "move": w.move, "alive": w.alive}
                for w in plan.waivers
            ],
            "moves": [
                {"group_id": m.group_id, "topic": m.topic, "partition": m.partition,
                 "from_offset": m.from_offset, "to_offset": m.to_offset}
                for m in self.moves
            ],
            "declarations": decisions(plan)["declarations"],
            "unseen_readers": [r.to_json() for r in plan.unseen_readers],
            "overrides": decisions(plan)["overrides"],
            **({"archive": asdict(self.archive)} if self.archive else {}),
            "rights_missing": None if plan.rights_missing is None else [
                right.to_json() for right in plan.rights_missing
            ],
        }  # fmt: skip


def preview(plan: Plan, now: datetime, pace: Pace = Pace()) -> Preview:
    """The plan with totals over the free partitions, what each group would lose, and how long an
    archive takes at this pace.
    """
    return Preview(
        plan=plan,
        expired=plan.expired(now),
        groups=_groups(plan),
        coverage=coverage(plan.partitions),
        totals=_totals(plan),
        moves=planned_moves(plan),
        archive=_to_keep(plan, pace),
    )


def _to_keep(plan: Plan, pace: Pace) -> ToKeep | None:
    if plan.archive is None:
        return None
    free = plan.free_partitions
    total = whole_sum(_of_one_replica(p) for p in free)
    records = sum(p.records or 0 for p in free)
    least, most = pace.seconds(total, records) or (None, None)
    return ToKeep(plan.archive, len(free), records, total, least, most, pace.earlier)


def _of_one_replica(p: PlannedPartition) -> int | None:
    found = p.estimate
    if found is None or found.bytes_at_once is None or not found.replicas:
        return None
    return (found.bytes_at_once + (found.bytes_later or 0)) // len(found.replicas)


def row(p: PlannedPartition) -> dict[str, object]:
    """The contract's keys of one partition."""
    return {
        "topic": p.topic,
        "partition": p.partition,
        "log_start_offset": p.log_start_offset,
        "target_offset": p.target_offset,
        "last_stable_offset": p.last_stable_offset,
        "high_watermark": p.high_watermark,
        "records": p.records,
        **{name: getattr(p.estimate, name, None) for name in _BYTES},
        "method": p.estimate.method if p.estimate else None,
        "tiers": _tiers(p),
        "capped_by": p.capped_by,
        "guards": [g.to_json() for g in p.guards],
    }


def _tiers(p: PlannedPartition) -> dict[str, object] | None:
    if p.tiers is None:
        return None
    names = ("remote_records", "local_records", "remote_bytes", "local_bytes")
    takes = {name: getattr(p.taken, name, None) for name in names}
    return {**asdict(p.tiers), "takes": takes}


def _totals(plan: Plan) -> Totals:
    free = plan.free_partitions
    measured = [p.estimate.bytes_at_once for p in free if p.estimate]
    known = [size for size in measured if size is not None]
    sums = {  # none was estimated: not known either, where a sum of nothing is 0
        name: whole_sum(getattr(p.estimate, name) for p in free if p.estimate) if measured else None
        for name in INTERVAL
    }
    methods = Counter(p.estimate.method for p in free if p.estimate)
    return Totals(
        topics=len({p.topic for p in free}),
        partitions=len(plan.partitions),
        free_partitions=len(free),
        guarded_partitions=len(plan.partitions) - len(free),
        records=sum(p.records or 0 for p in free),
        bytes_at_once=sum(known) if known else None,
        **sums,
        unmeasured_partitions=len(free) - len(known),
        methods=dict(sorted(methods.items())),
    )


def _groups(plan: Plan) -> tuple[GroupLoss, ...]:
    waived = {w.group_id: w.reason for w in plan.waivers}
    places: dict[str, list[tuple[PlannedPartition, int | None, bool]]] = {}
    for p in plan.partitions:
        for group_id, remembered, place in p.places:
            places.setdefault(group_id, []).append((p, place, remembered))
    return tuple(
        _loss(GroupLoss(group_id, group_id in waived, waived.get(group_id)), found)
        for group_id, found in sorted(places.items())
    )


def _loss(
    group: GroupLoss, places: Sequence[tuple[PlannedPartition, int | None, bool]]
) -> GroupLoss:
    below = earliest = latest = 0
    for p, place, _ in places:
        target, end = p.target_offset or 0, p.high_watermark or 0
        # Whose place nobody can tell may want all that is there.
        start = max(0 if place is None else place, p.log_start_offset or 0)
        unread = max(0, target - start)
        below += unread
        if p.free and unread:
            earliest += unread
            latest += max(target, end) - start
    return replace(
        group,
        remembered=all(remembered for _, _, remembered in places),
        partitions=len(places),
        records_unread_below_targets=below,
        loss_if_earliest=earliest,
        loss_if_latest=latest,
    )


# What of a plan no group's offset covers: none, one past the end, or only remembered. Pure.
#
# A partition without an offset of a group is unknown to us, not unread by it and not read.


def guards_counted(partitions: Iterable[PlannedPartition]) -> list[tuple[Guard, int]]:
    """Each guard's words once with how many partitions it blocks, the most frequent first."""
    found = Counter(guard for p in partitions for guard in p.guards)
    return sorted(found.items(), key=lambda one: (-one[1], astuple(one[0])))


def coverage(partitions: Iterable[PlannedPartition]) -> tuple[TopicCoverage, ...]:
    """One row per topic of planned partitions, sorted as a plan's are."""
    by_topic = groupby(partitions, attrgetter("topic"))
    return tuple(_of_topic(topic, list(found)) for topic, found in by_topic)


def _of_topic(topic: str, partitions: list[PlannedPartition]) -> TopicCoverage:
    with_offset: dict[str, set[int]] = {}
    remembered: dict[str, list[int]] = {}
    past_end: dict[str, list[int]] = {}
    without = []
    for p in partitions:
        nobody = True
        for group_id in p.accepted:
            with_offset.setdefault(group_id, set())
        for claim in p.groups:
            known = with_offset.setdefault(claim.group_id, set())
            if claim.committed_offset is not None:
                known.add(p.partition)
                if p.told(claim) is None:
                    past_end.setdefault(claim.group_id, []).append(p.partition)
                    continue
                nobody = False
                if claim.remembered:
                    remembered.setdefault(claim.group_id, []).append(p.partition)
        if nobody:
            without.append(p.partition)
    never = {
        group_id: [p.partition for p in partitions if p.partition not in known]
        for group_id, known in with_offset.items()
        if len(known) < len(partitions)
    }
    return TopicCoverage(
        topic=topic,
        partitions=len(partitions),
        without_group=without,
        never_committed=_listed(never),
        past_end=_listed(past_end),
        remembered=_listed(remembered),
    )


def _listed(found: dict[str, list[int]]) -> list[GroupPartitions]:
    return [GroupPartitions(group_id, found[group_id]) for group_id in sorted(found)]
