"""Groups whose members read a topic before they have committed anything on it.

Each is one that a careful reader of the cluster can know: its protocol tells what it asks for, or
it has committed nowhere, or it has been assigned its partitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from dashboard.model import Group, TopicPartition
from tests.simulation.world import World

_ELSEWHERE = TopicPartition("elsewhere", 0)
_WAITING = {"classic": "PreparingRebalance", "consumer": "Assigning", "streams": "Assigning"}


@dataclass(frozen=True)
class Joined:
    """A group that joined to read one topic from its beginning; `waits` until it is assigned."""

    group_id: str
    kind: str
    topic: str
    at: float
    waits: float
    ready: bool  # a Streams application that is not tells no topic

    def seen(self, world: World) -> Group:
        """The group as its coordinator describes it now."""
        if world.at >= self.at + self.waits:
            read = tuple(sorted(key for key in world.parts if key.topic == self.topic))
            return Group(self.group_id, self.kind, "Stable", 1, read)
        if not self.ready:
            return Group(self.group_id, self.kind, "NotReady", None)
        asked = () if self.kind == "classic" else (self.topic,)
        return Group(self.group_id, self.kind, _WAITING[self.kind], 1, subscribed=asked)


class Joining:
    """Has groups join while a purge is under way, and commit for the first time much later."""

    def __init__(self, rng: Random, world: World) -> None:
        self.rng, self.world = rng, world
        self.joined: dict[str, Joined] = {}

    def join(self, topic: str) -> None:
        """One more group reads the topic from now on."""
        rng, world = self.rng, self.world
        name = f"joined-{len(self.joined)}"
        kind = rng.choice(("classic", "consumer", "streams"))
        ready = kind != "streams" or rng.random() < 0.5
        world.groups[name] = {}
        if kind != "classic" and ready and rng.random() < 0.8:
            world.groups[name][_ELSEWHERE] = 1
        self.joined[name] = Joined(name, kind, topic, world.at, rng.choice((3.0, 15.0)), ready)
        world.say(f"group {name} ({kind}) joins to read {topic}")
        world.later(rng.uniform(15, 90), lambda: self._commit(self.joined[name]))

    def _commit(self, group: Joined) -> None:
        for key, part in self.world.parts.items():
            if key.topic == group.topic:
                low = min(replica.start for replica in part.replicas.values())
                self.world.groups[group.group_id][key] = self.rng.randint(
                    low, max(low, part.high_watermark)
                )
        self.world.say(f"group {group.group_id} commits on {group.topic}")

    def groups(self) -> list[Group]:
        """Every group of the world, those without members too."""
        return [
            self.joined[name].seen(self.world)
            if name in self.joined
            else Group(name, "classic", "Empty", 0)
            for name in sorted(self.world.groups)
        ]

    def reading(self) -> dict[str, frozenset[str]]:
        """Who reads each topic now, or is about to."""
        topics = {group.topic for group in self.joined.values()}
        return {
            topic: frozenset(n for n, group in self.joined.items() if group.topic == topic)
            for topic in topics
        }
