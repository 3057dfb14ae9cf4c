"""A policy over the moments of the past: what it would have purged at each, and what was left."""

from __future__ import annotations

from collections import Counter, deque
from datetime import datetime, timedelta

import numpy as np

from dashboard.core.clock import microseconds
from dashboard.domain.columns import Flags, Ints
from dashboard.policies.simulate.past import Floats, Moment
from dashboard.policies.simulate.past_bytes import PastBytes
from dashboard.policies.simulate.past_guards import Guarded
from dashboard.policies.simulate.past_rows import ABSENT, Rows
from dashboard.policies.simulate.past_targets import Wanted
from dashboard.settings.policies.policy import Policy
from dashboard.settings.policies.windows import is_open

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
