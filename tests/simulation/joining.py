"""Groups with members: who joins to read what, what its coordinator tells of it, when it commits.

Each is one that a careful reader of the cluster can know: its protocol tells what it asks for, or
it has committed nowhere, or it has been assigned its partitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from dashboard.core.clock import microseconds
from dashboard.domain.model import TopicPartition

if TYPE_CHECKING:
    from tests.simulation.world import World

ELSEWHERE = TopicPartition("elsewhere", 0)
_CLEANED_UP = 600.0  # offsets.retention.check.interval.ms
_WAITING = {"classic": "PreparingRebalance", "consumer": "Assigning", "streams": "Assigning"}


@dataclass(frozen=True)
class Told:
    """A group as its coordinator describes it. `asked` None: only its members know their topics."""

    kind: str
    state: str
    members: int
    asked: tuple[str, ...] | None
    pattern: str
    assigned: tuple[TopicPartition, ...]
    commits: dict[TopicPartition, int]
    epochs: dict[TopicPartition, int]  # of the commits that tell one


@dataclass(frozen=True)
class Joined:
    """A group with a member that wants `topics`; `waits` until their partitions are assigned.

    A `settled` one reads another topic meanwhile, is Stable, and has just come upon these. Of a
    `pattern` the broker knows the words (KIP-848), and what it matches only later.
    """

    group_id: str
    kind: str
    topics: tuple[str, ...]
    at: float
    waits: float
    ready: bool = True  # a Streams application that is not tells no topic
    settled: bool = False
    pattern: str = ""

    def told(self, world: World) -> Told:
        """The group as its coordinator has it now."""
        elsewhere = (ELSEWHERE,) if self.settled else ()
        asked = () if self.pattern else (*(key.topic for key in elsewhere), *self.topics)
        if world.at >= self.at + self.waits:
            read = sorted(key for key in world.parts if key.topic in self.topics)
            return self._told(world, "Stable", asked, (*elsewhere, *read))
        if self.settled:
            return self._told(world, "Stable", asked, elsewhere)
        if not self.ready:
            return self._told(world, "NotReady", None, ())
        return self._told(world, _WAITING[self.kind], asked, ())

    def _told(
        self,
        world: World,
        state: str,
        asked: tuple[str, ...] | None,
        assigned: tuple[TopicPartition, ...],
    ) -> Told:
        commits = dict(world.groups.get(self.group_id, {}))
        epochs = world.epochs_of(self.group_id)
        return Told(self.kind, state, 1, asked, self.pattern, assigned, commits, epochs)


class Joining:
    """Has groups join while a purge is under way, and commit for the first time much later."""

    def __init__(self, rng: Random, world: World) -> None:
        self.rng, self.world = rng, world
        self.born = 0

    def join(self, topic: str) -> None:
        """One more group reads the topic from now on."""
        rng, name = self.rng, f"joined-{self.born}"
        self.born += 1
        kind = rng.choice(("classic", "consumer", "streams"))
        ready = kind != "streams" or rng.random() < 0.5
        commits = kind != "classic" and ready and rng.random() < 0.8
        waits = rng.choice((3.0, 15.0))
        self.enter(
            Joined(name, kind, (topic,), 0.0, waits, ready), {ELSEWHERE: 1} if commits else {}
        )

    def come_upon(self, topic: str, *, by_pattern: bool) -> None:
        """A group that reads another topic comes upon this one, by its pattern or by its name."""
        rng, name = self.rng, f"joined-{self.born}"
        self.born += 1
        kind = "consumer" if by_pattern else rng.choice(("consumer", "classic"))
        words = (f"{topic}|elsewhere", "t.*|elsewhere", "[a-z].*")
        pattern = rng.choice(words) if by_pattern else ""
        waits = rng.choice((60.0, 300.0))
        group = Joined(name, kind, (topic,), 0.0, waits, settled=True, pattern=pattern)
        self.enter(group, {ELSEWHERE: 1})

    def wait(self, topic: str) -> None:
        """A Streams application starts, and tells no topic until all that it needs is there."""
        seconds = self.rng.choice((60.0, 300.0))
        self.enter(Joined("starting", "streams", (topic,), 0.0, seconds, ready=False), {})

    def die(self, topic: str) -> None:
        """A new application has died on its first record, and its group is Empty until Kafka cleans
        up: nothing of it is known to anybody then.
        """
        self.world.with_coordinator("died", lambda: self._died(topic))

    def _died(self, topic: str) -> None:
        world = self.world
        world.groups["died"], world.mourned["died"] = {}, frozenset({topic})
        world.say(f"group died read {topic}, and died before its first commit")
        world.later(_CLEANED_UP, self._dropped)

    def _dropped(self) -> None:
        for of in (self.world.groups, self.world.mourned):
            of.pop("died", None)

    def visit(self, group_id: str, topic: str) -> None:
        """A group that nobody was in has a member that reads the topic; a snapshot meets it, and it
        is gone before anybody else looks. Somebody uses the group, whoever said that nobody does.
        """
        self.world.with_coordinator(group_id, lambda: self._visited(group_id, topic))

    def _visited(self, group_id: str, topic: str) -> None:
        world = self.world
        world.met[group_id, topic] = microseconds(world.now())
        world.say(f"group {group_id} reads {topic} for a moment, and a snapshot meets it")

    def enter(self, group: Joined, commits: dict[TopicPartition, int]) -> None:
        """The group is there once its coordinator can take it; it commits much later."""
        self.world.with_coordinator(group.group_id, lambda: self._entered(group, commits))

    def _entered(self, group: Joined, commits: dict[TopicPartition, int]) -> None:
        world = self.world
        world.groups.setdefault(group.group_id, {}).update(commits)
        world.members[group.group_id] = Joined(**{**vars(group), "at": world.at})
        what = f"{group.kind}, as {group.pattern}" if group.pattern else group.kind
        world.say(f"group {group.group_id} ({what}) joins to read {', '.join(group.topics)}")
        first = max(self.rng.uniform(15, 90), group.waits * 1.1 if group.settled else 0.0)
        world.later(
            first, lambda: world.with_coordinator(group.group_id, lambda: self._commit(group))
        )

    def _commit(self, group: Joined) -> None:
        for key, part in self.world.parts.items():
            if key.topic in group.topics and not group.group_id.startswith("b"):
                low = min(replica.start for replica in part.replicas.values())
                offset = self.rng.randint(low, max(low, part.high_watermark))
                self.world.commit(group.group_id, key, offset)
        self.world.say(f"group {group.group_id} commits on {', '.join(group.topics)}")
