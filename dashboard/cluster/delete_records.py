"""The one request that removes records: DeleteRecords v0-v3, sent raw, its answer kept whole."""

from __future__ import annotations

import struct
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dashboard.cluster.connection.connection import Connection, called_off
from dashboard.cluster.connection.wire import Wire
from dashboard.cluster.protocol.list_offsets import from_leaders
from dashboard.cluster.protocol.messages import (
    UNSUPPORTED_VERSION,
    DeleteRecordsRequest,
    FetchRequest,
    error_name,
)
from dashboard.core.errors import UsageError
from dashboard.domain.model import (
    LEADER_ONLY_SINCE,
    Batch,
    BatchSamples,
    BatchSpan,
    DeleteRecordsPartitionResult,
    DeleteRecordsResult,
    PartitionState,
    TopicPartition,
)

# The newest that a Kafka release defines: v3 is a proposal (KIP-1343), and its bytes may change.
_RELEASED = 2
_NO_ANSWER = -1  # UNKNOWN_SERVER_ERROR: proves nothing, so the leader has to be read


def delete_records(
    connection: Connection,
    leader_id: int,
    targets: Mapping[TopicPartition, int],
    *,
    timeout_ms: int,
    leader_only: bool = False,
    may_leave: Callable[[], bool] = lambda: True,
) -> DeleteRecordsResult:
    """Delete all records below each target (exclusive) on their leader (KIP-107).

    The version is the leader's highest, v2 at most: v3 is spoken for `leader_only` alone, which on
    a leader without it sends nothing and says UNSUPPORTED_VERSION for each partition. Sent once,
    on its own connection, and never repeated. `may_leave` is asked once the connection stands,
    since connecting, TLS and signing in may take as long as a broker is waited for. Raises
    UsageError for a negative target; BrokerError ANSWER_LOST when the leader may have truncated:
    then it must be read; any other code (NOT_SENT: it may not leave) when nothing was sent.
    """
    _refuse_negative(targets)
    sent_version: list[int] = []

    def ask(wire: Wire, deadline: float) -> Any:
        version = wire.version(DeleteRecordsRequest, None if leader_only else _RELEASED)
        sent_version.append(version)
        if leader_only and version < LEADER_ONLY_SINCE:
            return None
        request = _request(version, targets, timeout_ms, leader_only)
        if not may_leave():
            raise called_off("the request was", "it stands")
        return wire.ask_now_or_never(lambda _: request, deadline)

    # The leader waits up to timeout_ms for its followers, then still has to answer.
    patience = timeout_ms / 1000 + connection.timeout_seconds
    answer = connection.ask(leader_id, ask, patience=patience, once=True)
    found = {} if answer is None else _by_partition(answer)
    absent = UNSUPPORTED_VERSION if answer is None else _NO_ANSWER
    results = tuple(found.get(key) or _failed(key, absent) for key in sorted(targets))
    return DeleteRecordsResult(leader_id, sent_version[-1], results, sent=answer is not None)


def _refuse_negative(targets: Mapping[TopicPartition, int]) -> None:
    for key, target in sorted(targets.items()):
        if target < 0:
            raise UsageError(
                f"the target of {key.topic}-{key.partition} is {target}; below 0 is never sent",
                "Resolve the target to an offset first: -1 would empty the partition.",
                code="TARGET_NEGATIVE",
            )


def _request(
    version: int, targets: Mapping[TopicPartition, int], timeout_ms: int, leader_only: bool
) -> Any:
    one_topic = DeleteRecordsRequest.DeleteRecordsTopic
    one = one_topic.DeleteRecordsPartition
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for (topic, partition), offset in sorted(targets.items()):
        by_topic[topic].append(one(partition_index=partition, offset=offset, version=version))
    topics = [one_topic(name=t, partitions=p, version=version) for t, p in by_topic.items()]
    request = DeleteRecordsRequest(version=version, topics=topics, timeout_ms=timeout_ms)
    if version >= LEADER_ONLY_SINCE:
        request.leader_only = leader_only
    return request


def _by_partition(answer: Any) -> dict[TopicPartition, DeleteRecordsPartitionResult]:
    return {
        TopicPartition(topic.name, p.partition_index): DeleteRecordsPartitionResult(
            topic.name,
            p.partition_index,
            p.low_watermark,
            p.leader_log_start_offset,
            p.error_code,
            error_name(p.error_code),
        )
        for topic in answer.topics
        for p in topic.partitions
    }


def _failed(key: TopicPartition, code: int) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(key.topic, key.partition, -1, -1, code, error_name(code))


# Headers of record batches: a few at chosen offsets for their sizes, or all of a stretch for which
# offsets are in none of them. Raw Fetches; no record is decompressed.

_NAMES_UNTIL = 12  # v13 names topics by id (KIP-516)
_CONSUMER = -1
_LEFT_OUT = -1  # UNKNOWN_SERVER_ERROR: an answer that lacks the partition proves nothing of it
_NOT_IN_LOG = "OFFSET_OUT_OF_RANGE"
# Of a batch: base offset, length of what follows it, leader epoch, magic, checksum, attributes,
# last offset delta, base timestamp, max timestamp, producer's id, its epoch, base sequence, records
# (org.apache.kafka.common.record.DefaultRecordBatch).
_HEADER = struct.Struct(">qiibihiqqqhii")
_LENGTH_COUNTS_FROM = 12
_MAGIC = 2
_CONTROL = 0x20  # of the attributes


def read_batches(
    connection: Connection, offsets: Mapping[TopicPartition, Sequence[int]]
) -> dict[TopicPartition, BatchSamples]:
    """The batch that holds each offset, read from the partition's leader; needs READ on the topic.

    One Fetch of `max_bytes=1` per offset: Kafka then sends exactly one batch (KIP-74). An offset
    that is no longer in the log gives no batch. Never for topics with remote storage: there an
    old offset would be fetched from afar.
    """

    def ask(
        wire: Wire, deadline: float, group: list[PartitionState]
    ) -> dict[TopicPartition, BatchSamples]:
        patience = deadline - time.monotonic()  # each Fetch has the broker's time, not all of them
        found = {}
        for state in group:
            key = TopicPartition(state.topic, state.partition)
            found[key] = _sample(wire, patience, state, offsets[key])
        return found

    answers = from_leaders(connection, offsets, ask)
    return {
        key: BatchSamples(*key, (), found) if isinstance(found, str) else found
        for key, found in answers.items()
    }


def _sample(
    wire: Wire, patience: float, state: PartitionState, offsets: Sequence[int]
) -> BatchSamples:
    batches: list[Batch] = []
    for offset in offsets:
        error, records = _fetched(wire, time.monotonic() + patience, state, offset, 1)
        if error == _NOT_IN_LOG:
            continue
        if error:
            return BatchSamples(state.topic, state.partition, (), error)
        batch = first_batch(records)
        if batch is not None and (not batches or batch.base_offset > batches[-1].base_offset):
            batches.append(batch)
    return BatchSamples(state.topic, state.partition, tuple(batches))


def _fetched(
    wire: Wire, deadline: float, state: PartitionState, offset: int, most_bytes: int
) -> tuple[str | None, bytes]:
    """Kafka's error name and the raw batches of one Fetch; at least one batch, however large."""
    answer = wire.ask(_batches_request(state, offset, most_bytes), deadline)
    partition = _partition(answer, state)
    code = _LEFT_OUT if partition is None else partition.error_code
    error = error_name(answer.error_code or code)
    return error, b"" if error else bytes(partition.records or b"")


def _partition(answer: Any, state: PartitionState) -> Any:
    """What it says of the one partition that was asked for; None: nothing at all."""
    return next(
        (
            partition
            for topic in answer.responses
            for partition in topic.partitions
            if (topic.topic, partition.partition_index) == (state.topic, state.partition)
        ),
        None,
    )


def _batches_request(state: PartitionState, offset: int, most_bytes: int) -> Any:
    def make(wire: Wire) -> Any:
        version = wire.version(FetchRequest, _NAMES_UNTIL)
        one_topic = FetchRequest.FetchTopic
        partition = one_topic.FetchPartition(
            partition=state.partition,
            current_leader_epoch=-1 if state.leader_epoch is None else state.leader_epoch,
            fetch_offset=offset,
            partition_max_bytes=most_bytes,
            version=version,
        )
        return FetchRequest(
            version=version,
            replica_id=_CONSUMER,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=most_bytes,
            topics=[one_topic(topic=state.topic, partitions=[partition], version=version)],
            forgotten_topics_data=[],
        )

    return make


def first_batch(records: bytes) -> Batch | None:
    """The first batch of a Fetch answer; None for an empty one and for formats before v2."""
    if len(records) < _HEADER.size:
        return None
    base_offset, length, _, magic, _, _, last_delta, _, newest, *_ = _HEADER.unpack_from(records)
    if magic != _MAGIC:
        return None
    return Batch(
        base_offset, length + _LENGTH_COUNTS_FROM, last_delta + 1, newest if newest >= 0 else None
    )


def read_batch_spans(
    connection: Connection, key: TopicPartition, offset: int, most_bytes: int
) -> tuple[BatchSpan, ...] | str:
    """The headers of the batches from the one on that holds an offset, or comes next after it, as
    far as one Fetch of `most_bytes` goes: none at the log's end. Kafka's error name where the
    leader refuses, also for batches of a format before v2. Needs READ on the topic.
    """

    def ask(
        wire: Wire, deadline: float, group: list[PartitionState]
    ) -> dict[TopicPartition, tuple[BatchSpan, ...] | str]:
        (state,) = group
        error, records = _fetched(wire, deadline, state, offset, most_bytes)
        return {key: error or batch_spans(records)}

    found = from_leaders(connection, [key], ask, keep=lambda _: None)[key]
    return found if isinstance(found, str) else tuple(found)


def batch_spans(records: bytes) -> tuple[BatchSpan, ...] | str:
    """What the headers in a Fetch answer tell; the last batch may be cut. Of a format before v2,
    whose headers tell no count, Kafka's name for what it cannot do.
    """
    found, at = [], 0
    while at + _HEADER.size <= len(records):
        header = _HEADER.unpack_from(records, at)
        base_offset, length, epoch, magic, _, attributes, last_delta = header[:7]
        if magic != _MAGIC:
            return "UNSUPPORTED_FOR_MESSAGE_FORMAT"
        last, is_control = base_offset + last_delta, bool(attributes & _CONTROL)
        found.append(BatchSpan(base_offset, last, header[12], is_control, epoch))
        at += length + _LENGTH_COUNTS_FROM
    return tuple(found)
