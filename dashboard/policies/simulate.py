"""What a policy would have done over the past week by kept snapshots, and what they do not tell.

Nothing is asked of the cluster. Snapshots are sparser than a policy's interval: between two of
them a purge is counted at most once, at the later one, so that the backlog told for the policy is
the most there can have been, and its purges are the fewest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.clock import format_time
from dashboard.core.errors import StoreError
from dashboard.core.words import duration
from dashboard.domain.columns import Flags, Ints
from dashboard.history.week.moments import chosen
from dashboard.history.week.rows import ABSENT, Topics, topics, unanalyzed
from dashboard.history.week.targets import FOR_EVER, Keeps
from dashboard.history.week.walk import Asked, Walked, told, walked
from dashboard.policies.matching import lifted, owner_of
from dashboard.purge.evidence import memory, standards
from dashboard.purge.plan.targets import OLDEST_MS, parse_target
from dashboard.safety.unseen_readers import TopicReading, reading_of, settled, suspicion
from dashboard.settings.policies.policy import Policy
from dashboard.settings.settings import TopicDeclaration
from dashboard.store.clocks import times
from dashboard.store.snapshots import ClusterStore

WEEK = timedelta(days=7)
Declared = Callable[[Collection[str]], Mapping[str, TopicDeclaration]]
Walking = Callable[[ClusterStore, Asked], Walked | None]
_RETENTION = timedelta(days=7)  # Kafka's default; snapshots of much longer ago are rarely kept
# So many partitions times snapshots are walked: 48 of a cluster with 100,000 partitions.
_MOST_CELLS = 5_000_000
_FEWEST, _MOST = 24, 336


@dataclass(frozen=True, slots=True)
class Simulation:
    """What would have been: bytes are of all replicas; a backlog is what lies below the target.

    `purges` counts runs, `partitions` those that were purged at least once. A point is (when,
    backlog with the policy just before it would have purged, backlog as it was).
    """

    from_: datetime
    to: datetime
    snapshots: int
    topics: int
    purges: int
    partitions: int
    bytes: int
    largest_backlog_bytes: int
    largest_backlog_without_bytes: int
    points: tuple[tuple[datetime, int, int], ...] = ()
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """As `policies check --json` prints it; times are RFC 3339."""
        return {
            "from": format_time(self.from_),
            "to": format_time(self.to),
            "snapshots": self.snapshots,
            "topics": self.topics,
            "purges": self.purges,
            "partitions": self.partitions,
            "bytes": self.bytes,
            "largest_backlog_bytes": self.largest_backlog_bytes,
            "largest_backlog_without_bytes": self.largest_backlog_without_bytes,
            "points": [
                {"at": format_time(at), "backlog_bytes": own, "backlog_without_bytes": without}
                for at, own, without in self.points
            ],
            "notes": list(self.notes),
        }


def walked_here(store: ClusterStore, asked: Asked) -> Walked | None:
    """The policy over all that the store shows, in this process. Raises StoreError."""
    lines, telling = told(store, asked)
    return walked(asked, [lines], ([each] for each in telling))


def week(
    store: ClusterStore,
    policy: Policy,
    now: datetime,
    declared: Declared,
    span: timedelta = WEEK,
    *,
    walking: Walking = walked_here,
) -> Simulation:
    """The policy as it is defined now, over the snapshots kept of the past `span`.

    `declared` gives the declarations of topics: a replay window holds in the past as it does now.
    Raises StoreError, and what `walking` does; snapshots that are damaged, or pruned meanwhile, are
    left out.
    """
    asked = _asked(store, policy, now, declared, span)
    if asked is not None and (found := walking(store, asked)) is not None:
        return _result(policy, found)
    why = (
        f"No topic that policy {policy.name} is for is in the kept snapshots."
        if asked is not None and not asked.topics.names
        else "No snapshot of this time is kept: nothing can be said yet."
    )
    count = 0 if asked is None else len(asked.read)
    return Simulation(now - span, now, count, 0, 0, 0, 0, 0, 0, (), (why,))


def _asked(
    store: ClusterStore, policy: Policy, now: datetime, declared: Declared, span: timedelta
) -> Asked | None:
    """What every bucket is asked; None where no snapshot tells of this time."""
    every = store.ids("snapshots")
    most = _affordable(store, every)
    taken = times(store, every, now)
    read = chosen(taken, now - span, now, most)
    declarations = declared([name for name in _topics(store, every) if policy.matches(name)])
    longest = max((d.replay_window for d in declarations.values()), default=timedelta(0))
    before_from = now - span - max(_reach(policy.target), longest)
    before = chosen(taken, before_from, now - span, most)
    others = unanalyzed(store, every, read)
    named = topics(store, sorted({*before, *others, *read}), policy.matches)
    known = [snapshot for snapshot in read if snapshot in named.topic_of]
    if not known:
        return None
    owning = _owners(store, policy, known[-1], named)
    streams = memory.streams(store)
    names = sorted({name for name, _ in named.names})
    readers = _readers(store, known[-1], named, streams if policy.preset else ())
    return Asked(
        policy, now, named, tuple(known), tuple(before), tuple(others),
        _keeps(store, known[-1], named, policy.target),
        owning,
        frozenset(policy.waive.keys() - (owning or {}).values()),
        declarations,
        {n: frozenset(lifted(policy, n, (owning or {}).get(n), streams, readers.get(n, ())))
         for n in names},
        _suspected(store, names, now),
    )  # fmt: skip


def _result(policy: Policy, found: Walked) -> Simulation:
    return Simulation(
        from_=found.points[0][0],
        to=found.points[-1][0],
        snapshots=len(found.points),
        topics=found.topics,
        purges=found.purges,
        partitions=found.purged,
        bytes=found.bytes,
        largest_backlog_bytes=max(point[1] for point in found.points),
        largest_backlog_without_bytes=max(point[2] for point in found.points),
        points=found.points,
        notes=tuple(notes(policy, found)),
    )


def _topics(store: ClusterStore, snapshots: list[str]) -> list[str]:
    """Names of the newest snapshot that can be read."""
    for snapshot in reversed(snapshots):
        with suppress(StoreError):
            table = store.read("snapshots", snapshot, "topics", ["topic"])
            return [str(name) for name in table["topic"].to_pylist()]
    return []


def _affordable(store: ClusterStore, snapshots: list[str]) -> int:
    """How many snapshots are read: fewer of a cluster with more partitions."""
    partitions = 1
    for snapshot in reversed(snapshots):
        with suppress(StoreError):
            partitions = max(1, store.manifest("snapshots", snapshot).tables.get("partitions", 1))
            break
    return min(max(_MOST_CELLS // partitions, _FEWEST), _MOST)


def _owners(
    store: ClusterStore, policy: Policy, snapshot: str, named: Topics
) -> Mapping[str, str | None] | None:
    """The owner of each topic by the groups of the newest snapshot; None where all groups count."""
    if policy.committed_by != "owner":
        return None
    groups = store.read("snapshots", snapshot, "groups", ["group_id"])["group_id"]
    known = frozenset(groups.to_pylist())
    return {name: owner_of(policy, name, known) for name, _ in named.names}


def _readers(
    store: ClusterStore, snapshot: str, named: Topics, groups: Collection[str]
) -> dict[str, set[str]]:
    """On which of the topics each of these groups had an offset in the snapshot."""
    if not groups:
        return {}
    own = pc.field("group_id").isin(pa.array(sorted(groups), pa.string()))
    read = ["group_id", "topic_no", "committed_offset"]
    rows = store.read("snapshots", snapshot, "group_offsets", read, only=own)
    rows = rows.filter(rows["committed_offset"].is_valid())
    found: dict[str, set[str]] = {}
    for row in rows.group_by(read[:2]).aggregate([]).to_pylist():
        at = int(named.topic_of[snapshot][row["topic_no"]])
        if at != ABSENT:
            found.setdefault(named.names[at][0], set()).add(row["group_id"])
    return found


def _suspected(store: ClusterStore, names: list[str], now: datetime) -> dict[str, str]:
    """The guard of unseen readers of the topics that they may read.

    By the newest analysis, which measured all topics; kept snapshots are read of those alone of
    which it cannot tell what older ones say.
    """
    found = _settled(store, names, now)
    if rest := [name for name in names if name not in found]:
        found |= standards.readings(store, rest, now)
    return {n: guard.name for n in names if (guard := suspicion(reading_of(found, n)))}


def _settled(store: ClusterStore, names: list[str], now: datetime) -> dict[str, TopicReading]:
    analysis = store.latest("findings")
    if analysis is None:
        return {}
    own = pc.field("topic").isin(pa.array(names, pa.string()))
    return settled(store.read("findings", analysis, "unseen_readers", only=own).to_pylist(), now)


def _reach(target: str) -> timedelta:
    """How long before a moment snapshots tell what a target keeps of it."""
    wanted = parse_target(target)
    return _RETENTION if wanted.kind == "retention" else wanted.keep_for or timedelta(0)


def _keeps(store: ClusterStore, snapshot: str, named: Topics, target: str) -> Keeps | None:
    """What the target keeps of each topic; None for `committed`. `retention` is read from a
    snapshot's configs. Raises StoreError.
    """
    wanted = parse_target(target)
    if wanted.kind == "committed":
        return None
    count = len(named.names)
    if wanted.kind == "retention":
        return Keeps(*_retention(store, snapshot, named))
    age = wanted.keep_for // timedelta(milliseconds=1) if wanted.keep_for else FOR_EVER
    size = wanted.keep_bytes or FOR_EVER
    return Keeps(
        age_ms=np.full(count, age, dtype=np.int64),
        size_bytes=np.full(count, size, dtype=np.int64),
        known=np.ones(count, dtype=bool),
    )


def _retention(store: ClusterStore, snapshot: str, named: Topics) -> tuple[Ints, Ints, Flags]:
    wanted = (pc.field("scope") == "topic") & pc.field("key").isin(
        ["retention.ms", "retention.bytes"]
    )
    columns = ["scope", "name", "key", "value"]
    table = store.read("snapshots", snapshot, "configs", columns, only=wanted)
    found: dict[tuple[str, str], int] = {
        (row["name"], row["key"]): int(row["value"])
        for row in table.to_pylist()
        if row["value"] is not None
    }
    age = np.array([found.get((name, "retention.ms"), FOR_EVER) for name, _ in named.names])
    size = np.array([found.get((name, "retention.bytes"), FOR_EVER) for name, _ in named.names])
    known = [
        (name, "retention.ms") in found and (name, "retention.bytes") in found
        for name, _ in named.names
    ]
    age = np.where((age < 0) | (age > OLDEST_MS), FOR_EVER, age)
    return age.astype(np.int64), np.maximum(size, FOR_EVER).astype(np.int64), np.array(known, bool)


# What a simulation does not know, or what kept the policy back, in sentences with counts.


def notes(policy: Policy, walk: Walked) -> Iterator[str]:
    """The sentences, what concerns every number first."""
    yield _sparse(policy, walk)
    yield from _kept_back(policy, walk)
    yield from _guarded(walk)
    yield from _unknown(policy, walk)


def _sparse(policy: Policy, walk: Walked) -> str:
    count = len(walk.points)
    if count < 2:
        return (
            "One snapshot is kept of this time: what a single purge would have found, no history."
        )
    gaps = [b[0] - a[0] for a, b in zip(walk.points, walk.points[1:], strict=False)]
    gap = sorted(gaps)[len(gaps) // 2]
    said = f"{count} snapshots were read, {duration(gap.total_seconds())} apart (median)."
    if gap <= policy.min_purge_interval:
        return said
    return (
        f"{said} Between two of them a purge is counted at most once, where the policy may start "
        f"one every {duration(policy.min_purge_interval.total_seconds())}: more purges, and a "
        "smaller backlog between them, are to be expected."
    )


def _kept_back(policy: Policy, walk: Walked) -> Iterator[str]:
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


def _guarded(walk: Walked) -> Iterator[str]:
    if walk.guards:
        stands = ", ".join(f"{name} on {n}" for name, n in walk.guards.items())
        yield (
            f"{_partitions(walk.guarded)} guarded today, counted as guarded all "
            f"the time ({stands})."
        )
    for name, count in walk.not_waived.items():
        yield (
            f"At {count} of {len(walk.points)} snapshots group {name} was listed: it is not waived "
            "then, and holds what it has not read."
        )
    if walk.forbidden:
        yield (
            f"{_partitions(walk.forbidden)} kept at some snapshot for the sake of "
            "groups: one had not read up to the target, or had committed no offset."
        )


def _unknown(policy: Policy, walk: Walked) -> Iterator[str]:
    if walk.unowned:
        topics = ", ".join(walk.unowned[:3]) + (" …" if len(walk.unowned) > 3 else "")
        yield f"No group is known that owns {topics}: nothing of it would be purged."
    if walk.moved:
        yield (
            f"The log start of {_partitions(walk.moved, 'moved')} by retention or by "
            "purges, this policy's own if it was on: those bytes are not counted for it, "
            "and both lines fall there."
        )
    if walk.young:
        yield (
            f"{_partitions(walk.young)} not told by any older snapshot what "
            f"{policy.target} keeps: nothing is counted there at first."
        )
    if walk.unmeasured:
        yield (
            f"{_partitions(walk.unmeasured)} not measured at some snapshot: those "
            "bytes are missing from the sums."
        )
    yield (
        "What is on disk is measured by the newest analysis; what has left since is spread evenly "
        "over its offsets. Bytes count as purged with their records; the segment around a target "
        "leaves the disk later. Guards of the moment (replicas out of sync, reassignments) are "
        "judged only when a purge is planned."
    )


def _partitions(count: int, verb: str = "") -> str:
    be = verb or ("is" if count == 1 else "are")
    return f"{count} partition{'' if count == 1 else 's'} {be}"
