"""`lowwater analyze`: the child's object and exit code are relayed; Ctrl-C ends the child."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dashboard.cli.main import main
from dashboard.core import processes
from tests.support import sample_store


@pytest.fixture
def data(tmp_path: Path) -> str:
    sample_store.write(tmp_path / "data")
    return str(tmp_path / "data")


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let `analyze` start this body as its child."""
    return lambda body: monkeypatch.setattr(processes.sys, "executable", _child(tmp_path, body))


def _child(tmp_path: Path, body: str) -> str:
    """A stand-in for Python that runs `body` in place of `-m analytics …`."""
    path = tmp_path / "python"
    path.write_text(f"#!{sys.executable}\nimport json, os, signal, sys, time\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_the_childs_object_is_relayed_and_its_words_are_right(
    data: str, child: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    body = (
        "print('a stray line')\n"
        "print('reading …', file=sys.stderr)\n"
        "print(json.dumps({'analysis_id': 'a', 'snapshot_id': 's', 'tables': {'holds': 3},"
        " 'seconds': 1.25, 'words': sys.argv[1:]}))"
    )
    child(body)
    assert main(["analyze", "--full", "--data", data, "--json"]) == 0
    captured = capsys.readouterr()
    value = json.loads(captured.out)
    assert captured.err == "reading …\n"
    assert value["analysis_id"] == "a"
    assert value["words"] == [
        "-m", "analytics", "--data", data, "--cluster", sample_store.CLUSTER_ID, "--full",
    ]  # fmt: skip
    assert main(["analyze", "--data", data]) == 0
    told = capsys.readouterr().out
    assert "analysis a of snapshot s in 1.2 s" in told
    assert "not shown" not in told


def test_findings_that_are_not_shown_are_said_to_be_so(
    data: str, child: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    child(
        "print(json.dumps({'analysis_id': 'a', 'snapshot_id': 's', 'tables': {}, 'seconds': 1,"
        " 'published': False}))"
    )
    assert main(["analyze", "--data", data]) == 0
    assert "not shown: the findings that are shown are of a newer" in capsys.readouterr().out


def test_the_childs_error_keeps_its_code_and_exit(
    data: str, child: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    error = {"code": "JAVA_MISSING", "message": "no Java", "next": "Install it."}
    body = f"print(json.dumps({{'error': {error}}})); sys.exit(1)"
    child(body)
    assert main(["analyze", "--data", data, "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {"error": error}


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("sys.exit(3)", "with code 3"),
        ("print('no json')", "with code 0"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "by signal 9"),
    ],
)
def test_a_child_without_a_result_is_a_failed_analysis(
    data: str,
    child: Callable[[str], None],
    capsys: pytest.CaptureFixture[str],
    body: str,
    named: str,
) -> None:
    child(body)
    assert main(["analyze", "--data", data, "--json"]) == 70
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "ANALYSIS_FAILED"
    assert named in error["message"]


def test_without_a_snapshot_no_child_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(processes.sys, "executable", str(tmp_path / "none"))
    assert main(["analyze", "--data", str(tmp_path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "NO_SNAPSHOT"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_end_the_child_and_give_130(
    data: str, tmp_path: Path, number: signal.Signals
) -> None:
    body = (
        "try:\n"
        f"    open({str(tmp_path / 'pid')!r} + '.tmp', 'w').write(str(os.getpid()))\n"
        f"    os.rename({str(tmp_path / 'pid')!r} + '.tmp', {str(tmp_path / 'pid')!r})\n"
        "    time.sleep(60)\n"
        f"except KeyboardInterrupt:\n    open({str(tmp_path / 'tidy')!r}, 'w').close()\n"
        "    raise"
    )
    script = (
        "import sys; from dashboard.cli.main import main;"
        f"sys.executable = {_child(tmp_path, body)!r};"
        f"sys.exit(main(['analyze', '--data', {data!r}, '--json']))"
    )
    ours = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(processes.__file__).parents[2])},
    )
    deadline = time.monotonic() + 120
    while not (tmp_path / "pid").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    child = int((tmp_path / "pid").read_text())
    ours.send_signal(number)
    out, err = ours.communicate(timeout=120)
    assert "Traceback" not in err
    assert ours.returncode == 130
    assert json.loads(out)["error"]["code"] == "INTERRUPTED"
    assert (tmp_path / "tidy").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
