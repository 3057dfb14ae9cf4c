"""What a purge needs of a cluster: the seam between decisions and Kafka, faked in unit tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from dashboard.core.errors import RefusedError
from dashboard.domain.model import (
    Authorized,
    BatchSamples,
    BatchSpan,
    ConfigEntry,
    DeleteRecordsResult,
    EpochEnd,
    GroupListing,
    LeaderLogStart,
    LogDirsAnswer,
    OffsetAtTime,
    PartitionOffsets,
    Reassignment,
    ReplicaOffsets,
    TieredOffsets,
    TopicPartition,
    TopicState,
)
from dashboard.safety.guard_texts import guard


class Cluster(Protocol):
    """`dashboard.cluster.live.LiveCluster`, or a stand-in for it."""

    def cluster_id(self) -> str: ...
    def principal(self) -> str | None: ...
    def authorized(self, topics: Iterable[str], groups: Iterable[str]) -> Authorized: ...
    def alive_brokers(self) -> tuple[int, ...]: ...
    def alive_anywhere(self) -> tuple[int, ...]: ...
    def controller_time(self) -> datetime | None: ...
    def caught_up(self, brokers: Iterable[int]) -> dict[int, bool | None]: ...
    def topics(self, names: Iterable[str] | None) -> dict[str, TopicState]: ...
    def topics_at(
        self, topics: Mapping[int, Iterable[str]]
    ) -> dict[int, dict[str, TopicState] | str]: ...
    def configs(
        self, topics: Iterable[str], brokers: Iterable[int] = ()
    ) -> tuple[ConfigEntry, ...]: ...
    def offsets(
        self,
        partitions: Iterable[TopicPartition],
        topics: Mapping[str, TopicState] | None = None,
    ) -> dict[TopicPartition, PartitionOffsets]: ...
    def offsets_at(
        self, partitions: Iterable[TopicPartition], at: datetime
    ) -> dict[TopicPartition, OffsetAtTime]: ...
    def tiered_offsets(
        self,
        partitions: Iterable[TopicPartition],
        topics: Mapping[str, TopicState] | None = None,
    ) -> dict[TopicPartition, TieredOffsets]: ...
    def replica_offsets(
        self, partitions: Iterable[TopicPartition], brokers: Iterable[int] | None = None
    ) -> tuple[ReplicaOffsets, ...]: ...
    def leader_log_starts(
        self, epochs: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, LeaderLogStart]: ...
    def batches(
        self, offsets: Mapping[TopicPartition, Sequence[int]]
    ) -> dict[TopicPartition, BatchSamples]: ...
    def batch_spans(
        self, key: TopicPartition, offset: int, most_bytes: int, /
    ) -> tuple[BatchSpan, ...] | str: ...
    def own_configs(self, topics: Iterable[str]) -> dict[str, dict[str, str | None] | str]: ...
    def log_dirs(self, partitions: Iterable[TopicPartition] | None = None) -> LogDirsAnswer: ...
    def reassignments(self) -> tuple[Reassignment, ...]: ...
    def groups(self, topics: Iterable[str], *, with_offsets: bool = True) -> GroupListing: ...
    def epoch_ends(
        self, epochs: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, EpochEnd]: ...
    def delete_records(
        self,
        leader_id: int,
        targets: Mapping[TopicPartition, int],
        *,
        timeout_ms: int,
        leader_only: bool = False,
        may_leave: Callable[[], bool] = lambda: True,
    ) -> DeleteRecordsResult: ...
    def commit_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int],
        *,
        may_leave: Callable[[], bool] = lambda: True,
    ) -> dict[TopicPartition, str | None]: ...


def prove_cluster(live: Cluster, cluster_id: str) -> None:
    """The cluster reached is the one that was meant. Raises RefusedError CLUSTER_MISMATCH."""
    if (reached := live.cluster_id()) != cluster_id:
        text = guard("cluster-mismatch", planned=cluster_id, found=reached)
        raise RefusedError(text.reason, text.lift, code="CLUSTER_MISMATCH")
