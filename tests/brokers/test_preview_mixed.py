"""Brokers of two versions in one cluster, as amid a rolling upgrade to LeaderOnly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dashboard.calls import DeletedRecords, delete_records
from dashboard.cluster.live import connect
from dashboard.demo.kafka.jars import KafkaJars
from tests.brokers.preview_cluster import PreviewCluster
from tests.brokers.purge_bench import Bench
from tests.brokers.purge_faults import until

pytestmark = pytest.mark.slow
STOCK = 3  # the broker that runs a released version meanwhile
LIFTED = dict.fromkeys(("readers-undeclared", "no-history"), "a test's own topic")


@pytest.fixture
def mixed(
    preview_cluster: PreviewCluster, kafka_jars: KafkaJars, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PreviewCluster]:
    """One of three brokers is as Kafka releases it."""
    brokers = preview_cluster.brokers

    def again(jars: KafkaJars) -> None:
        brokers.stop_broker(STOCK)
        preview_cluster.unregister(STOCK)
        monkeypatch.setattr(brokers, "_jars", jars)
        brokers.start_broker(STOCK)

    again(kafka_jars)
    yield preview_cluster
    again(preview_cluster.jars)


def test_each_leader_gets_what_it_knows_and_none_an_older_request(
    mixed: PreviewCluster, preview_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked for leader-only, a leader without it is sent nothing: a request that waits for all
    replicas would be another purge than the one that was asked for.
    """
    bench = preview_bench
    monkeypatch.setenv("LOWWATER_SETTINGS", str(bench.settings.source))
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(bench.settings.state_dir))
    placed = [[1, 2, STOCK], [2, STOCK, 1], [STOCK, 1, 2]]
    topic = bench.topic(100, 100, 100, placed=placed)
    bench.commit("reads-all", topic, dict.fromkeys(range(3), 100))
    until(lambda: leaders(bench, topic) == [1, 2, STOCK])

    def purge(offset: int, **more: Any) -> list[DeletedRecords]:
        found = delete_records(
            {(topic, p): offset for p in range(3)}, bootstrap_servers=bench.bootstrap,
            override=LIFTED, cluster="test", progress=lambda _text: None, **more,
        )  # fmt: skip
        return [found[topic, p] for p in range(3)]

    first, second, refused = purge(60, leader_only=True)
    assert [d.error for d in (first, second, refused)] == [None, None, "UNSUPPORTED_VERSION"]
    assert [d.leader_log_start_offset for d in (first, second)] == [60, 60]
    assert refused.low_watermark is None
    assert [bench.offsets(topic, p)[0] for p in range(3)] == [60, 60, 0]
    run_id = bench.journal.runs()[0].run_id
    sent = [e.body for e in bench.journal.entries(run_id) if e.kind == "answer"]
    assert {(e["leader_id"], e["api_version"], e["partitions"][0]["error"]) for e in sent} == {
        (1, 3, None), (2, 3, None), (STOCK, 2, "UNSUPPORTED_VERSION"),
    }  # fmt: skip
    assert purge(70) == [DeletedRecords(70, 70, None)] * 3, "wait-all is known to all"


def leaders(bench: Bench, topic: str) -> list[int | None]:
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        return [p.leader_id for p in live.topics([topic])[topic].partitions]
