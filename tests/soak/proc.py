"""What /proc tells of processes: who descends from whom, memory, open files, and zombies."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Process:
    """One process as /proc has it; `started` in clock ticks since boot."""

    pid: int
    parent: int
    state: str
    started: int
    command: tuple[str, ...]

    @property
    def name(self) -> tuple[int, int]:
        """Process ids are used again: id and start together name one."""
        return (self.pid, self.started)

    @property
    def zombie(self) -> bool:
        return self.state == "Z"


def read_all(proc: Path = PROC) -> dict[int, Process]:
    """Every process there is, by id."""
    found = (read(int(entry.name), proc) for entry in proc.glob("[0-9]*"))
    return {process.pid: process for process in found if process is not None}


def read(pid: int, proc: Path = PROC) -> Process | None:
    """One process; None when it is gone."""
    try:
        stat = (proc / str(pid) / "stat").read_text(encoding="ascii", errors="replace")
        words = (proc / str(pid) / "cmdline").read_bytes().split(b"\0")[:-1]
    except OSError:
        return None
    state, *fields = stat.rpartition(")")[2].split()
    command = tuple(word.decode(errors="replace") for word in words)
    return Process(pid, int(fields[0]), state, int(fields[18]), command)


def descendants(processes: Mapping[int, Process], roots: Iterable[int]) -> list[Process]:
    """The roots that are there and all below them, by id."""
    wanted = set(roots)
    while True:
        more = {p.pid for p in processes.values() if p.parent in wanted} - wanted
        if not more:
            return [processes[pid] for pid in sorted(wanted) if pid in processes]
        wanted |= more


def rss_kb(pid: int) -> int | None:
    """Resident memory in KiB; None when the process is gone or a zombie."""
    with suppress(OSError):
        for line in (PROC / str(pid) / "status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    return None


def open_files(pid: int) -> int | None:
    """Open file handles; None when they cannot be counted."""
    with suppress(OSError):
        return sum(1 for _ in (PROC / str(pid) / "fd").iterdir())
    return None


def with_environment(name: str, value: str) -> Iterator[int]:
    """Ids of processes, but not our own, that have this variable of the environment."""
    mark = f"{name}={value}".encode()
    for entry in PROC.glob("[0-9]*"):
        with suppress(OSError):
            found = mark in (entry / "environ").read_bytes().split(b"\0")
            if found and int(entry.name) != os.getpid():
                yield int(entry.name)


def environment(pid: int) -> dict[str, str]:
    """The environment with which a process was started."""
    lines = (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    pairs = (line.decode().partition("=") for line in lines if b"=" in line)
    return {name: value for name, _, value in pairs}
