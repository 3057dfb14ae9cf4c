"""What readers want, which only the model knows: what each has read of the log as it is now.

A committed offset is no such knowledge: the log may have begun anew since, or its end been lost,
and whoever set the offset by hand has read nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from dashboard.model import TopicPartition


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
