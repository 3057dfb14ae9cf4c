"""Starts worker processes: detached from us, for a run, or ready before its run is known."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dashboard.core import demo_faults
from dashboard.core.errors import JournalError
from dashboard.core.processes import environment
from dashboard.settings.settings import Settings

_LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND


def spawn(settings: Settings, run_id: str, *, again: bool = False) -> int:
    """Start a detached worker for a run; a second one ends at once at the run's file lock.

    `again`: one of it has died. Its process id. Raises JournalError WORKER_NOT_STARTED.
    """
    log = log_of(settings.state_dir, run_id)
    try:
        log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return _start(
            settings,
            ["--run", run_id, *["--again"] * again],
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), _LOG_FLAGS, 0o600),
        )
    except OSError as error:
        raise JournalError(
            f"the worker of run {run_id} cannot be started: {error}",
            "Free memory and disk, then run: lowwater runs, which starts it again.",
            code="WORKER_NOT_STARTED",
        ) from error


class ReadyWorker:
    """A worker that has started already and waits for its run; without one it ends with us.

    A Python process takes as long to start as a small purge to be planned: both happen at once.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._pipe: int | None = None
        read_end = None
        with suppress(OSError):  # then `take` starts one the plain way, and tells why it cannot
            read_end, self._pipe = os.pipe()
            nowhere = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
            _start(settings, [], (os.POSIX_SPAWN_DUP2, read_end, 0), nowhere)
        if read_end is not None:
            os.close(read_end)

    def take(self, run_id: str) -> None:
        """Let it carry out this run; another is started if it has died meanwhile."""
        with suppress(BrokenPipeError):
            if self._pipe is not None:
                os.write(self._pipe, run_id.encode() + b"\n")
                return
        spawn(self._settings, run_id)

    def close(self) -> None:
        """Let it go: one that was given no run ends."""
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None


@contextmanager
def ready_worker(settings: Settings) -> Iterator[ReadyWorker]:
    """A worker for the one run that the block queues, if it does."""
    worker = ReadyWorker(settings)
    try:
        yield worker
    finally:
        worker.close()


def told_run(state_dir: Path) -> str | None:
    """In a worker that was started without one: the run it is given, None when it is let go.

    From then on it prints into that run's log.
    """
    run_id = sys.stdin.readline().strip()
    if not run_id:
        return None
    log = log_of(state_dir, run_id)
    log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = os.open(log, _LOG_FLAGS, 0o600)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    return run_id


def log_of(state_dir: Path, run_id: str) -> Path:
    """The file into which a run's workers print."""
    return state_dir / "logs" / f"{run_id}.log"


def _start(settings: Settings, arguments: list[str], *files: tuple[object, ...]) -> int:
    command = [sys.executable, "-m", "dashboard.purge.jobs.worker", *arguments]
    command += ["--state-dir", str(settings.state_dir.absolute())]
    command += ["--on-network"] * settings.state_dir_on_network
    environ = environment(PYTHONPATH=os.pathsep.join(p for p in sys.path if p))
    if not demo_faults.is_of(settings.state_dir):
        environ.pop(demo_faults.MARK, None)  # what bears it is killed when the demo ends
    pid = os.posix_spawn(
        command[0],
        command,
        environ,
        file_actions=[*files, (os.POSIX_SPAWN_DUP2, 1, 2)],
        setsid=True,
    )
    # The worker outlives us; while we live, its end is collected so that no zombie stays.
    threading.Thread(target=_collect, args=(pid,), daemon=True, name=f"reap-{pid}").start()
    return pid


def _collect(pid: int) -> None:
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:  # somebody else collected it
        return
