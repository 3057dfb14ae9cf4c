"""`lowwater run RUN_ID --dismiss WHY`: a person ends an alert that no later purge can end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dashboard.cli.main import main
from dashboard.purge.journal.journal import open_default
from dashboard.purge.receipt.alerts import reverted
from dashboard.settings.settings import load
from tests.unit.purge.test_alerts import came_back

WHY = "topic orders was deleted"


@pytest.fixture
def run_id(alone: Path) -> str:
    """A run of which records came back."""
    state = alone / "state"
    state.mkdir(mode=0o700)
    room = came_back(state)
    (alert,) = reverted(room.journal, room.live.id)
    room.journal.close()
    return alert.run_id


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, object]]:
    capsys.readouterr()
    code = main([*words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def alerts() -> list[str]:
    journal = open_default(load())
    try:
        return [found.run_id for found in reverted(journal, "cluster-1")]
    finally:
        journal.close()


def test_it_ends_the_alert_and_the_chain_keeps_who_and_why(
    run_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert alerts() == [run_id]
    code, value = said(capsys, "run", run_id, "--dismiss", WHY)
    assert (code, value["run_id"]) == (0, run_id)
    assert value["dismissed"] == {"who": load().operator, "why": WHY, "partitions": 1}
    assert [row["state"] for row in value["partitions"]] == ["reverted"]  # type: ignore[attr-defined]
    assert alerts() == []
    code, value = said(capsys, "runs", "--verify")
    assert (code, value["verification"]["ok"]) == (0, True)  # type: ignore[index]
    code, value = said(capsys, "run", run_id, "--dismiss", WHY)
    assert (code, value["error"]["code"]) == (3, "NO_ALERT")  # type: ignore[index]


def test_it_takes_a_reason_and_the_right(
    run_id: str, alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, value = said(capsys, "run", run_id, "--dismiss", " ")
    assert (code, value["error"]["code"]) == (1, "REASON_MISSING")  # type: ignore[index]
    (alone / "lowwater.toml").write_text('[people]\noperators = ["somebody-else"]\n')
    code, value = said(capsys, "run", run_id, "--dismiss", WHY)
    assert (code, value["error"]["code"]) == (3, "ROLE_TOO_LOW")  # type: ignore[index]
    (alone / "lowwater.toml").unlink()
    assert alerts() == [run_id]
