"""How long it takes to tell what a policy would have done: `python -m tests.bench.bench_policies`.

48 snapshots of 100,000 partitions x 3 replicas with 1,000 groups, and curves of 14 knots per
replica, made by arithmetic; for a policy of all topics, which Spark's tasks walk, and of a fortieth
of them. `--here` walks the former in this process, too, as the largest did before there were tasks.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from dashboard.core.clock import utc_now
from dashboard.policies.apart import past_week
from dashboard.policies.simulate import Simulation, week
from dashboard.settings.policies.policy import Policy
from dashboard.settings.settings import load
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import FINDING_TABLES
from tests.bench.large_history import (
    BROKERS,
    EVERY,
    PARTITIONS_PER_TOPIC,
    Shape,
    stamped,
    write,
)

KNOTS = 14
LIMIT_SECONDS = 15.0
_FORTIETH = "topic-000*"


def main() -> int:
    """Measure and print; 1 when the policy of all topics takes longer than the limit, or another
    way says something else.
    """
    options = _parser().parse_args()
    shape = Shape(options.partitions, options.partitions // 100, options.snapshots)
    with tempfile.TemporaryDirectory(prefix="lowwater-bench-") as folder:
        cluster, settings = ClusterStore(Store(folder), "bench"), load()
        write(cluster, utc_now() - EVERY * shape.snapshots, shape, range(shape.snapshots))
        _write_curves(cluster, shape)
        _timed("of a fortieth", lambda: _past(cluster, _FORTIETH))
        now = utc_now()
        every, found = _timed(
            "of all, by tasks",
            lambda: past_week(cluster, settings, _policy("*"), now, lambda _: None),
        )
        same = True
        if options.here:
            _, here = _timed("of all, here", lambda: week(cluster, _policy("*"), now, lambda _: {}))
            same = here == found
            print(f"both say the same: {same}")
    print(f"load average of the last minute: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    reached = every < LIMIT_SECONDS
    print(f"goal: below {LIMIT_SECONDS:g} s: {'reached' if reached else 'missed'}")
    return int(not reached or not same)


def _past(cluster: ClusterStore, glob: str) -> Simulation:
    return past_week(cluster, load(), _policy(glob), utc_now(), lambda _: None)


def _policy(glob: str) -> Policy:
    return Policy("bench", globs=(glob,))


def _timed(what: str, ask: Callable[[], Simulation]) -> tuple[float, Simulation]:
    """Ask, and print what that took of the clock, and of memory and the processor here."""
    began, processor = time.monotonic(), time.process_time()
    found = ask()
    seconds = time.monotonic() - began
    assert found.purges, found.notes
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(
        f"{what}: {found.topics} topics, {found.snapshots} snapshots: {seconds:.1f} s, here "
        f"{time.process_time() - processor:.1f} of the processor, {most} MiB at most until now"
    )
    return seconds, found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--snapshots", type=int, default=48)
    parser.add_argument("--here", action="store_true", help="walk all in this process, too")
    return parser


def _write_curves(cluster: ClusterStore, shape: Shape) -> None:
    """Findings with a curve of every replica, over the offsets of the newest snapshot."""
    newest = cluster.latest_snapshot()
    columns = ["log_start_offset", "high_watermark"]
    table = cluster.read("snapshots", newest, "partitions", columns)
    ends = (table[name].to_numpy() for name in columns)
    offsets = np.linspace(*ends, KNOTS, axis=1).astype(np.int64).repeat(BROKERS, axis=0).ravel()
    first = np.repeat(offsets[::KNOTS], KNOTS)
    number = np.repeat(np.arange(shape.partitions), BROKERS * KNOTS)
    brokers = np.tile(np.repeat(np.arange(BROKERS), KNOTS), shape.partitions)
    names = pa.array([f"topic-{n:05d}" for n in range(shape.topics)])
    topics = names.take(pa.array(number // PARTITIONS_PER_TOPIC))
    curves = {
        "topic": topics, "partition": number % PARTITIONS_PER_TOPIC, "broker_id": brokers,
        "log_dir": pa.repeat("/d1", len(number)), "offset": offsets,
        "bytes_below": (offsets - first) * 700,
    }  # fmt: skip
    writer = cluster.begin("findings", utc_now())
    spec = FINDING_TABLES["curves"]
    writer.write("curves", stamped(spec, curves, writer.id, writer.taken_at))
    writer.commit(1.0, {})
    cluster.set_latest(writer.id)


if __name__ == "__main__":
    sys.exit(main())
