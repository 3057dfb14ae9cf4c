"""Offsets of every partition and replica of a cluster, and what its log dirs hold, as columns.

Apart from `offsets` and `live`, since it loads numpy: only a collect asks for a whole cluster.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from dashboard.cluster.connection.connection import Connection
from dashboard.cluster.connection.wire import Wire
from dashboard.cluster.offsets import read_offsets
from dashboard.cluster.protocol.list_offsets import (
    ANY_REPLICA,
    BROKER_ERRORS,
    CONSUMER,
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    VERSION,
    Placed,
    ask_offsets,
)
from dashboard.cluster.protocol.messages import (
    RETRIABLE_READ_ERRORS,
    DescribeLogDirsRequest,
    ListOffsetsRequest,
    error_name,
    length,
    skip_tags,
    string,
)
from dashboard.core.clock import microseconds
from dashboard.core.errors import ClusterError
from dashboard.domain.columns import (
    BrokerSizes,
    Ints,
    LeaderOffsets,
    Names,
    OwnOffsets,
    Placement,
    Sizes,
    failed,
    ints,
    keys,
    no_names,
    positions,
)
from dashboard.domain.model import LogDir, TopicPartition

# A broker answers a request in one go: smaller ones let it serve others, and each has its time.
_ROWS_PER_REQUEST = 20_000


def read_leader_offsets(connection: Connection, placement: Placement) -> LeaderOffsets:
    """Log start, last stable offset and high watermark of every partition, from its leader.

    What a moment cures (an election, a restart) is asked again with fresh metadata.
    """
    count = len(placement.topic)
    found = [np.full(count, -1) for _ in range(3)]
    errors = no_names(count)
    errors[placement.leader < 0] = "LEADER_NOT_AVAILABLE"
    rows = {b: np.flatnonzero(placement.leader == b) for b in np.unique(placement.leader).tolist()}
    rows.pop(-1, None)
    questions = {broker: _in_parts(placement, part, _three) for broker, part in rows.items()}
    for broker, answer in connection.ask_each(questions).items():
        if isinstance(answer, ClusterError):
            errors[rows[broker]] = answer.code
            continue
        *columns, errors[rows[broker]] = answer
        for column, values in zip(found, columns, strict=True):
            column[rows[broker]] = values
    _ask_again(connection, placement, found, errors)
    for column in found:
        column[failed(errors)] = -1
    start, stable, high = found
    return LeaderOffsets(start, stable, high, errors)


def _ask_again(
    connection: Connection, placement: Placement, found: list[Ints], errors: Names
) -> None:
    curable = [e for e in set(errors.tolist()) if e in RETRIABLE_READ_ERRORS | BROKER_ERRORS]
    rows = np.flatnonzero(np.isin(errors.astype(str), curable)).tolist() if curable else []
    row_of = {
        TopicPartition(placement.names[placement.topic[row]], int(placement.partition[row])): row
        for row in rows
    }
    for key, value in (read_offsets(connection, row_of) if row_of else {}).items():
        row = row_of[key]
        errors[row] = value.error
        three = value.log_start_offset, value.last_stable_offset, value.high_watermark
        for column, offset in zip(found, three, strict=True):
            column[row] = -1 if offset is None else offset


def read_own_offsets(connection: Connection, placement: Placement) -> OwnOffsets:
    """Log start and log end of every replica, followers included (ListOffsets, replica id -2).

    The end is the log end offset, not the high watermark. A broker that does not answer costs its
    own rows.
    """
    count = len(placement.replica_of)
    start, end, observed = np.full(count, -1), np.full(count, -1), np.full(count, _now_us())
    errors = no_names(count)
    rows = {broker: placement.at_broker(broker) for broker in placement.brokers()}
    questions = {
        broker: _in_parts(placement, placement.replica_of[part], _two)
        for broker, part in rows.items()
    }
    for broker, answer in connection.ask_each(questions).items():
        part = rows[broker]
        if isinstance(answer, ClusterError):
            observed[part], errors[part] = _now_us(), answer.code
        else:
            start[part], end[part], observed[part], errors[part] = answer
    start[failed(errors)], end[failed(errors)] = -1, -1
    return OwnOffsets(start, end, observed, errors)


def _in_parts(
    placement: Placement, rows: Ints, ask: Callable[[Wire, float, Placement, Ints], tuple[Any, ...]]
) -> Callable[[Wire, float], tuple[Any, ...]]:
    """The question of one broker in parts, each of which has the broker's whole time."""

    def question(wire: Wire, deadline: float) -> tuple[Any, ...]:
        patience = deadline - time.monotonic()
        parts = [
            ask(wire, time.monotonic() + patience, placement, rows[at : at + _ROWS_PER_REQUEST])
            for at in range(0, len(rows), _ROWS_PER_REQUEST)
        ]
        return tuple(np.concatenate(column) for column in zip(*parts, strict=True))

    return question


def _three(wire: Wire, deadline: float, placement: Placement, rows: Ints) -> tuple[Any, ...]:
    asked = Question(placement, rows, replica_id=CONSUMER, with_epoch=True)
    start, first = asked.ask(wire, deadline, EARLIEST)
    stable, second = asked.ask(wire, deadline, LATEST, READ_COMMITTED)
    latest, third = asked.ask(wire, deadline, LATEST)
    return start, stable, latest, _first_of(first, second, third)


def _two(wire: Wire, deadline: float, placement: Placement, rows: Ints) -> tuple[Any, ...]:
    asked = Question(placement, rows, replica_id=ANY_REPLICA, with_epoch=False)
    start, first = asked.ask(wire, deadline, EARLIEST)
    end, second = asked.ask(wire, deadline, LATEST)
    return start, end, np.full(len(rows), _now_us()), _first_of(first, second)


def _first_of(first: Names, *others: Names) -> Names:
    for other in others:
        first = np.where(failed(first), first, other)
    return first


def _now_us() -> int:
    return microseconds(datetime.now(UTC))


# ListOffsets v5 for tens of thousands of partitions: rows of one size, packed by numpy.

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
                offsets[row], errors[row] = value.offset, value.error
        return offsets, errors


def _error_names(codes: np.ndarray) -> Names:
    names = no_names(len(codes))
    for code in np.unique(codes).tolist():
        if code:
            names[codes == code] = error_name(code)
    return names


# How many bytes each replica has in each log dir, as columns: DescribeLogDirs of every broker.

_FLEXIBLE_SINCE = 2
_ERROR_SINCE, _TOTALS_SINCE, _CORDONED_SINCE = 3, 4, 5  # KIP-784, KIP-827, KIP-1066
_ROW = np.dtype(
    [("partition", ">i4"), ("size", ">i8"), ("lag", ">i8"), ("future", "?"), ("tags", "u1")]
)


class _Dir(NamedTuple):
    """One log dir of an answer: its own fields, and its topics with their rows."""

    path: str
    error: str | None
    total_bytes: int
    usable_bytes: int
    topics: list[tuple[str, Any]]


class _Answer(NamedTuple):
    error: str | None
    dirs: list[_Dir]


def read_sizes(connection: Connection) -> Sizes:
    """Log dirs and replica sizes of all alive brokers; a broker that refused stands in `errors`.

    See `live.read_log_dirs`, which gives the same as records.
    """
    answers = connection.ask_each(dict.fromkeys(connection.broker_ids(), _ask))
    dirs: list[LogDir] = []
    brokers: dict[int, BrokerSizes] = {}
    errors: dict[int, str] = {}
    for broker_id, answer in sorted(answers.items()):
        refusal = answer.code if isinstance(answer, ClusterError) else _refusal(answer)
        if refusal:
            errors[broker_id] = refusal
            continue
        dirs += [_log_dir(broker_id, found) for found in answer.dirs]
        brokers[broker_id] = _sizes(answer.dirs)
    return Sizes(tuple(sorted(dirs, key=lambda d: (d.broker_id, d.log_dir))), brokers, errors)


def _ask(wire: Wire, deadline: float) -> _Answer:
    version = wire.version(DescribeLogDirsRequest)

    def request(_: Wire) -> Any:
        return DescribeLogDirsRequest(version=version, topics=None)

    if version >= _FLEXIBLE_SINCE:
        return wire.ask_rows(request, lambda body: decode(body, version), deadline)
    answer = wire.ask(request, deadline)
    return _Answer(None, [_from_schema(found) for found in answer.results])


def _refusal(answer: _Answer) -> str | None:
    # v1 and v2 have no top-level error: an answer without any log dir is taken for a refusal.
    return answer.error or (None if answer.dirs else "CLUSTER_AUTHORIZATION_FAILED")


def decode(body: memoryview[int], version: int) -> _Answer:
    """An answer of v2 to v5.

    Raises IndexError, struct.error or ValueError when it is cut short or too long.
    """
    error, at = 0, 4  # behind the throttle time
    if version >= _ERROR_SINCE:
        (error,) = struct.unpack_from(">h", body, at)
        at += 2
    count, at = length(body, at)
    dirs = []
    for _ in range(count):
        found, at = _decode_dir(body, at, version)
        dirs.append(found)
    if skip_tags(body, at) != len(body):
        raise ValueError("the answer is not as long as its rows")
    return _Answer(error_name(error), dirs)


def _decode_dir(body: memoryview[int], at: int, version: int) -> tuple[_Dir, int]:
    (error,) = struct.unpack_from(">h", body, at)
    path, at = string(body, at + 2)
    count, at = length(body, at)
    topics = []
    for _ in range(count):
        name, at = string(body, at)
        rows, at = length(body, at)
        found, at = _decode_rows(body, at, rows)
        topics.append((name, found))
        at = skip_tags(body, at)
    total, usable = -1, -1
    if version >= _TOTALS_SINCE:
        total, usable = struct.unpack_from(">qq", body, at)
        at += 16
    if version >= _CORDONED_SINCE:
        at += 1
    return _Dir(path, error_name(error), total, usable, topics), skip_tags(body, at)


def _decode_rows(body: memoryview[int], at: int, count: int) -> tuple[Any, int]:
    rows = np.frombuffer(body, _ROW, count, at)
    if not rows["tags"].any():
        return rows, at + rows.nbytes
    # A newer broker tagged some rows: they are no longer of one size.
    found = np.zeros(count, _ROW)
    for row in range(count):
        found[row] = np.frombuffer(body, _ROW, 1, at)[0]
        at = skip_tags(body, at + _ROW.itemsize - 1)
    return found, at


def _from_schema(found: Any) -> _Dir:
    topics = []
    for topic in found.topics:
        rows = [
            (p.partition_index, p.partition_size, p.offset_lag, p.is_future_key, 0)
            for p in topic.partitions
        ]
        topics.append((topic.name, np.array(rows, _ROW)))
    return _Dir(found.log_dir, error_name(found.error_code), -1, -1, topics)


def _log_dir(broker_id: int, found: _Dir) -> LogDir:
    total, usable = (
        value if value >= 0 else None for value in (found.total_bytes, found.usable_bytes)
    )
    return LogDir(broker_id, found.path, total, usable, found.error)


def _sizes(dirs: list[_Dir]) -> BrokerSizes:
    topics = [(index, name, rows) for index, d in enumerate(dirs) for name, rows in d.topics]
    counts = [len(rows) for _, _, rows in topics]
    rows = np.frombuffer(b"".join(rows.tobytes() for _, _, rows in topics), _ROW)
    return BrokerSizes(
        names=tuple(name for _, name, _ in topics),
        log_dirs=tuple(found.path for found in dirs),
        topic=np.repeat(np.arange(len(topics)), counts),
        log_dir=np.repeat(ints(index for index, _, _ in topics), counts),
        partition=rows["partition"].astype(np.int64),
        size_bytes=rows["size"].astype(np.int64),
        is_future=rows["future"].astype(bool),
    )
