"""Cells of CSV files: no text is a formula in any of the files, and numbers stay numbers."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from dashboard.core import csv_cells
from dashboard.purge.journal.archive import as_csv
from dashboard.purge.journal.journal import Journal
from dashboard.store.finding_rows import OrphanRow
from dashboard.ui import orphan_rows
from tests.unit.purge.test_journal import insert
from tests.unit.purge.test_plan import free_plan

RISKY = [
    "=", "+", "-", "@", "\t", "\r", "\n", "'", "\uff1d", "\uff0b", "\uff0d", "\uff20",
]  # fmt: skip

FORMULA = re.compile("[\t\r\n]*[=+\\-@\uff1d\uff0b\uff0d\uff20]")


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
    orphans = orphan_rows.as_csv([OrphanRow(1, text, None, None, None, "stray", 1, "never")])
    insert(journal, free_plan(), who=text)

    found = first(table, "group_id"), first(orphans, "log_dir"), first(as_csv(journal), "who")

    assert found == (f"'{text}",) * 3


@pytest.mark.parametrize(
    "text",
    [
        "a;=1+1;b", "a;+1", "a;-1", "a;@SUM(A1)", "a;\uff1d1", "a;;=1", 'a";=1+1', 'a;"=1+1";b',
        "a\t=1+1", "a;\t=1", "a\n=1+1", "a\r\n=1+1", "a\r-1", 'a\n"=1"', "=1;=2", "\t=1",
    ],
)  # fmt: skip
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_no_part_of_a_text_is_a_formula_whatever_the_spreadsheets_separator(
    text: str, separator: str, journal: Journal
) -> None:
    insert(journal, free_plan(), who=text)
    files = [
        csv_cells.table_as_csv(pa.table({"n": [1], "group_id": [text]})).decode(),
        orphan_rows.as_csv([OrphanRow(1, text, None, None, None, "stray", 1, "never")]),
        as_csv(journal),
    ]
    for file in files:
        read = csv.reader(io.StringIO(file, newline=""), delimiter=separator)
        cells = [cell for row in read for cell in row]
        assert any("1" in cell or "SUM" in cell for cell in cells)
        assert not [cell for cell in cells if FORMULA.match(cell)]


@pytest.mark.parametrize("text", ["a;b", "it's; 'x';='", ";''", "\r\n'", "'\t'=1", 'a;"b";""'])
def test_taking_one_apostrophe_off_gives_the_text_back(text: str) -> None:
    written = next(csv.reader(io.StringIO(csv_cells.cell(text), newline="")))[0]
    table = csv_cells.table_as_csv(pa.table({"group_id": [text]})).decode()
    assert first(table, "group_id") == written
    assert re.sub("(^|[;\t\r\n])'", r"\1", written) == text


def test_a_list_that_begins_like_a_formula_is_no_formula() -> None:
    assert csv_cells.cell(["-2+3", "b"]) == '"\'-2+3 b"'


def test_numbers_stay_numbers_and_every_text_is_quoted_in_both_writers() -> None:
    table = pa.table({"text": ["a=b", None, ""], "offset": pa.array([-5, None, 0])})
    written = '"text","offset"\n"a=b",-5\n,\n"",0\n'
    assert csv_cells.table_as_csv(table).decode() == written
    rows = [("a=b", -5), (None, None), ("", 0)]
    assert csv_cells.rows_as_csv(("text", "offset"), rows) == written
