"""The segments of every replica of a large cluster, made from arithmetic, one bucket at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dashboard.store.buckets import Buckets
from dashboard.store.snapshot_files import Part, Writer, part_name, write_part
from dashboard.store.tables import SNAPSHOT_TABLES
from tests.bench.large_history import BROKERS, Ints, Shape, logs_of, topics_of

_MINUTE = 60_000_000  # microseconds
_INDEXES = 20 << 10


def write_segments(writer: Writer, shape: Shape, step: int) -> None:
    """Write the segments of every replica's log into the snapshot, a file for each bucket."""
    topics = topics_of(shape, step)
    number = np.arange(shape.partitions, dtype=np.int64)
    topic_no, partition = shape.places(number)
    names = pa.DictionaryArray.from_arrays(topic_no.astype(np.int32), topics["topic"])
    rows = pa.table({"topic": names, "partition": partition})
    bucket = Buckets(writer.buckets).of(rows)
    parts: list[Part] = []
    for at in range(writer.buckets):
        own = np.flatnonzero(bucket == at)
        found = _segments(writer, shape, step, number[own], topics)
        file = part_name("segments", at, "0")
        path = writer.path
        parts.append((file, write_part(writer.fs, path, SNAPSHOT_TABLES["segments"], file, found)))
    writer.adopt("segments", parts)


def _segments(
    writer: Writer, shape: Shape, step: int, number: Ints, topics: dict[str, pa.Array]
) -> pa.Table:
    """Of some partitions on every broker, in the order of the table's key."""
    topic_no, partition = shape.places(number)
    folders = pa.array(
        [f"{topics['topic'][t]}-{p}" for t, p in zip(topic_no, partition.tolist(), strict=True)]
    )
    order = pa.compute.sort_indices(folders).to_numpy()
    number, topic_no, partition = number[order], topic_no[order], partition[order]
    folders = folders.take(pa.array(order))
    start, end, size = logs_of(shape, step, number)
    each = shape.segments
    nth = np.arange(each)
    wide = (start[:, None] + nth * np.maximum((end - start) // each, 1)[:, None]).ravel()
    held = ((nth + 1) * size[:, None] // each - nth * size[:, None] // each).ravel()
    one_broker = np.repeat(np.arange(len(number), dtype=np.int32), each)
    row = np.tile(one_broker, BROKERS)
    rows = len(row)

    def text(values: pa.Array, index: npt.NDArray[np.int32]) -> pa.Array:
        return pa.DictionaryArray.from_arrays(index, values)

    nothing = np.zeros(rows, dtype=np.int32)
    taken = int(writer.taken_at.timestamp() * 1e6)
    time = pa.timestamp("us", tz="UTC")
    return pa.table(
        {
            "snapshot_id": text(pa.array([writer.id]), nothing),
            "taken_at": pa.array(np.full(rows, taken), time),
            "broker_id": pa.array(np.repeat(np.arange(BROKERS), len(one_broker)), pa.int32()),
            "log_dir": text(pa.array(["/d1"]), nothing),
            "directory": text(folders, row),
            "base_offset": np.tile(wide, BROKERS),
            "topic": text(topics["topic"], topic_no.astype(np.int32)[row]),
            "partition": pa.array(partition[row], pa.int32()),
            "topic_id": text(topics["topic_id"], topic_no.astype(np.int32)[row]),
            "kind": text(pa.array(["live"]), nothing),
            "log_bytes": np.tile(held, BROKERS),
            "index_bytes": np.full(rows, _INDEXES),
            "allocated_bytes": np.tile(held, BROKERS) + _INDEXES,
            "scanned_at": pa.array(np.full(rows, taken - _MINUTE), time),
        }
    )
