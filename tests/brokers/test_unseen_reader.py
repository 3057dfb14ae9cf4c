"""A reader that no group shows: the broker's own count of bytes out gives it away."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from dashboard.broker_metrics.sources import Sources
from dashboard.cluster.live import connect
from dashboard.collect.collect import Collected, collect
from dashboard.core.clock import utc_now
from dashboard.demo.kafka.brokers import client
from tests.brokers.purge_bench import SETTINGS, Bench

RECORDS = 4000
GUARD = "unseen-reader-suspected"


@pytest.fixture(scope="module")
def sources(exporters: dict[int, str]) -> Sources:
    return Sources(exporters, timedelta(seconds=30))


def take(bench: Bench, sources: Sources) -> Collected:
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        return collect(live, bench.store, now=utc_now, progress=print, metrics=sources)


def read(bench: Bench, topic: str, group: str, *, commit: bool) -> None:
    """All records of partition 0, by assign(); committed up to the end if asked."""
    reader = Consumer(client(bench.bootstrap, **{"group.id": group, "enable.auto.commit": "false"}))
    reader.assign([TopicPartition(topic, 0, 0)])
    count = 0
    until = utc_now() + timedelta(seconds=60)
    while count < RECORDS and utc_now() < until:
        count += len(reader.consume(RECORDS, timeout=0.5))
    if commit:
        reader.commit(offsets=[TopicPartition(topic, 0, RECORDS)], asynchronous=False)
    reader.close()
    assert count == RECORDS


@pytest.mark.further
def test_bytes_out_without_commits_are_suspected_and_committed_ones_explained(
    bench: Bench, sources: Sources
) -> None:
    hidden, known = bench.topic(RECORDS), bench.topic(RECORDS, name="purge.with-a.dot")
    for topic in (hidden, known):
        bench.commit("unseen-g", topic, {0: 3000})
    first = take(bench, sources)
    assert all(broker["answered"] and not broker["missing"] for broker in first.metrics)
    (before,) = (r.to_json() for r in bench.plan(hidden).unseen_readers)
    assert before["measured"] == "not measured"

    for _ in range(2):
        read(bench, hidden, "unseen-nobody", commit=False)
    read(bench, known, "unseen-reader", commit=True)
    take(bench, sources)

    found = {p.topic: p for p in bench.plan(hidden, known).partitions}
    assert found[known].free
    (guard,) = found[hidden].guards
    assert guard.name == GUARD
    assert hidden in guard.reason and "explain 0 B" in guard.reason
    rows = {r.topic: r.to_json() for r in bench.plan(hidden, known).unseen_readers}
    assert {r["measured"] for r in rows.values()} == {"measured"}
    # What the broker counts is what was read: records of some 1,070 bytes, once and twice.
    sent = {t: r["bytes_out_an_hour"] * r["window_ms"] / 3_600_000 for t, r in rows.items()}
    assert 2 * RECORDS * 1000 < sent[hidden] < 2 * RECORDS * 1200
    assert RECORDS * 1000 < sent[known] < RECORDS * 1200
    assert rows[known]["explained_bytes_an_hour"] > 0.8 * rows[known]["bytes_out_an_hour"]

    lifted = bench.plan(hidden, override=(f"{GUARD}=the backup job, it keeps its own offsets",))
    assert lifted.partitions[0].free
    override = next(o for o in lifted.overrides if o.name == GUARD)
    assert (override.by, override.reason) == ("test", "the backup job, it keeps its own offsets")


@pytest.fixture
def slowly(bench: Bench, tmp_path: Path) -> Iterator[str]:
    """A place for archives that are read so slowly that snapshots are taken meanwhile."""
    assert bench.settings.source is not None
    limit = "[archive]\nbytes_per_second = 1048576\n"
    bench.settings.source.write_text(SETTINGS + limit)
    (tmp_path / "kept").mkdir()
    yield str(tmp_path / "kept")
    bench.settings.source.write_text(SETTINGS)


@pytest.mark.further
def test_what_an_archive_reads_was_read_by_nobody_whom_we_do_not_know(
    bench: Bench, sources: Sources, slowly: str
) -> None:
    """Neither the run itself is refused for it, nor does the next plan suspect anybody; somebody
    who reads as much is suspected all the same.
    """
    topic = bench.topic(0, 0)
    chance = random.Random(7)
    producer = Producer(client(bench.bootstrap, **{"compression.type": "lz4"}))
    for n in range(RECORDS):
        value = chance.randbytes(1000) + bytes(1000)  # half of it is nothing on the wire
        producer.produce(topic, value, partition=n % 2)
        producer.poll(0)
    assert producer.flush(60) == 0
    bench.commit("archived-g", topic, {0: RECORDS // 2 - 1, 1: RECORDS // 2 - 1})
    take(bench, sources)
    run_id = bench.enqueue(bench.plan(topic, archive=slowly))
    while bench.journal.head(run_id).open:  # snapshots are taken while it is read
        take(bench, sources)
    view = bench.wait(run_id)
    assert view.run.state == "done", view.to_json()
    take(bench, sources)  # it may have been begun before all of it had come
    deadline = time.monotonic() + 120
    while True:
        take(bench, sources)
        more = bench.plan(topic)
        (reading,) = more.unseen_readers
        if reading.measured == "measured":
            break
        assert time.monotonic() < deadline, reading  # a broker of a busy machine told nothing
    assert not reading.suspected
    assert reading.bytes_out is not None
    assert reading.bytes_out < 100_000, "brokers sent what nobody took"
    assert GUARD not in {guard.name for p in more.partitions for guard in p.guards}

    producer = Producer(client(bench.bootstrap))
    for _ in range(RECORDS):
        producer.produce(topic, chance.randbytes(1000), partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0
    reader = Consumer(client(bench.bootstrap, **{"group.id": "x", "enable.auto.commit": "false"}))
    reader.assign([TopicPartition(topic, 0, RECORDS // 2 - 1)])
    count, until = 0, time.monotonic() + 60
    while count < RECORDS and time.monotonic() < until:
        count += len(reader.consume(RECORDS, timeout=0.5))
    reader.close()
    take(bench, sources)
    (reading,) = bench.plan(topic).unseen_readers
    assert reading.suspected
    assert RECORDS * 1000 < int(reading.bytes_out or 0) < RECORDS * 1200
