"""Readings of a small cluster for tests of forecasts: three brokers, one topic."""

# ruff: noqa: ARG002  (the seam's arguments, of which a fake needs few)
from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta

from dashboard.domain.model import (
    GroupListing,
    PartitionState,
    ReplicaOffsets,
    TopicPartition,
    TopicState,
)
from dashboard.purge.forecast.reading import Reading
from tests.support.cluster import FakeCluster
from tests.unit.purge.facts_of import NOW, TOPIC

EVEN = {1: 100, 2: 100, 3: 100}
KEY = TopicPartition(TOPIC, 0)
Ends = Mapping[int, int | str]


def state(
    number: int = 0, leader: int | None = 1, isr: tuple[int, ...] = (1, 2, 3)
) -> PartitionState:
    return PartitionState(TOPIC, number, leader, 5, (1, 2, 3), isr)


def offsets(
    ends: Ends, *, seconds: float = 0, number: int = 0
) -> dict[tuple[int, TopicPartition], ReplicaOffsets]:
    """Each broker's log end offset, or the error that it answered with."""
    at = NOW + timedelta(seconds=seconds)
    return {
        (b, TopicPartition(TOPIC, number)): ReplicaOffsets(b, TOPIC, number, None, None, at, end)
        if isinstance(end, str)
        else ReplicaOffsets(b, TOPIC, number, 0, end, at)
        for b, end in ends.items()
    }  # fmt: skip


def reading(
    first: Ends,
    second: Ends | None = None,
    *,
    partition: PartitionState | None = None,
    **change: object,
) -> Reading:
    """One partition led by broker 1; the second look is two seconds later."""
    made = Reading(
        partitions={KEY: partition or state()},
        topic_ids={TOPIC: "id-1"},
        alive=frozenset({1, 2, 3}),
        first=offsets(first),
        second=offsets(second, seconds=2) if second else {},
        moving=frozenset(),
        log_dirs_unread=frozenset(),
        fetch_wait_ms={1: 500, 2: 500, 3: 500},
        versions={1: 2, 2: 2, 3: 2},
        read_at=NOW,
        seconds=0.2,
    )
    return replace(made, **change)  # type: ignore[arg-type]


class Answering(FakeCluster):
    """A healthy cluster that counts its looks at replicas; asking it for groups is an error."""

    def __init__(self, partitions: int = 1) -> None:
        super().__init__(partitions)
        self.looks = 0

    def replica_offsets(
        self,
        partitions: Iterable[TopicPartition],
        brokers: Iterable[int] | None = None,
        topics: Mapping[str, TopicState] | None = None,
    ) -> tuple[ReplicaOffsets, ...]:
        assert topics, "metadata is read once"
        self.looks += 1
        return super().replica_offsets(partitions, brokers)

    def groups(self, topics: Iterable[str], *, with_offsets: bool = True) -> GroupListing:
        raise AssertionError("a forecast needs no group")
