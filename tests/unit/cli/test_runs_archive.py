"""`lowwater runs --archive`: what is over moves, and the archive answers like any journal."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.cli.main import main
from dashboard.core.clock import utc_now
from dashboard.purge.journal.journal import open_default
from dashboard.purge.journal.rows import Options
from dashboard.settings.settings import load
from tests.support import sample_store
from tests.unit.cli.plans import a_plan

LONG_AGO = utc_now() - timedelta(days=100)


@pytest.fixture
def run_id(alone: Path) -> str:
    """A run that ended a hundred days ago."""
    plan, journal = a_plan(), open_default(load())
    made, _ = journal.insert(
        plan, token="click", mode="wait-all", who="ann", from_where="host", now=LONG_AGO,
        typed=plan.confirmation, options=Options(30_000, 500, 2, 0), connection={},
    )  # fmt: skip
    journal.set_run(made, "done", LONG_AGO)
    journal.close()
    return made


def told(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    assert main(["runs", *words, "--json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_an_archive_answers_like_any_journal(
    run_id: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = told(capsys)
    assert whole["begins"] is None
    before = whole["runs"]
    moved = told(capsys, "--archive", "kept")["archived"]
    assert moved.pop("journal_bytes_before") > 0
    assert moved.pop("journal_bytes_after") > 0
    assert moved == {
        "folder": str(Path("kept").resolve()), "runs": 1, "entries": 2, "first_entry": 3,
        "held_by": None,
    }  # fmt: skip
    here = told(capsys, "--verify")
    assert (here["runs"], here["begins"]["entry"]) == ([], 3)
    assert here["verification"] == {"ok": True, "entries": 1, "first_entry": 3, "problems": []}

    monkeypatch.setenv("LOWWATER_STATE_DIR", "kept")
    there = told(capsys, "--verify", code=70)  # whoever looks says that it is an archive
    assert "--as-archive" in there["verification"]["problems"][0]
    there = told(capsys, "--verify", "--as-archive")
    assert there["runs"] == before
    assert there["verification"] == {"ok": True, "entries": 2, "first_entry": 1, "problems": []}
    assert main(["run", run_id]) == 2  # its partitions are as they were: not purged


def test_what_was_moved_is_told(run_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "--archive", "kept"]) == 0
    said = capsys.readouterr()
    assert "moved 2 of 2 entries" in said.err
    assert f"1 runs and 2 entries of the chain moved to {Path('kept').resolve()}" in said.out
    assert main(["runs", "--archive", "kept"]) == 0
    assert capsys.readouterr().out == "nothing is old enough to be moved\n"
    assert main(["runs", "--verify"]) == 0
    assert "chain verified from entry 3 to entry 3" in capsys.readouterr().out


def test_a_run_that_is_open_is_named(run_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    journal = open_default(load())
    journal.file.rows("UPDATE runs SET state='running', closed_at=NULL")
    with journal.file.accepting() as db:
        db.execute("DELETE FROM entries WHERE seq=2")
    journal.file.rows("UPDATE runs SET state='queued'")
    journal.close()
    assert main(["runs", "--archive", "kept"]) == 0
    assert f"{run_id} is not over" in capsys.readouterr().out
    assert not Path("kept").exists()


@pytest.mark.parametrize("words", [("--verify",), ("--export", "a.csv"), ("--cluster", "prod")])
def test_archiving_goes_alone(
    run_id: str, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    error = told(capsys, "--archive", "kept", *words, code=1)["error"]
    assert (error["code"], f"without {words[0]}" in error["message"]) == ("USAGE", True)


def test_the_newest_runs_stay(run_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    error = told(capsys, "--archive", "kept", "--older-than", "2h", code=1)["error"]
    assert error["code"] == "ARCHIVE_TOO_YOUNG"
    Path("lowwater.toml").write_text('[purge]\nplan_expires_after = "7d"\n')
    error = told(capsys, "--archive", "kept", "--older-than", "3d", code=1)["error"]
    assert error["code"] == "ARCHIVE_TOO_YOUNG"
    assert told(capsys, "--archive", "kept", "--older-than", "8d")["archived"]["runs"] == 1


def test_archiving_is_an_approvers(run_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("lowwater.toml").write_text('operator = "bob"\n[people]\noperators = ["bob"]\n')
    error = told(capsys, "--archive", "kept", code=3)["error"]
    assert error["code"] == "ROLE_TOO_LOW"
    assert not Path("kept").exists()


def test_a_report_says_since_when_purges_count(
    run_id: str, alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample_store.write(alone / "data")
    assert main(["report", "--format", "html", "--data", "data", "--out", "before.html"]) == 0
    assert "entries before" not in (alone / "before.html").read_text()
    assert main(["runs", "--archive", "kept"]) == 0
    assert main(["report", "--format", "html", "--data", "data", "--out", "after.html"]) == 0
    said = (alone / "after.html").read_text()
    assert "no purge from this machine" not in said
    assert "UTC: entries before 3 are archived" in said
    capsys.readouterr()
    assert main(["runs"]) == 0
    assert "no purge, counted since" in capsys.readouterr().out
