"""Followers over a history beside DuckDB: `python -m tests.bench.bench_followers [PARTITIONS]`.

48 snapshots of 100,000 partitions x 3 by default. What a fresh snapshot costs: `trends` of the
analysis before are read, go on by one step, are written again with `slow_followers`. The peer
computes lag, trend and who is slow from 48 raw snapshots. In turn; every row of both is compared.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import pyarrow as pa

from analytics.readers import topics
from analytics.replicas import curves, points, trends
from analytics.replicas.trends import microseconds
from analytics.tables import stamped
from dashboard.core.clock import utc_now
from dashboard.estimate.curve_tables import to_table
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore, Store
from tests.bench import followers_peer
from tests.bench.followers_history import write
from tests.bench.large_history import BROKERS, EVERY, Shape
from tests.support.one_bucket import slow_followers

SNAPSHOTS = 48
RUNS = 3
_READ = ("topics", "configs", "brokers", "reassignments")


class Clock:
    """Seconds by the clock and of this process' processor time, by what was done."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}
        self.processor: dict[str, list[float]] = {}

    def timed(self, name: str, work: Callable[[], Any]) -> Any:
        began, used = time.monotonic(), time.process_time()
        found = work()
        self.seconds.setdefault(name, []).append(time.monotonic() - began)
        self.processor.setdefault(name, []).append(time.process_time() - used)
        return found


def fresh(cluster: ClusterStore, snapshot_id: str, base: Manifest | None) -> tuple[Manifest, float]:
    """Findings `curves`, `trends` and `slow_followers` of a snapshot; and what curves took of it.

    Curves are a part of every analysis, whoever asks for followers: their seconds stand apart.
    """
    snapshot = cluster.manifest("snapshots", snapshot_id)
    read = {name: cluster.read("snapshots", snapshot_id, name) for name in _READ}
    named = topics.with_settings(topics.describe(read["topics"], ((), ())), read["configs"])
    told = points.told(cluster, snapshot_id)
    moved = trends.Carried(cluster, base)
    added = 0.0

    def add(*step: Any) -> None:
        nonlocal added
        began = time.monotonic()
        moved.add(*step)
        added += time.monotonic() - began

    began = time.monotonic()
    drawn = curves.fold(cluster, snapshot, base, told, named, each=add)
    of_curves = time.monotonic() - began - added
    at = microseconds(snapshot)
    tables = {
        "trends": trends.to_table(moved.trends),
        "slow_followers": slow_followers(
            moved.trends, told, drawn, read, taken_at=at, reading=moved.reading(snapshot_id)
        ),
    }
    writer = cluster.begin("findings", utc_now())
    for name, table in tables.items():
        writer.write(name, stamped(name, table, snapshot))
    began = time.monotonic()
    writer.write("curves", stamped("curves", to_table(drawn), snapshot))
    of_curves += time.monotonic() - began
    writer.commit(1.0, {"snapshot_id": snapshot_id})
    return cluster.manifest("findings", writer.id), of_curves


def main(partitions: int = 100_000) -> int:
    """Print the figures; 1 when a row differs or a fresh snapshot costs more than DuckDB's."""
    clock, shape = Clock(), Shape(partitions, 1, SNAPSHOTS)
    with tempfile.TemporaryDirectory(prefix="lowwater-bench-") as folder:
        cluster = ClusterStore(Store(folder), "bench")
        began = utc_now().replace(microsecond=0) - EVERY * (SNAPSHOTS + RUNS + 1)
        for step in range(SNAPSHOTS - 1):
            write(cluster, began, shape, step)
        newest = cluster.ids("snapshots")[-1]
        base, _ = clock.timed("ours, the whole history", lambda: fresh(cluster, newest, None))
        wrong = 0
        for step in range(SNAPSHOTS - 1, SNAPSHOTS - 1 + RUNS):
            newest = write(cluster, began, shape, step)
            base = _fresh(cluster, clock, newest, base)
            wrong += _beside(cluster, clock, base)
    _print(clock, partitions)
    print(f"rows that differ: {wrong:,}")
    ours, duck = (median(clock.seconds[name]) for name in ("ours, fresh", "DuckDB"))
    print(f"fresh / DuckDB: {ours / duck:.2f}")
    print(f"load average of the last minute: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return int(wrong > 0 or ours > duck)


def _fresh(cluster: ClusterStore, clock: Clock, newest: str, base: Manifest) -> Manifest:
    """The findings of one snapshot more."""
    found, of_curves = clock.timed("with curves", lambda: fresh(cluster, newest, base))
    clock.seconds.setdefault("ours, fresh", []).append(clock.seconds["with curves"][-1] - of_curves)
    return found


def _beside(cluster: ClusterStore, clock: Clock, base: Manifest) -> int:
    """The peer over as many raw snapshots; how many rows differ."""
    ids = cluster.ids("snapshots")[-SNAPSHOTS:]
    theirs = clock.timed("DuckDB", lambda: followers_peer.by_duckdb(cluster.path, ids))
    ours: pa.Table = cluster.read("findings", base.id, "slow_followers")
    print(f"{ours.num_rows:,} followers, {pa.compute.sum(ours['slow']).as_py():,} of them slow")
    return followers_peer.different(ours, theirs)


def _print(clock: Clock, partitions: int) -> None:
    print(f"{partitions:,} x {BROKERS}, {SNAPSHOTS} snapshots: medians of {RUNS}")
    for name, seconds in clock.seconds.items():
        each = ", ".join(f"{s:.2f}" for s in seconds)
        used = clock.processor.get(name)
        processor = f"{median(used):.2f} of the processor" if used else ""
        print(f"{name:<26}{median(seconds):>8.2f} s  ({each})  {processor}")


if __name__ == "__main__":
    sys.exit(main(*(int(word) for word in sys.argv[1:2])))
