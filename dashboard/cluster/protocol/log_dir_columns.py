"""How many bytes each replica has in each log dir, as columns: DescribeLogDirs of every broker."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np

from dashboard.cluster.connection.connection import Connection
from dashboard.cluster.connection.kafka_errors import error_name
from dashboard.cluster.connection.wire import Wire
from dashboard.cluster.protocol.compact import length, skip_tags, string
from dashboard.cluster.protocol.messages import DescribeLogDirsRequest
from dashboard.core.errors import ClusterError
from dashboard.domain.columns import BrokerSizes, Sizes, ints
from dashboard.domain.model import LogDir

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
