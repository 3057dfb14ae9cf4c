"""Long tables lie in buckets: part files by a hash of topic and partition, a power of two of them.

All rows of one partition have one number, whatever table they are in, so each bucket of an analysis
is read, folded and written by itself. A bucket's number is a row's modulo 2^k: a bucket of 2^k is
exactly two of 2^(k+1), so a store goes on where a cluster grows or shrinks, and nothing that was
written before is written again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dashboard.core.arrow import in_order
from dashboard.domain import metric_names
from dashboard.store.snapshot_files import Part
from dashboard.store.tables import TableSpec, conform

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

# Those with a row per replica, partition, group and partition, segment, or topic and broker.
LONG: Mapping[str, frozenset[str]] = {
    "snapshots": frozenset(
        {
            *("partitions", "replicas", "group_offsets", "epoch_ends", "segments", "checkpoints"),
            "broker_metrics",
        }
    ),
    "findings": frozenset(
        {
            *("reclaimable", "holds", "former_readers", "curves", "trends", "slow_followers"),
            *("counters", "traffic", "last_writes", "reader_lags"),
        }
    ),
}
REPLICAS = 32_000  # in a bucket: enough that a task's start does not count, few enough for a worker
# Of three replicas each, as many as one task folds: of no more it is not worth another process.
PARTITIONS = REPLICAS // 3
_SEGMENTS = 16  # as many as a curve has knots without an inventory: so many weigh as a replica
# Kafka cuts longer topics in the names of -delete and -stray folders.
_NAME = 200
_MOST = 1 << 12


def count_for(replicas: int, segments: int = 0) -> int:
    """How many buckets so many replicas and segments of inventories are kept in: the power of two
    that is nearest.
    """
    weight = max(replicas, segments // _SEGMENTS, 1)
    return 1 << min(max(round(log2(weight / REPLICAS)), 0), _MOST.bit_length() - 1)


def numbers(topics: pa.Array, partitions: pa.Array) -> Words:
    """A number for each row that stays the same on every machine; 0 where either is null.

    The CRC-32 of the topic's name and the partition, scattered by splitmix64 (Steele, Lea, Flood:
    Fast splittable pseudorandom number generators, 2014).
    """
    coded = topics if pa.types.is_dictionary(topics.type) else topics.dictionary_encode()
    names = coded.dictionary.to_pylist()
    sums = np.array([crc32(str(name)[:_NAME].encode()) for name in names] or [0], dtype=np.uint64)
    index, known = _plain(coded.indices)
    partition, placed = _plain(partitions)
    mixed = _scattered(sums[index] << np.uint64(32) | partition.astype(np.uint64))
    return np.where(known & placed, mixed, np.uint64(0))


def _plain(values: pa.Array) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Whole numbers, 0 where they are null, and where they are not."""
    whole = pc.fill_null(values, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return whole, values.is_valid().to_numpy(zero_copy_only=False)


def _scattered(words: Words) -> Words:
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ words >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ words >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return words ^ words >> np.uint64(31)


@dataclass(frozen=True, slots=True)
class Buckets:
    """So many buckets, a power of two."""

    count: int

    def of(self, rows: pa.Table, topics: pa.Table | None = None) -> Ints:
        """The bucket of each row, by its `topic`, or its `topic_no` in `topics` (topic_no and topic
        of the same snapshot), and its `partition`; or by its `labels`, which name both. Rows of a
        table or labels without a partition lie with partition 0; what belongs to no topic, or to
        none of its partitions (null), lies in bucket 0.
        """
        there = set(rows.column_names)
        if "labels" in there:
            names, partitions = metric_names.places(_whole(rows["labels"]))
            partitions = pc.fill_null(partitions, 0)
        else:
            named = topics is None or "topic" in there
            names = _whole(rows["topic"]) if named else _numbered(rows["topic_no"], topics)
            apart = "partition" in there
            partitions = _whole(rows["partition"]) if apart else pa.repeat(0, rows.num_rows)
        found = numbers(names, partitions) % np.uint64(self.count)
        return np.asarray(found, dtype=np.int64)

    def parts(self, stored: int, bucket: int) -> range:
        """Which of `stored` buckets hold the rows of this one.

        Where fewer are stored, one holds them among others.
        """
        return range(bucket % stored, stored, self.count)


def files_of(files: Sequence[Part], topic: str, partitions: int) -> list[Part]:
    """Those of a long table's files in which rows of the topic's partitions can lie."""
    count = max(len(files), 1)
    rows = pa.table({"topic": pa.repeat(topic, partitions), "partition": range(partitions)})
    return [files[at] for at in sorted(set(Buckets(count).of(rows).tolist())) if files]


def _whole(values: pa.ChunkedArray) -> pa.Array:
    found = values.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found


def _numbered(numbers_of: pa.ChunkedArray, topics: pa.Table) -> pa.DictionaryArray:
    index = pc.index_in(_whole(numbers_of), value_set=_whole(topics["topic_no"]))
    return pa.DictionaryArray.from_arrays(index, _whole(topics["topic"]))


# The Parquet files of a table: whether they are what its manifest and the declared schema say.

_FEW = 10_000  # rows that are read whole, and by one thread, before others would have begun


class WrongTable(ValueError):
    """A file that is whole, but not the table that it should be; the text says how."""


def check(parquet: pq.ParquetFile, spec: TableSpec, rows: int) -> None:
    """Refuse a file by its footer alone. Raises WrongTable: other rows than `rows`, no key, types.

    Columns that are no key may be missing (written by an older minor), or more than are declared
    (by a newer one).
    """
    if parquet.metadata.num_rows != rows:
        raise WrongTable(f"{parquet.metadata.num_rows} rows where its manifest says {rows}")
    there = parquet.schema_arrow
    for field in spec.schema:
        at = there.get_field_index(field.name)
        if at < 0 and field.name in spec.key:
            raise WrongTable(f"it has no column '{field.name}'")
        # Nested types are left out: writers name their parts as they like.
        if at >= 0 and not pa.types.is_nested(field.type) and there.field(at).type != field.type:
            raise WrongTable(f"column '{field.name}' is {there.field(at).type}, not {field.type}")


def read_part(
    fs: Any,
    path: str,
    spec: TableSpec,
    chosen: TableSpec,
    rows: int,
    *,
    only: pc.Expression | None,
) -> pa.Table:
    """The `chosen` columns of one file of so many rows, each page's checksum looked at; of `only`
    some of the rows, by those columns.

    Raises OSError, ArrowException or WrongTable; never a part of a table.
    """
    with (
        fs.open(path, "rb") as file,
        # Arrow asks a file for each column of it: a quarter of the time that a short table takes.
        pq.ParquetFile(
            pa.BufferReader(file.read()) if rows <= _FEW else file, page_checksum_verification=True
        ) as parquet,
    ):
        check(parquet, spec, rows)
        there = set(parquet.schema_arrow.names)
        named = [name for name in chosen.schema.names if name in there]
        found = parquet.read(named, use_threads=rows > _FEW)
    found = conform(chosen, found)
    return found if only is None else found.filter(only)


def joined(spec: TableSpec, parts: Sequence[pa.Table]) -> pa.Table:
    """Parts of a table as one, in the order of its key."""
    return parts[0] if len(parts) == 1 else in_order(pa.concat_tables(parts), spec.key)


def with_key(spec: TableSpec, columns: list[str] | None, parts: Sequence[Part]) -> TableSpec:
    """What has to be read of `parts` for these columns (None: all): to join several, their key."""
    if columns is None or len(parts) == 1:
        return spec.only(columns)
    return spec.only(list(dict.fromkeys([*columns, *spec.key])))
