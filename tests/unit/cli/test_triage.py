"""`lowwater triage`: the question that flags describe, the plan that is written, the exit code."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.cli.main import main
from dashboard.domain.model import LogDir
from dashboard.purge.plan.plan import Plan
from dashboard.triage import answer
from dashboard.triage.selection import Question
from tests.unit.triage.world import D1, SEGMENT, World, ask, read_to_the_end

WORDS = ["triage", "--broker", "2", "--need", "300MiB", "--within", "30m", "--out", "plan.json"]


@pytest.fixture
def world() -> World:
    return World({("safe", 0): read_to_the_end(4), ("unknown", 0): read_to_the_end(9)})


@pytest.fixture
def asked(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What `triage` was asked; the answer is that of the world, with topic `safe` declared."""
    found: list[dict[str, Any]] = []

    def triage(_settings: Any, root: str, cluster: Any, question: Question, **more: Any) -> Any:
        found.append({"root": root, "cluster": cluster, "question": question, **more})
        return ask(
            tmp_path, world, question.need_bytes, "safe", broker=question.broker_id,
            within=question.within, log_dir=question.log_dir, waive=question.waive,
            accept_undeclared=question.accept_undeclared,
        )  # fmt: skip

    monkeypatch.setattr(answer, "triage", triage)
    return found


def printed(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    return value


def test_flags_become_the_question_and_the_plan_is_an_ordinary_one(
    asked: list[dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOWWATER_OPERATOR", "alice")
    more = ["--log-dir", D1, "--accept-undeclared", "asked", "--cluster", "prod", "--data", "d",
            "--bootstrap-server", "h:2"]  # fmt: skip
    assert main([*WORDS, *more, "--json"]) == 0
    (call,) = asked
    assert (call["root"], call["cluster"]) == ("d", "prod")
    assert call["client_overrides"] == {"bootstrap.servers": "h:2"}
    assert call["question"] == Question(
        2, 3 * SEGMENT, timedelta(minutes=30), D1, "asked", (), "alice"
    )
    view = printed(capsys)
    written = Plan.from_json_text(Path("plan.json").read_text(), "plan.json")
    assert view["plan"]["sha256"] == written.sha256
    assert [p["topic"] for p in view["partitions"]] == ["safe"]
    assert (view["met"], view["sure"], view["bytes_low"]) == (True, "sure", 4 * SEGMENT)
    assert view["plan"]["confirmation"] == "purge safe on prod"
    assert view["taken_at"] == view["analysis_at"] == "2026-03-01T11:59:20.000Z"
    assert (view["age_seconds"], view["unusable"]) == (40, None)


def test_a_part_is_written_and_the_exit_code_says_that_it_is_one(
    asked: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word.replace("300MiB", "1GiB") for word in WORDS]
    assert main([*words, "--json"]) == 3
    view = printed(capsys)
    assert view["error"]["code"] == "NEED_NOT_MET"
    assert view["tiers"][1]["not_accepted"]["bytes_likely"] == 9 * SEGMENT
    assert Plan.from_json_text(Path("plan.json").read_text(), "p").free_partitions


def test_too_late_is_told_apart(
    asked: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word.replace("30m", "2m") for word in WORDS]
    assert main([*words, "--json"]) == 3
    view = printed(capsys)
    assert (view["error"]["code"], view["sure"], view["in_time"]) == ("NOT_IN_TIME", "sure", False)
    assert view["time"]["helps"]


def test_nothing_safe_writes_no_plan(
    world: World, asked: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    for part in world.parts_of.values():
        part.commits = {"app": 1}
    assert main([*WORDS, "--json"]) == 3
    view = printed(capsys)
    assert (view["error"]["code"], view["plan"]) == ("NOTHING_SAFE", None)
    assert not Path("plan.json").exists()


def test_an_offline_log_dir_has_steps_instead_of_a_plan(
    world: World, asked: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    world.dirs = [LogDir(2, D1, None, None, "KAFKA_STORAGE_ERROR")]
    assert main([*WORDS, "--json"]) == 3
    view = printed(capsys)
    assert (view["error"]["code"], view["plan"]) == ("LOG_DIR_OFFLINE", None)
    assert any("restart" in step for step in view["instead"])
    assert main(WORDS) == 3
    shown = capsys.readouterr()
    assert "- Make room beside the segments" in shown.out
    assert shown.err.count("next:") == 1


def test_people_read_the_next_two_commands(
    asked: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(WORDS) == 0
    text = capsys.readouterr().out
    assert "Surely enough: 1 partition of 1 topic frees 400.0 MiB on this disk" in text
    assert "written to plan.json, by the snapshot of 2026-" in text
    assert "lowwater preview plan.json" in text
    assert 'lowwater apply plan.json --mode wait-all --confirm "purge safe on prod"' in text


@pytest.mark.parametrize(
    ("flag", "value"), [("--need", "40"), ("--need", "0B"), ("--within", "soon"), ("--out", "/")]
)
def test_a_question_that_cannot_be_meant_is_wrong_usage(
    asked: list[dict[str, Any]], flag: str, value: str
) -> None:
    words = list(WORDS)
    words[words.index(flag) + 1] = value
    assert main(words) == 1
    assert asked == []
