"""Records are kept before a purge deletes them: on real brokers, by workers that are killed."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from dashboard.archive.format import read_batches
from dashboard.archive.manifest import RunArchive, part_name
from dashboard.archive.place import Place, begin, committed
from dashboard.core.clock import utc_now
from dashboard.demo.kafka.brokers import client
from dashboard.demo.kafka.jars import KafkaJars
from dashboard.domain.model import TopicPartition as Key
from dashboard.purge.execute.archiving import INCOMPLETE
from dashboard.purge.jobs import queue
from dashboard.purge.journal.rows import RunView
from tests.brokers.purge_bench import SETTINGS, Bench, lone_bench
from tests.brokers.purge_faults import kinds

Row = tuple[Any, ...]


@pytest.fixture
def url(bench: Bench, tmp_path: Path) -> Iterator[str]:
    """A folder for archives whose parts are small, so that there are many."""
    assert bench.settings.source is not None
    bench.settings.source.write_text(f"{SETTINGS}[archive]\npart_bytes = 1048576\nreaders = 3\n")
    (tmp_path / "kept").mkdir()
    yield str(tmp_path / "kept")
    bench.settings.source.write_text(SETTINGS)


def in_kafka(bench: Bench, key: Key, end: int) -> list[Row]:
    """Each record below `end`, as a plain consumer reads it."""
    reader = Consumer(client(bench.bootstrap, **{
        "group.id": "archive-test", "enable.auto.commit": "false",
        "isolation.level": "read_uncommitted", "enable.partition.eof": "true",
    }))  # fmt: skip
    reader.assign([TopicPartition(*key, 0)])
    rows: list[Row] = []
    until = time.monotonic() + 60
    while time.monotonic() < until:
        message = reader.poll(1)
        if message is None:
            continue
        if message.error() is not None or (message.offset() or 0) >= end:
            break
        headers = [(name, value) for name, value in message.headers() or []]
        at = message.timestamp()[1]
        rows.append((message.offset(), at, message.key(), message.value(), headers))
    reader.close()
    return rows


def in_archive(url: str, run: RunArchive, key: Key) -> list[Row]:
    """Each record of the parts that the partition's commit names."""
    place = Place(url)
    found = committed(place, run, key)
    rows: list[Row] = []
    for part in found.parts if found else ():
        body = place.get(part_name(run.cluster_id, run.run_id, key, part.file))
        assert body is not None
        for batch in read_batches(body):
            columns = batch.to_pydict()
            for n, offset in enumerate(columns["offset"]):
                at = round(columns["timestamp"][n].timestamp() * 1000)
                headers = [(h["name"], h["value"]) for h in columns["headers"][n]]
                rows.append((offset, at, columns["key"][n], columns["value"][n], headers))
    return rows


def manifest(url: str, view: RunView) -> RunArchive:
    return begin(
        Place(url), view.run.cluster_id, view.run.run_id, lambda: pytest.fail("no archive")
    )[0]


def odd_records(bench: Bench, topic: str) -> None:
    """Transactions that commit and abort, nulls and empties, headers, large and packed records."""
    plain = Producer(client(bench.bootstrap, **{"compression.type": "lz4", "linger.ms": "50"}))
    for n in range(300):
        plain.produce(topic, b"%d" % n * 50, key=b"k%d" % n, partition=0)
    for value, key in ((None, b"tombstone"), (b"", b""), (b"", None), (None, None)):
        plain.produce(topic, value, key=key, partition=0)
    headers: Any = [("a", b"1"), ("a", None), ("", b""), ("ü", b"\xff\x00")]
    plain.produce(topic, b"with headers", headers=headers, partition=0)
    plain.produce(topic, b"of 1969", partition=0, timestamp=-5)
    for n in range(3):
        plain.produce(topic, bytes([n]) * 900_000, partition=0)
    assert plain.flush(30) == 0
    for commits in (True, False, True):
        sender = Producer(client(bench.bootstrap, **{
            "transactional.id": f"{topic}-{commits}", "compression.type": "gzip",
        }))  # fmt: skip
        sender.init_transactions(30)
        sender.begin_transaction()
        for n in range(20):
            sender.produce(topic, b"transaction %d" % n, partition=0)
        if commits:
            sender.commit_transaction(30)
        else:
            sender.flush(30)
            sender.abort_transaction(30)


@pytest.mark.further
def test_what_a_purge_deletes_lies_in_the_archive_record_for_record(bench: Bench, url: str) -> None:
    topic = bench.topic(0, 3000)
    odd_records(bench, topic)
    ends = {0: 300 + 4 + 1 + 1 + 3 + 3 * 21, 1: 2500}  # the first ends with a transaction's marker
    bench.commit("archive-g", topic, ends)
    before = {p: in_kafka(bench, Key(topic, p), end) for p, end in ends.items()}
    assert len(before[0]) == ends[0] - 3
    view = bench.apply(bench.plan(topic, archive=url))
    assert view.run.state == "done", view.to_json()
    run = manifest(url, view)
    assert {p: in_archive(url, run, Key(topic, p)) for p in ends} == before
    assert [bench.log_start(topic, p) for p in ends] == list(ends.values())
    first, second = (committed(Place(url), run, Key(topic, p)) for p in ends)
    assert first is not None
    assert second is not None
    assert (first.skipped, second.skipped, len(second.parts) > 1) == ("control", None, True)
    steps = kinds(bench, view.run.run_id)
    assert steps.index("kept") < steps.index("intent")
    assert view.run.archive is not None
    assert view.run.archive.state == "proved"


def test_a_place_that_takes_nothing_stops_the_purge_before_anything_is_deleted(
    bench: Bench, url: str
) -> None:
    topic = bench.topic(10)
    bench.commit("archive-g", topic, {0: 5})
    Path(url).rmdir()
    Path(url).write_text("a file stands where the folder is to be")
    view = bench.apply(bench.plan(topic, archive=url))
    assert view.run.state == "refused"
    assert view.run.error is not None
    assert (view.run.error["code"], url in view.run.error["message"]) == (
        "ARCHIVE_UNWRITABLE",
        True,
    )
    assert view.partitions[0].error == INCOMPLETE
    assert bench.log_start(topic) == 0


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(3, marks=pytest.mark.further),
        pytest.param(50, marks=[pytest.mark.slow, pytest.mark.timeout(900)]),
    ],
)
def test_workers_killed_at_any_moment_lose_nothing_and_purge_nothing_without_proof(
    bench: Bench, url: str, kills: int
) -> None:
    chance = random.Random(kills)
    left = kills
    while left > 0:
        topic = bench.topic(3000, 3000, 1500)
        ends = {0: 2900, 1: 3000, 2: 700}
        bench.commit("archive-g", topic, ends)
        before = {p: in_kafka(bench, Key(topic, p), end) for p, end in ends.items()}
        run_id = bench.enqueue(bench.plan(topic, archive=url))
        for _ in range(min(left, 8)):
            time.sleep(chance.uniform(0, 1.2))
            bench.kill_worker(run_id)
            left -= 1
            for p in ends:  # whatever is gone by now can be read back
                start = bench.log_start(topic, p) or 0
                if start:
                    run = manifest(url, bench.journal.run(run_id))
                    assert in_archive(url, run, Key(topic, p)) == before[p]
            queue.respawn_stale(bench.settings, bench.journal, now=utc_now() + timedelta(minutes=1))
        view = bench.wait(run_id)
        assert view.run.state == "done", view.to_json()
        run = manifest(url, view)
        assert {p: in_archive(url, run, Key(topic, p)) for p in ends} == before
        assert [bench.log_start(topic, p) for p in ends] == list(ends.values())


def compacted(bench: Bench, topic: str, end: int) -> list[int]:
    """Wait until the log cleaner has taken some of what lies below `end`: what is left."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        left = [offset for offset in bench.offsets(topic, 0) if offset < end]
        if len(left) < end // 2:
            return left
        time.sleep(2)
    raise AssertionError("the log cleaner took nothing")


@pytest.mark.slow
def test_what_the_log_cleaner_took_is_told_apart_from_what_is_missing(
    bench: Bench, url: str
) -> None:
    topic = bench.topic(
        0, cleanup_policy="compact,delete", min_cleanable_dirty_ratio="0.01", segment_ms="500",
        max_compaction_lag_ms="1000", delete_retention_ms="100", retention_ms="-1",
    )  # fmt: skip
    producer = Producer(client(bench.bootstrap))
    for n in range(900):
        producer.produce(topic, b"%d" % n * 20, key=b"k%d" % (n % 7), partition=0)
        if n % 300 == 299:
            assert producer.flush(30) == 0
            time.sleep(1)  # the segment is rolled by its age
    bench.commit("archive-g", topic, {0: 800})
    left = compacted(bench, topic, 800)
    lifted = ("changelog-source=test data",)
    view = bench.apply(bench.plan(topic, archive=url, override=lifted))
    assert view.run.state == "done", view.to_json()
    key = Key(topic, 0)
    archive = committed(Place(url), manifest(url, view), key)
    assert archive is not None
    kept = [row[0] for row in in_archive(url, manifest(url, view), key)]
    assert set(kept) <= set(left), "the log cleaner goes on"
    assert sum(part.compacted for part in archive.parts) == 800 - len(kept)
    assert sum(part.control for part in archive.parts) == 0
    assert bench.log_start(topic) == 800


@pytest.mark.slow
def test_retention_that_overtakes_the_reading_ends_that_partition_alone(
    bench: Bench, url: str
) -> None:
    """Of the one that is being read, parts are proved; the other's turn comes later."""
    assert bench.settings.source is not None
    archive = "[archive]\npart_bytes = 1048576\nreaders = 1\nbytes_per_second = 1048576\n"
    bench.settings.source.write_text(f"{SETTINGS}{archive}")
    topic = bench.topic(0, 0, retention_ms="-1")
    producer = Producer(client(bench.bootstrap, acks="all", **{"linger.ms": "20"}))
    old = round((utc_now() - timedelta(days=3)).timestamp() * 1000)
    for n in range(20_500):
        for p in range(2):
            at = old if n < 20_000 else 0  # 0: now
            producer.produce(topic, b"%d " % n + b"x" * 1000, partition=p, timestamp=at)
        producer.poll(0)
    assert producer.flush(60) == 0
    bench.commit("archive-g", topic, {0: 20_400, 1: 20_400})
    run_id = bench.enqueue(bench.plan(topic, archive=url))
    until = time.monotonic() + 60
    while not [*Path(url).rglob("part-*.json")] and time.monotonic() < until:
        time.sleep(0.1)
    entry = ConfigEntry("retention.ms", "3600000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    bench.admin.incremental_alter_configs([resource])[resource].result(30)
    view = bench.wait(run_id)
    first, second = view.partitions
    assert (first.state, first.error) == ("not_done", INCOMPLETE)
    assert "the log starts at" in str(first.message)
    assert second.state == "done", view.to_json()
    kept = committed(Place(url), manifest(url, view), Key(topic, 1))
    assert kept is not None and 15_000 < kept.start < kept.target == 20_400
    rows = in_archive(url, manifest(url, view), Key(topic, 1))
    assert [row[0] for row in rows] == [*range(kept.start, 20_400)]
    assert (bench.log_start(topic, 0) or 0) < 20_400 == bench.log_start(topic, 1)


@pytest.mark.slow
def test_a_partition_whose_bytes_are_damaged_on_disk_is_not_purged(
    kafka_jars: KafkaJars, tmp_path: Path
) -> None:
    """Kafka checks no checksum as it serves a batch: who reads does."""
    with lone_bench(kafka_jars, tmp_path) as bench:
        topic = bench.topic(200, 200)
        bench.commit("archive-g", topic, {0: 150, 1: 150})
        (log,) = (tmp_path / "kafka").rglob(f"{topic}-1/00000000000000000000.log")
        with log.open("r+b") as file:
            file.seek(60_000)
            file.write(b"damaged")
        (tmp_path / "kept").mkdir()
        view = bench.apply(bench.plan(topic, archive=str(tmp_path / "kept")))
        states = [(row.state, row.error) for row in view.partitions]
        assert states == [("done", None), ("not_done", INCOMPLETE)]
        assert "cannot be read" in str(view.partitions[1].message)
        assert bench.log_start(topic, 1) == 0
