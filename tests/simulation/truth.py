"""What readers want, which only the model knows: what each has read of the log as it is now.

A committed offset is no such knowledge: the log may have begun anew since, or its end been lost,
and whoever set the offset by hand has read nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.domain.model import TopicPartition

Epochs = Sequence[tuple[int, int]]  # leader epochs of a log and their first offsets, rising


@dataclass(frozen=True)
class Read:
    """A group has read a log up to an offset: that of a topic id, written in these leader epochs.

    A record is known by its offset and leader epoch. What was lost may come back with a replica
    that was gone, and then has been read.
    """

    offset: int
    topic_id: str
    epochs: Epochs

    @property
    def epoch(self) -> int:
        """That of the last record that was read, which its committer tells (KIP-320); -1: none."""
        return max((epoch for epoch, first in self.epochs if first < self.offset), default=-1)

    def of(self, topic_id: str, epochs: Epochs) -> int:
        """Up to which offset that is the same as on this log."""
        if topic_id != self.topic_id:
            return 0
        return min(self.offset, _common(self.epochs, epochs))


def _common(one: Epochs, other: Epochs) -> int:
    """Up to which offset two logs hold the same records."""
    ours, theirs = _filled(one), _filled(other)
    for mine, its in zip(ours, theirs, strict=False):
        if mine != its:
            return min(mine[1], its[1])
    longer = max(ours, theirs, key=len)
    shorter = min(len(ours), len(theirs))
    return longer[shorter][1] if len(longer) > shorter else sys.maxsize


def _filled(epochs: Epochs) -> list[tuple[int, int]]:
    """The epochs in which something was written, and the newest."""
    return [e for e, after in zip(epochs, [*epochs[1:], (0, -1)], strict=True) if e[1] != after[1]]


@dataclass(frozen=True)
class Truth:
    """Groups at one moment: `committed` as Kafka holds it, `has_read` of the present logs, and
    the topics that members want (`alive` ones have such members).
    """

    at: float
    committed: dict[str, dict[TopicPartition, int]]
    has_read: dict[str, dict[TopicPartition, int]]
    wanted: dict[str, frozenset[str]]

    @property
    def alive(self) -> frozenset[str]:
        return frozenset(self.wanted)

    def readers(self, key: TopicPartition) -> dict[str, int]:
        """Every group that reads the topic, and the first offset there that it has not read."""
        found = {}
        for group_id in sorted({*self.has_read, *self.wanted}):
            read = self.has_read.get(group_id, {})
            wants = key.topic in self.wanted.get(group_id, ())
            if wants or any(k.topic == key.topic for k in read):
                found[group_id] = read.get(key, 0)
        return found


NOTHING_KNOWN = Truth(0.0, {}, {}, {})
