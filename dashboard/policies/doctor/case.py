"""One repartition topic as the doctor looks at it: its rows, its owner, what was counted, how far
its group was behind, and what the newest analysis knows of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.errors import StoreError
from dashboard.domain.columns import Flags, Ints
from dashboard.domain.system_topics import REPARTITION_SUFFIX
from dashboard.history.week.rows import ABSENT
from dashboard.policies.doctor.diagnosis import Evidence, Rules
from dashboard.policies.doctor.history import History, Owner
from dashboard.policies.doctor.pace import Pace, Signs, unlimited
from dashboard.purge.journal.gate import Sent
from dashboard.settings.policies.policy import Policy
from dashboard.store.snapshots import ClusterStore

_OURS = pc.ends_with(pc.field("topic"), REPARTITION_SUFFIX)


@dataclass(frozen=True, slots=True)
class Case:
    """`policies` are those switched on for it, `sent` what runs of ours sent to it, oldest first.

    `pace` is None where no purge shows in the closest snapshots.
    """

    topic: str
    place: slice
    history: History
    signs: Signs
    memory: Memory
    pace: Pace | None
    sent: tuple[Sent, ...]
    policies: tuple[Policy, ...]
    rules: Rules

    @property
    def owner(self) -> Owner | None:
        return self.history.owners.by_topic.get(self.topic)

    @property
    def config(self) -> Mapping[str, str | None]:
        return self.history.configs.get(self.topic, {})

    @property
    def partitions(self) -> int:
        return int(self.place.stop - self.place.start)

    @property
    def purged(self) -> Flags:
        return self.signs.purged[self.place]

    @property
    def commits(self) -> Flags:
        return self.signs.committed[self.place]

    @property
    def foreign(self) -> Flags:
        """Moves of log starts past all that our own runs asked for."""
        return self.purged & ~self.signs.ours[self.place]

    @property
    def unlimited(self) -> bool | None:
        """Whether retention never deletes anything; None: its settings are not known."""
        return unlimited(self.config)

    @property
    def keeping(self) -> Policy | None:
        """The policy that keeps a time or a size of the topic, if one is on."""
        return next((p for p in self.policies if p.target.startswith("keep:")), None)

    @property
    def policy_names(self) -> str:
        return ", ".join(policy.name for policy in self.policies)

    @property
    def newest(self) -> datetime:
        return self.history.times[-1]

    @property
    def total_bytes(self) -> int | None:
        """What the newest snapshot has of it on disk, over all replicas."""
        sizes = self.history.total_bytes[self.place]
        return None if (sizes == ABSENT).any() else int(sizes.sum())

    def counted(self) -> tuple[int, int]:
        """Purges seen at least and segments freed, where both could be seen."""
        freed = self.signs.freed[self.place]
        measured = freed != ABSENT
        return int((self.purged & measured).sum()), int(freed[measured].sum())

    def our_purges(self) -> int:
        """How often runs of ours purged it: as often as the partition they purged most often."""
        counts: Counter[int] = Counter()
        for one in self.sent:
            counts[one.partition] += one.purges
        return max(counts.values(), default=0)

    def quiet_since(self) -> tuple[datetime, bool]:
        """Since when its owner commits nothing here; False: for longer than is kept."""
        moved = np.flatnonzero(self.commits.any(axis=0))
        seen = [self.history.times[int(moved[-1]) + 1]] if len(moved) else []
        if self.owner is not None:
            known = self.memory.last_commit_at.get((self.topic, self.owner.group_id))
            seen += [known] if known else []
        return (max(seen), True) if seen else (self.history.times[0], False)

    def unread(self) -> int | None:
        """Records above the commits, over all partitions; None: not known of one."""
        end: Ints = self.history.log_end[self.place, -1]
        commit = self.history.committed[self.place, -1]
        if (end == ABSENT).any() or (commit == ABSENT).any():
            return None
        return int(np.maximum(end - commit, 0).sum())

    def evidence(self, sign: Flags | None = None, confidence: str | None = None) -> Evidence:
        """From all snapshots of the case; `sign` marks the intervals that show it, in any row.

        Without a word the confidence follows the span of the snapshots.
        """
        history = self.history
        shown = () if sign is None else np.flatnonzero(sign.any(axis=0))
        measured = bool((self.signs.freed[self.place] != ABSENT).any())
        return Evidence(
            confidence or _confidence(history),
            history.times[0],
            history.times[-1],
            len(history.times),
            int(self.purged.sum()),
            self.counted()[1] if measured else None,
            int(self.foreign.sum()) if self.unlimited else None,
            tuple(history.times[int(at) + 1] for at in shown),
        )


def _confidence(history: History) -> str:
    hours = history.span.total_seconds() / 3600
    if hours >= 24 and len(history.times) >= 12:
        return "high"
    return "medium" if hours >= 1 and len(history.times) >= 6 else "low"


# How far a group was behind in time: the longest that kept snapshots show.


@dataclass(frozen=True, slots=True)
class Lag:
    """The longest lag seen; `open_ended`: what is kept does not reach back to its beginning."""

    longest: timedelta
    open_ended: bool


def longest_lag(history: History, place: slice) -> Lag | None:
    """Over the partitions of one topic; None where no snapshot has commit and log end.

    A record above the commit of a snapshot was written at the earliest when the log last ended at
    that commit or below: that long a retention must reach at least.
    """
    end, committed = history.log_end[place], history.committed[place]
    known = (end != ABSENT) & (committed != ABSENT)
    if not known.any():
        return None
    waits = known & (end > committed)
    if not waits.any():
        return Lag(timedelta(0), False)
    unwritten, told = _last_unwritten(end, committed)
    seconds = np.array([(time - history.times[0]).total_seconds() for time in history.times])
    lags = np.where(waits, seconds[None, :] - seconds[unwritten], -1.0)
    longest = float(lags.max())
    return Lag(timedelta(seconds=longest), bool((~told & (lags == longest)).any()))


def _last_unwritten(end: Ints, committed: Ints) -> tuple[Ints, Flags]:
    """Per row and snapshot the last one, up to it, whose log ended at its commit or below.

    Where there is none it is the first, and the second array says so.
    """
    count = end.shape[1]
    up_to = np.tri(count, dtype=bool)
    below = (end[:, None, :] != ABSENT) & (end[:, None, :] <= committed[:, :, None]) & up_to
    told = below.any(axis=2)
    last = count - 1 - np.argmax(below[:, :, ::-1], axis=2)
    return np.where(told, last, 0), told


# What the newest analysis knows of repartition topics: last commits, and bytes to give back.


@dataclass(frozen=True, slots=True)
class Memory:
    """`last_commit_at` by topic and group, where one was ever seen to commit; `groups` are all.

    `committed_bytes` by topic: what its commits allow to purge, over all replicas.
    """

    groups: frozenset[str] = frozenset()
    last_commit_at: Mapping[tuple[str, str], datetime] = field(default_factory=dict)
    committed_bytes: Mapping[str, int] = field(default_factory=dict)


def read_memory(store: ClusterStore) -> Memory:
    """From the newest findings; nothing where there is no analysis, or it cannot be read."""
    analysis = store.latest("findings")
    if analysis is None:
        return Memory()
    try:
        columns = ["topic", "group_id", "last_commit_at"]
        holds = store.read("findings", analysis, "holds", columns, only=_OURS)
        columns = ["topic", "target", "bytes_likely"]
        reclaimable = store.read("findings", analysis, "reclaimable", columns, only=_OURS)
    except StoreError:
        return Memory()
    return Memory(
        frozenset(pc.unique(holds["group_id"]).to_pylist()), _commits(holds), _bytes(reclaimable)
    )


def _commits(holds: pa.Table) -> dict[tuple[str, str], datetime]:
    last = holds.group_by(["topic", "group_id"]).aggregate([("last_commit_at", "max")])
    return {
        (row["topic"], row["group_id"]): row["last_commit_at_max"]
        for row in last.to_pylist()
        if row["last_commit_at_max"] is not None
    }


def _bytes(reclaimable: pa.Table) -> dict[str, int]:
    """Topics of which every partition was measured."""
    own = reclaimable.filter(pc.equal(reclaimable["target"], "committed"))
    options = pc.ScalarAggregateOptions(skip_nulls=False)
    sums = own.group_by("topic").aggregate([("bytes_likely", "sum", options)])
    return {
        row["topic"]: row["bytes_likely_sum"]
        for row in sums.to_pylist()
        if row["bytes_likely_sum"] is not None
    }
