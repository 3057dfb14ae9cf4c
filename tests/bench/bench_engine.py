"""The analysis of a history beside DuckDB and Polars: `python -m tests.bench.bench_engine`.

Fresh findings after a new snapshot, a full recomputation, and the first finding of a new process.
Each engine's tables are compared row by row. `--large` adds a longer history and a larger cluster.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from statistics import median
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from analytics import job
from analytics.session.session import open_session
from dashboard.core.clock import utc_now
from dashboard.settings.settings import Settings, load
from dashboard.store.snapshots import ClusterStore, Store
from tests.bench import engine_peers as peers
from tests.bench.large_history import EVERY, Shape, lengthen, write
from tests.bench.processes import Clock, timed

RUNS = 3
KEPT = 48
LONGER = 432  # snapshots more: ten times as many
# The goals of docs/benchmarks.md, as shares of a peer's time or of our own.
MOST_FRESH = 0.5
MOST_LONGER = 1.1
GROUPS = 1000
MOST_AGAINST_PEERS = 2.5
MOST_LARGE = 4.0
MOST_FIRST_SECONDS = 4.0
_TABLES = ("holds", "reclaimable", "trends")
_PEERS = {"DuckDB": peers.by_duckdb, "Polars": peers.by_polars}


class Lab:
    """One store with a history, analyzed in one session."""

    def __init__(self, spark: SparkSession, folder: str, shape: Shape) -> None:
        self.spark, self.shape = spark, shape
        self.settings: Settings = load()
        self.cluster = ClusterStore(Store(folder), "bench")
        self.began = utc_now().replace(microsecond=0) - EVERY * (shape.snapshots + 2 * RUNS + 4)
        self.step = 0

    def grow(self, snapshots: int) -> None:
        """The next snapshots of the history."""
        steps = range(self.step, self.step + snapshots)
        write(self.cluster, self.began, self.shape, steps)
        self.step = steps.stop

    def analyze(self, *, full: bool = False) -> float:
        """Seconds of one analysis of the newest snapshot."""
        return timed(lambda: job.analyze(
            self.spark, self.cluster, self.settings, now=utc_now, full=full))  # fmt: skip

    def files(self) -> dict[str, Any]:
        """What peers read: the newest KEPT snapshots."""
        return peers.paths(self.cluster.path, self.cluster.ids("snapshots")[-KEPT:])

    def found(self) -> dict[str, pa.Table]:
        """The findings that are compared."""
        newest = self.cluster.latest_analysis()
        return peers.ours({t: self.cluster.read("findings", newest, t) for t in _TABLES})


def main() -> int:
    """Measure and print; 1 when a goal was missed or a table differs."""
    options = _parser().parse_args()
    clock = Clock()
    missed = [] if options.large_only else _first(min(5000, options.partitions))
    spark = open_session(load())
    with tempfile.TemporaryDirectory(prefix="lowwater-bench-") as folder:
        shape = Shape(options.partitions, GROUPS, options.snapshots)
        if not options.large_only:
            lab = Lab(spark, folder, shape)
            missed += _history(lab, clock, options)
        if options.large or options.large_only:
            shutil.rmtree(folder)
            missed += _one_snapshot(Lab(spark, folder, Shape(1_000_000, 10_000, 1)))
    spark.stop()
    print(f"load average of the last minute: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"goals missed: {'; '.join(missed)}" if missed else "every goal was reached")
    return int(bool(missed))


def _history(lab: Lab, clock: Clock, options: argparse.Namespace) -> list[str]:
    """Full recomputation, then fresh findings in turn with the peers, then a longer history."""
    lab.grow(options.snapshots)
    seconds: dict[str, list[float]] = {name: [] for name in ("fresh", *_PEERS)}
    seconds["full"] = [clock.timed("full", lambda: lab.analyze(full=True))]
    wrong = _compared(lab)
    for _ in range(RUNS):
        _fresh(lab, clock, seconds, "fresh")
        for name, peer in _PEERS.items():
            seconds[name].append(clock.timed(name, lambda p=peer: p(lab.files())))
    longer = f"fresh, {LONGER} more"
    seconds |= {"put back, once": [], longer: []}
    lengthen(lab.cluster, LONGER)
    # What is older than the newest analysis and not in it (`history.folded`) makes the next one
    # read all that is kept, once: the cost of what was put back, not of a long history.
    _fresh(lab, clock, seconds, "put back, once")
    for _ in range(RUNS):
        _fresh(lab, clock, seconds, longer)
    print(f"\n{lab.shape.partitions:,} x 3, {options.snapshots} snapshots: medians of {RUNS}")
    for name, values in seconds.items():
        processor = median(clock.processor.get(name, [0.0]))
        each = ", ".join(f"{v:.2f}" for v in values)
        print(f"{name:<20}{median(values):>8.2f} s{processor:>8.2f} of the processor   ({each})")
    return wrong + _missed({name: median(values) for name, values in seconds.items()}, longer)


def _fresh(lab: Lab, clock: Clock, seconds: dict[str, list[float]], name: str) -> None:
    lab.grow(1)
    seconds[name].append(clock.timed(name, lab.analyze))


def _missed(seconds: dict[str, float], longer: str) -> list[str]:
    duck, fresh = seconds["DuckDB"], seconds["fresh"]
    against = seconds["full"] / min(duck, seconds["Polars"])
    print(
        f"fresh / DuckDB {fresh / duck:.2f}; of {LONGER} more / fresh {seconds[longer] / fresh:.2f}"
    )
    print(f"full, everything / the faster peer {against:.1f}")
    goals = {
        f"fresh findings in {MOST_FRESH:g} x of DuckDB": fresh <= MOST_FRESH * duck,
        f"a longer history costs {MOST_LONGER:g} x": seconds[longer] <= MOST_LONGER * fresh,
        f"full within {MOST_AGAINST_PEERS:g} x": against <= MOST_AGAINST_PEERS,
    }
    return [goal for goal, reached in goals.items() if not reached]


def _compared(lab: Lab) -> list[str]:
    """The full recomputation against the peers, on the snapshots that all of them read."""
    found, files = lab.found(), peers.paths(lab.cluster.path, lab.cluster.ids("snapshots"))
    wrong = []
    for name, peer in _PEERS.items():
        tables = peer(files)
        for table, rows in found.items():
            count = peers.different(table, rows, tables[table])
            print(f"{table} as {name}: {rows.num_rows:,} rows, {count:,} differ")
            wrong += [f"{table} differs from {name}"] if count else []
    return wrong


def _one_snapshot(lab: Lab) -> list[str]:
    lab.grow(1)
    first, again = lab.analyze(full=True), lab.analyze(full=True)
    wrong = _compared(lab)
    duck, polars = (timed(lambda p=p: p(lab.files())) for p in (peers.by_duckdb, peers.by_polars))
    print(f"\n{lab.shape.partitions:,} x 3, one snapshot: analysis {first:.1f} s, then {again:.1f}")
    print(f"DuckDB {duck:.2f} s, Polars {polars:.2f} s: {again / min(duck, polars):.1f} x")
    missed = again > MOST_LARGE * min(duck, polars)
    return wrong + ([f"1,000,000 within {MOST_LARGE:g} x"] if missed else [])


def _first(size: int) -> list[str]:
    """`lowwater analyze` of a small cluster, from the start of its process to its end, where the
    class-data archive is made: by the second use of a machine.
    """
    with tempfile.TemporaryDirectory(prefix="lowwater-bench-") as folder:
        cluster = ClusterStore(Store(folder), "bench")
        shape = Shape(size, 300, 1)
        write(cluster, utc_now() - EVERY, shape, range(1))
        # Else the first run starts its builder, which takes a core from the next ones.
        _quietly([sys.executable, "-m", "analytics.session.archive"])
        command = [sys.executable, "-m", "analytics", "--data", folder, "--full"]
        runs = [timed(lambda: _quietly(command)) for _ in range(RUNS)]
    print(f"first finding of a process, {size:,} x 3: {median(runs):.2f} s of {RUNS}")
    return ["first finding in 4 s"] if median(runs) > MOST_FIRST_SECONDS else []


def _quietly(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--snapshots", type=int, default=KEPT, help=f"of history ({KEPT})")
    parser.add_argument("--large", action="store_true", help="1,000,000 x 3 too")
    parser.add_argument("--large-only", action="store_true", help="1,000,000 x 3 alone")
    return parser


if __name__ == "__main__":
    sys.exit(main())
