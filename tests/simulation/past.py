"""What happened before a plan and only kept snapshots tell: topics made anew, groups that are gone.

It has a chance of its own, so that everything else of a seed's story stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from dashboard.model import TopicPartition
from dashboard.purge.facts import RememberedOffset
from tests.simulation.records import Partition
from tests.simulation.world import World

_FAR = (1_000, 9_000)  # offsets past the end that no traffic reaches before the plan is made


class Past:
    """The topics that were deleted and created again, and who had read them."""

    def __init__(self, rng: Random, world: World) -> None:
        self.rng, self.world = rng, world
        self.earlier_ids: dict[str, str] = {}

    def recreate(self) -> None:
        """Delete some topics and create them again, before anything is written."""
        ids = {key.topic: part.topic_id for key, part in self.world.parts.items()}
        for topic, topic_id in sorted(ids.items()):
            if self.rng.random() < 0.2:
                self.earlier_ids[topic] = topic_id
                self.world.recreate(topic)

    def kept(self) -> tuple[RememberedOffset, ...]:
        """What the snapshots of that time show. In some topics nobody has read yet since."""
        for topic in sorted(self.earlier_ids):
            if self.rng.random() < 0.5:
                for by in self.world.groups.values():
                    for key in [k for k in by if k.topic == topic]:
                        del by[key]
        rows = [
            row for key, part in sorted(self.world.parts.items()) for row in self._of(key, part)
        ]
        for row in rows:
            self.world.say(f"a snapshot remembers {row}")
        return tuple(rows)

    def _of(self, key: TopicPartition, part: Partition) -> Iterator[RememberedOffset]:
        end, earlier = max(r.end for r in part.replicas.values()), self.earlier_ids.get(key.topic)
        if earlier is None:
            if self.rng.random() < 0.1:
                offset = self.rng.randint(0, part.high_watermark)
                yield RememberedOffset("gone", *key, offset, part.topic_id)
            return
        for group in ("a", "b", "late"):
            if self.rng.random() < 0.6:
                far = self.rng.random() < 0.5
                offset = end + self.rng.randint(*_FAR) if far else self.rng.randint(0, end)
                nameless = far and self.rng.random() < 0.5  # a snapshot without topic ids
                yield RememberedOffset(group, *key, offset, None if nameless else earlier)
