"""What goes wrong in a story, and when: drawn from its seed, over within two minutes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Protocol

from dashboard.domain.model import TopicPartition
from tests.simulation.joining import Joining
from tests.simulation.reads import Faults
from tests.simulation.world import CALM_TICK, World

FAULTS_FOR = 120.0


class Host(Protocol):
    """The machine of the worker: its journal, and the people at it."""

    def wish(self, wish: str | None) -> None: ...
    def fill_disk(self, seconds: float) -> None: ...
    def resume(self) -> None: ...


@dataclass
class Misfortune:
    """Faults of one story, on their way."""

    rng: Random
    world: World
    calls: Faults
    host: Host
    joining: Joining
    fate: Random
    eventful: bool  # something special happens besides: then fewer faults hide it

    def come(self) -> None:
        """Set them off: most come early, while requests are under way."""
        rng = self.rng
        for name, most in (
            ("lost_request", 0.3), ("lost_answer", 0.3), ("unread", 0.1), ("incomplete", 0.1),
            ("worst_moment", 0.9),
        ):  # fmt: skip
            setattr(self.calls, name, rng.choice((0.0, most)) * rng.random())
        if self.fate.random() < 0.3:
            self.calls.outage = 0.5
        if self.fate.random() < (0.35 if self.eventful else 0.5):
            self.calls.slow_connection = 0.4
        if self.world.unclean and rng.random() < 0.5:
            self.world.later(rng.random() * 10, lambda: self.world.lose(min(self.world.parts)))
        if rng.random() < 0.08:  # between the plan and the last look before sending
            self.joining.join(rng.choice(sorted(self.world.parts)).topic)
        for _ in range(rng.choice((0, 0, 0, 2, 5) if self.eventful else (0, 2, 5, 10))):
            self.world.later(FAULTS_FOR * rng.random() ** 3, self._one())
        self.world.later(FAULTS_FOR, self._heal)
        self.world.later(FAULTS_FOR * 2, lambda: setattr(self.world, "tick", CALM_TICK))

    def _one(self) -> Callable[[], None]:
        rng, world = self.rng, self.world
        broker = rng.choice(sorted(world.brokers))
        key: TopicPartition = rng.choice(sorted(world.parts))
        seconds = rng.choice((2.0, 8.0, 15.0, 40.0))
        return rng.choice((
            lambda: world.crash(broker, seconds),
            lambda: world.hang(broker, seconds),
            lambda: world.cut_off(broker, seconds),
            lambda: world.slow(broker, seconds * 2),
            lambda: world.elect(key),
            lambda: world.retain(key, 0.5),
            lambda: world.move_log_dir(key),
            lambda: world.recreate(key.topic),
            lambda: self._replaced(key.topic, broker),
            lambda: self._group(key),
            lambda: self.joining.join(key.topic),
            lambda: self.host.wish(rng.choice(("pause", "cancel", None))),
            lambda: self.host.fill_disk(seconds),
        ))  # fmt: skip

    def _replaced(self, topic: str, broker: int) -> None:
        """A topic is made anew and filled at once, while one broker still tells of the old one."""
        self.world.cut_off(broker, 60.0)
        self.world.later(1.0, lambda: self.world.recreate(topic, filled=5000))

    def _group(self, key: TopicPartition) -> None:
        """A group appears below the target, or an old one starts over."""
        group = self.rng.choice(("a", "newborn"))
        self.world.with_coordinator(group, lambda: self.world.start_over(group, key))

    def _heal(self) -> None:
        """No new faults; what was set off heals by itself. Somebody resumes what is paused."""
        self.world.say("no more faults")
        for name in vars(self.calls):
            setattr(self.calls, name, 0.0)
        self.host.resume()
