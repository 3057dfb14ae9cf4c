"""How long taking stock of a disk with very many files takes, and how much memory.

`python -m tests.bench.bench_inventory [FILES]`: makes a log dir of sparse files (100,000 by
default), scans it, lists it with the shell line and reads the listing, each in a process of its
own. Scaled to a million files, without the start of a process, which is measured on an empty log
dir. The page cache is warm, as after the making; processor seconds stand beside those of the clock.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

GOAL_SECONDS, GOAL_MIB = 20.0, 300
MILLION = 1_000_000
_SUFFIXES = (".log", ".index", ".timeindex")
_SEGMENTS = 8  # of each folder


def make(log_dir: Path, files: int) -> int:
    """Folders of eight segments with their indexes and a partition.metadata; how many files."""
    log_dir.mkdir()
    (log_dir / "meta.properties").write_text("version=1\ncluster.id=bench\nnode.id=1\n")
    made = 0
    while made < files:
        folder = log_dir / f"topic-{made}-0"
        folder.mkdir()
        (folder / "partition.metadata").write_text("version: 0\ntopic_id: abcdefghijklmnopqrstuv\n")
        for number in range(_SEGMENTS):
            for suffix in _SUFFIXES:
                path = folder / f"{number * 1000:020}{suffix}"
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
                os.truncate(path, 1_048_576)
        # One time index with an entry on disk: a scan opens those that have blocks.
        with (folder / f"{0:020}.timeindex").open("r+b") as file:
            file.write((1_700_000_000_000).to_bytes(8, "big") + bytes(4))
        made += 1 + _SEGMENTS * len(_SUFFIXES)
    return made


@dataclass(frozen=True)
class Taken:
    """What one process took."""

    seconds: float
    cpu_seconds: float
    mebibytes: float


def measured(command: list[str], *, stdin: str = os.devnull, stdout: str = os.devnull) -> Taken:
    """Run one process to its end."""
    with Path(stdin).open("rb") as given, Path(stdout).open("wb") as taken:
        begun = time.perf_counter()
        process = subprocess.Popen(command, stdin=given, stdout=taken)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return Taken(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def three(folder: Path, log_dir: Path) -> dict[str, Taken]:
    """Scan, shell line and reading of one log dir."""
    lowwater = [sys.executable, "-m", "dashboard.cli.main", "inventory"]
    line, listing = str(folder / "line"), str(folder / "listing")
    out = ["--broker", "1", "--out", str(folder / "out")]
    measured([*lowwater, "command", "--log-dirs", str(log_dir)], stdout=line)
    return {
        "scan": measured([*lowwater, "scan", "--log-dirs", str(log_dir), *out]),
        "shell line": measured(["sh"], stdin=line, stdout=listing),
        "read": measured([*lowwater, "read", listing, *out]),
    }


def main(files: int = 100_000) -> int:
    """Print the table; 1 when a scan or the reading of a listing misses its goal."""
    with tempfile.TemporaryDirectory(prefix="lowwater-bench-") as name:
        folder = Path(name)
        make(folder / "empty", 0)
        made = make(folder / "logs", files)
        starts = three(folder, folder / "empty")
        found = three(folder, folder / "logs")
    print(f"{f'{made:,} files':14}{'s':>8}{'CPU s':>8}{'MiB':>6}{'a million: s':>15}{'CPU s':>8}")
    missed = []
    for what, taken in found.items():
        start, scale = starts[what], MILLION / made
        seconds = start.seconds + max(taken.seconds - start.seconds, 0) * scale
        cpu = start.cpu_seconds + max(taken.cpu_seconds - start.cpu_seconds, 0) * scale
        print(
            f"{what:14}{taken.seconds:>8.2f}{taken.cpu_seconds:>8.2f}{taken.mebibytes:>6.0f}"
            f"{seconds:>15.1f}{cpu:>8.1f}"
        )
        if what != "shell line" and (seconds > GOAL_SECONDS or taken.mebibytes > GOAL_MIB):
            missed.append(what)
    print(f"goal: a million files in {GOAL_SECONDS:g} s, {GOAL_MIB} MiB")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main(*(int(word) for word in sys.argv[1:2])))
