"""What leaves the journal tells everything, once, and runs nothing in a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dashboard.purge.journal.archive import as_csv, as_json
from dashboard.purge.journal.journal import Journal
from tests.unit.purge.facts_of import NOW
from tests.unit.purge.test_journal import insert
from tests.unit.purge.test_plan import free_plan


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path / "journal.sqlite")
    yield made
    made.close()


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_json_holds_runs_plans_and_a_chain_that_can_be_checked(journal: Journal) -> None:
    plan = free_plan()
    run_id, _ = insert(journal, plan)
    document = json.loads(as_json(journal))
    (run,) = document["runs"]
    assert (run["run_id"], run["who"], run["from"], run["typed"]) == (
        run_id, "ann", "host", plan.confirmation,
    )  # fmt: skip
    assert run["plan"]["sha256"] == run["plan_sha256"] == plan.sha256
    assert [p["target_offset"] for p in run["partitions"]] == [40]
    assert [e["kind"] for e in document["entries"]] == ["queued"]
    assert document["verification"] == {
        "ok": True, "entries": 1, "first_entry": 1, "problems": [],
    }  # fmt: skip


def test_csv_has_one_line_per_partition_and_empty_cells_for_the_unknown(journal: Journal) -> None:
    run_id, _ = insert(journal, free_plan())
    (row,) = journal.partitions(run_id)
    journal.record(run_id, "intent", [replace(row, state="sent", sent_at=NOW)], NOW)
    (line,) = rows_of(as_csv(journal))
    assert (line["run_id"], line["who"], line["state"]) == (run_id, "ann", "sent")
    assert line["sent_at"].endswith("Z")
    assert line["low_watermark"] == ""


def test_typed_text_is_no_formula(journal: Journal) -> None:
    insert(journal, free_plan(), who='=HYPERLINK("x")')
    assert rows_of(as_csv(journal))[0]["who"] == '\'=HYPERLINK("x")'


def test_the_chosen_runs_alone_are_told_but_the_chain_is_whole(journal: Journal) -> None:
    insert(journal, free_plan())
    document = json.loads(as_json(journal, run_ids=()))
    assert (document["runs"], len(document["entries"])) == ([], 1)
    assert rows_of(as_csv(journal, run_ids=())) == []
