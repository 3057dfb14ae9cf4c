"""Beans of real brokers by the exporter's rules: a purge that waits shows in the purgatory."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

from dashboard.broker_metrics.sources import Sources, read
from dashboard.cluster.live import connect
from dashboard.demo.kafka.brokers import LocalCluster
from dashboard.domain.metric_names import (
    CONSUMER_LAG,
    COUNTERS,
    PURGATORY_SIZE,
    REQUEST_TIME,
    labels,
)
from dashboard.domain.model import TopicPartition
from dashboard.views.delete_requests import of_samples
from tests.brokers.purge_bench import Bench

_PURGE = '{"request":"DeleteRecords"}'


def numbers(broker_id: int, source: str) -> dict[str, float]:
    return {
        m.name: m.value
        for m in read(broker_id, source, timedelta(seconds=20))
        if m.labels in ("{}", _PURGE, '{"delayedOperation":"DeleteRecords"}')
    }


def test_a_purge_that_waits_is_in_the_purgatory_and_its_time_is_counted(
    bench: Bench, cluster: LocalCluster, exporters: dict[int, str]
) -> None:
    topic = bench.topic(100)
    placed = bench.placed(topic)
    leader = int(placed.leader_id or 0)
    behind = next(b for b in placed.replicas if b != leader)
    found = Sources(exporters, timedelta(seconds=20)).read()
    assert set(found.errors.values()) == {None}
    assert found.missing == {1: (), 2: (), 3: ()}
    told = {(m.broker_id, m.name) for m in found.samples if m.labels in ("{}", _PURGE)}
    assert told >= {(broker, name) for broker in (1, 2, 3) for name in COUNTERS.values()}
    assert {m.name for m in found.samples if m.labels == labels(topic=topic) and m.value} >= {
        COUNTERS[name] for name in ("bytes_in", "messages_in", "fetch_requests", "produce_requests")
    }
    followers = {m.broker_id for m in found.samples if m.name == CONSUMER_LAG}
    assert set(placed.replicas) - {leader} <= followers
    before = numbers(leader, exporters[leader])
    assert before[PURGATORY_SIZE] == 0

    def purge() -> None:
        with connect({"bootstrap.servers": bench.bootstrap}) as live:
            live.delete_records(leader, {TopicPartition(topic, 0): 60}, timeout_ms=60_000)

    waiting = threading.Thread(target=purge)
    cluster.suspend(behind)
    try:
        waiting.start()
        deadline = time.monotonic() + 60
        while not (size := numbers(leader, exporters[leader])[PURGATORY_SIZE]):
            assert time.monotonic() < deadline, "no request came to wait"
        assert size == 1
        told = of_samples(
            Sources({leader: exporters[leader]}, timedelta(seconds=20)).read().samples, {leader}
        )
        assert [row.waiting for row in told] == [1]
        silent = Sources({behind: exporters[behind]}, timedelta(seconds=0.5)).read()
        assert str(silent.errors[behind]).startswith("METRICS_TOO_SLOW")
    finally:
        cluster.resume(behind)
        waiting.join(70)
        cluster.start_broker(behind)
    after = numbers(leader, exporters[leader])
    assert after[PURGATORY_SIZE] == 0
    assert after[f"{REQUEST_TIME}_count"] == before[f"{REQUEST_TIME}_count"] + 1
    assert after[f"{REQUEST_TIME}_99thpercentile"] > 0
