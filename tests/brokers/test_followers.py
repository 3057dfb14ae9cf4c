"""Slow followers of real brokers: one that is stopped, one that is throttled, and busy ones."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from analytics.job import analyze
from analytics.session.session import open_session
from dashboard.cli.main import main
from dashboard.cluster.live import connect
from dashboard.collect.collect import collect
from dashboard.core.clock import utc_now
from dashboard.demo.kafka.brokers import LocalCluster, client
from dashboard.settings.settings import Settings
from dashboard.store.snapshots import ClusterStore, Store
from tests.brokers.purge_bench import Bench
from tests.brokers.purge_faults import resumed, until
from tests.brokers.test_forecast import left_behind, throttled
from tests.support.one_bucket import followers_of
from tests.unit.analytics.test_trends import TOPICS

Row = dict[str, Any]


@pytest.fixture
def bench(cluster: LocalCluster, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(cluster.bootstrap, cluster.cluster_id, tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = open_session(Settings())
    yield session
    session.stop()


@contextmanager
def written(bench: Bench, topic: str, partitions: int, rate: int) -> Iterator[None]:
    """A block in which so many records of 1,000 bytes a second go to each partition."""
    producer = Producer(client(bench.bootstrap, acks="1", **{"message.timeout.ms": "60000"}))
    ends = threading.Event()

    def write() -> None:
        while not ends.wait(0.05):
            for _ in range(max(1, rate // 20)):
                for partition in range(partitions):
                    producer.produce(topic, b"x" * 1000, partition=partition)
            producer.poll(0)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()
        assert producer.flush(60) == 0


def snapshots(bench: Bench, count: int, store: ClusterStore | None = None) -> None:
    """So many of them, at least a second apart; in the bench's store if no other is given."""
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        for _ in range(count):
            begun = time.monotonic()
            collect(live, store or bench.store, now=utc_now, progress=lambda _: None)
            time.sleep(max(0.0, 1 - (time.monotonic() - begun)))


def out_of_sync(bench: Bench, topic: str, broker_id: int) -> Callable[[], bool]:
    return lambda: broker_id not in bench.placed(topic).isr


def follower(bench: Bench, topic: str, broker_id: int) -> Row:
    """The only follower's row that the newest analysis has of a topic and broker."""
    rows = bench.store.read("findings", bench.store.latest_analysis(), "slow_followers")
    (row,) = [r for r in rows.to_pylist() if (r["topic"], r["broker_id"]) == (topic, broker_id)]
    return row


def test_followers_of_a_busy_topic_are_not_slow(bench: Bench, tmp_path: Path) -> None:
    """Without Spark: these findings are made here.

    A machine that stalls makes followers slow, and they are rightly told: then it is seen again.
    """
    topic = bench.topic(10, 10, 10, placed=[[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    for attempt in range(3):
        store = ClusterStore(Store(str(tmp_path / f"data-{attempt}")), bench.store.cluster_id)
        with written(bench, topic, 3, 800):
            snapshots(bench, 6, store)
        rows = [row for row in found_in(store) if row["topic"] == topic]
        assert len(rows) == 6
        slow = [row for row in rows if row["slow"] or row["cause"]]
        # A busy machine may write, and be read, less than is wanted.
        idle = [r for r in rows if not r["append_per_second"] > 10 or r["samples"] < 4]
        if not slow and not idle:
            break
    assert (slow, idle) == ([], [])


def found_in(store: ClusterStore) -> list[Row]:
    """What the snapshots of a store tell of followers."""
    newest = store.manifest("snapshots", store.latest_snapshot())
    return list(followers_of(store, newest, TOPICS).to_pylist())


@pytest.mark.spark
@pytest.mark.slow
def test_a_stopped_follower_is_slow_and_its_broker_named(
    bench: Bench, cluster: LocalCluster, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = bench.topic(0, placed=[[1, 2, 3]])
    with written(bench, topic, 1, 100):
        snapshots(bench, 3)
        with resumed(cluster, 3):
            cluster.suspend(3)
            until(out_of_sync(bench, topic, 3), 60)
            snapshots(bench, 3)
    analyze(spark, bench.store, bench.settings, now=utc_now)
    row, other = follower(bench, topic, 3), follower(bench, topic, 2)
    assert (row["slow"], row["cause"], row["alive"], row["in_sync"]) == (
        True,
        "broker down",
        False,
        False,
    )
    assert row["reason"] == "broker 3 does not answer"
    assert row["lag_records"] > 100
    assert row["lag_seconds"] > 1
    assert (other["slow"], other["cause"]) == (False, None)

    capsys.readouterr()
    assert main(["followers", "--slow", "--json", "--topic", topic,
                 "--data", bench.settings.data]) == 0  # fmt: skip
    told = json.loads(capsys.readouterr().out)
    assert (told["slow"], told["matching_rows"], told["followers"]) == (1, 1, 2)
    assert [s.startswith("broker 3 does not answer: ") for s in told["sentences"]] == [True]
    (shown,) = told["rows"]
    assert {name: shown[name] for name in ("broker_id", "topic", "partition")} == {
        "broker_id": 3,
        "topic": topic,
        "partition": 0,
    }
    contract = {"lag_records", "lag_bytes", "lag_seconds", "log_start_lag", "trend", "slow"}
    assert contract <= shown.keys()
    assert shown["cause"] == "broker down"


@pytest.mark.spark
@pytest.mark.slow
def test_a_throttled_follower_is_slow_and_the_throttle_named(
    bench: Bench, cluster: LocalCluster, spark: SparkSession
) -> None:
    """Kafka throttles only a follower that is out of sync: it has missed records before."""
    topic = bench.topic(0, placed=[[1, 2, 3]], follower_replication_throttled_replicas="0:3")
    with throttled(bench, 3, 1000):
        # The quota lets a megabyte through every ten seconds or so.
        left_behind(bench, cluster, 3, topic, 12_000)
        with written(bench, topic, 1, 50):
            snapshots(bench, 5)
        analyze(spark, bench.store, bench.settings, now=utc_now)
    row, other = follower(bench, topic, 3), follower(bench, topic, 2)
    assert (row["slow"], row["cause"], row["alive"]) == (True, "throttle", True), row
    assert row["reason"] == "follower.replication.throttled.rate on broker 3 is 1000 B a second"
    assert row["lag_records"] > 1000
    assert (other["slow"], other["cause"]) == (False, None)
