"""The state file of a running demo: which processes, ports and folders are its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dashboard.core import canonical
from dashboard.core.demo_faults import MARK
from dashboard.demo.processes import started_at_ticks

FILE_NAME = "demo.json"


@dataclass(frozen=True, slots=True)
class ProcessId:
    """One process for certain: its id, and when it started (ids are used again)."""

    pid: int
    started: int | None

    @classmethod
    def of(cls, pid: int) -> ProcessId:
        return cls(pid, started_at_ticks(pid))

    @property
    def alive(self) -> bool:
        return self.started is not None and started_at_ticks(self.pid) == self.started


@dataclass(frozen=True, slots=True)
class DemoState:
    """What a supervisor wrote down about itself; `room` is its temporary folder."""

    supervisor: ProcessId
    room: str
    phase: str  # starting, running
    kafka_version: str
    data: str
    settings: str
    bootstrap: str | None = None
    cluster_id: str | None = None
    url: str | None = None
    leader_only_preview: bool = False
    children: Mapping[str, ProcessId] = field(default_factory=dict)


def read(state_dir: Path) -> DemoState | None:
    """The demo that was started last and not ended in order; None without one.

    A file that is not ours to understand counts as none: it is replaced by the next start.
    """
    try:
        raw = (state_dir / FILE_NAME).read_text(encoding="utf-8")
        return canonical.read(canonical.parse_json(raw), DemoState)
    except (OSError, ValueError):
        return None


def write(state_dir: Path, state: DemoState) -> None:
    """Replaces the state file in one step. Raises OSError, and then leaves the old one."""
    state_dir.mkdir(parents=True, exist_ok=True)
    partial = state_dir / f"{FILE_NAME}.partial"
    try:
        partial.write_text(canonical.canonical(canonical.written(state)), encoding="utf-8")
        partial.replace(state_dir / FILE_NAME)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def remove(state_dir: Path, room: str) -> None:
    """Removes the state file if it is still about that room."""
    found = read(state_dir)
    if found is not None and found.room == room:
        (state_dir / FILE_NAME).unlink(missing_ok=True)


def furnish(own: Path, callers: Path) -> None:
    """Makes the folder of the demo's own journal; the state file is found from there, too.

    So `lowwater demo` finds its demo in a shell with the demo's settings.
    """
    own.mkdir(mode=0o700)
    (own / FILE_NAME).symlink_to(callers.resolve() / FILE_NAME)


def home(state_dir: Path) -> Path:
    """Where the state file of this folder lies; to be asked before its room is cleared."""
    return (state_dir / FILE_NAME).resolve().parent


# The demo's temporary folder, the mark that its processes carry, and how both are cleared.

PREFIX = "lowwater-demo-"
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
