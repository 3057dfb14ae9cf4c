"""Orphans on real brokers: what is left of deleted and recreated topics is found, moves are not."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from analytics.job import analyze
from analytics.session.session import open_session
from dashboard.cluster.live import LiveCluster, connect
from dashboard.collect.collect import collect
from dashboard.core.clock import utc_now
from dashboard.demo.kafka.brokers import LocalCluster, client
from dashboard.inventory import scan
from dashboard.inventory.loading import Inventory, load
from dashboard.inventory.recorder import Recorder
from dashboard.settings.settings import Settings
from tests.brokers.purge_bench import Bench
from tests.brokers.purge_faults import prefer, until

pytestmark = [pytest.mark.spark, pytest.mark.slow]
DELAY = timedelta(seconds=5)
DOWN = 2
# So that three orphans are less than 5 % of the broker's folders and bytes.
LIVE_PARTITIONS = 70
AGE = timedelta(days=30)
Row = dict[str, Any]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = open_session(Settings())
    yield session
    session.stop()


@dataclass
class Eyes:
    """Looks at a cluster: disks, snapshot, analysis."""

    bench: Bench
    cluster: LocalCluster
    spark: SparkSession
    folder: Path

    def scan(self) -> list[Inventory]:
        return [self._scanned(broker) for broker in self.cluster.broker_ids]

    def _scanned(self, broker: int) -> Inventory:
        out = str(self.folder / f"{broker}.inventory")
        log_dirs = [str(log_dir) for log_dir in self.cluster.log_dirs(broker)]
        with Recorder(out, broker, log_dirs, newest_from=scan.NEWEST_FROM) as recorder:
            scan.scan(log_dirs, recorder, now=utc_now)
            recorder.finish()
        return load(out)

    def look(self, inventories: Sequence[Inventory] | None = None) -> None:
        """A snapshot with new inventories, or these, and its analysis."""
        disks = self.scan() if inventories is None else inventories
        with connect({"bootstrap.servers": self.bench.bootstrap}) as live:
            collect(live, self.bench.store, now=utc_now, progress=lambda _: None,
                    inventories=disks)  # fmt: skip
        settings = replace(self.bench.settings, orphan_delay=DELAY)
        analyze(self.spark, self.bench.store, settings, now=utc_now)

    def orphans(self, *topics: str) -> dict[str, Row]:
        """By topic."""
        store = self.bench.store
        rows = store.read("findings", store.latest_analysis(), "orphans").to_pylist()
        return {row["topic"]: row for row in rows if row["topic"] in topics}


@pytest.fixture
def eyes(cluster: LocalCluster, spark: SparkSession, tmp_path: Path) -> Iterator[Eyes]:
    bench = Bench(cluster.bootstrap, cluster.cluster_id, tmp_path)
    yield Eyes(bench, cluster, spark, tmp_path)
    bench.close()


def produce(bench: Bench, topic: str, count: int, *, aged: bool = False) -> None:
    """Records of 1,000 bytes to partition 0, of now or of a month ago."""
    written = int((utc_now() - (AGE if aged else timedelta(0))).timestamp() * 1000)
    producer = Producer(client(bench.bootstrap, acks="all"))
    for _ in range(count):
        producer.produce(topic, b"x" * 1000, partition=0, timestamp=written)
    assert producer.flush(30) == 0


def healthy(live: LiveCluster) -> bool:
    states = live.topics(None).values()
    return not any(p.under_replicated or p.error for state in states for p in state.partitions)


def strays(cluster: LocalCluster, topic: str) -> list[Path]:
    return [
        path for log_dir in cluster.log_dirs(DOWN) for path in log_dir.glob(f"{topic}-0.*-stray")
    ]


def test_what_was_deleted_while_a_broker_was_down(eyes: Eyes) -> None:
    bench, cluster = eyes.bench, eyes.cluster
    kept = bench.topic(*([0] * LIVE_PARTITIONS))
    produce(bench, kept, 400)
    gone, again = bench.topic(0, retention_ms="-1"), bench.topic(0, retention_ms="-1")
    for topic in (gone, again):
        produce(bench, topic, 3, aged=True)
    eyes.look()
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        old_id = live.topics([again])[again].topic_id
    cluster.stop_broker(DOWN)
    try:
        addresses = bench.bootstrap.split(",")
        rest = AdminClient(client(f"{addresses[0]},{addresses[2]}"))
        for done in rest.delete_topics([gone, again], request_timeout=60).values():
            done.result(60)
        until(lambda: created(rest, again), 30)
        produce(bench, again, 5)
    finally:
        cluster.start_broker(DOWN)
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        until(lambda: healthy(live), 60)
        until(lambda: len(strays(cluster, gone)) == len(strays(cluster, again)) == 1, 60)
        new_id = live.topics([again])[again].topic_id
        assert not [r for r in live.log_dirs().replicas if r.topic == gone]
    eyes.look()

    found = eyes.orphans(gone, again, kept)
    assert {topic: row["kind"] for topic, row in found.items()} == {
        gone: "stray", again: "recreated-topic",
    }  # fmt: skip
    for topic, row in found.items():
        (folder,) = strays(cluster, topic)
        files = list(folder.iterdir())
        assert (row["broker_id"], row["directory"]) == (DOWN, folder.name)
        assert (
            row["size_bytes"] == sum(f.stat().st_size for f in files if f.suffix == ".log") > 3000
        )
        assert row["allocated_bytes"] == sum(f.stat().st_blocks * 512 for f in files)
        assert row["verdict"] == "scheduled", row["reason"]
    assert (found[again]["topic_id"], found[again]["current_topic_id"]) == (old_id, new_id)

    until(lambda: utc_now() > found[gone]["first_seen_at"] + 2 * DELAY, 30)
    eyes.look()
    young = eyes.orphans(gone)[gone]
    assert young["verdict"] == "scheduled"
    assert "the broker keeps records for 7 d" in young["reason"], "records are old, files are not"
    assert young["check_at"] == young["newest_at"] + timedelta(days=7)

    for folder in (*strays(cluster, gone), *strays(cluster, again)):
        for file in folder.iterdir():
            os.utime(file, (time.time(), (utc_now() - AGE).timestamp()))
    eyes.look()
    old = eyes.orphans(gone, again, kept)
    assert {row["verdict"] for row in old.values()} == {"removable"}, old
    assert old.keys() == {gone, again}, "the new folder of the recreated topic is safe"
    disks = bench.store.read("findings", bench.store.latest_analysis(), "disks").to_pylist()
    told = sum(disk["stray_bytes"] for disk in disks if disk["broker_id"] == DOWN)
    assert told >= sum(row["allocated_bytes"] for row in old.values())


def created(admin: AdminClient, topic: str) -> bool:
    """The name is taken until the deletion is done."""
    new = NewTopic(topic, 1, replica_assignment=[[1, 3, DOWN]])
    return next(iter(admin.create_topics([new]).values())).exception(20) is None


def test_a_partition_that_moves_while_disks_are_scanned_is_no_orphan(eyes: Eyes) -> None:
    bench = eyes.bench
    topic = bench.topic(0, placed=[[1, 2]])
    produce(bench, topic, 5000)
    eyes.look()
    before = eyes.scan()
    moving = Thread(target=prefer, args=(bench, topic, [3, 2]))
    moving.start()
    during = []
    while moving.is_alive():
        during = eyes.scan()
        eyes.look(during)
        assert eyes.orphans(topic) == {}
    moving.join()
    for disks in (before, during, None, None):
        eyes.look(disks)
        assert eyes.orphans(topic) == {}
    assert bench.placed(topic).replicas == (3, 2)
