"""The Parquet files of a table: whether they are what its manifest and the declared schema say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dashboard.core.arrow import in_order
from dashboard.store.snapshot_files import Part
from dashboard.store.tables import TableSpec, conform

_FEW = 10_000  # rows that one thread has read before others would have begun


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
    only: pc.Expression | None = None,
) -> pa.Table:
    """The `chosen` columns of one file of so many rows, each page's checksum looked at; of `only`
    some of the rows, by those columns.

    Raises OSError, ArrowException or WrongTable; never a part of a table.
    """
    with (
        fs.open(path, "rb") as file,
        pq.ParquetFile(file, page_checksum_verification=True) as parquet,
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
