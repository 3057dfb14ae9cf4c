"""A policy over the moments of the past: what it would have purged at each, and what was left.

What a moment tells is told by bucket (`told`), where all that is long is read; the policy itself
goes over all buckets at once (`walked`), since a budget is spent on whichever waited longest.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from dashboard.core.clock import microseconds
from dashboard.domain.columns import Flags, Ints
from dashboard.history.week.moments import Floats, Moment, earlier, moments, sights
from dashboard.history.week.rows import ABSENT, Rows, Topics, guarded_now, memory, rows
from dashboard.history.week.targets import (
    Ends,
    Keeps,
    Meter,
    owners,
    past_bytes,
    wanted,
    windows,
)
from dashboard.settings.policies.policy import Policy, is_open
from dashboard.settings.settings import TopicDeclaration
from dashboard.store.snapshots import ClusterStore

_HOUR = timedelta(hours=1)
_NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Asked:
    """What is asked of every bucket, read from short tables alone.

    The policy is walked over the snapshots `read`; those `before` tell what was old by then, those
    of `others` groups. `keep`: what the target keeps per topic of `topics` (None: it is
    `committed`). `owning`: the group whose commits count by topic (None: all groups'). `waive`:
    groups to waive while they are gone. `lifted`: guards that do not count, `suspected`: the guard
    of unseen readers, each by topic.
    """

    policy: Policy
    now: datetime
    topics: Topics
    read: tuple[str, ...]
    before: tuple[str, ...]
    others: tuple[str, ...]
    keep: Keeps | None
    owning: Mapping[str, str | None] | None
    waive: frozenset[str]
    declared: Mapping[str, TopicDeclaration]
    lifted: Mapping[str, Collection[str]]
    suspected: Mapping[str, str]


@dataclass(frozen=True)
class Lines:
    """A value per row of what does not change: its key (`domain.columns.keys`), where its curve
    begins, and whether it is guarded; of how many partitions, and on how many each guard stands.
    """

    key: Ints
    first: Ints
    guarded: Flags
    partitions: int
    guards: Mapping[str, int]

    @classmethod
    def joined(cls, parts: Sequence[Lines]) -> tuple[Lines, Ints]:
        """All buckets' as one, in the order of keys, and which of them in turn that is."""
        key = np.concatenate([part.key for part in parts])
        order = np.argsort(key, kind="stable")
        guards = sum((Counter(part.guards) for part in parts), Counter[str]())
        found = cls(
            key[order],
            np.concatenate([part.first for part in parts])[order],
            np.concatenate([part.guarded for part in parts])[order],
            sum(part.partitions for part in parts),
            dict(sorted(guards.items())),
        )
        return found, order


@dataclass(frozen=True)
class Told:
    """What a moment tells, as `Moment` has it; and a value per row: `target` and `log_start` are
    ABSENT where it is not told, `below` and `below_start` the bytes between where the curve begins
    and these two, `per_offset` those of an offset before the curve; NaN where sizes are null.
    `forbidden` by groups; `young`: no snapshot is old enough to tell the target.
    """

    snapshot: str
    at: datetime
    groups_complete: bool
    fullest: float | None
    listed: frozenset[str]
    size_bytes: float
    target: Ints
    log_start: Ints
    below: Floats
    below_start: Floats
    per_offset: Floats
    forbidden: Flags
    young: Flags

    @classmethod
    def joined(cls, parts: Sequence[Told], order: Ints) -> Told:
        """All buckets' of one moment, in this order."""
        whole: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts])[order]
            for name in _PER_ROW
        }
        size_bytes = math.fsum(part.size_bytes for part in parts)
        return replace(parts[0], size_bytes=size_bytes, **whole)


_PER_ROW = ("target", "log_start", "below", "below_start", "per_offset", "forbidden", "young")


def told(
    store: ClusterStore, asked: Asked, sights: pa.Table | None = None
) -> tuple[Lines, Iterator[Told]]:
    """Of what this store shows: all, or with the `sights` of all buckets one of them. Raises
    StoreError; snapshots that are damaged, or pruned meanwhile, are left out.
    """
    found = rows(store, asked.topics)
    bytes_of = past_bytes(store, found)
    guarded = guarded_now(store, found, asked.lifted, asked.suspected)
    lines = Lines(found.keys, bytes_of.first, guarded.rows, guarded.partitions, guarded.names)
    ends = Ends()
    for at, high_watermark, leader_epoch in earlier(store, asked.before, found):
        ends.add(at, high_watermark, leader_epoch)
    held = memory(store, found, asked.now)
    telling = moments(
        store, asked.read, found, held, asked.others, waive=asked.waive, sights=sights
    )
    return lines, _told(
        asked, found, telling, ends, targets=bytes_of.meter(), starts=bytes_of.meter()
    )


def _told(
    asked: Asked,
    found: Rows,
    telling: Iterable[Moment],
    ends: Ends,
    *,
    targets: Meter,
    starts: Meter,
) -> Iterator[Told]:
    keep = None if asked.keep is None else asked.keep.of(found.topic)
    window_ms = windows(found, asked.declared)
    for moment in telling:
        owner = None
        if asked.owning is not None:
            owner = owners(asked.owning, found.names, found.topic, moment.commits.code)
        ends.add(moment.at, moment.high_watermark, moment.leader_epoch)
        want = wanted(moment, keep, ends, owner, window_ms)
        there = want.target >= 0
        length = moment.high_watermark - moment.log_start
        yield Told(
            moment.snapshot,
            moment.at,
            moment.groups_complete,
            moment.fullest,
            moment.listed,
            float(np.nansum(moment.size_bytes)),
            want.target,
            moment.log_start,
            targets(np.where(there, want.target, 0)),
            starts(np.where(there, moment.log_start, 0)),
            moment.size_bytes / np.maximum(length, 1),
            want.forbidden,
            want.young,
        )


def seen(store: ClusterStore, asked: Asked) -> pa.Table:
    """SIGHTS of what this store shows: what every bucket has to know of all others. Raises
    StoreError.
    """
    found = rows(store, asked.topics)
    return sights(store, asked.read, found, memory(store, found, asked.now), asked.others)


@dataclass(frozen=True, slots=True)
class Walked:
    """What came of all moments, as `Walk` has it: partitions of each flag, and topics that any
    moment met, by name.
    """

    points: tuple[tuple[datetime, int, int], ...]
    purges: int
    bytes: int
    topics: int
    purged: int
    moved: int
    unmeasured: int
    forbidden: int
    young: int
    closed: int
    untriggered: int
    without_groups: int
    over_budget: int
    not_waived: Mapping[str, int]
    guarded: int
    guards: Mapping[str, int]
    unowned: tuple[str, ...]


def walked(
    asked: Asked, lines: Sequence[Lines], telling: Iterable[Sequence[Told]]
) -> Walked | None:
    """The policy over what all buckets told; None where they told of no partition, or no moment.

    `telling`: moment by moment, what each bucket told of it, in the order of `lines`.
    """
    whole, order = Lines.joined(lines)
    walk = Walk(asked, whole)
    for parts in telling:
        walk.step(Told.joined(parts, order))
    return walk.found() if len(order) and walk.points else None


class Walk:
    """`step` takes the next moment; the other attributes are what came of all so far.

    `points`: when, the backlog just before a purge, the backlog as it was. `purges` counts runs,
    one per owner of the topics. The flags are per row: `met` by any moment, `purged` at least
    once, `moved` by something else than the policy, `unmeasured` where sizes were not told,
    `forbidden` by groups at some moment, `young`: no snapshot is old enough to tell the target.
    The counts are of moments: `closed`, `untriggered`, `without_groups` and `over_budget`, and
    `not_waived`, of each group that the policy waives and that was listed.
    """

    def __init__(self, asked: Asked, lines: Lines) -> None:
        self.policy, self.lines = asked.policy, lines
        self.points: list[tuple[datetime, int, int]] = []
        self.purges, self.bytes = 0, 0.0
        self.not_waived: Counter[str] = Counter()
        self.closed = self.untriggered = self.without_groups = self.over_budget = 0
        self.met, self.purged, self.moved, self.unmeasured, self.forbidden, self.young = (
            np.zeros(len(lines.key), dtype=bool) for _ in range(6)
        )
        self._names, self._topic = asked.topics.names, lines.key >> 32
        self._owning = asked.owning
        self._owner = None if asked.owning is None else self._owners(asked.owning)
        self._below = np.zeros(len(lines.key))
        self._start = np.full(len(lines.key), ABSENT, dtype=np.int64)
        self._begun = np.full(len(lines.key), _NEVER, dtype=np.int64)
        self._used: deque[tuple[datetime, int, float]] = deque()
        self._topic_bytes: tuple[datetime, float] | None = None

    def _owners(self, owning: Mapping[str, str | None]) -> Ints:
        codes = {name: at for at, name in enumerate(sorted(filter(None, {*owning.values()})))}
        return owners(owning, self._names, self._topic, codes.__getitem__)

    def step(self, told: Told) -> None:
        """The next moment."""
        self.not_waived.update(told.listed)
        there = told.target >= 0
        target = np.where(there, told.target, 0)
        own = self._backlogs(told, there, target)
        self.met |= there
        self.unmeasured |= np.isnan(own)
        self.young |= told.young
        may = there & (target > self._start) & ~self.lines.guarded
        self.forbidden |= may & told.forbidden
        if self._begins(told):
            due = may & ~told.forbidden & self._due(told)
            row = self._within(told, np.flatnonzero(due), own)
            self._count(row, own)
            self._start[row], self._below[row] = target[row], told.below[row]
            self._begun[row] = microseconds(told.at)

    def found(self) -> Walked:
        """What came of all steps until now."""
        topics = np.unique(self._topic[self.met]).tolist()
        owning = self._owning or {}
        return Walked(
            points=tuple(self.points),
            purges=self.purges,
            bytes=int(self.bytes),
            topics=len({self._names[at][0] for at in topics}),
            purged=int(self.purged.sum()),
            moved=int(self.moved.sum()),
            unmeasured=int(self.unmeasured.sum()),
            forbidden=int(self.forbidden.sum()),
            young=int(self.young.sum()),
            closed=self.closed,
            untriggered=self.untriggered,
            without_groups=self.without_groups,
            over_budget=self.over_budget,
            not_waived=dict(sorted(self.not_waived.items())),
            guarded=self.lines.partitions,
            guards=self.lines.guards,
            unowned=tuple(sorted(name for name, owner in owning.items() if owner is None)),
        )

    def _backlogs(self, told: Told, there: Flags, target: Ints) -> Floats:
        """Note both backlogs of this moment; per row that with the policy, NaN: not measured."""
        low = np.where(there, told.log_start, 0)
        moves = there & (told.log_start > self._start)
        self.moved |= moves & (self._start >= 0)
        self._start = np.where(moves, low, self._start)
        self._below = np.where(moves, told.below_start, self._below)
        start = np.minimum(np.where(there, self._start, 0), target)  # commits may be set back
        own = np.maximum(told.below - self._below, 0) + self._evenly(start, target, told)
        without = told.below - told.below_start + self._evenly(low, target, told)
        self.points.append((told.at, _sum(own[there]), _sum(without[there])))
        return np.where(there, own, 0.0)

    def _evenly(self, low: Ints, high: Ints, told: Told) -> Floats:
        """Bytes of the offsets between two that lie before the curve; NaN where sizes are null."""
        first = self.lines.first
        offsets = np.maximum(np.minimum(high, first) - np.minimum(low, first), 0)
        return np.where(offsets > 0, offsets * told.per_offset, 0.0)

    def _begins(self, told: Told) -> bool:
        """Whether the policy would have run at all; what kept it is counted."""
        triggered = self._triggered(told)  # first: it remembers the sizes
        if not is_open(self.policy, told.at):
            self.closed += 1
        elif not triggered:
            self.untriggered += 1
        elif not told.groups_complete:
            self.without_groups += 1
        else:
            return True
        return False

    def _triggered(self, told: Told) -> bool:
        trigger = self.policy.trigger
        before, now = self._topic_bytes, told.size_bytes
        self._topic_bytes = told.at, now
        if trigger.share is not None:
            return told.fullest is not None and told.fullest > trigger.share
        if trigger.bytes_per_hour is None:
            return True
        if before is None or told.at <= before[0]:
            return False
        return (now - before[1]) / ((told.at - before[0]) / _HOUR) > trigger.bytes_per_hour

    def _due(self, told: Told) -> Flags:
        return self._begun <= microseconds(told.at - self.policy.min_purge_interval)

    def _count(self, row: Ints, backlog: Floats) -> None:
        if len(row):
            self.purges += 1 if self._owner is None else len(np.unique(self._owner[row]))
            self.bytes += float(np.nansum(backlog[row]))
            self.purged[row] = True

    def _within(self, told: Told, row: Ints, backlog: Floats) -> Ints:
        """Those of these rows that the hour's budgets allow, as `cycle.within` chooses them.

        Longest waiting first; after a gap of several hours as many budgets may be spent.
        """
        most, most_bytes = self.policy.most_partitions_per_hour, self.policy.most_bytes_per_hour
        if most is None and most_bytes is None:
            return row
        hours = max((told.at - self._before(told)) / _HOUR, 1.0)
        while self._used and self._used[0][0] <= told.at - hours * _HOUR:
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
        self._used.append((told.at, len(kept), float(backlog[kept].sum())))
        return kept

    def _before(self, told: Told) -> datetime:
        """When the moment before this one was."""
        return self.points[-2][0] if len(self.points) > 1 else told.at


def _sum(values: Floats) -> int:
    return int(np.nansum(values))
