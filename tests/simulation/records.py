"""What the model keeps: replicas' logs, partitions with their history, brokers, their views."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from random import Random

from dashboard.domain.model import TopicPartition
from tests.simulation.joining import Told


@dataclass
class Replica:
    """One replica's log: `epochs` is its leader-epoch cache, (epoch, first offset), rising.

    `floor`: files below it are deleted, so no restart brings them back.
    """

    start: int = 0
    end: int = 0
    epochs: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    checkpoint: int = 0
    floor: int = 0
    behind_since: float | None = None

    def epoch_end(self, epoch: int) -> int:
        """The end offset of the largest epoch at or below `epoch` (OffsetForLeaderEpoch)."""
        after = [first for e, first in self.epochs if e > epoch]
        return after[0] if after else self.end

    def truncate(self, end: int) -> None:
        """Cut the log at `end`, as a follower does when it meets a new leader."""
        self.end = min(self.end, max(end, self.start))
        self.epochs = [(e, first) for e, first in self.epochs if first <= self.end]


@dataclass(frozen=True)
class Moment:
    """What was true of a partition from `at` on: who led, and each replica's log start."""

    at: float
    topic_id: str
    leader: int | None
    epoch: int
    starts: dict[int, int]


@dataclass
class Partition:
    """One partition of one topic id. `future`: broker and start of a replica that moves its dir."""

    key: TopicPartition
    topic_id: str
    replicas: dict[int, Replica]
    leader: int | None
    epoch: int = 0
    isr: set[int] = field(default_factory=set)
    high_watermark: int = 0
    future: tuple[int, int] | None = None
    moments: list[Moment] = field(default_factory=list)
    written: list[tuple[int, float]] = field(default_factory=list)  # first offset, when appended

    @property
    def log(self) -> Replica:
        """The leader's; while there is none, that of the newest epoch."""
        if self.leader is not None:
            return self.replicas[self.leader]
        return max(self.replicas.values(), key=lambda replica: replica.epochs[-1])

    @cached_property
    def by_id(self) -> tuple[int, ...]:
        """The brokers of its replicas, which stay the same."""
        return tuple(sorted(self.replicas))

    def fill(self, end: int, at: float) -> None:
        """Every replica has records up to `end`, all written at once."""
        self.high_watermark, self.written = end, [(0, at)]
        for replica in self.replicas.values():
            replica.end = end

    def spread(self, rng: Random, seconds: float) -> None:
        """Its records were written one batch after the other in so much time before the start."""
        if not self.high_watermark:
            return
        newer = [(first, at) for first, at in self.written if first]
        end = newer[0][0] if newer else self.high_watermark
        starts = sorted({0, *(rng.randint(0, end - 1) for _ in range(20))})
        times = sorted(rng.uniform(-seconds, 0.0) for _ in starts)
        self.written = [*zip(starts, times, strict=True), *newer]

    def since(self, at: float) -> int:
        """The first offset that was written then or later."""
        first = next((first for first, when in self.written if when >= at), None)
        return self.high_watermark if first is None else first

    def note(self, at: float) -> None:
        """Keep what is true now, if it changed."""
        last = self.moments[-1] if self.moments else None
        if last is None or last.leader != self.leader or last.epoch != self.epoch:
            changed = True
        else:
            changed = any(last.starts[b] != r.start for b, r in self.replicas.items())
        if changed:
            starts = {b: r.start for b, r in self.replicas.items()}
            self.moments.append(Moment(at, self.topic_id, self.leader, self.epoch, starts))

    def during(self, since: float, until: float) -> Iterator[Moment]:
        """Every moment that held at some time between the two."""
        first = bisect.bisect_right([m.at for m in self.moments], since) - 1
        yield from (m for m in self.moments[max(first, 0) :] if m.at <= until)


@dataclass
class Broker:
    """One broker. `leads`: what it believes to lead, by key and epoch; right or long outdated.

    `view` is the metadata it answers with while it is cut off from the controllers, `kept` the logs
    of topics that were deleted meanwhile. `coordinates` is a belief, as `leads` is. `inbox` holds
    requests that arrived while it hung.
    """

    broker_id: int
    up: bool = True
    registered: bool = True
    hangs_until: float = 0.0
    cut_off_until: float = 0.0
    unreachable_until: float = 0.0  # for the host that plans and purges
    silent_since: float | None = None
    leads: dict[TopicPartition, int] = field(default_factory=dict)
    view: View | None = None
    kept: dict[TopicPartition, Partition] = field(default_factory=dict)
    learns_at: float | None = None
    slow_until: float = 0.0
    inbox: list[Callable[[], None]] = field(default_factory=list)
    coordinates: set[int] = field(default_factory=set)  # partitions of the offsets topic
    groups_then: dict[str, Told] | None = None  # as they were when it was cut off


@dataclass(frozen=True)
class View:
    """Metadata as a broker tells it: partitions by key, ids by topic, and who is registered.

    `coordinators`: leader and epoch of each partition of the offsets topic.
    """

    partitions: dict[TopicPartition, tuple[int | None, int, tuple[int, ...], tuple[int, ...]]]
    topic_ids: dict[str, str]
    alive: tuple[int, ...]
    coordinators: dict[int, tuple[int | None, int]]
