"""How long finding orphans takes: `python -m tests.bench.bench_orphans [PARTITIONS]`.

100,000 partitions by default: 300,000 replicas by DescribeLogDirs, 300,000 folders of an inventory
with as many checkpoint entries, and 1,000 folders of deleted topics. Reading the Parquet is in it,
the session's start is not; the first run also pays for compiling the query.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from analytics.session.session import open_session
from analytics.tables import Tables
from dashboard.core.clock import format_time, utc_now
from dashboard.settings.settings import load
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import SNAPSHOT_TABLES, build
from tests.support.one_bucket import find_orphans

GOAL_SECONDS = 15.0
RUNS = 3
BROKERS = 3
ORPHANS = 1000
PARTITIONS_PER_TOPIC = 100


def write(cluster: ClusterStore, partitions: int) -> str:
    """One snapshot; its id."""
    taken_at = utc_now()
    scanned_at = taken_at - timedelta(seconds=30)
    number = np.arange(partitions)
    place = {"topic_no": number // PARTITIONS_PER_TOPIC, "partition": number % PARTITIONS_PER_TOPIC}
    topics = partitions // PARTITIONS_PER_TOPIC
    everywhere = [list(range(BROKERS))] * partitions
    spread = {key: np.tile(values, BROKERS) for key, values in place.items()}
    broker = np.repeat(np.arange(BROKERS), partitions)
    names = [f"topic-{n:05d}" for n in range(topics)]
    topic = [names[n] for n in spread["topic_no"].tolist()] + ["gone"] * ORPHANS
    partition = np.concatenate([spread["partition"], np.arange(ORPHANS)])
    ids = [f"id-{name}" for name in topic]
    count = len(topic)
    folders = [f"{t}-{p}" for t, p in zip(topic, partition.tolist(), strict=True)]
    at = {"broker_id": np.concatenate([broker, np.arange(ORPHANS) % BROKERS]),
          "log_dir": ["/d1"] * count, "topic": topic, "partition": partition}  # fmt: skip
    tables: dict[str, dict[str, Any]] = {
        "brokers": {"broker_id": range(BROKERS)},
        "configs": {"scope": [], "name": [], "key": [], "value": []},
        "topics": {"topic_no": range(topics), "topic": names, "is_internal": [False] * topics,
                   "topic_id": [f"id-{name}" for name in names]},
        "partitions": {**place, "replicas": everywhere, "isr": everywhere,
                       "leader_id": number % BROKERS},
        "reassignments": {"topic_no": pa.array([], pa.int32()), "partition": []},
        "replicas": {"broker_id": broker, "log_dir": ["/d1"] * len(broker), **spread,
                     "size_bytes": np.full(len(broker), 1000), "is_future": [False] * len(broker)},
        "log_dirs": {"broker_id": range(BROKERS), "log_dir": ["/d1"] * BROKERS,
                     "total_bytes": [1 << 42] * BROKERS, "usable_bytes": [1 << 40] * BROKERS},
        "segments": {**at, "directory": folders, "topic_id": ids, "kind": ["live"] * count,
                     "base_offset": [0] * count, "log_bytes": [1000] * count,
                     "index_bytes": [10] * count, "allocated_bytes": [4096] * count,
                     "newest_at": [scanned_at] * count, "scanned_at": [scanned_at] * count},
        "checkpoints": {**at, "file": ["replication-offset-checkpoint"] * count,
                        "offset": [5] * count},
    }  # fmt: skip
    writer = cluster.begin("snapshots", taken_at)
    for name, columns in tables.items():
        rows = len(next(iter(columns.values())))
        stamp = {"snapshot_id": [writer.id] * rows, "taken_at": [taken_at] * rows}
        writer.write(name, build(SNAPSHOT_TABLES[name], stamp | columns))
    inventories = [
        {"broker_id": b, "log_dirs": ["/d1"], "scanned_at": format_time(scanned_at), "gaps": [],
         "gaps_total": 0}
        for b in range(BROKERS)
    ]  # fmt: skip
    writer.commit(1.0, {"inventories": inventories})
    return writer.id


def _processor_seconds(spark: SparkSession) -> float:
    """Of this process and its Java, user and system."""
    java = Path(f"/proc/{spark.sparkContext._gateway.proc.pid}/stat").read_text()
    user, system = java.rsplit(")", 1)[1].split()[11:13]
    return time.process_time() + (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def main(partitions: int = 100_000) -> int:
    """Print the figures; 1 when the slowest warm run misses the goal."""
    settings = load()
    with tempfile.TemporaryDirectory(prefix="lowwater-bench-") as folder:
        cluster = ClusterStore(Store(folder), "bench")
        snapshot_id = write(cluster, partitions)
        spark = open_session(settings)
        seconds, processor = [], []
        for _ in range(RUNS + 1):
            begun, used = time.monotonic(), _processor_seconds(spark)
            snapshot = cluster.manifest("snapshots", snapshot_id)
            found = find_orphans(Tables(spark, cluster), snapshot, None, settings)
            seconds.append(time.monotonic() - begun)
            processor.append(_processor_seconds(spark) - used)
            assert found.sightings.num_rows == ORPHANS
        spark.stop()
    replicas = partitions * BROKERS
    print(f"{replicas:,} replicas and {replicas + ORPHANS:,} folders, {ORPHANS:,} of them orphans")
    for what, took in (("clock", seconds), ("processor", processor)):
        warm = ", ".join(f"{s:.1f}" for s in took[1:])
        print(f"{what}: first {took[0]:.1f} s, warm {warm} s, median {median(took[1:]):.1f} s")
    print(f"load average of the last minute: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    reached = max(seconds[1:]) < GOAL_SECONDS
    print(f"goal: below {GOAL_SECONDS:g} s: {'reached' if reached else 'missed'}")
    return int(not reached)


if __name__ == "__main__":
    sys.exit(main(*(int(word) for word in sys.argv[1:2])))
