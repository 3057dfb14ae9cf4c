"""CSV files that people open in a spreadsheet: every cell of every file is written here.

Unknown is an empty cell, times are RFC 3339 in UTC, numbers are plain digits. A text that a
spreadsheet would run as a formula gets a leading apostrophe.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from dashboard.clock import format_time

if TYPE_CHECKING:  # slow to import: the journal's export does without
    import pyarrow as pa

# What a spreadsheet runs as a formula, also in full-width letters (OWASP, "CSV Injection"), and the
# mark that stops it. A text that begins with the mark gets another: taking one off gives it back.
_FORMULA = "^[=+\\-@\t\r\n'\uff1d\uff0b\uff0d\uff20]"
_RISKY = re.compile(_FORMULA)
_QUOTED = re.compile('[",\r\n]')


def cell(value: Any) -> str:
    """One value as a cell; lists are joined by spaces, and only texts can be formulas."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, int | float):  # -5 is a number, and stays one
        return str(value)
    text = " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return f"'{text}" if _RISKY.match(text) else text


def rows_as_csv(columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """A header and a line per row of values; an empty text cannot be told from unknown."""
    lines = ([_quoted(cell(value)) for value in row] for row in (columns, *rows))
    return "".join(f"{','.join(line)}\n" for line in lines)


def table_as_csv(table: pa.Table) -> bytes:
    """The same rule over millions of rows, in UTF-8: texts are quoted, an empty one is `""`.

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


def _quoted(text: str) -> str:
    # The csv module leaves a lone carriage return unquoted, which ends a line for its own reader.
    doubled = text.replace('"', '""')
    return f'"{doubled}"' if _QUOTED.search(text) else text


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
    risky = pc.match_substring_regex(column, _FORMULA)
    return pc.if_else(risky, pc.binary_join_element_wise("'", column, ""), column)
