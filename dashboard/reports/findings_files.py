"""Every findings table as CSV or Parquet: a file each, for a folder or a zip."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from dashboard.clock import format_time
from dashboard.tables import FINDING_TABLES

Read = Callable[[str], pa.Table]
Files = Iterable[tuple[str, bytes]]

ABOUT = "report.json"
FORMATS = ("csv", "parquet")
# What a spreadsheet runs as a formula, also in full-width letters, and the mark that stops it: a
# leading apostrophe. A text that begins with one gets another, so taking one off gives it back.
_FORMULA = r"^[=+\-@\t\r\n'\x{FF1D}\x{FF0B}\x{FF0D}\x{FF20}]"


def names(kind: str) -> frozenset[str]:
    """The files of a `csv` or `parquet` report."""
    return frozenset({ABOUT, *(f"{table}.{kind}" for table in FINDING_TABLES)})


def files(kind: str, read: Read, about: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
    """`(name, content)` of each table in turn, then of `report.json`: `about` and rows by table."""
    body = {"csv": as_csv, "parquet": as_parquet}[kind]
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


def as_csv(table: pa.Table) -> bytes:
    """UTF-8 with a header. Unknown is an empty cell, an empty text is `""`.

    Times are RFC 3339 in UTC, lists are JSON; a text that a spreadsheet would run as a formula,
    or that begins with an apostrophe, gets a leading apostrophe.
    """
    columns = [_cells(table.column(at)) for at in range(table.num_columns)]
    held = io.BytesIO()
    pa_csv.write_csv(pa.table(columns, names=table.column_names), held)
    return held.getvalue()


def _cells(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_string(kind):
        risky = pc.match_substring_regex(column, _FORMULA)
        return pc.if_else(risky, pc.binary_join_element_wise("'", column, ""), column)
    if pa.types.is_timestamp(kind):
        return pc.strftime(column, format="%Y-%m-%dT%H:%M:%SZ")
    if pa.types.is_nested(kind):
        texts = [None if value is None else _json(value) for value in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.string())])
    return column


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=format_time)
