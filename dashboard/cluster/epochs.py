"""Where a leader epoch ended: OffsetForLeaderEpoch (KIP-101, KIP-320)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from dashboard.cluster.connection.connection import Connection
from dashboard.cluster.connection.kafka_errors import error_name
from dashboard.cluster.connection.wire import Wire
from dashboard.cluster.protocol.list_offsets import from_leaders
from dashboard.cluster.protocol.messages import OffsetForLeaderEpochRequest
from dashboard.domain.model import EpochEnd, PartitionState, TopicPartition

_NOT_A_BROKER = -1


class _End(NamedTuple):
    epoch: int
    offset: int
    error: str | None


def read_epoch_ends(
    connection: Connection, epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, EpochEnd]:
    """The end offset of the largest epoch at most the one asked for, as the leader knows it.

    For the current epoch that is the log end. None without error: the leader knows no such
    epoch any more (its records are gone).
    """

    def ask(
        wire: Wire, deadline: float, states: list[PartitionState]
    ) -> dict[TopicPartition, _End]:
        answer = wire.ask(lambda at: _request(at, states, epochs), deadline)
        return {
            TopicPartition(topic.topic, p.partition): _End(
                p.leader_epoch, p.end_offset, error_name(p.error_code)
            )
            for topic in answer.topics
            for p in topic.partitions
        }

    found = from_leaders(connection, epochs, ask)
    return {key: _epoch_end(key, value) for key, value in sorted(found.items())}


def _request(at: Wire, states: list[PartitionState], epochs: Mapping[TopicPartition, int]) -> Any:
    version = at.version(OffsetForLeaderEpochRequest)
    one_topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    one = one_topic.OffsetForLeaderPartition
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for state in states:
        by_topic[state.topic].append(
            one(
                partition=state.partition,
                current_leader_epoch=-1 if state.leader_epoch is None else state.leader_epoch,
                leader_epoch=epochs[TopicPartition(state.topic, state.partition)],
                version=version,
            )
        )
    topics = [one_topic(topic=t, partitions=p, version=version) for t, p in by_topic.items()]
    return OffsetForLeaderEpochRequest(version=version, replica_id=_NOT_A_BROKER, topics=topics)


def _epoch_end(key: TopicPartition, found: _End | str) -> EpochEnd:
    if isinstance(found, str):
        return EpochEnd(key.topic, key.partition, None, None, found)
    if found.error:
        return EpochEnd(key.topic, key.partition, None, None, found.error)
    return EpochEnd(
        key.topic,
        key.partition,
        found.epoch if found.epoch >= 0 else None,
        found.offset if found.offset >= 0 else None,
    )
