"""Children end with their parent, and a process id alone never names a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from dashboard.demo import processes

PARENT = """
import os, sys, time
from pathlib import Path
from dashboard.demo import processes
child = processes.spawn(["sleep", "60"], Path(sys.argv[1]))
print(child.pid, flush=True)
time.sleep(60)
"""
STUBBORN = "trap '' TERM; sleep 60 & echo ready; wait; wait"


def test_a_child_dies_when_its_parent_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path / "log")], stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        started = processes.started_at_ticks(child)
        assert started is not None
        parent.kill()
    assert processes.wait_gone(child, started, 60)


def test_one_that_does_not_listen_is_killed_with_its_children(tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = processes.spawn(["sh", "-c", STUBBORN], log)
    while "ready" not in log.read_text():
        os.sched_yield()
    processes.stop(child, grace_seconds=0.2)
    assert child.returncode == -signal.SIGKILL


def test_a_suspended_child_can_be_stopped(tmp_path: Path) -> None:
    child = processes.spawn(["sleep", "60"], tmp_path / "log")
    processes.signal_group(child, signal.SIGSTOP)
    processes.stop(child, grace_seconds=60)
    assert child.returncode == -signal.SIGTERM


def test_a_child_has_its_own_session_so_that_ctrl_c_does_not_reach_it(tmp_path: Path) -> None:
    child = processes.spawn(["sleep", "60"], tmp_path / "log")
    assert os.getsid(child.pid) == child.pid
    processes.stop(child, grace_seconds=60)


def test_a_process_that_ended_has_no_start(tmp_path: Path) -> None:
    child = processes.spawn(["true"], tmp_path / "log")
    child.wait()
    assert processes.started_at_ticks(child.pid) is None
    assert processes.started_at_ticks(os.getpid()) is not None


def test_waiting_ends_without_success_while_the_process_lives() -> None:
    own = os.getpid()
    assert not processes.wait_gone(own, processes.started_at_ticks(own), 0.1)
    assert processes.wait_gone(own, 1, 0.1)  # the id was used again by another process
