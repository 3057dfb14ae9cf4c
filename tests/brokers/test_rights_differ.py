"""Brokers that do not agree on our rights: what one hides, no error tells."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from dashboard.cluster.group_lists import OFFSETS_TOPIC
from dashboard.cluster.group_members import partition_of
from dashboard.cluster.live import connect
from dashboard.core.errors import RefusedError
from dashboard.demo.kafka.brokers import Listener, LocalCluster
from dashboard.demo.kafka.jars import KafkaJars
from dashboard.domain.model import GroupListing
from dashboard.purge.plan.plan import Plan
from tests.brokers.purge_bench import PATIENCE, Bench
from tests.brokers.secured import AUTHORIZER, LIMITED, LIMITED_SECRET
from tests.brokers.workload import ANSWERS_WITHIN, until

_LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'user_{LIMITED}="{LIMITED_SECRET}";'
)
_SASL = {"sasl.enabled.mechanisms": "PLAIN", "plain.sasl.jaas.config": _LOGIN}


@dataclass(frozen=True)
class Differing:
    """Two brokers, a bench whose user may do all by the properties of the first alone."""

    local: LocalCluster
    bench: Bench
    user: dict[str, str]

    def group_at(self, broker: int) -> str:
        """A new group's name that this broker coordinates."""
        with connect({"bootstrap.servers": self.local.bootstrap}, PATIENCE) as live:
            led = [p.leader_id for p in live.topics([OFFSETS_TOPIC])[OFFSETS_TOPIC].partitions]
        names = (f"reader-{number}" for number in count())
        return next(name for name in names if led[partition_of(name, len(led))] == broker)

    def groups(self, topic: str) -> GroupListing:
        with connect(self.user, PATIENCE) as live:
            return live.groups([topic])

    def plan(self, topic: str) -> Plan:
        """Where the first broker is slow, the other is asked, which shows us no configs."""
        for _ in range(20):
            try:
                return self.bench.plan(topic)
            except RefusedError as error:
                assert error.code == "CONFIGS_UNREADABLE"
        raise AssertionError("the second broker was asked for the configs twenty times")


@pytest.fixture(scope="module")
def differing(kafka_jars: KafkaJars) -> Iterator[Differing]:
    """ACLs reach a KRaft broker with its metadata, too soon for a test to look in between: a right
    that stands in one broker's properties is one that the other has not heard of.
    """
    with tempfile.TemporaryDirectory(prefix="lowwater-test-") as text:
        folder = Path(text)
        local = LocalCluster(
            folder / "kafka", kafka_jars, brokers=2, properties=AUTHORIZER,
            listeners=[Listener("SASL", "SASL_PLAINTEXT", _SASL)],
        )  # fmt: skip
        try:
            local.start(lambda: _favour_limited(folder / "kafka" / "broker-1"))
            user = {
                "bootstrap.servers": local.bootstrap_of("SASL").split(",")[0],
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": LIMITED,
                "sasl.password": LIMITED_SECRET,
            }
            (folder / "bench").mkdir()
            made = Bench(
                local.bootstrap, local.cluster_id, folder / "bench", as_user=user, replicas=2
            )
            allow(made, _KNOWN)
            yield Differing(local, made, user)
            made.close()
        finally:
            local.stop()


def _favour_limited(home: Path) -> None:
    path, users = home / "server.properties", AUTHORIZER["super.users"]
    path.write_text(path.read_text().replace(users, f"{users};User:{LIMITED}"))


def rule(kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    return AclBinding(
        kind, name, ResourcePatternType.LITERAL, f"User:{LIMITED}", "*",
        operation, AclPermissionType.ALLOW,
    )  # fmt: skip


# Every right that a plan needs, but those on the topic.
_KNOWN = [
    rule(ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE),
    rule(ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE_CONFIGS),
    rule(ResourceType.GROUP, "*", AclOperation.DESCRIBE),
    rule(ResourceType.TOPIC, OFFSETS_TOPIC, AclOperation.DESCRIBE),
]


def allow(bench: Bench, rules: list[AclBinding]) -> None:
    for done in bench.admin.create_acls(rules).values():
        done.result(ANSWERS_WITHIN)


def test_a_coordinator_that_hides_the_topic_stops_a_purge(differing: Differing) -> None:
    """It tells of its group, and leaves out without an error where that reads."""
    bench = differing.bench
    topic = bench.topic(100, placed=[[1, 2]])
    bench.commit("first", topic, {0: 90})  # then it is known who coordinates which groups
    ahead, behind = (differing.group_at(broker) for broker in (1, 2))
    bench.commit(ahead, topic, {0: 90})
    bench.commit(behind, topic, {0: 50})

    hidden, (held,) = differing.groups(topic), differing.plan(topic).partitions
    allow(bench, [rule(ResourceType.TOPIC, topic, AclOperation.DESCRIBE)])
    until(lambda: differing.groups(topic).incomplete == (), 60)
    shown, (free,) = differing.groups(topic), differing.plan(topic).partitions

    assert {ahead, behind} <= {group.group_id for group in hidden.groups}
    assert (_offset(hidden, ahead), _offset(hidden, behind)) == (90, None)
    (reason,) = hidden.incomplete
    assert reason.startswith("no DESCRIBE right at broker 2, by its own copy of the ACLs")
    assert [guard.name for guard in held.guards] == ["groups-incomplete"]
    assert (_offset(shown, behind), free.target_offset, free.guards) == (50, 50, ())


def _offset(listing: GroupListing, group: str) -> int | None:
    return next((o.committed_offset for o in listing.offsets if o.group_id == group), None)
