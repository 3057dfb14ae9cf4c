"""OffsetFetch v8 and v9 decoded row by row: ten thousand groups commit millions of offsets."""

from __future__ import annotations

import struct
from typing import NamedTuple

from dashboard.cluster.compact import length, skip_tags, string
from dashboard.cluster.kafka_errors import error_name
from dashboard.model import GroupOffset

VERSIONS = (8, 9)  # many groups (KIP-709); v10 names topics by id alone
# Partition, offset, leader epoch, metadata (null or empty), error code, no tags.
_BARE = struct.Struct(">iqiBhB")
_METADATA, _TAGS = 16, 19  # where those two stand in it
_HEAD = struct.Struct(">iqi")


class GroupRows(NamedTuple):
    """One group's committed offsets, or the error that hid them."""

    group_id: str
    error: str | None
    offsets: list[GroupOffset]


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


def _group(body: memoryview[int], at: int) -> tuple[GroupRows, int]:
    group_id, at = string(body, at)
    topics, at = length(body, at)
    offsets: list[GroupOffset] = []
    for _ in range(topics):
        topic, at = string(body, at)
        count, at = length(body, at)
        rows, at = _rows(body, at, count)
        offsets += [
            GroupOffset(
                group_id,
                topic,
                partition,
                offset if offset >= 0 and not error else None,
                error_name(error) if error else None,
            )
            for partition, offset, error in rows
        ]
        at = skip_tags(body, at)
    (code,) = struct.unpack_from(">h", body, at)
    return GroupRows(group_id, error_name(code), offsets), skip_tags(body, at + 2)


def _rows(body: memoryview[int], at: int, count: int) -> tuple[list[tuple[int, int, int]], int]:
    """Partition, offset and error code of each row, and the position behind them."""
    end = at + count * _BARE.size
    if end <= len(body) and _bare(body[at:end]):
        rows = [(p, offset, error) for p, offset, _, _, error, _ in _BARE.iter_unpack(body[at:end])]
        return rows, end
    rows = []
    for _ in range(count):
        partition, offset, _ = _HEAD.unpack_from(body, at)
        size, at = length(body, at + _HEAD.size)  # the committer's own metadata
        at += size
        (error,) = struct.unpack_from(">h", body, at)
        at = skip_tags(body, at + 2)
        rows.append((partition, offset, error))
    return rows, at


def _bare(rows: memoryview[int]) -> bool:
    """Whether no row has metadata or tags: then, one after another, all are of one size."""
    metadata, tags = bytes(rows[_METADATA :: _BARE.size]), bytes(rows[_TAGS :: _BARE.size])
    return not metadata.strip(b"\x00\x01") and not tags.strip(b"\x00")
