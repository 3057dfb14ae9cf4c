"""One table's Parquet file: whether it is what its manifest and the declared schema say."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from dashboard.tables import TableSpec


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
