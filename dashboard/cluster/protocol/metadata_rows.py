"""Metadata v12 decoded row by row: a large cluster's has a million partitions in it."""

from __future__ import annotations

import base64
import struct
from typing import NamedTuple

from dashboard.cluster.connection.kafka_errors import error_name
from dashboard.cluster.protocol.compact import length, skip_tags, string
from dashboard.domain.model import PartitionState, TopicState

VERSION = 12  # topic ids since v10 (KIP-516)
_HEAD = struct.Struct(">hiii")  # error code, partition, leader, leader epoch
_INTS = [struct.Struct(f">{count}i") for count in range(64)]
_NO_ID = bytes(16)

Ids = tuple[int, ...]
Addresses = dict[int, tuple[str, int]]  # broker id -> host and port


class Metadata(NamedTuple):
    """Addresses of the alive brokers, whose cluster it is, and topics by name, sorted."""

    addresses: Addresses
    cluster_id: str
    topics: dict[str, TopicState]


def decode(body: memoryview[int]) -> Metadata:
    """What a body says.

    Raises IndexError, struct.error or ValueError for an answer that is cut short or too long.
    """
    count, at = length(body, 4)  # behind the throttle time
    brokers: Addresses = {}
    for _ in range(count):
        (broker,) = struct.unpack_from(">i", body, at)
        host, at = string(body, at + 4)
        (port,) = struct.unpack_from(">i", body, at)
        _, at = string(body, at + 4)  # rack
        at = skip_tags(body, at)
        brokers[broker] = (host, port)
    cluster_id, at = string(body, at)
    count, at = length(body, at + 4)  # behind the controller
    topics: list[TopicState] = []
    seen: dict[Ids, Ids] = {}
    for _ in range(count):
        topic, at = _topic(body, at, seen)
        topics.append(topic)
    if skip_tags(body, at) != len(body):
        raise ValueError("the answer is not as long as its rows")
    by_name = {t.topic: t for t in sorted(topics, key=lambda topic: topic.topic)}
    return Metadata(brokers, cluster_id, by_name)


def _topic(body: memoryview[int], at: int, seen: dict[Ids, Ids]) -> tuple[TopicState, int]:
    (error,) = struct.unpack_from(">h", body, at)
    name, at = string(body, at + 2)
    raw_id, internal = bytes(body[at : at + 16]), body[at + 16] != 0
    count, at = length(body, at + 17)
    partitions: list[PartitionState] = []
    for _ in range(count):
        partition, at = _partition(name, body, at, seen)
        partitions.append(partition)
    partitions.sort(key=lambda p: p.partition)
    at = skip_tags(body, at + 4)  # behind the asker's rights
    return TopicState(name, topic_id(raw_id), internal, tuple(partitions), error_name(error)), at


def _partition(
    topic: str, body: memoryview[int], at: int, seen: dict[Ids, Ids]
) -> tuple[PartitionState, int]:
    error, partition, leader, epoch = _HEAD.unpack_from(body, at)
    replicas, at = _ids(body, at + _HEAD.size, seen)
    isr, at = _ids(body, at, seen)
    _, at = _ids(body, at, seen)  # offline replicas
    state = PartitionState(
        topic,
        partition,
        leader if leader >= 0 else None,
        epoch if epoch >= 0 else None,
        replicas,
        isr,
        error_name(error) if error else None,
    )
    return state, skip_tags(body, at)


def _ids(body: memoryview[int], at: int, seen: dict[Ids, Ids]) -> tuple[Ids, int]:
    """Broker ids. Equal ones are kept once: a million partitions share some hundred lists."""
    count, at = length(body, at)
    packed = _INTS[count] if count < len(_INTS) else struct.Struct(f">{count}i")
    found = packed.unpack_from(body, at)
    return seen.setdefault(found, found), at + packed.size


def topic_id(raw: bytes) -> str | None:
    """Kafka's spelling of a topic id (org.apache.kafka.common.Uuid): base64url, no padding."""
    if raw == _NO_ID:
        return None
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
