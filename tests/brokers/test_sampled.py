"""Sampled estimates against a topic whose records grew fifteenfold, and what its purge freed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from dashboard.cluster.live import connect
from dashboard.demo.kafka.brokers import LocalCluster, client
from dashboard.domain.model import TopicPartition
from tests.brokers.purge_bench import Bench
from tests.brokers.purge_proof import segments_below


@pytest.fixture(scope="module")
def bench(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(cluster.bootstrap, cluster.cluster_id, tmp_path_factory.mktemp("sampled"))
    yield made
    made.close()


def grown_topic(bench: Bench) -> str:
    """30,000 records of 100 bytes, then 10,000 of 1,500: 19 MB in segments of 1 MiB."""
    topic = bench.topic(0)
    producer = Producer(client(bench.bootstrap, acks="all", **{"linger.ms": "20"}))
    for number in range(40_000):
        producer.produce(topic, b"x" * (100 if number < 30_000 else 1500), partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0
    return topic


def test_what_is_promised_is_what_the_disk_holds_in_whole_segments(
    bench: Bench, cluster: LocalCluster
) -> None:
    topic = grown_topic(bench)
    bench.commit("sampled-g", topic, {0: 34_000})
    plan = bench.plan(topic, sample=True)
    (row,) = plan.partitions
    assert row.estimate is not None
    assert row.estimate.method == "sampled"
    assert set(row.estimate.replicas) == {1, 2, 3}
    truth = 0
    for broker_id, promised in row.estimate.replicas.items():
        on_disk = segments_below(cluster, broker_id, TopicPartition(topic, 0), 34_000)
        assert on_disk > 4 << 20
        # Where segments begin is not known, and records grow fifteenfold between two samples.
        assert abs(promised - on_disk) <= (1 << 20) + 0.1 * on_disk, (promised, on_disk)
        truth += on_disk
    assert row.estimate.bytes_at_once_low is not None
    assert row.estimate.bytes_at_once_high is not None
    assert row.estimate.bytes_at_once_low <= truth <= row.estimate.bytes_at_once_high


def test_a_sample_is_the_batch_that_holds_the_offset(bench: Bench) -> None:
    topic = bench.topic(500)
    key = TopicPartition(topic, 0)
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        found = live.batches({key: [0, 250, 499, 5000]})[key]
        missing = TopicPartition("no-such-topic", 0)
        assert live.batches({missing: [0]})[missing].error == "UNKNOWN_TOPIC_OR_PARTITION"
    assert found.error is None
    assert 1 <= len(found.batches) <= 3
    for batch in found.batches:
        assert batch.size_bytes / batch.offsets == pytest.approx(1010, rel=0.1)
