"""`lowwater demo` refuses what makes no sense, and prints what the demo's verbs answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from dashboard.cli.main import main
from dashboard.demo import verbs
from dashboard.demo.state import DemoState, ProcessId


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(tmp_path))


def answer(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(
    "words",
    [
        ["down", "--port", "8501"],
        ["up", "--partitions", "5"],
        ["status", "--leader-only-preview"],
        ["status", "--without-inventory"],
        ["up", "--port", "0"],
        ["up", "--port", "70000"],
        ["up", "--clusters", "3"],
        ["status", "--clusters", "2"],
        ["load", "--partitions", "0"],
        ["sideways"],
    ],
)
def test_wrong_usage_is_exit_1(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", *words, "--json"]) == 1
    assert answer(capsys)["error"]["code"] == "USAGE"


def test_status_without_a_demo_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "status", "--json"]) == 0
    assert answer(capsys) == {"running": False, "leftovers": False}
    assert main(["demo", "status"]) == 0
    assert capsys.readouterr().out == "no demo runs\n"


def test_down_without_a_demo_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "down"]) == 0
    assert capsys.readouterr().out == "no demo runs\n"


def test_up_prints_where_the_page_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def up(
        _settings: object,
        say: Callable[[str], None],
        ready: Callable[[DemoState], None],
        *,
        port: int | None,
        data: str | None,
        parts: Sequence[str],
        leader_only_preview: bool,
        clusters: int,
    ) -> None:
        say(" ".join(parts) + " twice" * (clusters - 1))
        ready(
            DemoState(
                ProcessId(1, None), "room", "running", "4.3.1", str(data), str(data),
                bootstrap="b:1", url=f"http://127.0.0.1:{port}",
                leader_only_preview=leader_only_preview,
            )
        )  # fmt: skip

    monkeypatch.setattr(verbs, "up", up)
    assert main(["demo", "up", "--port", "8600", "--data", "/d"]) == 0
    printed = capsys.readouterr()
    where, brokers = printed.out.splitlines()[:2]
    assert where == "dashboard: http://127.0.0.1:8600"
    assert brokers == "brokers:   b:1 (Kafka 4.3.1)"
    assert printed.err == "workload inventory watch dashboard\n"
    assert main(["demo", "up", "--without-inventory"]) == 0
    assert capsys.readouterr().err == "workload watch dashboard\n"
    assert main(["demo", "up", "--clusters", "2"]) == 0
    assert capsys.readouterr().err == "workload inventory watch dashboard twice\n"
    assert main(["demo", "up", "--leader-only-preview"]) == 0
    brokers = capsys.readouterr().out.splitlines()[1]
    assert brokers.endswith("(Kafka 4.3.1, leader-only preview: not a released broker)")


def test_ctrl_c_behind_the_object_prints_no_second_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def up(_: object, say: object, ready: Callable[[DemoState], None], **__: object) -> None:
        ready(DemoState(ProcessId(1, None), "room", "running", "4.3.1", "/d", "/s"))
        raise KeyboardInterrupt

    monkeypatch.setattr(verbs, "up", up)
    assert main(["demo", "up", "--json"]) == 130
    assert "error" not in answer(capsys)


def test_help_says_what_the_preview_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--help"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "They are a preview, not a release" in printed


def test_the_preview_of_another_version_is_refused_before_anything_starts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOWWATER_KAFKA_VERSION", "4.4.0")
    assert main(["demo", "up", "--leader-only-preview", "--json"]) == 1
    error = answer(capsys)["error"]
    assert error["code"] == "PREVIEW_VERSION"
    assert "LOWWATER_KAFKA_VERSION" in error["next"]


def test_ctrl_c_is_exit_130(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(verbs, "up", interrupted)
    assert main(["demo", "up", "--json"]) == 130
    assert answer(capsys)["error"]["code"] == "INTERRUPTED"
