"""ListOffsets v5 as rows of one size: encoded and decoded at once, not partition by partition."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

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


def decode(body: memoryview[int]) -> Iterator[tuple[str, int, int, int]]:
    """Topic, partition, error code and offset of each row.

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
        for partition, error, _, offset, _ in _FOUND.iter_unpack(body[first:at]):
            yield topic, partition, error, offset
    if at != len(body):
        raise ValueError("the answer is not as long as its rows")
