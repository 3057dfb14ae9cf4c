"""How long it takes to tell what a policy would have done: `python -m tests.bench.bench_policies`.

48 snapshots of 100,000 partitions x 3 replicas with 1,000 groups, and curves of 14 knots per
replica, made by arithmetic; for a policy of all topics, and of a fortieth of them.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time

import numpy as np
import pyarrow as pa

from dashboard.core.clock import utc_now
from dashboard.policies.simulate.simulate import week
from dashboard.settings.policies.policy import Policy
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

SHAPE = Shape(partitions=100_000, groups=1000, snapshots=48)
KNOTS = 14
LIMIT_SECONDS = 15.0


def main() -> int:
    """Measure and print; 1 when the policy of all topics takes longer than the limit."""
    with tempfile.TemporaryDirectory(prefix="lowwater-bench-") as folder:
        cluster = ClusterStore(Store(folder), "bench")
        write(cluster, utc_now() - EVERY * SHAPE.snapshots, SHAPE, range(SHAPE.snapshots))
        _write_curves(cluster)
        every = _seconds(cluster, "*")
        _seconds(cluster, "topic-000*")
    print(f"most memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB")
    print(f"load average of the last minute: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    reached = every < LIMIT_SECONDS
    print(f"goal: below {LIMIT_SECONDS:g} s: {'reached' if reached else 'missed'}")
    return int(not reached)


def _seconds(cluster: ClusterStore, glob: str) -> float:
    """Simulate a policy of these topics, and print what that took."""
    policy = Policy("bench", globs=(glob,))
    began, processor = time.monotonic(), time.process_time()
    found = week(cluster, policy, utc_now(), lambda _: {})
    seconds = time.monotonic() - began
    assert found.snapshots == SHAPE.snapshots and found.purges, found.notes
    print(
        f"topics {glob}: {found.topics}, {found.snapshots} snapshots: {seconds:.1f} s, "
        f"processor {time.process_time() - processor:.1f} s"
    )
    return seconds


def _write_curves(cluster: ClusterStore) -> None:
    """Findings with a curve of every replica, over the offsets of the newest snapshot."""
    newest = cluster.latest_snapshot()
    columns = ["log_start_offset", "high_watermark"]
    table = cluster.read("snapshots", newest, "partitions", columns)
    ends = (table[name].to_numpy() for name in columns)
    offsets = np.linspace(*ends, KNOTS, axis=1).astype(np.int64).repeat(BROKERS, axis=0).ravel()
    first = np.repeat(offsets[::KNOTS], KNOTS)
    number = np.repeat(np.arange(SHAPE.partitions), BROKERS * KNOTS)
    brokers = np.tile(np.repeat(np.arange(BROKERS), KNOTS), SHAPE.partitions)
    names = pa.array([f"topic-{n:05d}" for n in range(SHAPE.topics)])
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
