"""A cluster of 100,000 partitions behind the seam, made from arithmetic: what planning costs us."""

# ruff: noqa: ARG002  (the seam's arguments, of which a stand-in needs few)
from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from dashboard.domain.model import (
    ConfigEntry,
    EpochEnd,
    Group,
    GroupListing,
    GroupOffset,
    LogDirsAnswer,
    OffsetAtTime,
    PartitionOffsets,
    PartitionState,
    ReplicaSize,
    TopicPartition,
    TopicState,
)
from tests.support.cluster import FakeCluster

CLUSTER_ID = "large"
BROKERS = (1, 2, 3)
GROUPS = 200
GROUPS_PER_TOPIC = 3
START, COMMITTED, END = 1_000, 50_000, 90_000


class LargeCluster(FakeCluster):
    """`partitions` in topics of 100, three replicas each; three groups read each topic whole.

    Values are made before any clock runs; each method hands them out as the live cluster does:
    what the fake would make of its state at each call would be measured as planning.
    """

    def __init__(self, partitions: int) -> None:
        super().__init__(0)
        self.id = CLUSTER_ID
        names = [f"topic-{n:05d}" for n in range(partitions // 100)]
        self.keys = [TopicPartition(name, p) for name in names for p in range(100)]
        self._topics = {
            name: TopicState(name, f"id-{name}", False, tuple(_state(name, p) for p in range(100)))
            for name in names
        }
        self._of_leaders = {k: PartitionOffsets(*k, START, END, END) for k in self.keys}
        self._log_dirs = LogDirsAnswer(
            (),
            tuple(ReplicaSize(b, "/d", *k, 1 << 30, 0, False) for k in self.keys for b in BROKERS),
            {},
        )
        self._groups = self._listing()

    def _listing(self) -> GroupListing:
        offsets = [
            GroupOffset(f"group-{(number // 100 + n) % GROUPS:03d}", *key, COMMITTED + n)
            for number, key in enumerate(self.keys)
            for n in range(GROUPS_PER_TOPIC)
        ]
        names = sorted({offset.group_id for offset in offsets})  # one without any may read all
        groups = tuple(Group(name, "classic", "Empty", 0, ()) for name in names)
        return GroupListing(groups, tuple(sorted(offsets, key=lambda o: o.group_id)))

    def topics(self, names: Iterable[str] | None) -> dict[str, TopicState]:
        return {n: self._topics[n] for n in (self._topics if names is None else names)}

    def topics_at(
        self, topics: Mapping[int, Iterable[str]]
    ) -> dict[int, dict[str, TopicState] | str]:
        return {b: {n: self._topics[n] for n in names} for b, names in topics.items()}

    def configs(
        self, topics: Iterable[str], brokers: Iterable[int] = ()
    ) -> tuple[ConfigEntry, ...]:
        return tuple(
            ConfigEntry("topic", topic, "cleanup.policy", "delete", "DEFAULT_CONFIG")
            for topic in topics
        )

    def offsets(
        self,
        partitions: Iterable[TopicPartition],
        topics: Mapping[str, TopicState] | None = None,
    ) -> dict[TopicPartition, PartitionOffsets]:
        return {key: self._of_leaders[key] for key in partitions}

    def offsets_at(
        self, partitions: Iterable[TopicPartition], at: datetime
    ) -> dict[TopicPartition, OffsetAtTime]:
        return {key: OffsetAtTime(*key, COMMITTED) for key in partitions}

    def log_dirs(self, partitions: Iterable[TopicPartition] | None = None) -> LogDirsAnswer:
        return self._log_dirs

    def groups(self, topics: Iterable[str], *, with_offsets: bool = True) -> GroupListing:
        return self._groups

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
        return {key: EpochEnd(*key, epoch, END) for key, epoch in epochs.items()}


def _state(topic: str, partition: int) -> PartitionState:
    return PartitionState(topic, partition, BROKERS[partition % 3], 3, BROKERS, BROKERS)
