"""Peak memory of each process of an analysis: `python -m tests.bench.bench_memory ROW`.

ROW `history`: 1,000,000 x 3, 12 snapshots at once. ROW `inventory`: 100,000 x 3 with 120 segments a
replica, 36 million, twice: anew, and going on. ROW `kept`: 100,000 x 3, 48 snapshots at once, then
the newest by what was known before it. Snapshots are written by a process of its own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from analytics import job
from analytics.session.session import open_session
from dashboard.core.clock import utc_now
from dashboard.settings.settings import load
from dashboard.store.snapshots import ClusterStore, Store
from tests.bench.large_history import EVERY, Shape, write
from tests.bench.processes import Clock, peaks, together

MIB = 1 << 20
MOST_DRIVER, MOST_WORKER = 700 * MIB, 1024 * MIB
MOST_SECONDS = 100.0  # of the row `history`
MOST_TOGETHER = 1638 * MIB  # of the row `kept`
_NAME = 60
_EVERY_SECONDS = 0.5
ROWS = {
    "history": Shape(1_000_000, 10_000, 12, _NAME),
    "inventory": Shape(100_000, 1_000, 2, _NAME, 120),
    "kept": Shape(100_000, 1_000, 48),
}


@dataclass(frozen=True)
class Measured:
    """Seconds of an analysis, and the peak of each kind of process by then, in bytes; `together`:
    the most that all of them held at one moment of it, shared pages once.
    """

    seconds: float
    processor: float  # seconds of all processes
    peak: dict[str, int]
    together: int

    @property
    def driver(self) -> int:
        return self.peak["driver"]

    @property
    def worker(self) -> int:
        """The largest of the tasks' Python processes."""
        return max((s for name, s in self.peak.items() if name.startswith("python")), default=0)


def main() -> int:
    """Measure and print; 1 when a goal was missed."""
    options = _parser().parse_args()
    shape = _shape(options)
    if options.write:
        began = utc_now().replace(microsecond=0) - EVERY * (shape.snapshots + 1)
        write(_cluster(options.write), began, shape, range(shape.snapshots), at_once=1)
        return 0
    with _folder(options.keep) as folder:
        if not _cluster(folder).ids("snapshots"):
            command = [sys.executable, "-m", "tests.bench.bench_memory", *sys.argv[1:]]
            subprocess.run([*command, "--write", folder], check=True)
        missed = measure(_cluster(folder), options.row)
    print(f"load average of the last minute: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"goals missed: {'; '.join(missed)}" if missed else "every goal was reached")
    return int(bool(missed))


def measure(cluster: ClusterStore, row: str) -> list[str]:
    """Analyze a row's snapshots in one session; the goals that were missed."""
    settings = load()
    spark = open_session(settings)

    def analyzed(snapshot: str, *, full: bool) -> Callable[[], object]:
        return lambda: job.analyze(
            spark, cluster, settings, now=utc_now, snapshot_id=snapshot, full=full
        )

    snapshots = cluster.ids("snapshots")
    further = {"history": [], "inventory": snapshots[1:], "kept": snapshots[-1:]}[row]
    first = snapshots[-1 - len(further)]
    runs = {"anew": analyzed(first, full=True)} | {
        f"going on, {n}": analyzed(name, full=False) for n, name in enumerate(further, 1)
    }
    missed = []
    for name, work in runs.items():
        found = observed(work)
        told = ", ".join(f"{kind} {size / MIB:,.0f} MiB" for kind, size in found.peak.items())
        took = f"{found.seconds:.1f} s, {found.processor:.1f} of the processor"
        whole = f"all together {found.together / MIB:,.0f} MiB"
        print(f"{row}, {name}: {took}; peak memory: {told}; {whole}", flush=True)
        missed += _missed(f"{row}, {name}", found, row)
    spark.stop()
    return missed


def _missed(name: str, found: Measured, row: str) -> list[str]:
    goals = {
        "driver at most 700 MiB": found.driver <= MOST_DRIVER,
        "a worker at most 1 GiB": found.worker <= MOST_WORKER,
        f"{MOST_SECONDS:.0f} s": row != "history" or found.seconds <= MOST_SECONDS,
        "1.6 GiB together": row != "kept" or found.together <= MOST_TOGETHER,
    }
    return [f"{name}: {goal}" for goal, reached in goals.items() if not reached]


def observed(work: Callable[[], object]) -> Measured:
    """Run it, and look at all processes meanwhile: workers end when nobody needs them."""
    most: dict[str, int] = {}
    moments = [together()]
    over = threading.Event()

    def look() -> None:
        while not over.wait(_EVERY_SECONDS):
            moments.append(together())
            for name, size in peaks().items():
                most[name] = max(most.get(name, 0), size)

    clock, watcher = Clock(), threading.Thread(target=look)
    watcher.start()
    try:
        seconds = clock.timed("", work)
    finally:
        over.set()
        watcher.join()
    (processor,) = clock.processor[""]
    for name, size in peaks().items():
        most[name] = max(most.get(name, 0), size)
    return Measured(seconds, processor, most, max(moments))


def _shape(options: argparse.Namespace) -> Shape:
    whole = ROWS[options.row]
    partitions = options.partitions or whole.partitions
    groups = max(whole.groups * partitions // whole.partitions, 10)
    return Shape(
        partitions, groups, options.snapshots or whole.snapshots, whole.name_width, whole.segments
    )


def _cluster(folder: str) -> ClusterStore:
    return ClusterStore(Store(folder), "bench")


@contextmanager
def _folder(kept: str | None) -> Iterator[str]:
    if kept is not None:
        Path(kept).mkdir(parents=True, exist_ok=True)
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="lowwater-bench-") as folder:
        yield folder


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("row", choices=tuple(ROWS))
    parser.add_argument("--partitions", type=int, help="fewer of them, to try it")
    parser.add_argument("--snapshots", type=int)
    parser.add_argument("--keep", metavar="DIR", help="write snapshots there once, and keep them")
    parser.add_argument("--write", metavar="DIR", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
