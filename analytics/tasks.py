"""Runs a kernel on every bucket as Spark's tasks, each of which reads and writes its own bucket.

Nothing is shuffled, and of long tables nothing reaches the driver: a task tells it the names of the
files that it wrote, and a few rows of sums. A task may run twice (a lost executor, speculation):
each attempt writes files of its own, and those count that Spark's answer names.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from analytics.bucket_view import BucketView, Place
from analytics.kernels import Told
from analytics.tables import stamped
from dashboard.errors import LowwaterError, StoreError
from dashboard.snapshot_files import Manifest, Part, spec_of
from dashboard.snapshot_writer import part_name, write_part

Kernel = Callable[[BucketView], Told]
_ROW = pa.schema(
    [
        ("bucket", pa.int64()),
        ("kind", pa.string()),  # what `name` is: of a table, of sums, or the error of a task
        ("name", pa.string()),
        ("file", pa.string()),
        ("rows", pa.int64()),
        ("body", pa.binary()),
    ]
)
_SPARK_ROW = "bucket long, kind string, name string, file string, rows long, body binary"
_TABLE, _SUMS, _ERROR = "table", "sums", "error"


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
) -> Done:
    """The kernel on each bucket (None: all), its tables written with the snapshot's stamps.

    Raises StoreError as the first task that met one did.
    """
    chosen = list(range(place.written.buckets)) if buckets is None else list(buckets)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for at in batch.column(0).to_pylist():
                yield from answer(kernel, place, snapshot, chosen[at])

    one_each = spark.range(0, len(chosen), 1, len(chosen))
    rows = one_each.mapInArrow(work, _SPARK_ROW).toArrow().sort_by("bucket").to_pylist()
    return done(rows)


def answer(
    kernel: Kernel, place: Place, snapshot: Manifest, bucket: int
) -> Iterator[pa.RecordBatch]:
    """What one task answers: its files, its sums, or the error that the driver shall raise."""
    try:
        view = BucketView(place, bucket)
        found = kernel(view)
        rows = [_written(view, name, table, snapshot) for name, table in found.tables.items()]
        rows += [_summed(bucket, name, sums) for name, sums in found.sums.items()]
    except LowwaterError as error:
        body = {"message": error.message, "next_step": error.next_step, "code": error.code,
                "retriable": error.retriable}  # fmt: skip
        rows = [{"bucket": bucket, "kind": _ERROR, "body": json.dumps(body).encode()}]
    yield from pa.Table.from_pylist(rows, schema=_ROW).to_batches()


def _written(view: BucketView, table: str, rows: pa.Table, snapshot: Manifest) -> dict[str, Any]:
    folder = f"{view.path}/findings/{view.place.written.id}"
    file = part_name(table, view.bucket, secrets.token_hex(4))
    found = stamped(table, rows, snapshot)
    count = write_part(view.fs, folder, spec_of("findings", table), file, found)
    return {"bucket": view.bucket, "kind": _TABLE, "name": table, "file": file, "rows": count}


def _summed(bucket: int, name: str, sums: pa.Table) -> dict[str, Any]:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, sums.schema) as stream:
        stream.write_table(sums)
    return {"bucket": bucket, "kind": _SUMS, "name": name, "body": sink.getvalue().to_pybytes()}


def done(rows: Sequence[Mapping[str, Any]]) -> Done:
    parts: dict[str, dict[int, Part]] = {}
    sums: dict[str, list[pa.Table]] = {}
    for row in rows:
        if row["kind"] == _ERROR:
            raise StoreError(**json.loads(row["body"]))
        if row["kind"] == _TABLE:
            parts.setdefault(row["name"], {})[row["bucket"]] = (row["file"], row["rows"])
        else:
            with pa.ipc.open_stream(row["body"]) as stream:
                sums.setdefault(row["name"], []).append(stream.read_all())
    return Done(parts, {name: pa.concat_tables(found) for name, found in sums.items()})
