"""One ListOffsets question to one broker, and the bounded retry that reads of leaders share."""

from __future__ import annotations

import struct
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from dashboard.cluster.connection.connection import Connection
from dashboard.cluster.connection.wire import Wire
from dashboard.cluster.protocol.messages import (
    RETRIABLE_READ_ERRORS,
    ListOffsetsRequest,
    error_name,
)
from dashboard.cluster.topics import read_topics
from dashboard.core.errors import ClusterError
from dashboard.domain.model import PartitionState, TopicPartition, TopicState

EARLIEST_LOCAL = -4  # KIP-405
LATEST_TIERED = -5  # KIP-1005
EARLIEST = -2
LATEST = -1
ANY_REPLICA = -2  # the "debugging consumer": followers answer it with their own offsets
CONSUMER = -1  # only the current leader answers it
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
_PAUSES_SECONDS = (0.15, 0.35, 0.7)
BROKER_ERRORS = frozenset({"BROKER_UNREACHABLE", "ANSWER_LOST"})


class FoundOffset(NamedTuple):
    """One partition of a ListOffsets answer; offset -1 stands for none found. Of a question for a
    time the record's own is told, in milliseconds since 1970; -1: none is.
    """

    offset: int
    error: str | None
    timestamp_ms: int = -1


# An answer may lack a partition that was asked for, a proxy's say: that proves nothing of it.
LEFT_OUT = FoundOffset(-1, "UNKNOWN_SERVER_ERROR")


class Placed(NamedTuple):
    """A partition and the leader epoch to ask with (-1: whatever the broker has)."""

    topic: str
    partition: int
    epoch: int


def ask_offsets(
    wire: Wire,
    deadline: float,
    partitions: Iterable[Placed],
    timestamp: int,
    *,
    replica_id: int = CONSUMER,
    isolation: int = READ_UNCOMMITTED,
    least: int = 0,
) -> dict[TopicPartition, FoundOffset]:
    """ListOffsets for many partitions in one request (KIP-79; leader epochs: KIP-320).

    `least`: the version that knows the timestamp's meaning. A broker that does not speak it would
    take it for a time, so it is not asked: UNSUPPORTED_VERSION.
    """
    # One version says all we ask in rows of one size: there are tens of thousands of partitions in
    # these requests. Another one only where a broker does not speak it.
    oldest = wire.oldest(ListOffsetsRequest)
    version = wire.version(ListOffsetsRequest, max(VERSION, oldest, least))
    if version < least:
        none = FoundOffset(-1, "UNSUPPORTED_VERSION")
        return {TopicPartition(topic, partition): none for topic, partition, _ in partitions}
    if version == VERSION:
        by_topic: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for topic, partition, epoch in partitions:
            by_topic[topic].append((partition, epoch))
        body = encode(by_topic, timestamp, replica_id, isolation)
        return wire.ask_raw(ListOffsetsRequest.API_KEY, version, body, _found, deadline)
    answer = wire.ask(
        lambda _: ListOffsetsRequest(
            version=version,
            replica_id=replica_id,
            isolation_level=isolation,
            topics=_topics(version, partitions, timestamp),
            timeout_ms=max(1, int((deadline - time.monotonic()) * 1000)),
        ),
        deadline,
    )
    return {
        TopicPartition(topic.name, p.partition_index): FoundOffset(
            p.offset, error_name(p.error_code), p.timestamp
        )
        for topic in answer.topics
        for p in topic.partitions
    }


def _found(answer: memoryview[int]) -> dict[TopicPartition, FoundOffset]:
    return {
        TopicPartition(topic, partition): FoundOffset(offset, error_name(error), timestamp_ms)
        for topic, partition, error, timestamp_ms, offset in decode(answer)
    }


def _topics(version: int, partitions: Iterable[Placed], timestamp: int) -> list[Any]:
    one_topic = ListOffsetsRequest.ListOffsetsTopic
    one = one_topic.ListOffsetsPartition
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for topic, partition, epoch in partitions:
        by_topic[topic].append(
            one(
                partition_index=partition,
                current_leader_epoch=epoch,
                timestamp=timestamp,
                version=version,
            )
        )
    return [one_topic(name=t, partitions=p, version=version) for t, p in by_topic.items()]


def from_leaders(
    connection: Connection,
    partitions: Iterable[TopicPartition],
    ask: Callable[[Wire, float, list[PartitionState]], Mapping[TopicPartition, Any]],
    *,
    topics: Mapping[str, TopicState] | None = None,
    keep: Callable[[Any], str | None] = lambda found: found.error,
) -> dict[TopicPartition, Any]:
    """Ask the leaders of partitions side by side; partition -> what `ask` found, or an error name.

    Errors that a moment cures are asked again at most three times with fresh metadata; `keep`
    tells the error inside a found value. `topics` saves the first metadata read.
    """
    results: dict[TopicPartition, Any] = {}
    pending = sorted(set(partitions))
    states = topics
    for pause in (*_PAUSES_SECONDS, None):
        if states is None:
            states = read_topics(connection, {p.topic for p in pending})
        results.update(_one_round(connection, pending, states, ask))
        pending = [p for p in pending if _again(results[p], keep)]
        if not pending or pause is None:
            break
        time.sleep(pause)
        states = None
    return results


def _again(found: Any, keep: Callable[[Any], str | None]) -> bool:
    error = found if isinstance(found, str) else keep(found)
    return error in RETRIABLE_READ_ERRORS or error in BROKER_ERRORS


def _one_round(
    connection: Connection,
    pending: list[TopicPartition],
    states: Mapping[str, TopicState],
    ask: Callable[[Wire, float, list[PartitionState]], Mapping[TopicPartition, Any]],
) -> dict[TopicPartition, Any]:
    results: dict[TopicPartition, Any] = {}
    by_leader: dict[int, list[PartitionState]] = defaultdict(list)
    known = {(s.topic, p.partition): p for s in states.values() for p in s.partitions}
    for wanted in pending:
        state = known.get(wanted)
        if state is None:
            topic = states.get(wanted.topic)
            results[wanted] = (topic.error if topic else None) or "UNKNOWN_TOPIC_OR_PARTITION"
        elif state.leader_id is None:
            results[wanted] = state.error or "LEADER_NOT_AVAILABLE"
        else:
            by_leader[state.leader_id].append(state)
    questions = {leader: _question(ask, group) for leader, group in by_leader.items()}
    for leader, answer in connection.ask_each(questions).items():
        failed = answer.code if isinstance(answer, ClusterError) else "UNKNOWN_SERVER_ERROR"
        found = {} if isinstance(answer, ClusterError) else answer
        for state in by_leader[leader]:
            key = TopicPartition(state.topic, state.partition)
            results[key] = found.get(key, failed)
    return results


def _question(
    ask: Callable[[Wire, float, list[PartitionState]], Mapping[TopicPartition, Any]],
    group: list[PartitionState],
) -> Callable[[Wire, float], Mapping[TopicPartition, Any]]:
    return lambda wire, deadline: ask(wire, deadline, group)


def placed(states: Iterable[PartitionState]) -> list[Placed]:
    """Partitions with the leader epoch of the metadata: a deposed leader then refuses."""
    return [
        Placed(s.topic, s.partition, -1 if s.leader_epoch is None else s.leader_epoch)
        for s in states
    ]


# ListOffsets v5 as rows of one size: encoded and decoded at once, not partition by partition.

VERSION = 5  # the last one before tagged fields, since Kafka 2.2
_FOUND = struct.Struct(">ihqqi")  # partition, error code, timestamp, offset, leader epoch


def encode(
    by_topic: Mapping[str, Sequence[tuple[int, int]]],
    timestamp: int,
    replica_id: int,
    isolation: int,
) -> bytes:
    """The request's body; `by_topic` maps a topic to (partition, current leader epoch) rows."""
    parts = [struct.pack(">ibi", replica_id, isolation, len(by_topic))]
    for topic, rows in by_topic.items():
        name = topic.encode()
        parts.append(struct.pack(f">h{len(name)}si", len(name), name, len(rows)))
        values = chain.from_iterable((partition, epoch, timestamp) for partition, epoch in rows)
        parts.append(struct.pack(">" + "iiq" * len(rows), *values))
    return b"".join(parts)


def decode(body: memoryview[int]) -> Iterator[tuple[str, int, int, int, int]]:
    """Topic, partition, error code, timestamp and offset of each row.

    Raises struct.error or ValueError for an answer that is cut short or too long.
    """
    (topics,) = struct.unpack_from(">i", body, 4)  # behind the throttle time
    at = 8
    for _ in range(topics):
        (length,) = struct.unpack_from(">h", body, at)
        topic = bytes(body[at + 2 : at + 2 + length]).decode()
        (rows,) = struct.unpack_from(">i", body, at + 2 + length)
        first = at + 6 + length
        at = first + rows * _FOUND.size
        for partition, error, timestamp, offset, _ in _FOUND.iter_unpack(body[first:at]):
            yield topic, partition, error, timestamp, offset
    if at != len(body):
        raise ValueError("the answer is not as long as its rows")
