"""A look at records on real brokers: each kind of log, no trace in groups, rights by name."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Producer

from dashboard.cluster import records
from dashboard.cluster.live import connect
from dashboard.cluster.records import GROUP, read_records
from dashboard.core.errors import ClusterError, OtherClusterError, RefusedError
from dashboard.demo.kafka.brokers import LocalCluster, client
from dashboard.demo.kafka.jars import KafkaJars
from dashboard.domain.model import TopicPartition
from dashboard.domain.records import LookedAt, Span
from dashboard.purge.evidence.look import LookRequest, Oldest, look, oldest, planned
from dashboard.store.connections import client_for
from tests.brokers import principals
from tests.brokers.purge_bench import Bench, lone_bench
from tests.brokers.purge_faults import until
from tests.brokers.secured import SecuredCluster

MiB = 1 << 20


def produce(bench: Bench, topic: str, count: int, size: int = 100, **properties: str) -> None:
    producer = Producer(client(bench.bootstrap, acks="all", **properties))
    for number in range(count):
        key = f"k{number}".encode()
        producer.produce(topic, b"%d " % number + b"x" * size, key, partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0


def read(
    bench: Bench, topic: str, target: int, sampled: int = 5, *, start: int = 0, values: bool = True
) -> LookedAt:
    key = TopicPartition(topic, 0)
    found = read_records(
        {"bootstrap.servers": bench.bootstrap}, bench.store.cluster_id, {key: Span(start, target)},
        sampled=sampled, values=values, deadline=time.monotonic() + 60,
    )  # fmt: skip
    assert found[key].error is None, found[key]
    return found[key]


def offsets(found: LookedAt) -> list[int]:
    return [record.offset for record in found.records]


@pytest.mark.further_but("none", "zstd")
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_the_first_the_last_and_samples_of_each_codec(bench: Bench, codec: str) -> None:
    topic = bench.topic(0)
    produce(bench, topic, 1000, **{"compression.type": codec, "linger.ms": "50"})
    found = read(bench, topic, 800)
    assert offsets(found) == [0, 133, 266, 399, 532, 665, 799]
    for record in found.records:
        assert record.key is not None and record.key.head == b"k%d" % record.offset
        assert record.value is not None and record.value.head is not None
        assert record.value.head.startswith(b"%d xxx" % record.offset)
        assert record.time_type == "create"
        assert abs(time.time() * 1000 - (record.timestamp_ms or 0)) < 600_000


def test_values_that_were_not_asked_for_are_not_held(bench: Bench) -> None:
    topic = bench.topic(3)
    found = read(bench, topic, 3, values=False)
    assert [r.value and (r.value.size_bytes, r.value.head) for r in found.records] == [
        (1002, None), (1002, None), (1002, None),
    ]  # fmt: skip


def test_nulls_are_told_from_what_is_empty(bench: Bench) -> None:
    topic = bench.topic(0, cleanup_policy="compact")
    producer = Producer(client(bench.bootstrap, acks="all"))
    headers = [("empty", b""), ("null", None), ("empty", b"again")]
    producer.produce(topic, None, b"tombstone", partition=0, headers=headers)
    producer.produce(topic, b"", b"", partition=0)
    producer.flush()
    tombstone, empty = read(bench, topic, 2).records
    assert tombstone.value is None
    assert [(h.name, h.value and h.value.head) for h in tombstone.headers] == headers
    assert (empty.value and empty.value.head, empty.key and empty.key.head) == (b"", b"")
    plain = bench.topic(0)
    producer.produce(plain, b"v", partition=0)
    producer.flush()
    assert read(bench, plain, 1).records[0].key is None


@pytest.mark.further
def test_markers_of_transactions_are_no_records(bench: Bench) -> None:
    """Committed and aborted ones: their records go both; target and samples fall on markers."""
    topic = bench.topic(0)
    producer = Producer(
        client(bench.bootstrap, **{"transactional.id": f"look-{uuid.uuid4().hex[:6]}"})
    )
    producer.init_transactions(30)
    for number in range(20):  # offset 2n: a record; 2n + 1: its marker
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number, partition=0)
        producer.flush(30)  # an abort drops what is not sent yet
        (producer.abort_transaction if number % 3 == 0 else producer.commit_transaction)(30)
    found = read(bench, topic, 40, sampled=50)
    assert offsets(found) == list(range(0, 40, 2))
    assert offsets(read(bench, topic, 1, start=0)) == [0]
    assert offsets(read(bench, topic, 40, start=39)) == [], "a marker alone"


def test_what_compaction_took_leaves_holes_and_no_error(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = bench.topic(0, cleanup_policy="compact", min_cleanable_dirty_ratio="0.001")
    producer = Producer(client(bench.bootstrap, acks="all", **{"linger.ms": "20"}))
    for number in range(5000):  # of all but the active segment one in a thousand stays
        key = b"stays%d" % number if number % 1000 == 0 else b"again"
        producer.produce(topic, b"y" * 1000, key, partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0

    def cleaned() -> bool:
        return len(offsets(read(bench, topic, 2500, sampled=60))) == 3

    until(cleaned)
    found = read(bench, topic, 2500, sampled=60)
    assert offsets(found) == [0, 1000, 2000]
    assert (found.first and found.first.offset, found.last and found.last.offset) == (0, 2000)
    assert offsets(read(bench, topic, 2000, start=1001)) == [], "holes alone"
    # From here to its end of doubling, 1 GiB, librdkafka has one hole left instead of thirty.
    monkeypatch.setitem(records._PROPERTIES, "fetch.message.max.bytes", str(1 << 29))
    assert offsets(read(bench, topic, 2500, sampled=60)) == [0, 1000, 2000]


@pytest.mark.further
def test_records_of_a_mebibyte(bench: Bench) -> None:
    topic = bench.topic(0, max_message_bytes=str(2 * MiB), segment_bytes=str(8 * MiB))
    large = {"message.max.bytes": str(2 * MiB), "queue.buffering.max.messages": "100"}
    producer = Producer(client(bench.bootstrap, acks="all", **large))
    for number in range(20):
        producer.produce(topic, b"%02d" % number + b"z" * MiB, partition=0)
        producer.flush()
    found = read(bench, topic, 20, sampled=20)
    assert offsets(found) == list(range(20))
    for record in found.records:
        assert record.value is not None and record.value.size_bytes == MiB + 2
        assert record.value.head is not None and len(record.value.head) == 64 * 1024
        assert record.value.head.startswith(b"%02d" % record.offset)


def test_a_look_leaves_no_group_and_no_offset(bench: Bench) -> None:
    topic = bench.topic(50)
    bench.commit("look-reader", topic, {0: 40})
    plan = bench.plan(topic)
    before = bench.journal.runs()
    asked = LookRequest(planned(plan), dict(plan.topic_ids), sampled=10, values=True)
    (found,) = look(bench.settings, bench.settings.data, None, asked, "test")
    assert (found.error, len(found.records)) == (None, 12)
    assert (found.log_start_offset, found.target_offset) == (0, 40)
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        listed = live.groups([topic])
    assert "look-reader" in {group.group_id for group in listed.groups}
    assert GROUP not in {group.group_id for group in listed.groups}
    assert GROUP not in {offset.group_id for offset in listed.offsets}
    assert bench.journal.runs() == before


@pytest.mark.further
def test_fifty_records_are_looked_at_within_a_second(bench: Bench) -> None:
    """On a quiet machine; a busy one gets five times as long."""
    topic = bench.topic(20_000)
    bench.commit("look-fifty", topic, {0: 20_000})
    plan = bench.plan(topic)
    asked = LookRequest(planned(plan), dict(plan.topic_ids), sampled=48)
    took = []
    for _ in range(3):
        began = time.monotonic()
        (found,) = look(bench.settings, bench.settings.data, None, asked, "test")
        took.append(time.monotonic() - began)
        assert len(found.records) == 50
    assert min(took) < 5, took


@pytest.mark.further
def test_another_cluster_or_none_at_the_address_is_said(bench: Bench) -> None:
    topic = bench.topic(1)
    span = {TopicPartition(topic, 0): Span(0, 1)}
    with pytest.raises(OtherClusterError):
        read_records(
            {"bootstrap.servers": bench.bootstrap}, "another", span, sampled=1, values=False,
            deadline=time.monotonic() + 30,
        )  # fmt: skip
    began = time.monotonic()
    with pytest.raises(ClusterError, match="records cannot be read"):
        read_records(
            {"bootstrap.servers": "127.0.0.1:9"}, "any", span, sampled=1, values=False,
            deadline=began + 2,
        )  # fmt: skip
    assert time.monotonic() - began < 4


@pytest.mark.further
def test_a_leader_that_hangs_costs_no_more_than_the_time_limit(
    bench: Bench, cluster: LocalCluster
) -> None:
    topic = bench.topic(100, placed=[[1, 2, 3]])
    began = time.monotonic()
    cluster.suspend(1)
    try:
        key = TopicPartition(topic, 0)
        found = read_records(
            {"bootstrap.servers": bench.bootstrap}, bench.store.cluster_id, {key: Span(0, 100)},
            sampled=3, values=False, deadline=began + 3,
        )[key]  # fmt: skip
    finally:
        cluster.resume(1)
    assert (found.error, found.first) == ("TIMED_OUT", None)
    assert time.monotonic() - began < 6


def test_a_cluster_without_groups_gets_no_offsets_topic(
    kafka_jars: KafkaJars, tmp_path: Path
) -> None:
    with lone_bench(kafka_jars, tmp_path) as bench:
        topic = bench.topic(5)
        asked = LookRequest({TopicPartition(topic, 0): 5}, {}, sampled=1)
        with pytest.raises(RefusedError) as refused:
            look(bench.settings, bench.settings.data, None, asked, "test")
        assert refused.value.code == "OFFSETS_TOPIC_UNSEEN"
        with connect({"bootstrap.servers": bench.bootstrap}) as live:
            assert "__consumer_offsets" not in live.topics(None)


@pytest.fixture
def forbidden(secured_cluster: SecuredCluster, tmp_path: Path) -> Iterator[Bench]:
    """As a principal that may describe everything, and read nothing."""
    user = f"looks-{uuid.uuid4().hex[:6]}"
    principals.make(secured_cluster, {user: [principals.rights.DESCRIBE_TOPIC]})
    local = secured_cluster.local
    as_user = principals.client(secured_cluster, user)
    made = Bench(local.bootstrap, local.cluster_id, tmp_path, as_user=as_user, replicas=1)
    yield made
    made.close()


@pytest.mark.further
def test_a_missing_read_is_named_and_the_fetch_itself_is_refused(forbidden: Bench) -> None:
    topic = forbidden.topic(5)
    forbidden.commit("look-anybody", topic, {0: 1})  # the offsets topic is there
    key = TopicPartition(topic, 0)
    asked = LookRequest({key: 5}, {}, sampled=1)

    def found() -> LookedAt:
        (row,) = look(forbidden.settings, forbidden.settings.data, None, asked, "test")
        return row

    until(lambda: found().error == "TOPIC_AUTHORIZATION_FAILED")
    assert f"has no READ on topic {topic}" in found().why
    row = read_records(
        client_for(forbidden.settings, forbidden.store), forbidden.store.cluster_id,
        {key: Span(0, 5)}, sampled=1, values=False, deadline=time.monotonic() + 30,
    )[key]  # fmt: skip
    assert (row.error, row.records) == ("TOPIC_AUTHORIZATION_FAILED", [])


def test_the_oldest_record_bears_the_time_that_its_producer_wrote(bench: Bench) -> None:
    topic, empty = bench.topic(0), bench.topic(0)
    at = datetime(2026, 3, 1, 4, 5, 6, 789_000, tzinfo=UTC)
    producer = Producer(client(bench.bootstrap, acks="all"))
    for later in (0, 1):
        moment = int((at + timedelta(hours=later)).timestamp() * 1000)
        producer.produce(topic, b"x", partition=0, timestamp=moment)
    assert producer.flush(60) == 0
    found = oldest(bench.settings, bench.settings.data, bench.store.cluster_id, [topic, empty])
    assert found == (Oldest(topic, at, 0), Oldest(empty, None))
