"""Processes that a bench began: which they are, how much memory they took, seconds of work."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any


class Clock:
    """Processor seconds of all processes: this one, Java, and the tasks' Python."""

    def __init__(self) -> None:
        self.processor: dict[str, list[float]] = {}

    def timed(self, name: str, work: Callable[[], Any]) -> float:
        """Seconds that it takes; the processor's are noted under its name."""
        before, seconds = self._processor(), timed(work)
        self.processor.setdefault(name, []).append(self._processor() - before)
        return seconds

    def _processor(self) -> float:
        ticks = 0
        for process in processes():
            with suppress(OSError):  # it ended meanwhile, and counts among its parent's children
                ticks += sum(map(int, stat(process)[11:15]))
        return ticks / os.sysconf("SC_CLK_TCK")


def processes(first: int | None = None) -> list[int]:
    """A process, by default this one, and all that came of it."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile
            parents[int(folder.name)] = int(stat(int(folder.name))[1])
    found = [os.getpid() if first is None else first]
    for process in found:
        found += [child for child, parent in parents.items() if parent == process]
    return found


def stat(process: int) -> list[str]:
    """From the state on."""
    return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()


def peaks() -> dict[str, int]:
    """Peak resident memory by what a process is, of workers that of the largest; bytes."""
    found: dict[str, int] = {}
    for process in processes():
        with suppress(OSError, IndexError):  # it ended meanwhile
            status = Path(f"/proc/{process}/status").read_text()
            name = "driver" if process == os.getpid() else status.split()[1]
            found[name] = max(found.get(name, 0), peak_of(process))
    return found


def peak_of(process: int) -> int:
    """Peak resident memory of one process, in bytes."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) << 10


def together() -> int:
    """Resident memory of all of them at this moment, in bytes: a page that several share, as
    workers do that were forked from one daemon, counts once (PSS).
    """
    found = 0
    for process in processes():
        with suppress(OSError, IndexError):  # it ended meanwhile
            rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
            found += int(rollup.split("\nPss:")[1].split()[0]) << 10
    return found


def timed(work: Callable[[], Any]) -> float:
    """Seconds that it takes."""
    began = time.monotonic()
    work()
    return time.monotonic() - began
