"""Child processes that end with their parent, and ways to name, ask and end a process safely."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from dashboard.core.processes import die_with_parent


def spawn(
    command: Sequence[str],
    log: Path,
    *,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Starts a child in its own session, output appended to `log`; killed when we die.

    Call it from the main thread: Linux sends the death signal when the forking *thread* ends.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environ) if environ is not None else None,
            cwd=cwd,
            # Its own session: Ctrl-C reaches the supervisor alone, which stops children in order.
            start_new_session=True,
            preexec_fn=die_with_parent(),  # noqa: PLW1509 - calls prctl and getppid only
        )


def run(command: Sequence[str], timeout_seconds: float) -> tuple[int, str]:
    """Runs a child to its end: its exit code, and all that it printed.

    An interrupt kills it and waits until it is gone, so that it writes nothing after us; so does
    the timeout, which raises subprocess.TimeoutExpired.
    """
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=die_with_parent(),  # noqa: PLW1509 - calls prctl and getppid only
    ) as child:
        try:
            told, _ = child.communicate(timeout=timeout_seconds)
        except BaseException:
            child.kill()
            child.wait()
            raise
    return child.returncode, told


def stop(process: subprocess.Popen[bytes], grace_seconds: float) -> None:
    """SIGTERM to the child's whole session group, SIGKILL after the grace; returns when gone."""
    signal_group(process, signal.SIGCONT)
    signal_group(process, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(grace_seconds)
    signal_group(process, signal.SIGKILL)
    process.wait()


def signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Signals every process of the child's group; one that is gone is no error."""
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return


def started_at_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot (/proc/PID/stat field 22); None if gone.

    Process ids are used again: pid and start together name one process.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in "ZX" else int(fields[18])


def wait_gone(pid: int, started: int | None, timeout_seconds: float) -> bool:
    """Waits until that very process has ended; False when it is still there."""
    deadline = time.monotonic() + timeout_seconds
    while started_at_ticks(pid) == started and started is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def page_is_up(url: str) -> bool:
    """Whether the server of the pages at `url`, on this machine, says that it is healthy."""
    # No proxy of the environment knows it: its loopback is another one.
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    health = urllib.request.Request(f"{url}/_stcore/health", headers={"Host": "localhost"})
    try:
        with direct.open(health, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def is_stopped(pid: int) -> bool:
    """Whether every thread of a process stands still (SIGSTOP), or it is gone; Linux alone."""
    try:
        stats = [task.joinpath("stat").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return not Path(f"/proc/{pid}").exists()
    return all(stat.rpartition(")")[2].split()[0] in "TtZX" for stat in stats)
