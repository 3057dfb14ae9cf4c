"""What LiveCluster reads from real brokers agrees with what was done to them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from confluent_kafka import Producer, TopicCollection
from confluent_kafka import TopicPartition as Position

from dashboard.cluster.group_lists import OFFSETS_TOPIC, _coordinators
from dashboard.cluster.group_members import not_coordinated, partition_of
from dashboard.cluster.live import LiveCluster, connect
from dashboard.demo.kafka.brokers import LocalCluster
from dashboard.domain.model import TopicPartition
from tests.brokers.workload import Workload, until


@pytest.fixture(scope="module")
def workload(cluster: LocalCluster) -> Iterator[Workload]:
    made = Workload({"bootstrap.servers": cluster.bootstrap})
    yield made
    made.close()


@pytest.fixture(scope="module")
def live(cluster: LocalCluster) -> Iterator[LiveCluster]:
    with connect({"bootstrap.servers": cluster.bootstrap}, timedelta(seconds=30)) as opened:
        yield opened


def test_cluster_brokers_and_topic_ids_are_kafkas_own(
    cluster: LocalCluster, live: LiveCluster, workload: Workload
) -> None:
    topic = workload.topic(2)
    described = workload.admin.describe_topics(TopicCollection([topic]))[topic].result()
    state = live.topics([topic])[topic]
    assert live.cluster_id() == cluster.cluster_id
    assert [b.broker_id for b in live.brokers()] == [1, 2, 3]
    assert all(b.reachable and b.api_versions["DeleteRecords"] >= 2 for b in live.brokers())
    # confluent-kafka spells ids in plain base64, Kafka in the URL-safe one.
    assert state.topic_id == str(described.topic_id).translate(str.maketrans("+/", "-_"))
    assert [len(p.replicas) for p in state.partitions] == [3, 3]
    asked = live.topics_at({1: [topic], 2: [topic, "no-such"], 9: [topic]})
    assert asked[1] == {topic: state}
    assert asked[2] == {topic: state, "no-such": live.topics(["no-such"])["no-such"]}
    assert asked[9] == "BROKER_UNREACHABLE"  # there is no broker 9
    assert live.topics(["no-such"])["no-such"].error == "UNKNOWN_TOPIC_OR_PARTITION"


def test_offsets_sizes_and_purge_agree_on_every_replica(
    live: LiveCluster, workload: Workload
) -> None:
    topic = workload.topic(segment_bytes="1048576")
    workload.produce(topic, 0, 300, size=10_000)
    here = TopicPartition(topic, 0)
    offsets = live.offsets([here])[here]
    assert (offsets.log_start_offset, offsets.last_stable_offset, offsets.high_watermark) == (
        0, 300, 300,
    )  # fmt: skip
    sizes = [r for r in live.log_dirs().replicas if r.topic == topic]
    first = [r for r in sizes if r.partition == 0]
    assert live.log_dirs([TopicPartition(topic, 0)]).replicas == tuple(first)
    assert [r.broker_id for r in sizes] == [1, 2, 3]
    assert all(r.size_bytes > 3_000_000 and not r.is_future for r in sizes)

    leader = live.topics([topic])[topic].partitions[0]
    assert leader.leader_id is not None
    result = live.delete_records(leader.leader_id, {here: 250}, timeout_ms=20_000)
    assert result.partition_results[0].error is None
    assert result.partition_results[0].low_watermark == 250
    assert leader.leader_epoch is not None
    assert live.leader_log_starts({here: leader.leader_epoch})[here].log_start_offset == 250
    rows = live.replica_offsets([here])
    assert [(r.broker_id, r.log_start_offset, r.log_end_offset) for r in rows] == [
        (1, 250, 300), (2, 250, 300), (3, 250, 300),
    ]  # fmt: skip


def test_a_purge_that_the_broker_refuses_is_a_value(live: LiveCluster, workload: Workload) -> None:
    compacted = workload.topic(cleanup_policy="compact")
    plain = workload.topic()
    codes = {}
    for topic, offset in ((compacted, 0), (plain, 10)):
        leader = live.topics([topic])[topic].partitions[0].leader_id
        assert leader is not None
        result = live.delete_records(leader, {TopicPartition(topic, 0): offset}, timeout_ms=5000)
        codes[topic] = result.partition_results[0].error
    assert codes == {compacted: "POLICY_VIOLATION", plain: "OFFSET_OUT_OF_RANGE"}


def test_offsets_by_time_know_the_end(live: LiveCluster, workload: Workload) -> None:
    topic = workload.topic()
    here = TopicPartition(topic, 0)
    workload.produce(topic, 0, 5)
    long_ago, soon = datetime(2020, 1, 1, tzinfo=UTC), datetime.now(UTC) + timedelta(hours=1)
    assert live.offsets_at([here], long_ago)[here].offset == 0
    after = live.offsets_at([here], soon)[here]
    assert (after.offset, after.error) == (None, None)


def test_leader_epochs_and_their_ends(live: LiveCluster, workload: Workload) -> None:
    topic = workload.topic()
    here = TopicPartition(topic, 0)
    workload.produce(topic, 0, 7)
    epoch = live.topics([topic])[topic].partitions[0].leader_epoch
    assert epoch is not None
    assert live.epoch_ends({here: epoch})[here].end_offset == 7
    assert live.leader_log_starts({here: epoch + 5})[here].error == "UNKNOWN_LEADER_EPOCH"


def test_configs_show_what_decides_a_purge(live: LiveCluster, workload: Workload) -> None:
    topic = workload.topic(cleanup_policy="compact,delete", retention_ms="1234567")
    answer = live.configs_answer([topic, "no-such"], [1])
    values = {e.key: (e.value, e.source) for e in answer.entries if e.scope == "topic"}
    assert values["cleanup.policy"] == ("compact,delete", "DYNAMIC_TOPIC_CONFIG")
    assert values["retention.ms"] == ("1234567", "DYNAMIC_TOPIC_CONFIG")
    brokers = {e.key: e.value for e in answer.entries if e.scope == "broker"}
    assert brokers["log.retention.check.interval.ms"] == "5000"
    assert answer.errors == {"topic no-such": "UNKNOWN_TOPIC_OR_PARTITION"}


def test_groups_of_every_kind_are_listed_with_their_commits(
    live: LiveCluster, workload: Workload, cluster: LocalCluster
) -> None:
    topic = workload.topic(2)
    workload.produce(topic, 0, 10)
    protocols = ["classic", *(["consumer"] if _has_new_groups(live) else [])]
    workload.commit(f"{topic}-empty", {(topic, 0): 4})
    for protocol in protocols:
        with workload.member(f"{topic}-{protocol}", topic, protocol) as consumer:
            consumer.commit(offsets=[Position(topic, 0, 6)], asynchronous=False)
            listing = live.groups(())
            found = next(g for g in listing.groups if g.group_id == f"{topic}-{protocol}")
            assert (found.type, found.members) == (protocol, 1)
            assert found.assigned == (TopicPartition(topic, 0), TopicPartition(topic, 1))
    assert listing.incomplete == ()
    empty = next(g for g in listing.groups if g.group_id == f"{topic}-empty")
    assert (empty.state, empty.members, empty.assigned) == ("Empty", 0, ())
    committed = {o.group_id: o.committed_offset for o in listing.offsets if o.topic == topic}
    assert committed[f"{topic}-empty"] == 4
    assert committed[f"{topic}-{protocols[-1]}"] == 6


def test_a_broker_coordinates_what_it_leads_of_the_offsets_topic_and_says_so_of_nothing_else(
    live: LiveCluster, workload: Workload
) -> None:
    """Where each group lies is Kafka's to say: FindCoordinator names the same broker."""
    topic = workload.topic()
    workload.commit(f"{topic}-first", {(topic, 0): 0})  # there is an offsets topic from now on
    until(lambda: live.groups(()).incomplete == (), 60)
    partitions = live.topics([OFFSETS_TOPIC])[OFFSETS_TOPIC].partitions
    numbers, count = [p.partition for p in partitions], len(partitions)
    for broker in (1, 2, 3):
        idle = live._connection.ask(
            broker, lambda wire, deadline: not_coordinated(wire, deadline, numbers, count)
        )
        others = [p.partition for p in partitions if p.leader_id != broker]
        assert idle == dict.fromkeys(others, "NOT_COORDINATOR")
    assert {p.leader_id for p in partitions} == {1, 2, 3}
    found = _coordinators(live._connection, [1], [f"{topic}-{i}" for i in range(20)] + ["grüße-🐘"])
    leaders = {p.partition: p.leader_id for p in partitions}
    assert found == {name: {leaders[partition_of(name, count)]} for name in found}


def _has_new_groups(live: LiveCluster) -> bool:
    # 3.9 knows the new protocol but keeps it switched off.
    return live.brokers()[0].api_versions.get("ConsumerGroupDescribe", -1) >= 1


@pytest.mark.further
def test_an_open_transaction_holds_the_last_stable_offset_and_the_group_list(
    live: LiveCluster, workload: Workload
) -> None:
    topic = workload.topic()
    here = TopicPartition(topic, 0)
    group = f"{topic}-reader"
    workload.produce(topic, 0, 3)
    workload.commit(group, {(topic, 0): 1})
    producer = Producer({**workload.client, "transactional.id": topic})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(60)
    with workload.member(group, topic, "classic") as consumer:
        producer.send_offsets_to_transaction(
            [Position(topic, 0, 3)], consumer.consumer_group_metadata(), 60
        )
        listing = live.groups(())
        offsets = live.offsets([here])[here]
        producer.abort_transaction(60)
    assert (offsets.last_stable_offset, offsets.high_watermark) == (3, 4)
    pending = next(o for o in listing.offsets if o.group_id == group)
    assert (pending.committed_offset, pending.error) == (None, "UNSTABLE_OFFSET_COMMIT")
    assert any(group in reason for reason in listing.incomplete)
    until(lambda: live.groups(()).incomplete == (), 60)


def test_a_reassignment_is_seen(live: LiveCluster) -> None:
    assert live.reassignments() == ()
