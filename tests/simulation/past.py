"""What happened before a plan and only kept snapshots tell: topics made anew, groups that are gone.

It has a chance of its own among the seeds without a situation, and is one itself: what holds
records back before anything is sent leaves faults nothing to strike.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from random import Random

from dashboard.domain.model import TopicPartition
from dashboard.purge.plan.claims import RememberedOffset
from tests.simulation.records import Partition
from tests.simulation.world import World

_FAR = (1_000, 9_000)  # offsets past the end that no traffic reaches before the plan is made


class Past:
    """The topics that were deleted and created again, and who had read them."""

    def __init__(self, rng: Random, world: World, kind: str) -> None:
        self.rng, self.world = rng, world
        self.earlier_ids: dict[str, str | None] = {}  # None: of snapshots that hold no ids
        self.told = kind == "kept of old topics"
        self.anew = kind == "begun anew"
        self.any = (rng.random() < 0.3 and not kind) or self.told

    def recreate(self) -> None:
        """Delete some topics and create them again, before anything is written."""
        ids = {key.topic: part.topic_id for key, part in self.world.parts.items()}
        for topic, topic_id in sorted(ids.items()):
            if self.any and (self.told or self.rng.random() < 0.8):
                ids_are_kept = self.told or self.rng.random() < 0.6
                self.earlier_ids[topic] = topic_id if ids_are_kept else None
                self.world.recreate(topic)

    def kept(self) -> tuple[RememberedOffset, ...]:
        """What the snapshots of that time show. In some topics nobody has read yet since."""
        for topic in sorted(self.earlier_ids):
            if self.rng.random() < (0.2 if self.told else 0.5):
                for by in self.world.groups.values():
                    for key in [k for k in by if k.topic == topic]:
                        del by[key]
        rows = [
            row for key, part in sorted(self.world.parts.items()) for row in self._of(key, part)
        ]
        if self.anew:
            rows += self._begun_anew()
        for row in rows:
            self.world.say(f"a snapshot remembers {row}")
        return tuple(rows)

    def _begun_anew(self) -> Iterator[RememberedOffset]:
        """A batch job had read nearly everything. Its group was deleted, so that it reads all of it
        once more; it died after its first commits, and comes back.
        """
        world, rng, seen_at = self.world, self.rng, self.world.now() - timedelta(hours=1)
        for topic in sorted({key.topic for key in world.parts}):
            keys = sorted(key for key in world.parts if key.topic == topic)
            world.commit("batch", rng.choice(keys), rng.randint(0, 9))
            for key in keys:
                end = world.parts[key].high_watermark
                offset = rng.randint(end * 4 // 5, end)
                yield RememberedOffset(
                    "batch", *key, offset, world.parts[key].topic_id, seen_at=seen_at
                )

    def _of(self, key: TopicPartition, part: Partition) -> Iterator[RememberedOffset]:
        end = max(replica.end for replica in part.replicas.values())
        if key.topic not in self.earlier_ids:
            if self.any and self.rng.random() < 0.3:
                offset = self.rng.randint(0, part.high_watermark)
                yield RememberedOffset("gone", *key, offset, part.topic_id)
            return
        earlier = self.earlier_ids[key.topic]
        for group in ("a", "b", "late"):
            if self.rng.random() < (0.9 if self.told and group == "late" else 0.6):
                far = earlier is None or (not self.told and self.rng.random() < 0.5)
                offset = end + self.rng.randint(*_FAR) if far else self.rng.randint(0, end)
                yield RememberedOffset(group, *key, offset, earlier)
