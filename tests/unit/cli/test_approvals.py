"""`lowwater approvals`: what apply asks for is listed, shown, approved by another, or rejected."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dashboard.cli.main import main
from dashboard.core.clock import utc_now
from dashboard.purge.jobs import approving
from dashboard.purge.journal.requests import Asked
from dashboard.purge.journal.rows import Options
from tests.unit.cli.plans import a_plan, known_cluster

PEOPLE = """
state_dir = "state"
[people]
operators = ["bob"]
approvers = ["ann", "carl"]
second_person = true
"""
CONFIRM = "purge orders on prod"
Cli = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def cli(alone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """`cli(who, words…)`: the exit code and the one JSON object."""
    known_cluster(alone)
    (alone / "lowwater.toml").write_text(PEOPLE)
    (alone / "plan.json").write_text(a_plan().to_json_text())
    monkeypatch.setattr(approving, "spawn", lambda *_: 0)

    def call(who: str, *words: str) -> tuple[int, dict[str, Any]]:
        monkeypatch.setenv("LOWWATER_OPERATOR", who)
        code = main([*words, "--json"])
        return code, json.loads(capsys.readouterr().out)

    return call


def ask(cli: Cli, who: str = "bob", *flags: str) -> str:
    """The request that apply leaves."""
    code, value = cli(
        who, "apply", "plan.json", "--mode", "wait-all", "--confirm", CONFIRM, "--data", "data",
        *flags,
    )  # fmt: skip
    assert (code, value["error"]["code"]) == (3, "APPROVAL_REQUIRED")
    assert value["request_id"] == value["error"]["request_id"]
    assert value["run_id"] is None
    assert {row["state"] for row in value["partitions"]} == {"not_done"}
    return str(value["request_id"])


def test_apply_asks_and_another_approves(cli: Cli) -> None:
    assert cli("bob", "approvals")[1] == {"approvals": []}
    request_id = ask(cli)
    (listed,) = cli("bob", "approvals")[1]["approvals"]
    assert (listed["request_id"], listed["state"], listed["requester"], listed["how"]) == (
        request_id, "asked", "bob", "local",
    )  # fmt: skip

    _, shown = cli("ann", "approvals", "--show", request_id)
    assert shown["plan"]["confirmation"] == CONFIRM
    code, value = cli("bob", "approvals", "--approve", request_id, "--confirm", CONFIRM)
    assert (code, value["error"]["code"]) == (3, "ROLE_TOO_LOW")
    sha256 = shown["plan_sha256"]
    code, value = cli(
        "ann", "approvals", "--approve", request_id, "--confirm", CONFIRM, "--sha256", sha256
    )
    assert (code, value["state"], value["decided_by"]) == (0, "approved", "ann")
    _, run = cli("eve", "run", value["run_id"])
    assert (run["who"], run["approved_by"]) == ("bob", "ann")
    assert cli("ann", "runs", "--verify")[1]["verification"]["ok"]


def test_an_approver_sees_over_which_connection_and_how(cli: Cli) -> None:
    request_id = ask(cli, "bob", "--bootstrap-server", "other:9092", "--canary", "--timeout", "5s")
    _, shown = cli("ann", "approvals", "--show", request_id)
    assert (shown["bootstrap_servers"], shown["client_config"]) == ("other:9092", None)
    assert (shown["canary"], shown["timeout_ms"]) == (True, 5000)


def test_an_approver_asks_another_one(cli: Cli) -> None:
    request_id = ask(cli, "ann")
    code, value = cli("ann", "approvals", "--approve", request_id, "--confirm", CONFIRM)
    assert (code, value["error"]["code"]) == (3, "SAME_PERSON")
    assert cli("carl", "approvals", "--approve", request_id, "--confirm", CONFIRM)[0] == 0


def test_a_rejected_request_is_closed(cli: Cli) -> None:
    request_id = ask(cli)
    assert cli("ann", "approvals", "--reject", request_id)[1]["state"] == "rejected"
    code, value = cli("ann", "approvals", "--approve", request_id, "--confirm", CONFIRM)
    assert (code, value["error"]["code"]) == (3, "REQUEST_CLOSED")


@pytest.mark.parametrize(
    ("words", "code", "exit_code"),
    [
        (("--approve", "none", "--confirm", "x"), "REQUEST_NOT_FOUND", 1),
        (("--show", "none"), "REQUEST_NOT_FOUND", 1),
        (("--reject", "none"), "REQUEST_NOT_FOUND", 1),
        (("--confirm", "x"), "USAGE", 1),
        (("--reject", "none", "--confirm", "x"), "USAGE", 1),
        (("--reject", "none", "--approve", "none"), "USAGE", 1),
    ],
)
def test_what_cannot_be_decided(
    cli: Cli, words: tuple[str, ...], code: str, exit_code: int
) -> None:
    found, value = cli("ann", "approvals", *words)
    assert (found, value["error"]["code"]) == (exit_code, code)


def test_text_for_people(cli: Cli, capsys: pytest.CaptureFixture[str]) -> None:
    request_id = ask(cli)
    assert main(["approvals", "--show", request_id]) == 0
    said = capsys.readouterr().out
    assert f"request {request_id} of bob: asked" in said
    assert "mode wait-all, time-out 30000 ms, over the connection that the store knows" in said
    assert f"judged by {Path('lowwater.toml').resolve()} and the data folder " in said
    assert f"{Path('data').resolve()}" in said
    assert main(["approvals"]) == 0
    assert request_id in capsys.readouterr().out


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ("s3://key:sec/r@t@bucket/data", "s3://bucket/data"),
        ("abfs://prod@acct.dfs.core.windows.net/x", "abfs://prod@acct.dfs.core.windows.net/x"),
        ("/srv/data", "/srv/data"),
    ],
)
def test_a_data_folders_address_is_told_without_its_secrets(data: str, shown: str) -> None:
    asked = Asked(
        "click", "wait-all", "bob", "local", (), "host", "t", Options(30_000, 500, 2, 0),
        {"data": data}, utc_now(),
    )  # fmt: skip
    assert asked.judged_by == {"settings": None, "data": shown}
    assert asked.described.endswith(f"by no settings file and the data folder {shown}")
