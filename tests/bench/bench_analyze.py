"""How long an analysis takes: `python -m tests.bench.bench_analyze` prints medians and a ratio.

One snapshot of 5,000 partitions x 3 replicas with 300 groups. The peer computes the committed
minimum, its bytes over replicas and each group's share with pandas from the same files.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from statistics import median
from typing import Any

import pandas as pd

from analytics.job import analyze
from analytics.session import open_session
from dashboard.clock import utc_now
from dashboard.settings import load
from dashboard.snapshots import ClusterStore, Store
from tests.bench import large_snapshot

RUNS = 5


def main() -> None:
    settings = load()
    with tempfile.TemporaryDirectory(prefix="lowwater-bench-") as folder:
        cluster = ClusterStore(Store(folder), "bench")
        session_seconds, spark = _timed(lambda: open_session(settings))
        began = utc_now() - timedelta(minutes=RUNS + 1)
        warm: list[float] = []
        peer: list[float] = []
        for run in range(RUNS + 1):
            snapshot_id = large_snapshot.write(
                cluster, began + timedelta(minutes=run), moved=run * 10
            )
            warm.append(_timed(lambda: analyze(spark, cluster, settings, now=utc_now))[0])
            peer.append(_timed(lambda s=snapshot_id: _pandas(cluster, s))[0])
        spark.stop()
    print(f"session start            {session_seconds:8.2f} s")
    print(f"first analysis           {warm[0]:8.2f} s")
    print(f"warm analysis (median)   {median(warm[1:]):8.2f} s")
    print(f"pandas, less in it       {median(peer[1:]):8.2f} s")
    print(f"ratio                    {median(warm[1:]) / median(peer[1:]):8.1f}")


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
    main()
