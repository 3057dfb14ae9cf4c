"""One repartition topic as the doctor looks at it: its rows, its owner, and what was counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from dashboard.domain.columns import Flags, Ints
from dashboard.policies.doctor.diagnosis import Evidence, Rules
from dashboard.policies.doctor.history import History
from dashboard.policies.doctor.memory import Memory
from dashboard.policies.doctor.owners import Owner
from dashboard.policies.doctor.pace import Pace
from dashboard.policies.doctor.signs import Signs, limit
from dashboard.policies.simulate.past_rows import ABSENT
from dashboard.purge.journal.journal_sent import Sent
from dashboard.settings.policies.policy import Policy


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
        if not {"retention.ms", "retention.bytes"} <= set(self.config):
            return None
        return all(limit(self.config[k]) is None for k in ("retention.ms", "retention.bytes"))

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
            tuple(history.times[int(at) + 1] for at in shown),
        )


def _confidence(history: History) -> str:
    hours = history.span.total_seconds() / 3600
    if hours >= 24 and len(history.times) >= 12:
        return "high"
    return "medium" if hours >= 1 and len(history.times) >= 6 else "low"
