"""OffsetFetch v8 and v9 decoded row by row: ten thousand groups commit millions of offsets."""

from __future__ import annotations

import re
import struct
from typing import NamedTuple

from dashboard.cluster.protocol.messages import error_name, length, skip_tags, string
from dashboard.domain.model import GroupOffset

VERSIONS = (8, 9)  # many groups (KIP-709); v10 names topics by id alone
# Partition, offset, leader epoch, metadata (null or empty), error code, no tags.
_BARE = struct.Struct(">iqiBhB")
_METADATA, _TAGS = 16, 19  # where those two stand in it
_HEAD = struct.Struct(">iqi")
# Kafka Streams commits its stream time with each offset, in base 64 (TopicPartitionMetadata): a
# version, 1 or 2, then milliseconds since the epoch, -1 for none; since 3.4 more behind them.
_OF_STREAMS = re.compile(rb"A(?:QAA|gAA|f//|v//)[A-Za-z0-9+/]{8,}={0,2}")


class GroupRows(NamedTuple):
    """One group's committed offsets, or the error that hid them.

    `is_streams`: it committed in the way of a Kafka Streams application.
    """

    group_id: str
    error: str | None
    offsets: list[GroupOffset]
    is_streams: bool = False


def decode(body: memoryview[int]) -> list[GroupRows]:
    """Groups in the order of the answer. A partition without a commit has None.

    Raises IndexError, struct.error or ValueError for an answer that is cut short or too long.
    """
    count, at = length(body, 4)  # behind the throttle time
    groups = []
    for _ in range(count):
        group, at = _group(body, at)
        groups.append(group)
    if skip_tags(body, at) != len(body):
        raise ValueError("the answer is not as long as its rows")
    return groups


def is_of_streams(metadata: bytes) -> bool:
    """Whether a Kafka Streams application wrote this beside its offset."""
    return _OF_STREAMS.fullmatch(metadata) is not None


def _group(body: memoryview[int], at: int) -> tuple[GroupRows, int]:
    group_id, at = string(body, at)
    topics, at = length(body, at)
    offsets: list[GroupOffset] = []
    is_streams = False
    for _ in range(topics):
        topic, at = string(body, at)
        count, at = length(body, at)
        rows, of_streams, at = _rows(body, at, count)
        is_streams |= of_streams
        offsets += [
            GroupOffset(
                group_id,
                topic,
                partition,
                offset if offset >= 0 and not error else None,
                error_name(error) if error else None,
                epoch if epoch >= 0 and not error else None,
            )
            for partition, offset, epoch, error in rows
        ]
        at = skip_tags(body, at)
    (code,) = struct.unpack_from(">h", body, at)
    return GroupRows(group_id, error_name(code), offsets, is_streams), skip_tags(body, at + 2)


def _rows(
    body: memoryview[int], at: int, count: int
) -> tuple[list[tuple[int, int, int, int]], bool, int]:
    """Partition, offset, leader epoch and error code of each row, whether Streams wrote one, where
    they end.
    """
    end = at + count * _BARE.size
    if end <= len(body) and _bare(body[at:end]):
        bare = _BARE.iter_unpack(body[at:end])
        rows = [(p, offset, epoch, error) for p, offset, epoch, _, error, _ in bare]
        return rows, False, end
    rows = []
    of_streams = False
    for _ in range(count):
        partition, offset, epoch = _HEAD.unpack_from(body, at)
        size, at = length(body, at + _HEAD.size)  # the committer's own metadata
        of_streams = of_streams or is_of_streams(bytes(body[at : at + size]))
        at += size
        (error,) = struct.unpack_from(">h", body, at)
        at = skip_tags(body, at + 2)
        rows.append((partition, offset, epoch, error))
    return rows, of_streams, at


def _bare(rows: memoryview[int]) -> bool:
    """Whether no row has metadata or tags: then, one after another, all are of one size."""
    metadata, tags = bytes(rows[_METADATA :: _BARE.size]), bytes(rows[_TAGS :: _BARE.size])
    return not metadata.strip(b"\x00\x01") and not tags.strip(b"\x00")
