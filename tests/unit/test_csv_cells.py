"""Cells of CSV files: no text is a formula in any of the files, and numbers stay numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from dashboard import csv_cells
from dashboard.orphans import export
from dashboard.purge.journal import Journal
from dashboard.purge.journal_export import as_csv
from tests.unit.purge.test_journal import insert
from tests.unit.purge.test_plan import free_plan

RISKY = [
    "=", "+", "-", "@", "\t", "\r", "\n", "'", "\uff1d", "\uff0b", "\uff0d", "\uff20",
]  # fmt: skip


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal(tmp_path / "journal.sqlite")
    yield opened
    opened.close()


def first(text: str, column: str) -> str:
    return next(csv.DictReader(io.StringIO(text, newline="")))[column]


@pytest.mark.parametrize("start", RISKY)
def test_a_text_that_a_spreadsheet_would_run_gets_an_apostrophe_in_every_file(
    start: str, journal: Journal
) -> None:
    text = f"{start}1+cmd|' /C calc'!A0"
    table = csv_cells.table_as_csv(pa.table({"group_id": [text]})).decode()
    orphans = export.as_csv([dict.fromkeys(export.COLUMNS) | {"log_dir": text}])
    insert(journal, free_plan(), who=text)

    found = first(table, "group_id"), first(orphans, "log_dir"), first(as_csv(journal), "who")

    assert found == (f"'{text}",) * 3


def test_a_list_that_begins_like_a_formula_is_no_formula() -> None:
    assert csv_cells.cell(["-2+3", "b"]) == "'-2+3 b"


def test_numbers_stay_numbers_and_other_texts_as_they_are() -> None:
    table = pa.table({"text": ["a=b", None, ""], "offset": pa.array([-5, None, 0])})
    assert csv_cells.table_as_csv(table) == b'"text","offset"\n"a=b",-5\n,\n"",0\n'
    rows = [("a=b", -5), (None, None), ("x-y", -0.5)]
    assert csv_cells.rows_as_csv(("text", "n"), rows) == "text,n\na=b,-5\n,\nx-y,-0.5\n"
