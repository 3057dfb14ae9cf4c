"""Guards on a real cluster: each names what it saw, and what may be lifted says who, when and why.

docs/guards.md lists where the other guards are proved.
"""

from __future__ import annotations

import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from dashboard.cluster.live import connect
from dashboard.collect.collect import collect
from dashboard.core.clock import utc_now
from dashboard.core.errors import RefusedError, UsageError
from dashboard.demo.kafka.brokers import LocalCluster, client
from dashboard.domain.model import Guard
from dashboard.purge.plan.drafts import PlanRequest, draft
from dashboard.purge.plan.guards import Lift, Override
from dashboard.purge.plan.plan import Plan
from dashboard.purge.plan.targets import parse_target
from dashboard.safety.guard_texts import NEVER_LIFTABLE
from dashboard.store.snapshots import ClusterStore, Store
from tests.brokers.purge_bench import Bench
from tests.brokers.workload import ANSWERS_WITHIN, until
from tests.support.collected import collected

RATE = "leader.replication.throttled.rate"


@pytest.fixture(scope="module")
def bench(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(cluster.bootstrap, cluster.cluster_id, tmp_path_factory.mktemp("guards"))
    yield made
    made.close()


def guard_of(plan: Plan, name: str, *facts: object, partition: int = 0) -> Guard:
    """The only guard on a partition: it has this name, and its reason holds the facts."""
    guards = plan.partitions[partition].guards
    assert [guard.name for guard in guards] == [name], guards
    (found,) = guards
    assert [fact for fact in facts if str(fact) not in found.reason] == []
    return found


def quiet(draw: Callable[[], Plan]) -> Plan:
    """A plan whose first partition has one guard: on a busy machine one of the moment may stand
    beside it, of a replica that fell behind.
    """
    until = time.monotonic() + 30
    while len((plan := draw()).partitions[0].guards) > 1 and time.monotonic() < until:
        time.sleep(0.5)
    return plan


def lifted(
    bench: Bench, topic: str, name: str, *, to: str = "committed", group: str | None = None
) -> Plan:
    """A plan that lifts the guard (of one group): all free, and it keeps who, when and why."""
    reason = f"looked into {name}"
    spelt = f"{name}:{group}" if group else name
    plan = bench.plan(topic, to=to, override=(f"{spelt}={reason}",))
    assert all(p.free for p in plan.partitions)
    (kept,) = [o for o in plan.overrides if o.name == name]
    assert kept == Override(name, group, reason, "test", plan.created_at)
    return plan


@pytest.mark.further
def test_readers_that_nobody_declared_are_unknown_until_somebody_does(bench: Bench) -> None:
    topic = bench.topic(20)
    bench.commit("guards-g", topic, {0: 12})
    request = PlanRequest((topic,), parse_target("committed"), by="test")
    undeclared = quiet(lambda: draft(bench.settings, bench.settings.data, None, request))
    found = guard_of(undeclared, "readers-undeclared", topic)
    assert "Declare its readers" in found.lift
    lifting = replace(request, override=(Lift("readers-undeclared", "asked in the hall"),))
    (override,) = draft(bench.settings, bench.settings.data, None, lifting).overrides
    assert (override.name, override.by) == ("readers-undeclared", "test")
    assert override.reason == "asked in the hall"

    told = {"owner": "shop", "readers": "groups", "declared_by": "ann", "reason": "asked"}
    bench.store.write_declarations(
        [{"glob": topic, **told, "declared_at": "2026-03-01T00:00:00.000Z"}]
    )
    declared = draft(bench.settings, bench.settings.data, None, request)
    bench.store.write_declarations([])
    assert declared.partitions[0].free and declared.overrides == ()
    kept = declared.declarations[0]
    assert (kept.declared_by, kept.reason) == ("ann", "asked")
    assert kept.declared_at == "2026-03-01T00:00:00.000Z"


def test_a_member_that_reads_and_never_committed_counts_as_a_reader(bench: Bench) -> None:
    topic, idle = bench.topic(20), f"guards-{uuid.uuid4().hex[:8]}"
    bench.commit("guards-g", topic, {0: 12})
    consumer = Consumer(
        client(bench.bootstrap, **{"group.id": idle, "enable.auto.commit": "false"})
    )
    consumer.subscribe([topic])
    try:
        until(lambda: consumer.poll(0.1) is None and bool(consumer.assignment()), 30)
        found = guard_of(bench.plan(topic), "members-without-commits", idle)
        assert f'--override "members-without-commits:{idle}=' in found.lift
        plan = lifted(bench, topic, "members-without-commits", group=idle)
        assert bench.apply(plan).run.state == "done"  # the last look accepts what the plan names
    finally:
        consumer.close()
    assert bench.offsets(topic, 0) == list(range(12, 20))


@pytest.mark.further
def test_a_member_that_starts_over_is_not_where_a_snapshot_remembers_its_group(
    bench: Bench,
) -> None:
    topic, again = bench.topic(20), f"guards-{uuid.uuid4().hex[:8]}"
    bench.commit("guards-g", topic, {0: 12})
    bench.commit(again, topic, {0: 18})
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        collect(live, bench.store, now=utc_now, progress=print)
    bench.admin.delete_consumer_groups([again])[again].result(20)
    gone = bench.plan(topic).partitions[0]
    assert (gone.free, gone.target_offset) == (True, 12), "it had read up to 18"
    settings = {"group.id": again, "enable.auto.commit": "false", "auto.offset.reset": "earliest"}
    consumer = Consumer(client(bench.bootstrap, **settings))
    consumer.subscribe([topic])
    try:
        until(lambda: consumer.poll(0.1) is not None, 30)
        found = guard_of(bench.plan(topic), "members-without-commits", again)
        assert "no committed offset here" in found.reason
    finally:
        consumer.close()


@pytest.mark.further
def test_without_a_committed_offset_nobody_knows_who_read(bench: Bench) -> None:
    topic = bench.topic(20, 20)
    nobody = bench.plan(topic, to="offset:5")
    guard_of(nobody, "no-committed-offset", "No group")
    assert guard_of(nobody, "no-committed-offset", partition=1)
    lifted(bench, topic, "no-committed-offset", to="offset:5")

    bench.commit("guards-half", topic, {0: 20})
    half = bench.plan(topic, to="offset:5")
    assert half.partitions[0].free
    guard_of(half, "no-committed-offset", "Group guards-half", partition=1)
    plan = lifted(bench, topic, "no-committed-offset", to="offset:5", group="guards-half")
    assert bench.apply(plan).run.state == "done"
    assert bench.offsets(topic, 1) == list(range(5, 20))


@pytest.mark.further_but("changelog-source-cleanup_policy-compact,delete-it is compacted")
@pytest.mark.parametrize(
    ("name", "key", "value", "fact"),
    [
        ("changelog-source", "cleanup_policy", "compact,delete", "it is compacted"),
        ("unclean-election-enabled", "unclean_leader_election_enable", "true", "may become leader"),
    ],
)
def test_a_topics_configs_may_bring_records_back_or_need_them(
    bench: Bench, name: str, key: str, value: str, fact: str
) -> None:
    topic = keyed(bench, **{key: value})
    guard_of(bench.plan(topic), name, topic, fact)
    lifted(bench, topic, name)


def keyed(bench: Bench, name: str | None = None, **config: str) -> str:
    """A topic of 20 records with keys, as compaction wants them; a group has read 12."""
    topic = bench.topic(0, name=name, **config)
    producer = Producer(client(bench.bootstrap, acks="all"))
    for number in range(20):
        producer.produce(topic, b"value", key=b"%d" % number, partition=0)
    assert producer.flush(30) == 0
    bench.commit("guards-g", topic, {0: 12})
    return topic


@pytest.mark.further
def test_more_partitions_than_settings_allow(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = bench.topic(20, 20)
    bench.commit("guards-g", topic, {0: 12, 1: 12})
    one = replace(bench.settings, purge=replace(bench.settings.purge, most_partitions=1))
    monkeypatch.setattr(bench, "settings", one)
    guard_of(bench.plan(topic), "over-limit", "2 partitions", "allow 1")
    lifted(bench, topic, "over-limit")


def test_a_partition_that_moves_between_brokers(bench: Bench, cluster: LocalCluster) -> None:
    alone = Bench(cluster.bootstrap, cluster.cluster_id, bench.settings.state_dir, replicas=1)
    topic = alone.topic(8000)  # a megabyte every ten seconds or so: it does not arrive in this test
    collected(bench.store, utc_now(), topic)
    bench.commit("guards-g", topic, {0: 12})
    (home,) = bench_replicas(bench, topic)
    other = next(b for b in cluster.broker_ids if b != home)
    try:
        with crawling(bench, topic, home), reassigned(bench, topic, [home, other]):
            until(lambda: len(bench.plan(topic).partitions[0].guards) == 2, 60)
            behind = bench.plan(topic, override=("reassigning=it crawls",))
            found = guard_of(behind, "under-replicated", f"broker {other}")
            assert "Wait until every replica is in sync" in found.lift
            moving = bench.plan(topic, override=("under-replicated=it moves",))
            guard_of(moving, "reassigning", f"adding [{other}]", "removing []")
            both = bench.plan(topic, override=("reassigning=a", "under-replicated=b"))
            assert both.partitions[0].free
            assert {(o.name, o.reason, o.by) for o in both.overrides} >= {
                ("reassigning", "a", "test"), ("under-replicated", "b", "test"),
            }  # fmt: skip
        until(lambda: bench.plan(topic).partitions[0].free, 60)
    finally:
        alone.close()


def bench_replicas(bench: Bench, topic: str) -> list[int]:
    (partition,) = bench.admin.list_topics(topic, 60).topics[topic].partitions.values()
    return list(partition.replicas)


@contextmanager
def crawling(bench: Bench, topic: str, broker_id: int) -> Iterator[None]:
    """A leader that gives new replicas of the topic one byte a second."""
    change(bench, ResourceType.TOPIC, topic, "leader.replication.throttled.replicas", "*")
    change(bench, ResourceType.BROKER, str(broker_id), RATE, "1")
    try:
        yield
    finally:
        change(bench, ResourceType.BROKER, str(broker_id), RATE, None)


def change(bench: Bench, kind: ResourceType, name: str, key: str, value: str | None) -> None:
    verb = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    entry = ConfigEntry(key, value, incremental_operation=verb)
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    for done in bench.admin.incremental_alter_configs([resource]).values():
        done.result(ANSWERS_WITHIN)


@contextmanager
def reassigned(bench: Bench, topic: str, replicas: list[int]) -> Iterator[None]:
    """A reassignment under way, cancelled in the end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the client warns at its import, hundreds of times
        from kafka.admin import KafkaAdminClient
        from kafka.structs import TopicPartition
    admin = KafkaAdminClient(bootstrap_servers=bench.bootstrap.split(","))
    key = TopicPartition(topic, 0)
    try:
        admin.alter_partition_reassignments({key: replicas})
        yield
    finally:
        admin.alter_partition_reassignments({key: None})
        admin.close()


@pytest.mark.further_but("system-topic-delete--connect-offsets-not messages to be consumed")
@pytest.mark.parametrize(
    ("name", "policy", "ending", "fact"),
    [
        ("not-deletable", "compact", "", "compact, without delete"),
        ("system-topic", "delete", "-connect-offsets", "not messages to be consumed"),
    ],
)
def test_what_may_never_be_purged_stays_guarded(
    bench: Bench, name: str, policy: str, ending: str, fact: str
) -> None:
    topic = keyed(bench, f"guards-{uuid.uuid4().hex[:8]}{ending}", cleanup_policy=policy)
    plan = bench.plan(topic)
    found = guard_of(plan, name, topic, fact)
    assert found.lift.startswith("Not liftable")

    forged = replace(
        plan,
        partitions=(replace(plan.partitions[0], guards=()),),
        overrides=(*plan.overrides, Override(name, None, "why not", "eve", plan.created_at)),
    )
    with pytest.raises(RefusedError) as refused:
        bench.enqueue(forged)
    assert refused.value.code == "NOT_LIFTABLE"
    sealed_again = replace(forged, overrides=plan.overrides)
    if name == "system-topic":  # its name alone tells: it is not even queued
        with pytest.raises(RefusedError) as refused:
            bench.enqueue(sealed_again)
        assert refused.value.code == "GUARDED"
    else:
        view = bench.apply(sealed_again)
        assert (view.run.state, view.partitions[0].error) == ("refused", name)
    assert len(bench.offsets(topic, 0)) == 20


@pytest.mark.parametrize("name", NEVER_LIFTABLE)
def test_an_override_of_what_is_never_lifted_is_refused(bench: Bench, name: str) -> None:
    with pytest.raises(UsageError) as refused:
        bench.plan("any", override=(f"{name}=we are sure",))
    assert refused.value.code == "NOT_LIFTABLE"


def test_another_cluster_at_the_known_address(bench: Bench, tmp_path: Path) -> None:
    store = ClusterStore(Store(str(tmp_path)), "a-cluster-of-old")
    store.write_connection(bench.bootstrap, None, "prod")
    request = PlanRequest(("any",), parse_target("committed"), by="test")
    with pytest.raises(RefusedError) as refused:
        draft(bench.settings, str(tmp_path), "prod", request)
    assert (refused.value.code, refused.value.exit_code) == ("CLUSTER_MISMATCH", 3)
    assert "a-cluster-of-old" in refused.value.message
    assert bench.store.cluster_id in refused.value.message
    assert refused.value.next_step.startswith("Not liftable")
