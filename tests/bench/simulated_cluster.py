"""A generated cluster of any size: every value is arithmetic of a seed, so the truth is known."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

OFFSETS_TOPIC = "__consumer_offsets"
OFFSETS_PARTITIONS = 50
REPLICAS = 3
READERS = 2  # groups that commit on each topic
LOG_DIRS = ("/data/a", "/data/b")
DIR_BYTES, USABLE_BYTES = 8 << 40, 3 << 40
_SIZES = (12, 384, 24, 96, 192, 48)  # partitions of one topic after another
STATES = ("Stable", "Stable", "Empty")
TYPES = ("classic", "consumer", "classic")


@dataclass(frozen=True)
class SimulatedCluster:
    """`partitions` partitions in topics of mixed sizes, `__consumer_offsets` besides them.

    Partitions have one global number each: topics in the order of their names, then partitions.
    """

    partitions: int
    brokers: int
    groups: int
    seed: int = 1

    @property
    def cluster_id(self) -> str:
        return f"simulated-{self.partitions}-{self.brokers}-{self.groups}-{self.seed}"

    @property
    def broker_ids(self) -> range:
        return range(1, self.brokers + 1)

    @cached_property
    def counts(self) -> list[int]:
        """Partitions of each topic."""
        counts = [OFFSETS_PARTITIONS]
        left = self.partitions
        while left:
            counts.append(min(left, _SIZES[len(counts) % len(_SIZES)]))
            left -= counts[-1]
        return counts

    @cached_property
    def names(self) -> list[str]:
        """Names of topics, sorted; underscores sort before letters."""
        return [OFFSETS_TOPIC, *(f"topic-{n:06d}" for n in range(1, len(self.counts)))]

    @cached_property
    def number(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    @cached_property
    def first(self) -> Ints:
        """Global number of each topic's first partition, and one past the last."""
        return np.concatenate([[0], np.cumsum(self.counts)]).astype(np.int64)

    @cached_property
    def first_of(self) -> dict[str, int]:
        """Global number of the first partition, by topic."""
        return dict(zip(self.names, self.first.tolist(), strict=False))

    @cached_property
    def topic(self) -> Ints:
        """Topic number of each partition."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    @cached_property
    def partition(self) -> Ints:
        """Each partition's number in its topic."""
        return np.arange(len(self.topic)) - self.first[self.topic]

    @cached_property
    def replicas(self) -> Ints:
        """Broker ids, one row of `min(3, brokers)` per partition; the first one leads."""
        step = 1 + self.topic % max(1, (self.brokers - 1) // 2)
        place = self.noise(0)[:, None] + np.arange(min(REPLICAS, self.brokers)) * step[:, None]
        return np.asarray(place % self.brokers + 1)

    @cached_property
    def shrunk(self) -> npt.NDArray[np.bool_]:
        """Whether the last replica is out of the ISR."""
        return np.asarray((self.noise(1) % 97 == 0) & (self.replicas.shape[1] > 1))

    @cached_property
    def leader_epoch(self) -> Ints:
        return np.asarray(self.noise(2) % 50)

    @cached_property
    def log_start(self) -> Ints:
        """Log start offset of the leader."""
        return np.asarray(self.noise(3) % 1_000_000)

    @cached_property
    def high_watermark(self) -> Ints:
        return np.asarray(self.log_start + self.noise(4) % 10_000_000)

    @cached_property
    def last_stable(self) -> Ints:
        """Below the high watermark where a transaction is open."""
        return np.asarray(self.high_watermark - np.where(self.noise(5) % 13 == 0, 1, 0)).clip(
            self.log_start
        )

    @cached_property
    def committed(self) -> Ints:
        """What the first reader of each partition committed; the next ones one less each."""
        span = self.high_watermark - self.log_start
        return np.asarray(self.log_start + READERS + span * (self.noise(6) % 100) // 100)

    @cached_property
    def at_broker(self) -> dict[int, tuple[Ints, Ints]]:
        """Broker id -> partitions it has a replica of, rising, and which of their replicas."""
        found = {}
        for broker in self.broker_ids:
            partitions, position = np.nonzero(self.replicas == broker)
            found[broker] = (partitions, position)
        return found

    def replica_offsets(self, partitions: Ints, position: Ints) -> tuple[Ints, Ints]:
        """Log start and log end of replicas: followers start a little later and end earlier."""
        start = self.log_start[partitions] + np.minimum(position, self._records(partitions))
        return start, np.maximum(start, self.high_watermark[partitions] + 2 - position)

    def sizes(self, partitions: Ints, position: Ints) -> Ints:
        """Bytes of replicas."""
        return np.asarray(self._records(partitions) * 120 + position)

    def log_dir(self, partitions: Ints) -> Ints:
        """Index in LOG_DIRS of the replicas of partitions, the same on each broker."""
        return np.asarray(self.noise(7)[partitions] % len(LOG_DIRS))

    def topic_id(self, number: int) -> UUID:
        return UUID(int=(self.seed << 64) + number + 1)

    def topic_id_text(self, number: int) -> str:
        """As Kafka prints it."""
        return base64.urlsafe_b64encode(self.topic_id(number).bytes).decode().rstrip("=")

    def group_id(self, number: int) -> str:
        return f"group-{number:05d}"

    @cached_property
    def coordinated(self) -> dict[int, list[int]]:
        """Broker id -> groups it coordinates: it leads their partition of the offsets topic."""
        found: dict[int, list[int]] = {broker: [] for broker in self.broker_ids}
        for group in range(self.groups):
            found[int(self.replicas[group % OFFSETS_PARTITIONS, 0])].append(group)
        return found

    def group_type(self, group: int) -> str:
        return TYPES[group % len(TYPES)]

    def group_state(self, group: int) -> str:
        return STATES[group % len(STATES)]

    @cached_property
    def reads(self) -> dict[int, list[tuple[int, int]]]:
        """Group -> the topics it commits on, each with which of its readers it is."""
        found: dict[int, list[tuple[int, int]]] = {n: [] for n in range(self.groups)}
        for topic in range(1, len(self.names)):
            for reader in range(min(READERS, self.groups)):
                found[(topic * READERS + reader) % self.groups].append((topic, reader))
        return found

    def noise(self, salt: int) -> Ints:
        """One number of at most 40 bits per partition (splitmix64 of seed, salt and number)."""
        number = np.arange(len(self.topic), dtype=np.uint64)
        mixed = number + np.uint64((self.seed * 1000 + salt) * 0x9E3779B97F4A7C15 % (1 << 64))
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        return (mixed >> np.uint64(24)).astype(np.int64)

    def _records(self, partitions: Ints) -> Any:
        return self.high_watermark[partitions] - self.log_start[partitions]
