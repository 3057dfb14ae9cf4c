"""ListOffsets v5 for tens of thousands of partitions: rows of one size, packed by numpy."""

from __future__ import annotations

import struct

import numpy as np

from dashboard.cluster.kafka_errors import error_name
from dashboard.cluster.list_offsets import Placed, ask_offsets
from dashboard.cluster.list_offsets_rows import VERSION
from dashboard.cluster.messages import ListOffsetsRequest
from dashboard.cluster.wire import Wire
from dashboard.columns import Ints, Names, Placement, keys, no_names, positions
from dashboard.model import TopicPartition

_ASKED = np.dtype([("partition", ">i4"), ("epoch", ">i4"), ("timestamp", ">i8")])
_FOUND = np.dtype(
    [("partition", ">i4"), ("error", ">i2"), ("at", ">i8"), ("offset", ">i8"), ("epoch", ">i4")]
)
_LEFT_OUT = -1  # UNKNOWN_SERVER_ERROR: an answer that leaves a partition out proves nothing


class Question:
    """Some partitions of a placement (`rows`, rising), asked as a consumer or as any replica."""

    def __init__(
        self, placement: Placement, rows: Ints, *, replica_id: int, with_epoch: bool
    ) -> None:
        self.names = placement.names
        self.topic, self.partition = placement.topic[rows], placement.partition[rows]
        self.epoch = placement.epoch[rows] if with_epoch else np.full(len(rows), -1)
        self.replica_id = replica_id
        self._first = np.flatnonzero(np.diff(self.topic, prepend=-1)).tolist()

    def ask(
        self, wire: Wire, deadline: float, timestamp: int, isolation: int = 0
    ) -> tuple[Ints, Names]:
        """Offset and error of each partition, in the order asked."""
        oldest = wire.oldest(ListOffsetsRequest)
        version = wire.version(ListOffsetsRequest, max(VERSION, oldest))
        if version != VERSION:
            return self._ask_schema(wire, deadline, timestamp, isolation)
        body = self.encode(timestamp, isolation)
        return wire.ask_raw(ListOffsetsRequest.API_KEY, version, body, self.decode, deadline)

    def encode(self, timestamp: int, isolation: int) -> bytes:
        """The request's body."""
        rows = np.empty(len(self.topic), _ASKED)
        rows["partition"], rows["epoch"], rows["timestamp"] = self.partition, self.epoch, timestamp
        packed = memoryview(rows.tobytes())
        parts: list[bytes | memoryview] = [
            struct.pack(">ibi", self.replica_id, isolation, len(self._first))
        ]
        ends = [*self._first[1:], len(rows)]
        for first, end in zip(self._first, ends, strict=False):
            name = self.names[self.topic[first]].encode()
            parts.append(struct.pack(f">h{len(name)}si", len(name), name, end - first))
            parts.append(packed[first * _ASKED.itemsize : end * _ASKED.itemsize])
        return b"".join(parts)

    def decode(self, body: memoryview[int]) -> tuple[Ints, Names]:
        """Offset and error of each partition, whatever the order of the answer.

        Raises struct.error or ValueError for an answer that is cut short or too long.
        """
        number = {self.names[self.topic[first]]: int(self.topic[first]) for first in self._first}
        topics: list[int] = []
        parts: list[memoryview] = []
        (count,) = struct.unpack_from(">i", body, 4)  # behind the throttle time
        at = 8
        for _ in range(count):
            (length,) = struct.unpack_from(">h", body, at)
            topics.append(number.get(str(body[at + 2 : at + 2 + length], "utf-8"), -1))
            (rows,) = struct.unpack_from(">i", body, at + 2 + length)
            first = at + 6 + length
            at = first + rows * _FOUND.itemsize
            parts.append(body[first:at])
        if at != len(body):
            raise ValueError("the answer is not as long as its rows")
        found = np.frombuffer(b"".join(parts), _FOUND)
        counts = [len(part) // _FOUND.itemsize for part in parts]
        topic = np.repeat(np.asarray(topics, np.int64), counts)
        return self._in_order(keys(topic, found["partition"].astype(np.int64)), found)

    def _in_order(self, given: Ints, found: np.ndarray) -> tuple[Ints, Names]:
        asked = keys(self.topic, self.partition)
        if np.array_equal(given, asked):
            return found["offset"].astype(np.int64), _error_names(found["error"])
        order = np.argsort(given, kind="stable")
        at, there = positions(asked, given[order])
        offsets, errors = np.full(len(asked), -1), np.full(len(asked), _LEFT_OUT)
        hit = order[at[there]]
        offsets[there], errors[there] = found["offset"][hit], found["error"][hit]
        return offsets, _error_names(errors)

    def _ask_schema(
        self, wire: Wire, deadline: float, timestamp: int, isolation: int
    ) -> tuple[Ints, Names]:
        rows = zip(self.topic.tolist(), self.partition.tolist(), self.epoch.tolist(), strict=True)
        wanted = [Placed(self.names[topic], partition, epoch) for topic, partition, epoch in rows]
        found = ask_offsets(
            wire, deadline, wanted, timestamp, replica_id=self.replica_id, isolation=isolation
        )
        offsets, errors = np.full(len(wanted), -1), _error_names(np.full(len(wanted), _LEFT_OUT))
        for row, (topic, partition, _) in enumerate(wanted):
            value = found.get(TopicPartition(topic, partition))
            if value is not None:
                offsets[row], errors[row] = value
        return offsets, errors


def _error_names(codes: np.ndarray) -> Names:
    names = no_names(len(codes))
    for code in np.unique(codes).tolist():
        if code:
            names[codes == code] = error_name(code)
    return names
