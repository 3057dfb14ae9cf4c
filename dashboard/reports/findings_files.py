"""Every findings table as CSV or Parquet: a file each, for a folder or a zip."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from dashboard.core.csv_cells import table_as_csv
from dashboard.store.tables import FINDING_TABLES

Read = Callable[[str], pa.Table]
Files = Iterable[tuple[str, bytes]]

ABOUT = "report.json"
FORMATS = ("csv", "parquet")


def names(kind: str) -> frozenset[str]:
    """The files of a `csv` or `parquet` report."""
    return frozenset({ABOUT, *(f"{table}.{kind}" for table in FINDING_TABLES)})


def files(kind: str, read: Read, about: Mapping[str, str | None]) -> Iterator[tuple[str, bytes]]:
    """`(name, content)` of each table in turn, then of `report.json`: `about` and rows by table."""
    body = {"csv": table_as_csv, "parquet": as_parquet}[kind]
    rows = {}
    for name in FINDING_TABLES:
        table = read(name)
        rows[name] = table.num_rows
        yield f"{name}.{kind}", body(table)
    text = json.dumps({**about, "format": kind, "tables": rows}, allow_nan=False, indent=1)
    yield ABOUT, text.encode()


def as_zip(found: Files) -> bytes:
    """The files as one archive; equal files make an equal archive."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in found:
            entry = zipfile.ZipInfo(name)
            packed = name.endswith(".parquet")
            entry.compress_type = zipfile.ZIP_STORED if packed else zipfile.ZIP_DEFLATED
            archive.writestr(entry, body)
    return held.getvalue()


def as_parquet(table: pa.Table) -> bytes:
    """The table in its declared schema, zstd."""
    held = io.BytesIO()
    pq.write_table(table, held, compression="zstd")
    return held.getvalue()
