"""A worker that starts before its run is known: it takes the run, or ends with who started it."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from dashboard.core.demo_faults import MARK
from dashboard.purge.jobs import worker_process
from dashboard.purge.jobs.worker_process import ReadyWorker, log_of, ready_worker, spawn
from dashboard.settings.settings import Settings


def ended(pid: int) -> bool:
    """Wait for the end of a worker of ours; whether it came."""
    name = f"reap-{pid}"
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(240)
            return not thread.is_alive()
    return True


@pytest.fixture
def pids(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The worker processes that were started."""
    found: list[int] = []
    start = worker_process._start

    def noted(*arguments: object) -> int:
        found.append(start(*arguments))  # type: ignore[arg-type]
        return found[-1]

    monkeypatch.setattr(worker_process, "_start", noted)
    return found


def test_a_worker_without_a_run_ends_when_it_is_let_go(tmp_path: Path, pids: list[int]) -> None:
    with ready_worker(Settings(state_dir=tmp_path)):
        assert not list(tmp_path.iterdir())
    assert ended(*pids)
    assert not list(tmp_path.iterdir())  # no journal, no lock, no log


def test_a_worker_takes_the_run_it_is_told_and_prints_into_its_log(
    tmp_path: Path, pids: list[int]
) -> None:
    with ready_worker(Settings(state_dir=tmp_path)) as worker:
        worker.take("run-1")
    assert ended(*pids)
    assert "RUN_NOT_FOUND" in log_of(tmp_path, "run-1").read_text()
    assert (tmp_path / "locks" / "run-1.lock").exists()


def test_another_worker_is_started_when_the_waiting_one_has_died(
    tmp_path: Path, pids: list[int]
) -> None:
    worker = ReadyWorker(Settings(state_dir=tmp_path))
    os.kill(pids[0], signal.SIGKILL)
    assert ended(pids[0])
    worker.take("run-1")
    worker.close()
    assert len(pids) == 2
    assert ended(pids[1])
    assert "RUN_NOT_FOUND" in log_of(tmp_path, "run-1").read_text()


def test_a_process_of_a_demo_marks_workers_of_the_demos_own_journal_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What bears the mark is killed when the demo ends."""
    room = tmp_path / "lowwater-demo-x"
    (room / "state").mkdir(parents=True)
    monkeypatch.setenv(MARK, str(room))
    monkeypatch.setenv("LOWWATER_CACHE_DIR", "kept")
    started: list[dict[str, str]] = []

    def noted(_path: str, _command: list[str], environ: dict[str, str], **_named: object) -> int:
        started.append(environ)
        return 2**22  # above any process id

    monkeypatch.setattr(worker_process.os, "posix_spawn", noted)
    beside = tmp_path / "lowwater-demo-x-state"
    for state_dir in (room / "state", tmp_path / "state", beside, room / ".." / "state"):
        spawn(Settings(state_dir=state_dir), "run-1")
        ReadyWorker(Settings(state_dir=state_dir)).close()
    assert [environ.get(MARK) for environ in started] == [str(room)] * 2 + [None] * 6
    assert {environ["LOWWATER_CACHE_DIR"] for environ in started} == {"kept"}
