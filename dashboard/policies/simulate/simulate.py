"""What a policy would have done over the past week by kept snapshots, and what they do not tell.

Nothing is asked of the cluster. Snapshots are sparser than a policy's interval: between two of
them a purge is counted at most once, at the later one, so that the backlog told for the policy is
the most there can have been, and its purges are the fewest.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from dashboard.core.clock import format_time, microseconds
from dashboard.core.errors import StoreError
from dashboard.domain.columns import Flags, Ints
from dashboard.policies.matching import owner_of
from dashboard.policies.simulate.past import Floats, Moment, chosen, earlier, moments
from dashboard.policies.simulate.past_rows import (
    ABSENT,
    Guarded,
    Rows,
    guarded_now,
    memory,
    rows,
    unanalyzed,
)
from dashboard.policies.simulate.past_targets import (
    Ends,
    PastBytes,
    Wanted,
    keeps,
    owners,
    past_bytes,
    reach,
    wanted,
    windows,
)
from dashboard.settings.policies.policy import Policy, is_open
from dashboard.settings.settings import TopicDeclaration
from dashboard.store.clocks import times
from dashboard.store.snapshots import ClusterStore

WEEK = timedelta(days=7)
Declared = Callable[[Collection[str]], Mapping[str, TopicDeclaration]]
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


def week(
    store: ClusterStore,
    policy: Policy,
    now: datetime,
    declared: Declared,
    span: timedelta = WEEK,
) -> Simulation:
    """The policy as it is defined now, over the snapshots kept of the past `span`.

    `declared` gives the declarations of topics: a replay window holds in the past as it does now.
    Raises StoreError; snapshots that are damaged, or pruned meanwhile, are left out.
    """
    every = store.ids("snapshots")
    most = _affordable(store, every)
    taken = times(store, every, now)
    read = chosen(taken, now - span, now, most)
    topics = declared([name for name in _topics(store, every) if policy.matches(name)])
    longest = max((d.replay_window for d in topics.values()), default=timedelta(0))
    before_from = now - span - max(reach(policy.target), longest)
    before = chosen(taken, before_from, now - span, most)
    others = unanalyzed(store, every, read)
    found = rows(store, sorted({*before, *others, *read}), policy.matches)
    known = [snapshot for snapshot in read if snapshot in found.topic_of]
    if known and len(found):
        ends = Ends()
        for at, high_watermark, leader_epoch in earlier(store, before, found):
            ends.add(at, high_watermark, leader_epoch)
        owning = _owners(store, policy, known[-1], found)
        waive = policy.waive.keys() - (owning or {}).values()
        telling = moments(store, known, found, memory(store, found, now), others, waive=waive)
        walk = _walked(
            store, policy, known, found, ends,
            owning=owning, telling=telling, window_ms=windows(found, topics), now=now,
        )  # fmt: skip
        if walk.points:
            return _result(policy, found, walk)
    why = (
        f"No topic that policy {policy.name} is for is in the kept snapshots."
        if known and not len(found)
        else "No snapshot of this time is kept: nothing can be said yet."
    )
    return Simulation(now - span, now, len(known), 0, 0, 0, 0, 0, 0, (), (why,))


def _walked(
    store: ClusterStore,
    policy: Policy,
    snapshots: list[str],
    found: Rows,
    ends: Ends,
    *,
    owning: Mapping[str, str | None] | None,
    telling: Iterable[Moment],
    window_ms: Ints,
    now: datetime,
) -> Walk:
    keep = keeps(store, snapshots[-1], found, policy.target)
    guarded = guarded_now(store, policy, found, owning or {}, now)
    walk = Walk(policy, found, past_bytes(store, found), guarded)
    walk.unowned = sorted(name for name, owner in (owning or {}).items() if owner is None)
    for moment in telling:
        owner = owners(owning, found, moment.commits.code) if owning is not None else None
        ends.add(moment.at, moment.high_watermark, moment.leader_epoch)
        walk.step(moment, wanted(moment, keep, ends, owner, window_ms), owner)
    return walk


def _result(policy: Policy, found: Rows, walk: Walk) -> Simulation:
    topics = np.unique(found.topic[walk.met]).tolist()
    return Simulation(
        from_=walk.points[0][0],
        to=walk.points[-1][0],
        snapshots=len(walk.points),
        topics=len({found.names[at][0] for at in topics}),
        purges=walk.purges,
        partitions=int(walk.purged.sum()),
        bytes=int(walk.bytes),
        largest_backlog_bytes=max(point[1] for point in walk.points),
        largest_backlog_without_bytes=max(point[2] for point in walk.points),
        points=tuple(walk.points),
        notes=tuple(notes(policy, walk)),
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
    store: ClusterStore, policy: Policy, snapshot: str, found: Rows
) -> Mapping[str, str | None] | None:
    """The owner of each topic by the groups of the newest snapshot; None where all groups count."""
    if policy.committed_by != "owner":
        return None
    groups = store.read("snapshots", snapshot, "groups", ["group_id"])["group_id"]
    known = frozenset(groups.to_pylist())
    return {name: owner_of(policy, name, known) for name, _ in found.names}


# What a simulation does not know, or what kept the policy back, in sentences with counts.


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


# A policy over the moments of the past: what it would have purged at each, and what was left.

_HOUR = timedelta(hours=1)
_NEVER = np.iinfo(np.int64).min


class Walk:
    """`step` takes the next moment; the other attributes are what came of all so far.

    `points`: when, the backlog just before a purge, the backlog as it was. `purges` counts runs,
    one per owner of the topics. The flags are per row: `met` by any moment, `purged` at least
    once, `moved` by something else than the policy, `unmeasured` where sizes were not told,
    `forbidden` by groups at some moment, `young`: no snapshot is old enough to tell the target.
    The counts are of moments: `closed`, `untriggered`, `without_groups` and `over_budget`, and
    `not_waived`, of each group that the policy waives and that was listed.
    """

    def __init__(self, policy: Policy, rows: Rows, bytes_of: PastBytes, guarded: Guarded) -> None:
        self.policy, self.guarded = policy, guarded
        self.points: list[tuple[datetime, int, int]] = []
        self.purges, self.bytes = 0, 0.0
        self.unowned: list[str] = []  # topics whose owner no group is
        self.not_waived: Counter[str] = Counter()
        self.closed = self.untriggered = self.without_groups = self.over_budget = 0
        self.met, self.purged, self.moved, self.unmeasured, self.forbidden, self.young = (
            np.zeros(len(rows), dtype=bool) for _ in range(6)
        )
        self._bytes_of = bytes_of
        self._targets, self._lows = bytes_of.meter(), bytes_of.meter()
        self._below = np.zeros(len(rows))
        self._start = np.full(len(rows), ABSENT, dtype=np.int64)
        self._begun = np.full(len(rows), _NEVER, dtype=np.int64)
        self._used: deque[tuple[datetime, int, float]] = deque()
        self._topic_bytes: tuple[datetime, float] | None = None

    def step(self, moment: Moment, wanted: Wanted, owner: Ints | None) -> None:
        """The next moment, its targets, and whose each row is (None: all are purged together)."""
        self.not_waived.update(moment.listed)
        told = wanted.target >= 0
        target = np.where(told, wanted.target, 0)
        below = self._targets(target)
        own = self._backlogs(moment, told, target, below)
        self.met |= told
        self.unmeasured |= np.isnan(own)
        self.young |= wanted.young
        may = told & (target > self._start) & ~self.guarded.rows
        self.forbidden |= may & wanted.forbidden
        if self._begins(moment):
            due = may & ~wanted.forbidden & self._due(moment)
            row = self._within(moment, np.flatnonzero(due), own)
            self._count(row, own, owner)
            self._start[row], self._below[row] = target[row], below[row]
            self._begun[row] = microseconds(moment.at)

    def _backlogs(self, moment: Moment, told: Flags, target: Ints, below: Floats) -> Floats:
        """Note both backlogs of this moment; per row that with the policy, NaN: not measured."""
        low = np.where(told, moment.log_start, 0)
        below_low = self._lows(low)
        moves = told & (moment.log_start > self._start)
        self.moved |= moves & (self._start >= 0)
        self._start = np.where(moves, low, self._start)
        self._below = np.where(moves, below_low, self._below)
        start = np.minimum(np.where(told, self._start, 0), target)  # commits may be set back
        own = np.maximum(below - self._below, 0) + self._bytes_of.evenly(start, target, moment)
        without = below - below_low + self._bytes_of.evenly(low, target, moment)
        self.points.append((moment.at, _sum(own[told]), _sum(without[told])))
        return np.where(told, own, 0.0)

    def _begins(self, moment: Moment) -> bool:
        """Whether the policy would have run at all; what kept it is counted."""
        triggered = self._triggered(moment)  # first: it remembers the sizes
        if not is_open(self.policy, moment.at):
            self.closed += 1
        elif not triggered:
            self.untriggered += 1
        elif not moment.groups_complete:
            self.without_groups += 1
        else:
            return True
        return False

    def _triggered(self, moment: Moment) -> bool:
        trigger = self.policy.trigger
        before, now = self._topic_bytes, float(np.nansum(moment.size_bytes))
        self._topic_bytes = moment.at, now
        if trigger.share is not None:
            return moment.fullest is not None and moment.fullest > trigger.share
        if trigger.bytes_per_hour is None:
            return True
        if before is None or moment.at <= before[0]:
            return False
        return (now - before[1]) / ((moment.at - before[0]) / _HOUR) > trigger.bytes_per_hour

    def _due(self, moment: Moment) -> Flags:
        return self._begun <= microseconds(moment.at - self.policy.min_purge_interval)

    def _count(self, row: Ints, backlog: Floats, owner: Ints | None) -> None:
        if len(row):
            self.purges += 1 if owner is None else len(np.unique(owner[row]))
            self.bytes += float(np.nansum(backlog[row]))
            self.purged[row] = True

    def _within(self, moment: Moment, row: Ints, backlog: Floats) -> Ints:
        """Those of these rows that the hour's budgets allow, as `budget.within` chooses them.

        Longest waiting first; after a gap of several hours as many budgets may be spent.
        """
        most, most_bytes = self.policy.most_partitions_per_hour, self.policy.most_bytes_per_hour
        if most is None and most_bytes is None:
            return row
        hours = max((moment.at - self._before(moment)) / _HOUR, 1.0)
        while self._used and self._used[0][0] <= moment.at - hours * _HOUR:
            self._used.popleft()
        row = row[np.argsort(self._begun[row], kind="stable")]
        kept = row
        if most_bytes is not None:  # what is not measured, or larger than an hour's, never fits
            kept = kept[np.nan_to_num(backlog[kept], nan=np.inf) <= most_bytes]
            free = most_bytes * hours - sum(used[2] for used in self._used)
            kept = kept[np.cumsum(backlog[kept]) <= free]
        if most is not None:
            kept = kept[: max(int(most * hours) - sum(used[1] for used in self._used), 0)]
        self.over_budget += len(kept) < len(row)
        self._used.append((moment.at, len(kept), float(backlog[kept].sum())))
        return kept

    def _before(self, moment: Moment) -> datetime:
        """When the moment before this one was."""
        return self.points[-2][0] if len(self.points) > 1 else moment.at


def _sum(values: Floats) -> int:
    return int(np.nansum(values))
