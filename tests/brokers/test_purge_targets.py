"""Where a target comes from on a real cluster: commits, times, files; and where none can come."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from confluent_kafka import Producer

from dashboard.cluster.connection.connection import open_connection
from dashboard.cluster.live import LiveCluster
from dashboard.core.clock import utc_now
from dashboard.core.errors import RefusedError
from dashboard.demo.kafka.brokers import LocalCluster, client
from dashboard.domain.model import OffsetAtTime
from dashboard.domain.model import TopicPartition as Key
from dashboard.purge.plan.drafts import PlanRequest, read_live
from dashboard.purge.plan.plan import Plan
from dashboard.purge.plan.targets import parse_target, read_offsets_json
from tests.brokers.purge_bench import UNDECLARED, Bench, lift
from tests.brokers.purge_proof import Left, assert_proved, assert_untouched


@contextmanager
def open_transaction(bench: Bench, topic: str) -> Iterator[None]:
    """One record of a transaction that is neither committed nor aborted in this block."""
    settings = {"transactional.id": f"purge-{uuid.uuid4().hex}", "transaction.timeout.ms": "600000"}
    producer = Producer(client(bench.bootstrap, **settings))
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(60)
    try:
        yield
    finally:
        producer.abort_transaction(60)


def test_an_open_transaction_below_the_target_blocks_it(bench: Bench) -> None:
    topic = bench.topic(10)
    bench.commit("purge-g", topic, {0: 10})
    first = bench.plan(topic)
    with open_transaction(bench, topic):
        bench.produce(topic, 0, 5)
        bench.commit("purge-g", topic, {0: 15})
        capped = bench.plan(topic).partitions[0]
        assert (capped.target_offset, capped.capped_by) == (10, "last-stable-offset")
        beyond = bench.plan(topic, to="offset:15")
        assert [g.name for g in beyond.partitions[0].guards] == ["beyond-last-stable-offset"]
        forged = replace(beyond, partitions=(replace(beyond.partitions[0], guards=()),))
        refused = bench.apply(forged)
        assert refused.partitions[0].error == "beyond-last-stable-offset"
        assert_proved(bench, refused, "refused", Left(topic, 0, "not_done", range(16)))
        view = bench.apply(first)  # what lies below the transaction may go
        assert_proved(bench, view, "done", Left(topic, 0, "done", range(10, 16)))


@pytest.mark.further
def test_a_target_beyond_the_high_watermark_is_guarded(bench: Bench) -> None:
    topic = bench.topic(10)
    bench.commit("purge-g", topic, {0: 10})
    plan = bench.plan(topic, to="offset:11")
    assert plan.partitions[0].guards[0].name == "beyond-last-stable-offset"
    with pytest.raises(RefusedError) as refused:
        bench.apply(plan)
    assert refused.value.code == "NOTHING_FREE"
    assert_untouched(bench, topic, 10)


def test_a_time_after_the_last_record_gives_no_target(bench: Bench) -> None:
    topic = bench.topic(10, 0)
    bench.commit("purge-g", topic, {0: 10, 1: 0})
    plan = bench.plan(topic, to="timestamp:2099-01-01T00:00:00Z")
    assert [(p.target_offset, [g.name for g in p.guards]) for p in plan.partitions] == [
        (None, ["target-unresolved"]),
        (0, []),
    ]


def test_a_time_between_records_keeps_all_that_are_younger(bench: Bench) -> None:
    topic = bench.topic(10)
    time.sleep(0.05)
    between = utc_now()
    time.sleep(0.05)
    bench.produce(topic, 0, 5)
    bench.commit("purge-g", topic, {0: 15})
    text = f"timestamp:{between:%Y-%m-%dT%H:%M:%S.%f}Z"
    view = bench.apply(bench.plan(topic, to=text))
    assert_proved(bench, view, "done", Left(topic, 0, "done", range(10, 15)))


def test_an_offsets_file_purges_what_it_names_and_minus_one_is_frozen(bench: Bench) -> None:
    topic = bench.topic(40, 40)
    bench.commit("purge-g", topic, {0: 40, 1: 40})
    text = (
        f'{{"partitions":[{{"topic":"{topic}","partition":1,"offset":-1}},'
        f'{{"topic":"{topic}","partition":0,"offset":7}}],"version":1}}'
    )
    plan = bench.plan(to=read_offsets_json(text, "offsets.json"))
    assert [p.target_offset for p in plan.partitions] == [7, 40]
    bench.produce(topic, 1, 3)
    view = bench.apply(plan)
    left = Left(topic, 0, "done", range(7, 40)), Left(topic, 1, "done", range(40, 43))
    assert_proved(bench, view, "done", *left)


class SuspendedAtLookUp(LiveCluster):
    """A real cluster, one of whose brokers is suspended just before the look-up by time."""

    def __init__(self, bench: Bench, cluster: LocalCluster, broker_id: int) -> None:
        servers = {"bootstrap.servers": bench.bootstrap}
        super().__init__(open_connection(servers, timeout=timedelta(seconds=20)))
        self._suspend = lambda: cluster.suspend(broker_id)

    def offsets_at(self, partitions: Iterable[Key], at: datetime) -> dict[Key, OffsetAtTime]:
        self._suspend()
        self._connection.timeout_seconds = 3.0  # from now on one broker is known to hang
        return super().offsets_at(partitions, at)


@pytest.mark.further
def test_a_failed_look_up_by_time_is_a_named_refusal_and_never_minus_one(
    bench: Bench, cluster: LocalCluster
) -> None:
    topic = bench.topic(10, 10, 10)  # three leaders, one of them is suspended
    time.sleep(0.05)
    between = utc_now()
    for partition in range(3):
        bench.produce(topic, partition, 10)
    bench.commit("purge-g", topic, {0: 20, 1: 20, 2: 20})
    leader = bench.placed(topic, 0).leader_id
    assert leader is not None
    try:
        with SuspendedAtLookUp(bench, cluster, leader) as live:
            plan = plan_at(between, bench, live, topic)
    finally:
        cluster.resume(leader)
        cluster.start_broker(leader)
    failed = plan.partitions[0]
    assert (failed.target_offset, failed.free) == (None, False)
    assert [g.name for g in failed.guards] == ["target-unresolved"]
    assert "look-up by time failed" in failed.guards[0].reason
    assert [(p.target_offset, p.free) for p in plan.partitions[1:]] == [(10, True)] * 2
    assert '"target_offset":-1' not in plan.to_json_text()
    view = bench.apply(plan)
    left = [Left(topic, p, "done", range(10, 20)) for p in (1, 2)]
    assert_proved(bench, view, "done", *left)
    assert bench.offsets(topic, 0) == list(range(20))


def plan_at(moment: datetime, bench: Bench, live: LiveCluster, topic: str) -> Plan:
    target = parse_target(f"timestamp:{moment:%Y-%m-%dT%H:%M:%S.%f}Z")
    request = PlanRequest((topic,), target, override=(lift(UNDECLARED),), by="test")
    read = read_live(live, bench.settings, bench.store, request, now=utc_now())
    return read.plan(request.override)
