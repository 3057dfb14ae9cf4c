"""`lowwater demo` refuses what makes no sense, and prints what the demo's verbs answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dashboard.cli.main import main
from dashboard.demo import verbs


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
        ["up", "--port", "0"],
        ["up", "--port", "70000"],
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
        ready: Callable[[dict[str, Any]], None],
        *,
        port: int | None,
        data: str | None,
    ) -> None:
        say("brokers up 5 s")
        ready({"url": f"http://127.0.0.1:{port}", "bootstrap": "b:1", "settings": data})

    monkeypatch.setattr(verbs, "up", up)
    assert main(["demo", "up", "--port", "8600", "--data", "/d"]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[0] == "dashboard: http://127.0.0.1:8600"
    assert printed.err == "brokers up 5 s\n"


def test_ctrl_c_is_exit_130(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(verbs, "up", interrupted)
    assert main(["demo", "up", "--json"]) == 130
    assert answer(capsys)["error"]["code"] == "INTERRUPTED"
