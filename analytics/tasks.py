"""Runs a kernel on every bucket as Spark's tasks, each of which reads and writes its own bucket.

Of long tables nothing is shuffled, and nothing reaches the driver: a task tells the names of the
files that it wrote, and sums. A topic's partitions lie in many buckets, so these have nearly a row
per partition on a large cluster: they are summed again by topic, in tasks too, before the driver
gets them. A task may run twice (a lost executor, speculation): each attempt writes files of its
own, and those count that Spark's answer names; what it sums is the same.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from analytics.bucket_view import BucketView, Place
from analytics.kernels import SUMMED, Told
from analytics.tables import stamped
from dashboard.core.errors import LowwaterError, StoreError
from dashboard.estimate.curve_tables import integers
from dashboard.estimate.curves import Ints
from dashboard.store.buckets import Buckets
from dashboard.store.snapshot_files import Manifest, Part, part_name, spec_of, write_part

Kernel = Callable[[BucketView], Told]
Rows = Mapping[str, pa.Table]


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of a task's answer: a file that it wrote, sums, or its error."""

    slot: int  # sums with the same one are summed together
    bucket: int | None
    kind: str  # what `name` is: of a table, of sums, or the error of a task
    name: str | None = None
    file: str | None = None
    rows: int | None = None
    body: bytes | None = None


_ROW = pa.schema(
    [
        ("slot", pa.int32()),
        ("bucket", pa.int64()),
        ("kind", pa.string()),
        ("name", pa.string()),
        ("file", pa.string()),
        ("rows", pa.int64()),
        ("body", pa.binary()),
    ]
)
_SPARK_ROW = "slot int, bucket long, kind string, name string, file string, rows long, body binary"
_TABLE, _SUMS, _ERROR = "table", "sums", "error"
_NO_SLOT = -1
AT_ONCE = 8  # buckets whose sums the driver has room for as they are
_PACKED = pa.ipc.IpcWriteOptions(compression="zstd")
# Of a million partitions tasks exchange a gigabyte: a quarter of it is Java's to carry, at no cost.
_QUICK = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True)
class Done:
    """What tasks gave: the file of each bucket by table, and the sums of all, by bucket."""

    parts: Mapping[str, Mapping[int, Part]]
    sums: Mapping[str, pa.Table]

    def then(self, later: Done) -> Done:
        """What both gave; a bucket that was written again counts as it was later."""
        parts = {
            table: {**self.parts.get(table, {}), **later.parts.get(table, {})}
            for table in {**self.parts, **later.parts}
        }
        return Done(parts, {**self.sums, **later.sums})

    def files(self) -> dict[str, tuple[Part, ...]]:
        """By table a file for each bucket, in their order."""
        return {n: tuple(found[at] for at in sorted(found)) for n, found in self.parts.items()}


def run(
    spark: SparkSession,
    kernel: Kernel,
    place: Place,
    snapshot: Manifest,
    buckets: Sequence[int] | None = None,
    *,
    then: Callable[[Rows], Rows] | None = None,
) -> Done:
    """The kernel on each bucket (None: all), its tables written with the snapshot's stamps.

    `then` makes other sums of those of some topics, all buckets together, in tasks too. Raises
    StoreError as the first task that met one did.
    """
    chosen = list(range(place.written.buckets)) if buckets is None else list(buckets)
    slots = len(chosen) if then else len(chosen) // AT_ONCE

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for at in batch.column(0).to_pylist():
                yield from answer(kernel, place, snapshot, chosen[at], slots)

    one_each = spark.range(0, len(chosen), 1, len(chosen))
    rows = one_each.mapInArrow(work, _SPARK_ROW)

    def together(found: pa.Table) -> pa.Table:
        return summed(found, then)

    if slots > 1 or then:
        rows = rows.groupBy("slot").applyInArrow(together, _SPARK_ROW)
    return done(rows.toArrow())


def answer(
    kernel: Kernel, place: Place, snapshot: Manifest, bucket: int, slots: int = 1
) -> Iterator[pa.RecordBatch]:
    """What one task answers: its files, its sums in so many slots, or the error that the driver
    shall raise.
    """
    try:
        view = BucketView(place, bucket)
        found = kernel(view)
        rows = [_written(view, name, table, snapshot) for name, table in found.tables.items()]
        for name, sums in found.sums.items():
            # In a hundred small pieces, which other tasks take at once.
            rows += [
                _sums_row(slot, name, part, bucket, packed=slots < 2)
                for slot, part in _in_slots(sums, slots)
            ]
    except LowwaterError as error:
        body = {"message": error.message, "next_step": error.next_step, "code": error.code,
                "retriable": error.retriable}  # fmt: skip
        rows = [_Row(_NO_SLOT, bucket, _ERROR, body=json.dumps(body).encode())]
    yield from _table(rows).to_batches()


def _table(rows: Sequence[_Row]) -> pa.Table:
    return pa.Table.from_pylist([asdict(row) for row in rows], schema=_ROW)


def _written(view: BucketView, table: str, rows: pa.Table, snapshot: Manifest) -> _Row:
    folder = f"{view.path}/findings/{view.place.written.id}"
    file = part_name(table, view.bucket, secrets.token_hex(4))
    found = stamped(table, rows, snapshot)
    count = write_part(view.fs, folder, spec_of("findings", table), file, found)
    return _Row(_NO_SLOT, view.bucket, _TABLE, table, file, count)


def _in_slots(sums: pa.Table, slots: int) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each slot that has any; without rows nothing in the first one."""
    at = _slots(sums, slots)
    order = np.argsort(at, kind="stable")
    ordered, at = sums.take(pa.array(order)).combine_chunks(), at[order]
    begin = np.append(0, np.flatnonzero(np.diff(at)) + 1)
    for first, end in pairwise((*begin.tolist(), len(at))):
        yield int(at[first]) if len(at) else 0, ordered.slice(first, end - first)


def _slots(sums: pa.Table, slots: int) -> Ints:
    """In which slot each row lies: those of one topic in the same, those of none in the first."""
    if slots < 2 or not sums.num_rows:
        return np.zeros(sums.num_rows, dtype=np.int64)
    if "topic_no" in sums.column_names:
        return integers(sums["topic_no"], 0) % slots
    if "topic" in sums.column_names:
        return Buckets(slots).of(sums.select(["topic"]))
    return np.zeros(sums.num_rows, dtype=np.int64)


def _sums_row(
    slot: int, name: str, sums: pa.Table, bucket: int | None = None, *, packed: bool = True
) -> _Row:
    sink = pa.BufferOutputStream()
    options = _PACKED if packed else _QUICK
    with pa.ipc.new_stream(sink, sums.schema, options=options) as stream:
        stream.write_table(sums)
    body = sink.getvalue().to_pybytes()
    return _Row(slot, bucket, _SUMS, name, body=body)


def summed(rows: pa.Table, then: Callable[[Rows], Rows] | None = None) -> pa.Table:
    """The answers of one slot, the sums of all buckets as one by name, or what `then` makes of
    them; the others as they are.
    """
    rows = rows.sort_by("bucket")  # fractions are added in one order, however a shuffle has them
    whole = pc.equal(rows["kind"], _SUMS)
    sums: Rows = dict(_sums(rows.filter(whole)))
    told = then(sums) if then else sums
    found = [_sums_row(rows["slot"][0].as_py(), *pair) for pair in told.items()]
    return pa.concat_tables([rows.filter(pc.invert(whole)).cast(_ROW), _table(found)])


def _sums(rows: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """By name the sums of all these rows as one."""
    for name in sorted(rows["name"].unique().to_pylist()):
        parts = []
        for body in rows.filter(pc.equal(rows["name"], name))["body"]:
            with pa.ipc.open_stream(body.as_buffer()) as stream:
                parts.append(stream.read_all())
        # One part, too: what was summed in one slot and in another then has the same columns.
        yield name, SUMMED[name](pa.concat_tables(parts))


def done(rows: pa.Table) -> Done:
    """What all tasks gave. Raises StoreError as the first bucket that met one did."""
    rows = rows.sort_by("bucket")
    for body in rows.filter(pc.equal(rows["kind"], _ERROR))["body"].to_pylist():
        raise StoreError(**json.loads(body))
    parts: dict[str, dict[int, Part]] = {}
    for row in rows.filter(pc.equal(rows["kind"], _TABLE)).drop_columns("body").to_pylist():
        parts.setdefault(row["name"], {})[row["bucket"]] = (row["file"], row["rows"])
    return Done(parts, dict(_sums(rows.filter(pc.equal(rows["kind"], _SUMS)))))
