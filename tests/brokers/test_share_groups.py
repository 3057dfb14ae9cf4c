"""Share groups hold what lies past their start offsets; where those are unknown nothing may go."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import ShareConsumer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from dashboard.cluster.live import connect
from dashboard.collect.collect import collect
from dashboard.core.clock import utc_now
from dashboard.core.errors import RefusedError
from dashboard.demo.kafka.brokers import client
from dashboard.demo.kafka.jars import KafkaJars
from dashboard.purge.plan.plan import Plan
from tests.brokers.purge_bench import Bench, lone_bench
from tests.brokers.workload import ANSWERS_WITHIN, until

COMMITTED = "share-committed"


@pytest.fixture(scope="module")
def bench(kafka_jars: KafkaJars) -> Iterator[Bench]:
    """One broker of its own: a share group that nobody can see into blocks every topic."""
    if tuple(map(int, kafka_jars.version.split(".")[:2])) < (4, 2):
        pytest.skip("share groups are a matter of Kafka 4.2 and newer")
    with (
        tempfile.TemporaryDirectory(prefix="lowwater-test-") as folder,
        lone_bench(kafka_jars, Path(folder)) as made,
    ):
        yield made


@contextmanager
def member(bench: Bench, topic: str, group: str, *, since: str) -> Iterator[ShareConsumer]:
    """A member of a share group that has joined; `since` is its share.auto.offset.reset."""
    setting = ConfigEntry(
        "share.auto.offset.reset", since, incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[setting])
    bench.admin.incremental_alter_configs([resource])[resource].result(ANSWERS_WITHIN)
    explicit = {"share.acknowledgement.mode": "explicit", "group.id": group}
    consumer = ShareConsumer(client(bench.bootstrap, **explicit))
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


def acknowledge(consumer: ShareConsumer, count: int) -> None:
    """Take `count` records, accept them and have that written down."""
    taken = 0

    def enough() -> bool:
        nonlocal taken
        for message in consumer.poll(0.5):
            assert message.error() is None
            consumer.acknowledge(message)
            taken += 1
        consumer.commit_sync()
        return taken >= count

    until(enough, 60)


def start_of(bench: Bench, topic: str, group: str) -> int | None:
    """The share group's start offset on partition 0, None where it has not begun."""
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        listing = live.groups(())
    assert listing.incomplete == ()
    found = [o for o in listing.offsets if (o.group_id, o.topic) == (group, topic)]
    return found[0].committed_offset if found else None


def only_guard(plan: Plan) -> tuple[str, str]:
    guards = plan.partitions[0].guards
    assert len(guards) == 1, guards
    return guards[0].name, guards[0].reason


def test_a_share_group_counts_with_its_start_offset(bench: Bench) -> None:
    """The start offset that a broker keeps follows one acknowledgement behind."""
    topic, group = bench.topic(30), f"share-{uuid.uuid4().hex[:8]}"
    with member(bench, topic, group, since="earliest") as consumer:
        acknowledge(consumer, 30)
        bench.produce(topic, 0, 20)
        acknowledge(consumer, 20)
        bench.produce(topic, 0, 10)
        bench.commit(COMMITTED, topic, {0: 60})
        start = start_of(bench, topic, group)
        assert start is not None and 30 <= start <= 50

        plan = bench.plan(topic)
        assert (plan.partitions[0].target_offset, plan.partitions[0].guards) == (start, ())
        claims = {c.group_id: c.committed_offset for c in plan.partitions[0].groups}
        assert claims == {COMMITTED: 60, group: start}
        name, reason = only_guard(bench.plan(topic, to=f"offset:{start + 1}"))
        assert name == "unread-by-group" and group in reason
        waived = bench.plan(topic, waive=(f"{group}=its team is done",))
        assert waived.partitions[0].target_offset == 60

        assert bench.apply(plan).run.state == "done"
        acknowledge(consumer, 10)  # nothing that it still wanted is gone
    assert bench.offsets(topic, 0) == list(range(start, 60))
    _remembered(bench, topic, group)


def _remembered(bench: Bench, topic: str, group: str) -> None:
    """A snapshot keeps start offsets with the committed ones."""
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        taken = collect(live, bench.store, now=utc_now, progress=print)
    rows = bench.store.read("snapshots", taken.snapshot_id, "group_offsets").to_pylist()
    (row,) = [r for r in rows if r["group_id"] == group]
    assert row["committed_offset"] == start_of(bench, topic, group)


def test_a_share_group_that_has_not_begun_may_want_anything(bench: Bench) -> None:
    topic, other, group = bench.topic(50), bench.topic(50), f"share-{uuid.uuid4().hex[:8]}"
    for each in (topic, other):
        bench.commit(COMMITTED, each, {0: 30})
    with member(bench, topic, group, since="latest") as consumer:
        until(lambda: consumer.poll(0.2) is not None and _reads(bench, group), 30)
        name, reason = only_guard(bench.plan(topic))
        assert name == "share-group"
        assert group in reason and "its start offset here is not known" in reason
        assert bench.plan(other).partitions[0].free
    name, _ = only_guard(bench.plan(topic))
    assert name == "share-group", "without members too"
    plan = bench.plan(topic, override=(f"share-group:{group}=its team is done with them",))
    kept = next(o for o in plan.overrides if o.name == "share-group")
    assert (kept.group_id, kept.by) == (group, "test")
    assert kept.reason == "its team is done with them"
    assert bench.apply(plan).run.state == "done"
    assert bench.offsets(topic, 0) == list(range(30, 50))
    with pytest.raises(RefusedError) as refused:
        bench.plan(topic, waive=(f"{group}=gone",), move_waived=True)
    assert refused.value.code == "MOVE_SHARE_GROUP"


def _reads(bench: Bench, group: str) -> bool:
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        return any(g.group_id == group and g.assigned for g in live.groups(()).groups)
