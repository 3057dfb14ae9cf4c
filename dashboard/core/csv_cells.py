"""CSV files that people open in a spreadsheet: every cell of every file is written here.

Unknown is an empty cell, times are RFC 3339 in UTC, numbers are plain digits, texts are quoted.
Where a spreadsheet would run a text as a formula stands an apostrophe before it, inside the text
too: one whose separator is the semicolon sees no quotes but those of a line's first cell.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from dashboard.core.clock import format_time

if TYPE_CHECKING:  # slow to import: the journal's export does without
    import pyarrow as pa

# What a spreadsheet runs as a formula, also in full-width letters (OWASP, "CSV Injection"), and the
# mark that stops it. Where the mark stands already it gets another: taking one off, at the start
# and after each separator, gives the text back. A quote there would open, and may close, a cell.
_SIGNS = "=+\\-@'\uff1d\uff0b\uff0d\uff20"
_MARKED = ((f'([;\t\r\n])([{_SIGNS}"])', r"\1'\2"), (f"^([{_SIGNS}\t\r\n])", r"'\1"))
_RISKY = tuple((re.compile(pattern), by) for pattern, by in _MARKED)


def cell(value: Any) -> str:
    """One value as a cell; lists are joined by spaces, and only texts can be formulas."""
    if value is None:
        return ""
    if isinstance(value, int | float):  # -5 is a number, and stays one
        return str(value)
    if isinstance(value, datetime):
        text = format_time(value)
    else:
        text = " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    for risky, marked in _RISKY:
        text = risky.sub(marked, text)
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def rows_as_csv(columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """A header and a line per row of values, in the same format as `table_as_csv`."""
    return "".join(f"{','.join(map(cell, row))}\n" for row in (columns, *rows))


def table_as_csv(table: pa.Table) -> bytes:
    """The same over millions of rows, in UTF-8; an empty text is `""`, and unknown nothing.

    Lists are JSON. Times keep their column's digits.
    """
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    columns = [_cells(table.column(at)) for at in range(table.num_columns)]
    held = io.BytesIO()
    pa_csv.write_csv(pa.table(columns, names=table.column_names), held)
    return held.getvalue()


def list_text(value: Any) -> str:
    """A list or struct of a table as the JSON that its cell holds."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=format_time)


def _cells(column: pa.ChunkedArray) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_timestamp(kind):
        return pc.strftime(column, format="%Y-%m-%dT%H:%M:%SZ")
    if pa.types.is_nested(kind):
        texts = [None if value is None else list_text(value) for value in column.to_pylist()]
        column = pa.chunked_array([pa.array(texts, pa.string())])
    elif not pa.types.is_string(kind):
        return column
    for risky, marked in _MARKED:
        column = pc.replace_substring_regex(column, risky, marked)
    return column
