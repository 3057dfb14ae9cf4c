"""Estimates against real disks: records that grew fifteenfold, and what a purge frees."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Part
from pyspark.sql import SparkSession

from analytics.job import analyze
from analytics.session.session import open_session
from dashboard.cluster.live import connect
from dashboard.collect.collect import collect
from dashboard.core.clock import utc_now
from dashboard.demo.kafka.brokers import LocalCluster, client
from dashboard.domain.model import TopicPartition
from dashboard.inventory.loading import Inventory
from dashboard.purge.plan.plan import Estimate
from dashboard.purge.receipt import gap
from dashboard.settings.settings import Settings
from tests.brokers.purge_bench import Bench
from tests.brokers.purge_faults import until
from tests.brokers.purge_proof import segments_below
from tests.brokers.workload import ANSWERS_WITHIN
from tests.unit.inventory.disks import scanned

pytestmark = [pytest.mark.spark, pytest.mark.slow]
TARGET = 38_000


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = open_session(Settings())
    yield session
    session.stop()


@pytest.fixture
def bench(cluster: LocalCluster, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(cluster.bootstrap, cluster.cluster_id, tmp_path)
    yield made
    made.close()


def produce(bench: Bench, topic: str, count: int, size: int) -> None:
    producer = Producer(client(bench.bootstrap, acks="all", **{"linger.ms": "20"}))
    for _ in range(count):
        producer.produce(topic, b"x" * size, partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0


def snapshot(bench: Bench, *inventories: Inventory) -> None:
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        collect(live, bench.store, now=utc_now, progress=lambda _: None, inventories=inventories)


def inventories(cluster: LocalCluster, folder: Path) -> list[Inventory]:
    return [
        scanned(folder / f"{broker}.inventory", *cluster.log_dirs(broker), broker=broker)
        for broker in cluster.broker_ids
    ]


def settle(bench: Bench, topic: str) -> None:
    """Wait until the followers have all of it."""

    def same() -> bool:
        with connect({"bootstrap.servers": bench.bootstrap}) as live:
            found = {r.size_bytes for r in live.log_dirs().replicas if r.topic == topic}
        return len(found) == 1 and 0 not in found

    until(same, 30)


def estimate(bench: Bench, topic: str, target: int = TARGET) -> Estimate:
    bench.commit("estimators-g", topic, {0: target})
    (row,) = bench.plan(topic).partitions
    assert row.target_offset == target
    assert row.estimate is not None
    return row.estimate


def on_disk(cluster: LocalCluster, topic: str, target: int = TARGET) -> dict[int, int]:
    key = TopicPartition(topic, 0)
    return {b: segments_below(cluster, b, key, target) for b in cluster.broker_ids}


def held(bench: Bench, topic: str) -> list[int]:
    """Bytes of each replica."""
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        return [r.size_bytes for r in live.log_dirs().replicas if r.topic == topic]


def test_an_inventory_promises_what_the_purge_frees_to_the_byte(
    bench: Bench, cluster: LocalCluster, spark: SparkSession, tmp_path: Path
) -> None:
    topic = bench.topic(0)
    produce(bench, topic, 30_000, 100)
    produce(bench, topic, 10_000, 1500)
    settle(bench, topic)
    snapshot(bench, *inventories(cluster, tmp_path))
    analyze(spark, bench.store, bench.settings, now=utc_now)
    found, truth = estimate(bench, topic), on_disk(cluster, topic)
    assert found.method == "segments"
    assert found.replicas == truth
    exact = sum(truth.values())
    assert exact > 3 * (8 << 20)
    once = found.bytes_at_once_low, found.bytes_at_once, found.bytes_at_once_high
    assert once == (exact,) * 3
    rows = bench.store.read("findings", bench.store.latest_analysis(), "curves").to_pylist()
    assert {r["method"] for r in rows if r["topic"] == topic} == {"segments"}

    view = bench.apply(bench.plan(topic), watch=True)
    until(lambda: bench.journal.run(view.run.run_id).run.receipt_final, 90)
    receipt = bench.journal.run(view.run.run_id).run.receipt
    assert receipt is not None
    assert receipt.predicted_bytes == receipt.freed_bytes == exact
    assert receipt.gap is None
    (outcome,) = gap.outcomes([bench.journal.run(view.run.run_id).run])
    assert (outcome.of.topic, outcome.of.method, outcome.of.error) == (topic, "segments", 0)
    assert outcome.of.inside and outcome.of.freed_bytes == exact


def test_history_comes_close_and_proportional_covers_the_truth(
    bench: Bench, cluster: LocalCluster, spark: SparkSession, tmp_path: Path
) -> None:
    topic = bench.topic(0)
    for count, size in [(10_000, 100)] * 3 + [(2_500, 1500)] * 4:
        produce(bench, topic, count, size)
        settle(bench, topic)
        snapshot(bench)
    analyze(spark, bench.store, bench.settings, now=utc_now)
    found, truth = estimate(bench, topic), sum(on_disk(cluster, topic).values())
    assert found.method == "history"
    assert found.bytes_at_once == pytest.approx(truth, rel=0.15)
    assert found.bytes_at_once_low is not None and found.bytes_at_once_high is not None
    assert found.bytes_at_once_low <= truth <= found.bytes_at_once_high

    (tmp_path / "alone").mkdir()
    alone = Bench(cluster.bootstrap, cluster.cluster_id, tmp_path / "alone")
    snapshot(alone)  # one snapshot tells no more than where the log begins and ends
    analyze(spark, alone.store, alone.settings, now=utc_now)
    first = estimate(alone, topic)
    alone.close()
    assert first.method == "proportional"
    assert first.bytes_at_once_low is not None and first.bytes_at_once_high is not None
    assert first.bytes_at_once_low <= truth <= first.bytes_at_once_high


def test_history_follows_an_earlier_purge_and_retention_though_records_grow(
    bench: Bench, cluster: LocalCluster, spark: SparkSession
) -> None:
    keep = 10 << 20
    topic = bench.topic(0, retention_bytes=str(keep))
    for number in range(12):
        size = round(100 * 1.25**number)
        produce(bench, topic, (2 << 20) // size, size)
        settle(bench, topic)
        if number == 2:  # somebody else's purge, into the middle of a segment
            purged = Part(topic, 0, 25_000)
            next(iter(bench.admin.delete_records([purged]).values())).result(ANSWERS_WITHIN)
        # Kafka keeps what one segment more would take below retention.bytes.
        until(lambda: max(held(bench, topic)) < keep + (2 << 20), 30)
        snapshot(bench)
    settle(bench, topic)
    snapshot(bench)
    analyze(spark, bench.store, bench.settings, now=utc_now)
    key = TopicPartition(topic, 0)
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        seen = live.offsets([key])[key]
    assert seen.log_start_offset is not None and seen.high_watermark is not None
    assert seen.log_start_offset > 25_000, "retention deleted too"
    target = (seen.log_start_offset + seen.high_watermark) // 2
    found, truth = estimate(bench, topic, target), sum(on_disk(cluster, topic, target).values())
    assert found.method == "history"
    assert found.bytes_at_once is not None
    assert truth > 3 * (2 << 20)
    assert abs(found.bytes_at_once - truth) <= 3 * (2 << 20), "two segments of each replica"
    assert found.bytes_at_once_low is not None and found.bytes_at_once_high is not None
    assert found.bytes_at_once_low <= truth <= found.bytes_at_once_high
