"""Snapshots of real brokers: whole, in time, and honest about whom they miss."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dashboard.cluster.connection import connection
from dashboard.cluster.live import LiveCluster, connect
from dashboard.collect.collect import Collected, collect
from dashboard.core.clock import utc_now
from dashboard.core.errors import ClusterError
from dashboard.demo.kafka.brokers import LocalCluster
from dashboard.domain.model import TopicPartition, TopicState
from dashboard.store.snapshots import ClusterStore, Store
from tests.brokers.workload import ANSWERS_WITHIN, Workload, until


class Wait(NamedTuple):
    """A question that ran out of time; moments on the monotonic clock."""

    asked_at: float
    given_up_at: float


@pytest.fixture(scope="module")
def workload(cluster: LocalCluster) -> Iterator[Workload]:
    made = Workload({"bootstrap.servers": cluster.bootstrap})
    yield made
    made.close()


@pytest.fixture
def store(tmp_path: Path, cluster: LocalCluster) -> ClusterStore:
    return ClusterStore(Store(str(tmp_path)), cluster.cluster_id)


def take(live: LiveCluster, store: ClusterStore) -> Collected:
    return collect(live, store, now=utc_now, progress=lambda _: None)


def replica_rows(store: ClusterStore, got: Collected, topic: str) -> list[dict[str, Any]]:
    topics = store.read("snapshots", got.snapshot_id, "topics").to_pylist()
    number = next(t["topic_no"] for t in topics if t["topic"] == topic)
    rows = store.read("snapshots", got.snapshot_id, "replicas").to_pylist()
    return [row for row in rows if row["topic_no"] == number]


def test_a_snapshot_of_a_healthy_cluster_has_no_gap(
    cluster: LocalCluster, workload: Workload, store: ClusterStore
) -> None:
    topic = workload.topic(4)
    workload.produce(topic, 0, 20)
    workload.commit(f"{topic}-g", {(topic, 0): 5})
    with connect({"bootstrap.servers": cluster.bootstrap}) as live:
        got = take(live, store)
    assert [(b["broker_id"], b["reachable"]) for b in got.brokers] == [
        (1, True), (2, True), (3, True),
    ]  # fmt: skip
    assert got.errors == ()
    assert got.groups_incomplete == ()
    assert got.tables["replicas"] == 3 * got.tables["partitions"]
    replicas = replica_rows(store, got, topic)
    assert {r["error"] for r in replicas} == {None}
    assert {r["log_end_offset"] for r in replicas if r["partition"] == 0} == {20}
    assert all(r["size_bytes"] > 0 for r in replicas if r["partition"] == 0)
    assert sum(r["is_leader"] for r in replicas) == 4


def test_any_suspended_broker_costs_its_own_rows_and_its_time(
    cluster: LocalCluster, workload: Workload, store: ClusterStore
) -> None:
    """Each in turn: one of them is the active controller, one is the first bootstrap address."""
    topic = workload.topic(3, assignment=[[1], [2], [3]])
    for suspended in cluster.broker_ids:
        cluster.suspend(suspended)
        try:
            with connect({"bootstrap.servers": cluster.bootstrap}, timedelta(seconds=2)) as live:
                waits = waits_of(live)
                got = take(live, store)
        finally:
            cluster.resume(suspended)
        assert in_a_row(waits) <= 3
        missing = [b["broker_id"] for b in got.brokers if not b["reachable"]]
        assert missing == [suspended]
        assert all(b["error"] for b in got.brokers if not b["reachable"])
        by_broker = {r["broker_id"]: r for r in replica_rows(store, got, topic)}
        assert by_broker[suspended]["error"] is not None
        assert by_broker[suspended]["size_bytes"] is None
        others = [r for broker, r in by_broker.items() if broker != suspended]
        assert [r["log_end_offset"] for r in others] == [0, 0]
        # Five partitions of the offsets topic on three brokers: each leads at least one.
        assert any(f"broker {suspended} did not answer" in r for r in got.groups_incomplete)
        _healed(cluster)


def waits_of(live: LiveCluster) -> list[Wait]:
    """Filled with the questions from now on that ran out of time."""
    found: list[Wait] = []
    ask = live._connection._ask_address

    def timed(*question: Any) -> Any:
        asked_at = time.monotonic()
        try:
            return ask(*question)
        except ClusterError as error:
            if connection._hung(error):
                found.append(Wait(asked_at, time.monotonic()))
            raise

    live._connection._ask_address = timed  # type: ignore[method-assign]
    return found


def in_a_row(waits: list[Wait]) -> int:
    """How many began when another one was over: those at the same time delay nobody further."""
    count, over = 0, 0.0
    for wait in sorted(waits, key=lambda wait: wait.given_up_at):
        if wait.asked_at >= over:
            count, over = count + 1, wait.given_up_at
    return count


def _healed(cluster: LocalCluster) -> None:
    def whole() -> bool:
        try:
            with connect({"bootstrap.servers": cluster.bootstrap}) as live:
                states = live.topics(None).values()
                in_sync = all(not p.under_replicated for s in states for p in s.partitions)
                return in_sync and live.groups(()).incomplete == ()
        except ClusterError:
            return False

    until(whole, 60)


class _Deleting:
    """A live cluster in which a topic is deleted right after the metadata was read."""

    def __init__(self, live: LiveCluster, workload: Workload, topic: str) -> None:
        self._live, self._workload, self._topic = live, workload, topic

    def __getattr__(self, name: str) -> Any:
        return getattr(self._live, name)

    def topics(self, names: Any) -> dict[str, TopicState]:
        found = self._live.topics(names)
        self._workload.admin.delete_topics([self._topic])[self._topic].result(ANSWERS_WITHIN)
        # Each broker applies the deletion in its own time.
        gone = [TopicPartition(self._topic, 0)]
        until(lambda: all(r.error for r in self._live.replica_offsets(gone, topics=found)), 60)
        return found


def test_a_topic_deleted_meanwhile_costs_its_own_rows(
    cluster: LocalCluster, workload: Workload, store: ClusterStore
) -> None:
    doomed, other = workload.topic(), workload.topic()
    with connect({"bootstrap.servers": cluster.bootstrap}) as live:
        got = take(_Deleting(live, workload, doomed), store)  # type: ignore[arg-type]
    assert store.latest_snapshot() == got.snapshot_id
    gone = replica_rows(store, got, doomed)
    assert all(r["error"] for r in gone)
    assert {r["log_end_offset"] for r in gone} == {None}
    assert {r["log_end_offset"] for r in replica_rows(store, got, other)} == {0}


def listed(live: LiveCluster, broker_id: int) -> bool:
    """Whether fresh metadata holds the broker for alive."""
    live.cluster_id()
    return broker_id in live.alive_brokers()


@pytest.mark.slow
def test_a_broker_that_is_down_is_named_until_it_is_back(
    cluster: LocalCluster, workload: Workload, store: ClusterStore
) -> None:
    workload.topic(3)
    cluster.kill_broker(2)
    try:
        with connect({"bootstrap.servers": cluster.bootstrap}, timedelta(seconds=2)) as live:
            soon = take(live, store)
            until(lambda: not listed(live, 2), 60)  # its session has ended
            later = take(live, store)
    finally:
        cluster.start_broker(2)
    for got in (soon, later):
        assert [b["broker_id"] for b in got.brokers if not b["reachable"]] == [2]
    _healed(cluster)
    with connect({"bootstrap.servers": cluster.bootstrap}) as live:
        assert all(b["reachable"] for b in take(live, store).brokers)
