"""`lowwater runs` of a journal that was rolled back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from dashboard.cli.main import main
from dashboard.core.clock import utc_now
from dashboard.purge.journal.journal import open_default
from dashboard.settings.settings import load
from tests.unit.purge.test_journal_head import backup


@pytest.fixture
def restored(alone: Path) -> None:
    """Its newest entry of two is missing."""
    journal = open_default(load())
    journal.set_read_only(True, "ann", utc_now())
    path = journal.file.path
    old = backup(path, alone / "old.sqlite")
    journal.set_read_only(False, "ann", utc_now())
    journal.close()
    shutil.copy(old, path)


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, object]]:
    capsys.readouterr()
    code = main([*words, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.usefixtures("restored")
def test_it_is_told_and_accepted_by_its_newest_entry_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, value = said(capsys, "runs", "--verify")
    assert code == 70
    assert value["error"]["code"] == "JOURNAL_ROLLED_BACK"  # type: ignore[index]
    assert "--accept-restored 1" in value["error"]["next"]  # type: ignore[index]
    code, value = said(capsys, "runs", "--accept-restored", "2")
    assert (code, value["error"]["code"]) == (1, "JOURNAL_NOT_ROLLED_BACK")  # type: ignore[index]
    code, value = said(capsys, "runs", "--accept-restored", "1")
    assert (code, value) == (0, {"accepted": {"through_entry": 1, "cancelled": []}})
    assert said(capsys, "runs", "--verify")[0] == 0


def test_a_copy_is_read_and_verified_and_said_to_be_one(
    alone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = open_default(load())
    journal.set_read_only(True, "ann", utc_now())
    journal.close()
    shutil.copytree(alone / "state", alone / "evidence")
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(alone / "evidence"))
    assert main(["runs", "--verify", "--json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["verification"]["ok"]
    assert "is a copy" in told.err
    assert "nothing is written to it" in told.err
    code, value = said(capsys, "runs", "--accept-restored", "1")
    assert (code, value) == (0, {"accepted": {"through_entry": 1, "cancelled": []}})
    assert main(["runs"]) == 0
    assert "copy" not in capsys.readouterr().err


@pytest.mark.usefixtures("restored")
def test_it_goes_alone(capsys: pytest.CaptureFixture[str]) -> None:
    code, value = said(capsys, "runs", "--accept-restored", "1", "--verify")
    assert (code, value["error"]["code"]) == (1, "USAGE")  # type: ignore[index]
