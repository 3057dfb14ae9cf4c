"""How long an analysis takes: `python -m tests.bench.bench_analyze` prints medians and a ratio.

One snapshot of 5,000 partitions x 3 replicas with 300 groups. The peer computes the committed
minimum, its bytes over replicas and each group's share with pandas from the same files.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from statistics import median
from typing import Any

import pandas as pd

from analytics.job import analyze
from analytics.session.session import archive_path, open_session
from dashboard.core.clock import utc_now
from dashboard.core.processes import find_java
from dashboard.settings.settings import Settings, load
from dashboard.store.snapshots import ClusterStore, Store
from tests.bench import large_snapshot

RUNS = 5
LIMIT_SECONDS = 1.2
# In a process of its own: one process starts Java once.
_WITHOUT_ARCHIVE = """
import time
from analytics.session.session import open_session
from dashboard.core.processes import find_java
from dashboard.settings.settings import load
began = time.monotonic()
open_session(load(), ())
print(time.monotonic() - began)
"""


def main() -> int:
    """Measure and print; 1 when the warm median is not below the limit."""
    settings = load()
    plain = subprocess.run(
        [sys.executable, "-c", _WITHOUT_ARCHIVE], check=True, stdout=subprocess.PIPE, text=True
    )
    with tempfile.TemporaryDirectory(prefix="lowwater-bench-") as folder:
        session_seconds, spark = _timed(lambda: open_session(settings))
        warm, peer = _measure(spark, ClusterStore(Store(folder), "bench"), settings)
        spark.stop()
    there = archive_path(settings, find_java()).is_file()
    found = "with archive" if there else "no archive is there"
    figures = {
        "session start without archive": float(plain.stdout),
        f"session start, {found}": session_seconds,
        "first analysis": warm[0],
        f"warm analysis, median of {RUNS}": median(warm[1:]),
        "pandas, less in it": median(peer[1:]),
        "ratio": median(warm[1:]) / median(peer[1:]),
    }
    for name, value in figures.items():
        print(f"{name:<34}{value:>8.2f}{'' if name == 'ratio' else ' s'}")
    print(f"warm analyses: {', '.join(f'{seconds:.2f}' for seconds in warm[1:])} s")
    print(f"load average of the last minute: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    reached = median(warm[1:]) < LIMIT_SECONDS
    print(f"goal: below {LIMIT_SECONDS:g} s warm: {'reached' if reached else 'missed'}")
    return int(not reached)


def _measure(
    spark: Any, cluster: ClusterStore, settings: Settings
) -> tuple[list[float], list[float]]:
    """Seconds of each analysis, the first one cold, and of the peer on the same snapshots."""
    began = utc_now() - timedelta(minutes=RUNS + 1)
    warm: list[float] = []
    peer: list[float] = []
    for run in range(RUNS + 1):
        taken_at = began + timedelta(minutes=run)
        snapshot_id = large_snapshot.write(cluster, taken_at, moved=run * 10)
        warm.append(_timed(lambda: analyze(spark, cluster, settings, now=utc_now))[0])
        peer.append(_timed(lambda s=snapshot_id: _pandas(cluster, s))[0])
    return warm, peer


def _pandas(cluster: ClusterStore, snapshot_id: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Committed minimum and bytes per partition, and bytes below it per group and topic."""

    def read(table: str) -> pd.DataFrame:
        return cluster.read("snapshots", snapshot_id, table).to_pandas()

    key = ["topic_no", "partition"]
    offsets, partitions, replicas = read("group_offsets"), read("partitions"), read("replicas")
    lowest = offsets.sort_values("committed_offset").groupby(key).head(1)
    joined = partitions.merge(lowest[[*key, "group_id", "committed_offset"]], on=key, how="left")
    joined["target"] = joined[["committed_offset", "high_watermark"]].min(axis=1)
    sized = replicas.merge(joined[[*key, "group_id", "target"]], on=key)
    span = (sized["log_end_offset"] - sized["log_start_offset"]).clip(lower=1)
    share = ((sized["target"] - sized["log_start_offset"]) / span).clip(0, 1)
    sized["likely"] = sized["size_bytes"] * share
    sized["held"] = sized["size_bytes"] - sized["likely"]
    reclaimable = sized.groupby(key)[["likely", "held"]].sum()
    return reclaimable, sized.groupby(["group_id", "topic_no"])["held"].sum().reset_index()


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.monotonic()
    result = work()
    return time.monotonic() - began, result


if __name__ == "__main__":
    sys.exit(main())
