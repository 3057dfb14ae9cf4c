"""Who holds the low watermark, as findings tell it: a stopped follower, one that is throttled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dashboard.cluster.live import connect
from dashboard.demo.kafka.brokers import LocalCluster
from dashboard.domain.model import DeleteRecordsPartitionResult, TopicPartition
from dashboard.store.snapshots import ClusterStore, Store
from tests.brokers.purge_bench import Bench
from tests.brokers.purge_faults import resumed, until
from tests.brokers.test_followers import found_in, snapshots
from tests.brokers.test_forecast import left_behind, throttled

pytestmark = pytest.mark.further

PLACED = [[1, 2, 3]]
STARTS = ("log_start_offset", "log_start_lag", "holds_low_watermark")


@pytest.fixture
def store(bench: Bench, tmp_path: Path) -> ClusterStore:
    return ClusterStore(Store(str(tmp_path)), bench.store.cluster_id)


def delete(bench: Bench, topic: str, offset: int) -> DeleteRecordsPartitionResult:
    """Waits for all replicas, a second at most."""
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        answer = live.delete_records(1, {TopicPartition(topic, 0): offset}, timeout_ms=1000)
    return answer.partition_results[0]


def starts(bench: Bench, topic: str) -> dict[int, int | None]:
    """Each replica's log start, as its own broker tells it."""
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        found = live.replica_offsets([TopicPartition(topic, 0)])
    return {replica.broker_id: replica.log_start_offset for replica in found}


def told(bench: Bench, store: ClusterStore, topic: str) -> dict[int, tuple[Any, ...]]:
    """The followers' columns after one more snapshot."""
    snapshots(bench, 1, store)
    rows = [row for row in found_in(store) if row["topic"] == topic]
    return {row["broker_id"]: tuple(row[name] for name in STARTS) for row in rows}


def test_of_a_stopped_follower_nothing_is_told_and_nobody_waits(
    bench: Bench, cluster: LocalCluster, store: ClusterStore
) -> None:
    topic = bench.topic(100, placed=PLACED)
    assert told(bench, store, topic) == {2: (0, 0, False), 3: (0, 0, False)}
    cluster.stop_broker(3)
    try:
        done = delete(bench, topic, 60)
        assert (done.error, done.low_watermark) == (None, 60), "it is not alive: nobody waits"
        assert told(bench, store, topic) == {2: (60, 0, False), 3: (None, None, False)}
    finally:
        cluster.start_broker(3)
    until(lambda: starts(bench, topic) == dict.fromkeys((1, 2, 3), 60))
    assert told(bench, store, topic) == {2: (60, 0, False), 3: (60, 0, False)}


def test_of_a_follower_that_hangs_nothing_is_guessed_while_the_purge_waits_for_it(
    bench: Bench, cluster: LocalCluster, store: ClusterStore
) -> None:
    topic = bench.topic(100, placed=PLACED)
    with resumed(cluster, 3):
        cluster.suspend(3)
        waited = delete(bench, topic, 60)
        found = told(bench, store, topic)
    assert waited.error == "REQUEST_TIMED_OUT", "it is alive by the metadata"
    assert found == {2: (60, 0, False), 3: (None, None, False)}
    until(lambda: starts(bench, topic) == dict.fromkeys((1, 2, 3), 60))


@pytest.mark.slow
def test_a_throttled_follower_holds_the_low_watermark_by_what_it_lacks(
    bench: Bench, cluster: LocalCluster, store: ClusterStore
) -> None:
    """It is alive, answers, and hears of a log start with its next fetch alone."""
    topic = bench.topic(5000, placed=PLACED, follower_replication_throttled_replicas="0:3")
    with throttled(bench, 3, 1):
        left_behind(bench, cluster, 3, topic, 20_000)
        # A megabyte comes before the quota is noticed, and one every ten seconds or so after it.
        for target in range(1000, 20_000, 1000):
            waited = delete(bench, topic, target)
            before = starts(bench, topic)
            found = told(bench, store, topic)
            if before == starts(bench, topic) and before[3] != target:
                break
    assert waited.error == "REQUEST_TIMED_OUT"
    assert (before[1], before[2]) == (target, target)
    assert before[3] is not None and before[3] < target
    assert found == {2: (target, 0, False), 3: (before[3], target - before[3], True)}
    until(lambda: starts(bench, topic) == dict.fromkeys((1, 2, 3), target))
    assert told(bench, store, topic)[3] == (target, 0, False)
