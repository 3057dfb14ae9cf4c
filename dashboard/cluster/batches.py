"""A few record batches at chosen offsets, for their sizes alone: raw Fetches of one batch each."""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any

from dashboard.cluster.connection.connection import Connection
from dashboard.cluster.connection.kafka_errors import error_name
from dashboard.cluster.connection.wire import Wire
from dashboard.cluster.protocol.list_offsets import from_leaders
from dashboard.cluster.protocol.messages import FetchRequest
from dashboard.domain.model import Batch, BatchSamples, PartitionState, TopicPartition

_NAMES_UNTIL = 12  # v13 names topics by id (KIP-516)
_CONSUMER = -1
_LEFT_OUT = -1  # UNKNOWN_SERVER_ERROR: an answer that lacks the partition proves nothing of it
_NOT_IN_LOG = "OFFSET_OUT_OF_RANGE"
# Of a batch: base offset, length of what follows it, leader epoch, magic, checksum, attributes,
# last offset delta, base timestamp, max timestamp
# (org.apache.kafka.common.record.DefaultRecordBatch).
_HEADER = struct.Struct(">qiibihiqq")
_LENGTH_COUNTS_FROM = 12
_MAGIC = 2


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
        answer = wire.ask(_request(state, offset), time.monotonic() + patience)
        partition = _partition(answer, state)
        code = _LEFT_OUT if partition is None else partition.error_code
        error = error_name(answer.error_code or code)
        if error == _NOT_IN_LOG:
            continue
        if error:
            return BatchSamples(state.topic, state.partition, (), error)
        batch = first_batch(bytes(partition.records or b""))
        if batch is not None and (not batches or batch.base_offset > batches[-1].base_offset):
            batches.append(batch)
    return BatchSamples(state.topic, state.partition, tuple(batches))


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


def _request(state: PartitionState, offset: int) -> Any:
    def make(wire: Wire) -> Any:
        version = wire.version(FetchRequest, _NAMES_UNTIL)
        one_topic = FetchRequest.FetchTopic
        partition = one_topic.FetchPartition(
            partition=state.partition,
            current_leader_epoch=-1 if state.leader_epoch is None else state.leader_epoch,
            fetch_offset=offset,
            partition_max_bytes=1,
            version=version,
        )
        return FetchRequest(
            version=version,
            replica_id=_CONSUMER,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1,
            topics=[one_topic(topic=state.topic, partitions=[partition], version=version)],
            forgotten_topics_data=[],
        )

    return make


def first_batch(records: bytes) -> Batch | None:
    """The first batch of a Fetch answer; None for an empty one and for formats before v2."""
    if len(records) < _HEADER.size:
        return None
    base_offset, length, _, magic, _, _, last_delta, _, newest = _HEADER.unpack_from(records)
    if magic != _MAGIC:
        return None
    return Batch(
        base_offset, length + _LENGTH_COUNTS_FROM, last_delta + 1, newest if newest >= 0 else None
    )
