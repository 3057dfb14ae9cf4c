"""`lowwater runs`: choose by cluster, verify the chain, export."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from dashboard.cli.main import main
from dashboard.core.clock import utc_now
from dashboard.purge.journal.journal import open_default
from dashboard.purge.journal.rows import Options
from dashboard.settings.settings import load
from tests.unit.cli.plans import a_plan
from tests.unit.purge.outcomes import kept, receipt


@pytest.fixture
def run_id(alone: Path) -> str:
    """A finished run of cluster `prod` (c1) in this state folder's journal."""
    plan, journal = a_plan(), open_default(load())
    made, _ = journal.insert(
        plan, token="click", mode="wait-all", who="ann", from_where="host",
        typed=plan.confirmation, options=Options(30_000, 500, 2, 0), connection={}, now=utc_now(),
    )  # fmt: skip
    journal.set_run(made, "running", utc_now())
    journal.set_run(made, "done", utc_now())
    journal.close()
    return made


def test_a_changed_journal_is_exit_70_and_told(
    run_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = open_default(load())
    with journal.file.write() as db:
        db.execute("UPDATE entries SET body=replace(body, 'running', 'paused')")
    journal.close()
    assert main(["runs", "--verify", "--json"]) == 70
    value = json.loads(capsys.readouterr().out)
    assert value["error"]["code"] == "JOURNAL_BROKEN"
    assert not value["verification"]["ok"]
    assert len(value["runs"]) == 1


@pytest.mark.parametrize(("named", "count"), [("prod", 1), ("c1", 1), ("test", 0)])
def test_runs_are_chosen_by_cluster(
    run_id: str, capsys: pytest.CaptureFixture[str], named: str, count: int
) -> None:
    words = ["runs", "--cluster", named, "--json", "--export", "out.json"]
    assert main(words) == 0
    value = json.loads(capsys.readouterr().out)
    assert (len(value["runs"]), value["exported"]) == (count, "out.json")
    assert len(json.loads(Path("out.json").read_text())["runs"]) == count


def test_runs_tell_how_true_each_estimator_was(
    run_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = open_default(load())
    journal.write_receipt(run_id, receipt(kept(100, 90, 80, 120)), utc_now())
    journal.close()
    assert main(["runs", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["calibration"]
    assert found["methods"] == [
        {"method": "history", "purges": 1, "topics": 1, "median_error": 0.1, "worst_error": -0.1,
         "inside": 1, "coverage": 1.0, "zero_topics": 0, "zero_worst_bytes": None}
    ]  # fmt: skip
    (point,) = found["points"]
    assert (point["run_id"], point["predicted_bytes"], point["freed_bytes"]) == (run_id, 100, 90)


def test_a_csv_export_has_a_line_for_each_partition(run_id: str) -> None:
    assert main(["runs", "--export", "out.csv"]) == 0
    header, *lines = csv.reader(Path("out.csv").read_text().splitlines())
    assert header[:2] == ["run_id", "cluster_id"]
    assert [line[0] for line in lines] == [run_id] * 2


@pytest.mark.parametrize(
    ("path", "code"), [("out.txt", "USAGE"), ("nowhere/out.csv", "FILE_UNWRITABLE")]
)
def test_an_export_that_cannot_be_is_told_before_anything_else(
    run_id: str, capsys: pytest.CaptureFixture[str], path: str, code: str
) -> None:
    assert main(["runs", "--export", path, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == code
