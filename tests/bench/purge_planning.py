"""What planning costs us alone: a cluster made from arithmetic, in a process like the CLI's."""

from __future__ import annotations

import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any, cast

from dashboard.core.clock import utc_now
from dashboard.purge.evidence.standards import Standards
from dashboard.purge.execute.recheck import recheck
from dashboard.purge.jobs import queue
from dashboard.purge.journal.journal import Journal
from dashboard.purge.plan.cluster_seam import Cluster
from dashboard.purge.plan.drafts import PlanRequest, read_live
from dashboard.purge.plan.guards import Lift
from dashboard.purge.plan.plan import Plan
from dashboard.purge.plan.preview import preview
from dashboard.purge.plan.targets import parse_target
from dashboard.settings.settings import PurgeSettings, Settings
from dashboard.store.snapshots import ClusterStore, Store
from tests.bench import large_cluster
from tests.bench.large_cluster import LargeCluster

PARTITIONS, RUN_OF = 100_000, 10_000
RUNS = 3


def main() -> None:
    """Print the medians as one JSON object: seconds by step."""
    gc.set_threshold(100_000, 20, 100)  # as the command line does
    with tempfile.TemporaryDirectory(prefix="lowwater-bench-") as folder:
        live = LargeCluster(PARTITIONS)
        found = {"plan": median(_plan(live, folder)[0] for _ in range(RUNS))}
        found |= _run_of(LargeCluster(RUN_OF), Path(folder))
    print(json.dumps(found))


def _plan(made: LargeCluster, folder: str) -> tuple[float, Plan]:
    """Facts, targets, guards, canonical JSON with its sha256, and the preview."""
    live = cast(Cluster, made)
    # As of a cluster known for long, whose topics are new to no group; it is on no disk here.
    known = PurgeSettings(most_partitions=len(made.keys), pattern_refresh=timedelta(0))
    settings = Settings(data=folder, purge=known)
    store = ClusterStore(Store(folder), large_cluster.CLUSTER_ID)
    topics = tuple(made.topics(None))
    request = PlanRequest(
        topics,
        parse_target("committed"),
        override=(Lift("readers-undeclared", "bench"), Lift("no-history", "bench")),
        by="bench",
    )
    began = time.perf_counter()
    plan = read_live(live, settings, store, request, now=utc_now()).plan(request.override)
    plan.to_json_text()
    preview(plan, utc_now())
    took = time.perf_counter() - began
    assert len(plan.free_partitions) == len(made.keys)
    return took, plan


def _run_of(made: LargeCluster, folder: Path) -> dict[str, float]:
    """Queueing a run, and what its worker does before it sends."""
    plan = _plan(made, str(folder))[1]
    journal = Journal(folder / "journal.sqlite")
    found: dict[str, float] = {}
    run_id = _timed(
        found, "queue", lambda: queue.enqueue(
            Settings(), journal, plan, mode="wait-all", confirm=plan.confirmation,
            sha256=plan.sha256, who="bench", token="bench", start=False,
        ),
    )  # fmt: skip
    rows = _timed(found, "read rows", lambda: journal.partitions(run_id))
    live = cast(Cluster, made)
    checked = _timed(found, "recheck", lambda: recheck(
        live, plan, rows, utc_now(), Standards({}, PurgeSettings(most_partitions=10**9))
    ))  # fmt: skip
    assert len(checked.allowed) == len(made.keys)
    _timed(found, "intent", lambda: journal.record(run_id, "intent", rows, utc_now()))
    journal.close()
    return found


def _timed(found: dict[str, float], name: str, call: Callable[[], Any]) -> Any:
    began = time.perf_counter()
    value = call()
    found[name] = time.perf_counter() - began
    return value


if __name__ == "__main__":
    sys.exit(main())
