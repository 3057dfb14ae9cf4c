"""A reader that no group shows: the broker's own count of bytes out gives it away."""

from __future__ import annotations

from datetime import timedelta

import pytest
from confluent_kafka import Consumer, TopicPartition

from dashboard.broker_metrics.sources import Sources
from dashboard.cluster.live import connect
from dashboard.collect.collect import Collected, collect
from dashboard.core.clock import utc_now
from dashboard.demo.kafka.brokers import client
from tests.brokers.purge_bench import Bench

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
