"""A forked worker is as one that was started: a process by itself, in its place, with its files."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dashboard.purge.jobs import worker_process
from dashboard.purge.jobs.worker_process import ReadyWorker, log_of, spawn
from dashboard.settings.settings import Settings
from tests.support.forked_workers import forked_workers

_ENDS_WITHIN = 240


@pytest.fixture(scope="module", autouse=True)
def forked() -> Iterator[None]:
    with forked_workers():
        yield


def _ended(pid: int) -> bool:
    """Wait for the end of a process that somebody else collects; whether it came."""
    until = time.monotonic() + _ENDS_WITHIN
    while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
        time.sleep(0.02)
    return not Path(f"/proc/{pid}").exists()


def test_it_leads_a_session_stands_where_we_do_and_takes_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pids: list[int] = []
    with _noted(monkeypatch, pids):
        worker = ReadyWorker(Settings(state_dir=Path("state")))
    (pid,) = pids
    assert pid == os.getsid(pid) != os.getsid(0)
    assert Path(f"/proc/{pid}/cwd").readlink() == tmp_path
    worker.take("run-1")
    worker.close()
    assert _ended(pid)
    assert "RUN_NOT_FOUND" in log_of(tmp_path / "state", "run-1").read_text()


@pytest.mark.further
def test_it_has_the_variables_of_its_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("first.toml", "second.toml"):
        monkeypatch.setenv("LOWWATER_SETTINGS", str(tmp_path / name))
        assert _ended(spawn(Settings(state_dir=tmp_path), name))
    assert "second.toml" not in log_of(tmp_path, "first.toml").read_text()


def test_it_is_killed_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pids: list[int] = []
    with _noted(monkeypatch, pids):
        first, second = (ReadyWorker(Settings(state_dir=tmp_path)) for _ in range(2))
    os.killpg(pids[0], signal.SIGKILL)
    assert _ended(pids[0])
    second.take("run-2")
    for worker in (first, second):
        worker.close()
    assert _ended(pids[1])
    assert "RUN_NOT_FOUND" in log_of(tmp_path, "run-2").read_text()


@contextmanager
def _noted(monkeypatch: pytest.MonkeyPatch, pids: list[int]) -> Iterator[None]:
    start = worker_process._start

    def noted(*given: object) -> int:
        pids.append(start(*given))  # type: ignore[arg-type]
        return pids[-1]

    with monkeypatch.context() as patched:
        patched.setattr(worker_process, "_start", noted)
        yield
