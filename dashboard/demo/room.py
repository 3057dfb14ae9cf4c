"""The demo's temporary folder, the mark that its processes carry, and how both are cleared."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PREFIX = "lowwater-demo-"
# In the environment of every process of a demo, and so of their children, detached or not.
# It does not begin with LOWWATER_: it is no setting.
MARK = "_LOWWATER_DEMO_ROOM"
SWEEP_SECONDS = 10.0


def make() -> Path:
    """A new room, this user's alone."""
    return Path(tempfile.mkdtemp(prefix=PREFIX))


def clear(room: str) -> None:
    """Kills every process that carries the room's mark, then removes the folder.

    Only a folder that `make` could have made is removed, whatever the state file says.
    """
    deadline = time.monotonic() + SWEEP_SECONDS
    while (pids := list(marked(room))) and time.monotonic() < deadline:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    if Path(room).name.startswith(PREFIX):
        shutil.rmtree(room, ignore_errors=True)


def marked(room: str) -> Iterator[int]:
    """Process ids, but not our own, whose environment carries the room's mark (Linux)."""
    mark = f"{MARK}={room}".encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found = mark in (entry / "environ").read_bytes().split(b"\0")
            if found and int(entry.name) != os.getpid():
                yield int(entry.name)
