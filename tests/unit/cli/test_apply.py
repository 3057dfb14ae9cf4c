"""`lowwater apply`, `run` and `runs`: queue, wait, detach, refuse; the worker runs in here."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dashboard.cli.main import main
from dashboard.core.clock import utc_now
from dashboard.core.errors import JournalError
from dashboard.purge.jobs import queue
from dashboard.purge.journal import head
from dashboard.purge.journal.journal import Journal, open_default
from dashboard.purge.plan.plan import Plan
from dashboard.settings.settings import Settings, load
from tests.unit.cli.plans import a_plan, known_cluster
from tests.unit.cli.workers import start_with

CONFIRM = "purge orders on prod"
Worker = Callable[[Journal, str], None]


def _finish(*states: str, run: str = "done") -> Worker:
    """A worker that brings the partitions, in order, to these states, and closes the run."""

    def work(journal: Journal, run_id: str) -> None:
        rows = [
            replace(row, state=state, low_watermark=600, leader_log_start_offset=600)
            for row, state in zip(journal.partitions(run_id), states, strict=True)
        ]
        journal.set_run(run_id, "running", utc_now())
        journal.record(run_id, "read", rows, utc_now())
        journal.set_run(run_id, run, utc_now())

    return work


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Callable[[Worker], None]:
    """Let this function be what `spawn` starts."""

    def place(work: Worker) -> None:
        def spawn(settings: Settings, run_id: str) -> int:
            journal = open_default(settings)
            work(journal, run_id)
            journal.close()
            return 0

        start_with(monkeypatch, spawn)

    return place


@pytest.fixture
def plan(alone: Path) -> Plan:
    """plan.json, and a data folder that knows its cluster."""
    known_cluster(alone)
    plan = a_plan()
    Path("plan.json").write_text(plan.to_json_text())
    return plan


def _apply(*more: str, mode: str = "wait-all", confirm: str = CONFIRM) -> int:
    words = ["apply", "plan.json", "--mode", mode, "--confirm", confirm, "--data", "data"]
    return main([*words, "--json", *more])


def _printed(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    value: dict[str, Any] = json.loads(out)
    return value


@pytest.mark.parametrize(
    ("mode", "closed", "exit_code"),
    [
        ("wait-all", ("done", "done", "done"), 0),
        ("wait-all", ("partial", "done", "leader_done"), 2),
        ("leader-only-verified", ("done", "done", "leader_done"), 0),
        ("leader-only", ("partial", "leader_done", "not_done"), 2),
        ("wait-all", ("refused", "not_done", "not_done"), 3),
        ("wait-all", ("partial", "done", "reverted"), 2),
    ],
)
def test_the_exit_code_tells_how_the_run_closed(  # noqa: PLR0917 parametrized
    plan: Plan,
    worker: Callable[[Worker], None],
    capsys: pytest.CaptureFixture[str],
    mode: str,
    closed: tuple[str, ...],
    exit_code: int,
) -> None:
    run, *states = closed  # the run's state, then its partitions'
    worker(_finish(*states, run=run))
    assert _apply(mode=mode) == exit_code
    value = _printed(capsys)
    assert (value["state"], value["mode"], value["receipt"]) == (run, mode, None)
    assert [p["state"] for p in value["partitions"]] == states
    contract = (
        "topic partition target_offset state low_watermark leader_log_start_offset error "
        "followers_behind"
    )
    assert set(contract.split()) <= set(value["partitions"][0])
    assert main(["run", value["run_id"], "--json"]) == exit_code
    assert _printed(capsys)["run_id"] == value["run_id"]


@pytest.mark.parametrize(
    ("words", "exit_code", "code"),
    [
        ({"confirm": "purge 2 topics on prod"}, 3, "CONFIRMATION_MISMATCH"),
        ({"mode": "fast"}, 1, "MODE_UNKNOWN"),
    ],
)
def test_a_wrong_sentence_or_mode_sends_nothing(
    plan: Plan,
    capsys: pytest.CaptureFixture[str],
    words: dict[str, str],
    exit_code: int,
    code: str,
) -> None:
    assert _apply(**words) == exit_code
    assert _printed(capsys)["error"]["code"] == code
    assert main(["runs", "--json"]) == 0
    assert _printed(capsys)["runs"] == []


def test_a_refusal_lists_each_partition_as_not_done_beside_the_error(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _apply("--sha256", "0" * 64) == 3
    value = _printed(capsys)
    assert (value["run_id"], value["state"], value["receipt"]) == (None, "refused", None)
    assert {p["state"] for p in value["partitions"]} == {"not_done"}
    assert [p["error"] for p in value["partitions"]] == [
        "PLAN_EDITED",
        "PLAN_EDITED",
        "under-replicated",
    ]
    assert value["error"]["code"] == "PLAN_EDITED"


def test_a_plan_that_was_edited_is_refused_with_the_keys_of_a_run(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it says of partitions is not repeated: nobody knows what the plan said."""
    text = Path("plan.json").read_text()
    Path("plan.json").write_text(text.replace('"target_offset":600', '"target_offset":900'))
    assert _apply() == 3
    value = _printed(capsys)
    assert (value["run_id"], value["state"], value["receipt"]) == (None, "refused", None)
    assert (value["mode"], value["partitions"], value["counts"]) == ("wait-all", [], {})
    assert value["error"]["code"] == "PLAN_EDITED"


def test_a_plan_without_a_free_partition_is_refused(
    alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known_cluster(alone)
    Path("plan.json").write_text(a_plan(all_guarded=True).to_json_text())
    assert _apply() == 3
    value = _printed(capsys)
    assert value["error"]["code"] == "NOTHING_FREE"
    assert value["counts"] == {"not_done": len(value["partitions"])}
    assert value["watched_until"] is None
    row = value["partitions"][0]
    assert (row["leader_id"], row["followers"], row["wait_forecast"]) == (None, [], None)
    assert (row["dead_replicas"], row["waited_seconds"]) == ([], None)


def test_an_expired_plan_is_refused(alone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known_cluster(alone)
    Path("plan.json").write_text(a_plan(hours_ago=5).to_json_text())
    assert _apply() == 3
    assert _printed(capsys)["error"]["code"] == "PLAN_EXPIRED"


def test_a_plan_runs_once_and_the_earlier_run_is_shown(
    plan: Plan, worker: Callable[[Worker], None], capsys: pytest.CaptureFixture[str]
) -> None:
    worker(_finish("done", "done"))
    assert _apply() == 0
    first = _printed(capsys)
    assert _apply() == 3
    again = _printed(capsys)
    assert again["run_id"] == first["run_id"]
    assert again["error"]["code"] == "PLAN_ALREADY_APPLIED"


def test_read_only_settings_refuse_every_purge(
    plan: Plan, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOWWATER_READ_ONLY", "true")
    assert _apply() == 3
    assert _printed(capsys)["error"]["code"] == "READ_ONLY"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--cluster", "test"], "CLUSTER_MISMATCH"),
        (["--timeout", "soon"], "DURATION_INVALID"),
        (["--client-config", "none.properties"], "CLIENT_CONFIG_UNREADABLE"),
    ],
)
def test_bad_flags_are_named_and_nothing_is_queued(
    plan: Plan, capsys: pytest.CaptureFixture[str], words: list[str], code: str
) -> None:
    assert _apply(*words) == 1
    assert _printed(capsys)["error"]["code"] == code
    assert main(["runs", "--json"]) == 0
    assert _printed(capsys)["runs"] == []


def test_a_data_folder_that_does_not_know_the_cluster_is_refused(
    alone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("plan.json").write_text(a_plan().to_json_text())
    assert _apply() == 1
    assert _printed(capsys)["error"]["code"] == "NO_SNAPSHOT"


def test_ctrl_c_while_waiting_detaches_and_the_run_stays_open(
    plan: Plan,
    worker: Callable[[Worker], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_words: Any, **_more: Any) -> None:
        raise KeyboardInterrupt

    worker(lambda journal, run_id: journal.set_run(run_id, "running", utc_now()))
    monkeypatch.setattr(queue, "wait", interrupted)
    assert _apply() == 130
    value = _printed(capsys)
    assert value["state"] == "running"
    assert value["error"]["code"] == "DETACHED"
    assert f"lowwater run {value['run_id']} --wait" in value["error"]["next"]


@pytest.mark.parametrize("as_json", [True, False])
def test_a_run_whose_worker_cannot_be_started_is_told_with_the_error(
    plan: Plan, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    def no_memory(_settings: Settings, _run_id: str) -> int:
        raise JournalError("no memory", "Free it.", code="WORKER_NOT_STARTED")

    start_with(monkeypatch, no_memory)
    words = ["apply", "plan.json", "--mode", "wait-all", "--confirm", CONFIRM, "--data", "data"]
    assert main([*words, *(["--json"] if as_json else [])]) == 70
    if as_json:
        value = _printed(capsys)
        assert (value["state"], value["error"]["code"]) == ("queued", "WORKER_NOT_STARTED")
        assert value["run_id"] is not None
    else:
        told = capsys.readouterr().err
        assert "error: no memory" in told and "is queued all the same" in told


def test_an_open_run_is_exit_0_and_takes_wishes(
    plan: Plan,
    worker: Callable[[Worker], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker(lambda _journal, _run_id: None)
    settings = replace(load(), data="data")
    journal = open_default(settings)
    run_id = queue.enqueue(
        settings, journal, plan, mode="wait-all", confirm=CONFIRM, sha256=None, who="me",
        token="t",
    )  # fmt: skip
    for flag, wish in (("--pause", "pause"), ("--resume", None), ("--cancel", "cancel")):
        assert main(["run", run_id, flag, "--json"]) == 0
        assert _printed(capsys)["state"] == "queued"
        assert journal.wish(run_id) == wish
    _finish("done", "done")(journal, run_id)
    assert main(["run", run_id, "--wait", "--json"]) == 0
    assert _printed(capsys)["state"] == "done"
    assert main(["run", run_id, "--cancel", "--json"]) == 3
    assert _printed(capsys)["error"]["code"] == "RUN_CLOSED"
    journal.close()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["run", "none"], "RUN_NOT_FOUND"),
        (["run", "none", "--pause", "--cancel"], "USAGE"),
        (["run", "none", "--receipt"], "USAGE"),
    ],
)
def test_an_unknown_run_or_contradiction_is_named(
    capsys: pytest.CaptureFixture[str], words: list[str], code: str
) -> None:
    assert main([*words, "--json"]) == 1
    assert _printed(capsys)["error"]["code"] == code


def test_people_see_states_messages_and_the_receipt(
    plan: Plan, worker: Callable[[Worker], None], capsys: pytest.CaptureFixture[str]
) -> None:
    worker(_finish("done", "done"))
    words = ["apply", "plan.json", "--mode", "wait-all", "--confirm", CONFIRM, "--data", "data"]
    assert main(words) == 0
    captured = capsys.readouterr()
    assert "done: 2 done" in captured.out
    assert "receipt: not known yet" in captured.out
    assert ": queued" in captured.err
    assert main(["runs", "--verify"]) == 0
    assert "chain verified to entry" in capsys.readouterr().out


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_while_it_is_queued_says_that_it_is(
    alone: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    sign: signal.Signals,
) -> None:
    """The journal has the run by then, and some worker carries it out."""
    known_cluster(alone)
    Path("plan.json").write_text(a_plan().to_json_text())
    durable, struck = os.fdatasync, []

    def slow(file: int) -> None:
        durable(file)
        if not struck:
            struck.append(file)
            os.kill(os.getpid(), sign)

    monkeypatch.setattr(head.os, "fdatasync", slow)
    words = ["apply", "plan.json", "--mode", "wait-all", "--confirm", CONFIRM, "--data", "data"]
    assert main([*words, "--json"]) == 130
    answer = json.loads(capsys.readouterr().out)
    with closing(open_default(load())) as journal:
        (run,) = journal.runs()
    assert (answer["run_id"], answer["error"]["code"]) == (run.run_id, "DETACHED")
