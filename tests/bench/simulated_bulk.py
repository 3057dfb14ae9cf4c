"""The large answers of the broker simulator, packed by numpy: their size follows the cluster's."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from tests.bench.simulated_cluster import (
    DIR_BYTES,
    LOG_DIRS,
    OFFSETS_TOPIC,
    USABLE_BYTES,
    Ints,
    SimulatedCluster,
)

EARLIEST, ANY_REPLICA = -2, -2
_ASKED = np.dtype([("partition", ">i4"), ("epoch", ">i4"), ("timestamp", ">i8")])
_OFFSET = np.dtype(
    [("partition", ">i4"), ("error", ">i2"), ("at", ">i8"), ("offset", ">i8"), ("epoch", ">i4")]
)
_SIZE = np.dtype(
    [("partition", ">i4"), ("size", ">i8"), ("lag", ">i8"), ("future", "i1"), ("tags", "i1")]
)
_COMMITTED = np.dtype(
    [
        ("partition", ">i4"), ("offset", ">i8"), ("epoch", ">i4"), ("metadata", "i1"),
        ("error", ">i2"), ("tags", "i1"),
    ]
)  # fmt: skip
NOT_LEADER, UNKNOWN_TOPIC = 6, 3


def varint(value: int) -> bytes:
    """An unsigned varint."""
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def text(value: str | None) -> bytes:
    """A compact string."""
    raw = (value or "").encode()
    return b"\x00" if value is None else varint(len(raw) + 1) + raw


class Metadata:
    """Metadata v12: topics are encoded once, the brokers' addresses follow the ports."""

    def __init__(self, truth: SimulatedCluster, ports: dict[int, int]) -> None:
        self._truth = truth
        brokers = b"".join(
            struct.pack(">i", broker)
            + text("127.0.0.1")
            + struct.pack(">i", port)
            + text(None)
            + b"\x00"
            for broker, port in sorted(ports.items())
        )
        self._head = (
            struct.pack(">i", 0) + varint(len(ports) + 1) + brokers
            + text(truth.cluster_id) + struct.pack(">i", min(ports))
        )  # fmt: skip
        self._rows = self._encode_partitions()

    def answer(self, names: list[str] | None) -> bytes:
        """All topics for None; one that is not there carries its error."""
        wanted = self._truth.names if names is None else names
        return b"".join(
            [self._head, varint(len(wanted) + 1), *(self._topic(n) for n in wanted), b"\x00"]
        )

    def _topic(self, name: str) -> bytes:
        number = self._truth.number.get(name)
        if number is None:
            head = struct.pack(">h", UNKNOWN_TOPIC) + text(name) + bytes(16) + b"\x00\x01"
            return head + struct.pack(">ib", -(1 << 31), 0)
        first, last = self._truth.first[number : number + 2]
        return b"".join(
            [
                bytes(2), text(name), self._truth.topic_id(number).bytes,
                b"\x01" if name == OFFSETS_TOPIC else b"\x00", varint(int(last - first) + 1),
                *self._rows[first:last], struct.pack(">ib", -(1 << 31), 0),
            ]
        )  # fmt: skip

    def _encode_partitions(self) -> list[bytes]:
        truth = self._truth
        width = truth.replicas.shape[1]
        rows: list[bytes] = [b""] * len(truth.topic)
        for shrunk in (False, True):
            there = np.flatnonzero(truth.shrunk == shrunk)
            isr = width - shrunk
            row = np.zeros(len(there), np.dtype(_partition_fields(width, isr)))
            row["partition"], row["leader"] = truth.partition[there], truth.replicas[there, 0]
            row["epoch"] = truth.leader_epoch[there]
            row["replica_count"], row["replicas"] = width + 1, truth.replicas[there]
            row["isr_count"], row["isr"] = isr + 1, truth.replicas[there, :isr]
            row["offline_count"] = 1
            size, packed = row.dtype.itemsize, row.tobytes()
            for at, number in enumerate(there.tolist()):
                rows[number] = packed[at * size : (at + 1) * size]
        return rows


def _partition_fields(width: int, isr: int) -> list[Any]:
    return [
        ("error", ">i2"), ("partition", ">i4"), ("leader", ">i4"), ("epoch", ">i4"),
        ("replica_count", "i1"), ("replicas", ">i4", (width,)), ("isr_count", "i1"),
        ("isr", ">i4", (isr,)), ("offline_count", "i1"), ("tags", "i1"),
    ]  # fmt: skip


def list_offsets(truth: SimulatedCluster, broker: int, body: memoryview[int]) -> bytes:
    """ListOffsets v5: a leader's offsets for consumers, a replica's own for replica id -2."""
    replica_id, isolation, topics = struct.unpack_from(">ibi", body)
    heads: list[memoryview[int]] = []
    asked: list[memoryview[int]] = []
    firsts: list[int] = []
    at = 9
    for _ in range(topics):
        (length,) = struct.unpack_from(">h", body, at)
        (count,) = struct.unpack_from(">i", body, at + 2 + length)
        firsts.append(truth.first_of[str(body[at + 2 : at + 2 + length], "utf-8")])
        first = at + 6 + length
        heads.append(body[at:first])
        at = first + count * _ASKED.itemsize
        asked.append(body[first:at])
    rows = np.frombuffer(b"".join(asked), _ASKED)
    counts = [len(part) // _ASKED.itemsize for part in asked]
    partitions = np.repeat(np.array(firsts, np.int64), counts) + rows["partition"]
    if replica_id == ANY_REPLICA:
        found = _of_replicas(truth, broker, partitions)
    else:
        found = _of_leaders(truth, broker, partitions, isolation)
    packed = memoryview(_offsets(truth, rows, partitions, found))
    parts: list[bytes | memoryview[int]] = [struct.pack(">ii", 0, topics)]
    at = 0
    for head, count in zip(heads, counts, strict=True):
        parts += [head, packed[at : at + count * _OFFSET.itemsize]]
        at += count * _OFFSET.itemsize
    return b"".join(parts)


def _of_replicas(truth: SimulatedCluster, broker: int, partitions: Ints) -> tuple[Any, Any, Any]:
    """Start, end and whether the broker may answer, of each partition."""
    here = truth.replicas[partitions] == broker
    return *truth.replica_offsets(partitions, here.argmax(axis=1)), here.any(axis=1)


def _of_leaders(
    truth: SimulatedCluster, broker: int, partitions: Ints, isolation: int
) -> tuple[Any, Any, Any]:
    ends = truth.last_stable if isolation else truth.high_watermark
    leads = truth.replicas[partitions, 0] == broker
    return truth.log_start[partitions], ends[partitions], leads


def _offsets(
    truth: SimulatedCluster, asked: Any, partitions: Ints, found: tuple[Any, Any, Any]
) -> bytes:
    start, end, answers = found
    rows = np.zeros(len(asked), _OFFSET)
    rows["partition"], rows["at"] = asked["partition"], -1
    rows["error"] = np.where(answers, 0, NOT_LEADER)
    rows["offset"] = np.where(answers, np.where(asked["timestamp"] == EARLIEST, start, end), -1)
    rows["epoch"] = truth.leader_epoch[partitions]
    return rows.tobytes()


def log_dirs(truth: SimulatedCluster, broker: int) -> bytes:
    """DescribeLogDirs v4 of one broker, all topics."""
    partitions, position = truth.at_broker[broker]
    place = truth.log_dir(partitions)
    parts = [struct.pack(">ih", 0, 0), varint(len(LOG_DIRS) + 1)]
    for index, path in enumerate(LOG_DIRS):
        there, which = partitions[place == index], position[place == index]
        rows = np.zeros(len(there), _SIZE)
        rows["partition"], rows["size"] = truth.partition[there], truth.sizes(there, which)
        numbers, firsts = np.unique(truth.topic[there], return_index=True)
        ends = [*firsts[1:].tolist(), len(there)]
        packed, size = rows.tobytes(), rows.dtype.itemsize
        parts += [struct.pack(">h", 0), text(path), varint(len(numbers) + 1)]
        for number, first, end in zip(numbers.tolist(), firsts.tolist(), ends, strict=True):
            parts += [text(truth.names[number]), varint(end - first + 1)]
            parts += [packed[first * size : end * size], b"\x00"]
        parts.append(struct.pack(">qqb", DIR_BYTES, USABLE_BYTES, 0))
    return b"".join([*parts, b"\x00"])


def committed(truth: SimulatedCluster, groups: list[str]) -> bytes:
    """OffsetFetch v8 and v9 of whole groups."""
    parts = [struct.pack(">i", 0), varint(len(groups) + 1)]
    for group_id in groups:
        reads = truth.reads[int(group_id.rpartition("-")[2])]
        parts += [text(group_id), varint(len(reads) + 1)]
        for topic, reader in reads:
            first, last = truth.first[topic : topic + 2]
            rows = np.zeros(last - first, _COMMITTED)
            rows["partition"] = np.arange(last - first)
            rows["offset"] = truth.committed[first:last] - reader
            rows["epoch"], rows["metadata"] = -1, 1
            parts += [text(truth.names[topic]), varint(len(rows) + 1), rows.tobytes(), b"\x00"]
        parts.append(b"\x00\x00\x00")
    return b"".join([*parts, b"\x00"])
