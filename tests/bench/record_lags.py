"""Records lags of real brokers under faults of known truth.

`python -m tests.bench.record_lags OUT NAME`. Three brokers with two log dirs each. Every window is
a row of snapshots by the product's own collect, a second apart; NAME is also the seed. It stops
after `--seconds` and writes what it has; `tests/support/lag_windows.py` says what the files hold.
Needs a C compiler (`cc`).
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka.admin import AdminClient

from dashboard.cluster.live import connect
from dashboard.collect.collect import collect
from dashboard.core.clock import utc_now
from dashboard.core.errors import ClusterError
from dashboard.demo.kafka import jars
from dashboard.demo.kafka.brokers import LocalCluster, client
from dashboard.settings import settings
from dashboard.store.snapshots import ClusterStore, Store
from tests.bench import lag_faults
from tests.bench.lag_faults import Scene
from tests.bench.lag_scenarios import Scenario, scenarios
from tests.bench.lag_truth import Sampler
from tests.bench.lag_writers import Writers
from tests.bench.slow_disk import SlowDisk
from tests.brokers.purge_faults import until
from tests.support import lag_windows

SNAPSHOTS, BEFORE, EVERY = 8, 2, 1.0
PATIENCE = 90.0
# A stopped broker leaves the ISR quickly, and leaders come back quickly. Small fetches: a slow disk
# blocks a broker for one write at a time.
QUICK = {
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "1000",
    "num.io.threads": "8",
    "replica.fetch.max.bytes": "65536",
    "leader.imbalance.check.interval.seconds": "3",
    "leader.imbalance.per.broker.percentage": "0",
    "unclean.leader.election.enable": "false",
}
_TIMEOUT = timedelta(seconds=5)


class Recorder:
    """Takes windows of one running cluster."""

    def __init__(self, scene: Scene, store: ClusterStore) -> None:
        self.scene, self.store = scene, store
        self.windows: list[lag_windows.Recorded] = []

    def take(self, scenario: Scenario) -> None:
        """One window; the fault is over when it returns."""
        if scenario.settled:
            until(self.scene.settled, 90)
        bootstrap = self.scene.cluster.bootstrap
        with connect({"bootstrap.servers": bootstrap}, _TIMEOUT) as live:
            ids: list[str] = []

            def look() -> None:
                begun = time.monotonic()
                with suppress(ClusterError):  # nobody answered in time: no snapshot
                    found = collect(live, self.store, now=utc_now, progress=lambda _: None)
                    ids.append(found.snapshot_id)
                time.sleep(max(0.0, EVERY - (time.monotonic() - begun)))

            with Sampler(self.scene.cluster) as sampler:
                for _ in range(BEFORE):
                    look()
                with scenario.act(self.scene) as judge:
                    begun = time.monotonic()
                    while len(ids) < SNAPSHOTS or time.monotonic() - begun < scenario.seconds:
                        assert time.monotonic() - begun < PATIENCE, "no snapshots"
                        look()
                    behind = sampler.behind(self._read_until(ids[-1]))
        window = lag_windows.read(self.store, ids, scenario.name)
        truth = []
        for row in window.last():
            slow, cause = judge(row)
            where = (row["topic"], row["partition"], row["broker_id"])
            truth.append((*where, slow, behind.get(where), cause))
        self.windows.append(window.with_truth(truth))
        measured = sum(age >= lag_windows.SLOW_AGE for age in behind.values())
        print(f"{scenario.name}: {len(ids)} snapshots, {measured} measured slow", file=sys.stderr)

    def _read_until(self, snapshot_id: str) -> float:
        """When the last log end of a snapshot was read."""
        rows = self.store.read("snapshots", snapshot_id, "replicas", ["observed_at"])
        newest: Any = pc.max(rows["observed_at"].cast(pa.int64())).as_py()
        return float(newest) / 1e6


def record(
    folder: Path, name: str, seconds: float, properties: dict[str, str], only: list[str]
) -> None:
    """Start the cluster, take windows until the time is up, write them."""
    began = time.monotonic()
    chosen = settings.load()
    brokers = jars.resolve(chosen.kafka_version, chosen.cache_dir)
    rng = random.Random(name)
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lowwater-lags-")))
        disk = SlowDisk(work)
        local = LocalCluster(
            work / "brokers",
            brokers,
            properties=QUICK | properties,
            environ=disk.environ,
            log_dirs=2,
        )
        cluster = stack.enter_context(local)
        admin = AdminClient(client(cluster.bootstrap))
        lag_faults.create_topics(admin)
        writers = stack.enter_context(Writers(cluster.bootstrap))
        writers.fill("idle", 1 << 20)
        scene = Scene(cluster, writers, disk, admin, rng)
        recorder = Recorder(scene, ClusterStore(Store(str(work / "data")), cluster.cluster_id))
        for scenario in scenarios(rng):
            if time.monotonic() - began > seconds:
                break
            if only and scenario.name not in only:
                continue
            recorder.take(scenario)
            lag_windows.write(folder, name, recorder.windows)


def main() -> int:
    """Parse, record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("name")
    parser.add_argument("--seconds", type=float, default=360.0)
    parser.add_argument("--property", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--only", action="append", default=[], metavar="SCENARIO")
    args = parser.parse_args()
    record(
        args.out, args.name, args.seconds, dict(p.split("=", 1) for p in args.property), args.only
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
