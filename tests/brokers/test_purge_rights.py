"""A purge by a principal that may not do everything: what it may is done, the rest is named."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from dashboard.cluster.group_lists import OFFSETS_TOPIC
from dashboard.core.errors import RefusedError
from dashboard.domain.rights import MissingRight
from dashboard.purge.execute.archiving import INCOMPLETE
from tests.brokers.purge_bench import Bench
from tests.brokers.purge_faults import until
from tests.brokers.purge_proof import Left, assert_proved, assert_untouched
from tests.brokers.secured import LIMITED, LIMITED_SECRET, SecuredCluster
from tests.brokers.workload import ANSWERS_WITHIN


@pytest.fixture
def bench(secured_cluster: SecuredCluster, tmp_path: Path) -> Iterator[Bench]:
    user = secured_cluster.sasl_plain(LIMITED, LIMITED_SECRET)
    local = secured_cluster.local
    made = Bench(local.bootstrap, local.cluster_id, tmp_path, as_user=user, replicas=1)
    yield made
    made.close()


def rule(kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    return AclBinding(
        kind, name, ResourcePatternType.LITERAL, f"User:{LIMITED}", "*",
        operation, AclPermissionType.ALLOW,
    )  # fmt: skip


def take_back(bench: Bench, *rules: AclBinding) -> None:
    filters = [
        AclBindingFilter(
            r.restype, r.name, r.resource_pattern_type, r.principal, r.host,
            r.operation, r.permission_type,
        )
        for r in rules
    ]  # fmt: skip
    for done in bench.admin.delete_acls(filters).values():
        done.result(ANSWERS_WITHIN)
    until(lambda: not rules_of(bench) & set(rules))


def allow(bench: Bench, *rules: AclBinding) -> None:
    for done in bench.admin.create_acls(list(rules)).values():
        done.result(ANSWERS_WITHIN)
    # Created means known to the controller: the broker hears of it a moment later.
    until(lambda: set(rules) <= rules_of(bench))


def rules_of(bench: Bench) -> set[AclBinding]:
    """What the broker itself lets the limited user do."""
    limited = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, f"User:{LIMITED}", None,
        AclOperation.ANY, AclPermissionType.ANY,
    )  # fmt: skip
    return set(bench.admin.describe_acls(limited).result(ANSWERS_WITHIN))


def readable(topics: list[str]) -> list[AclBinding]:
    return [
        rule(ResourceType.TOPIC, topic, operation)
        for topic in topics
        for operation in (AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
    ]


def seen_coordinators() -> AclBinding:
    """Who lists groups must see where they lie: else nobody knows who should have listed what."""
    return rule(ResourceType.TOPIC, OFFSETS_TOPIC, AclOperation.DESCRIBE)


def three_topics(bench: Bench) -> list[str]:
    topics = sorted(bench.topic(20) for _ in range(3))
    for topic in topics:
        bench.commit("purge-rights", topic, {0: 12})
    return topics


def test_without_describe_on_the_cluster_the_group_list_is_incomplete(bench: Bench) -> None:
    topics = three_topics(bench)
    allow(bench, *readable(topics))
    plan = bench.plan(*topics)
    assert [p.topic for p in plan.partitions] == topics
    for partition in plan.partitions:
        (found,) = [g for g in partition.guards if g.name == "groups-incomplete"]
        assert "DESCRIBE" in found.reason
    with pytest.raises(RefusedError) as refused:
        bench.apply(plan)
    assert refused.value.code == "NOTHING_FREE"
    for topic in topics:
        assert_untouched(bench, topic, 20)


def test_without_describe_on_the_offsets_topic_the_group_list_is_incomplete(bench: Bench) -> None:
    """Every group is listed all the same: what makes sure of that cannot be checked."""
    (topic, *_) = three_topics(bench)
    known = [
        rule(ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE),
        rule(ResourceType.GROUP, "*", AclOperation.DESCRIBE),
        *readable([topic]),
    ]
    allow(bench, *known)
    try:
        (hidden,) = bench.plan(topic).partitions
        allow(bench, seen_coordinators())
        (seen,) = bench.plan(topic).partitions
        take_back(bench, known[1])
        (unproved,) = bench.plan(topic).partitions
    finally:
        take_back(bench, *known, seen_coordinators())
    (found,) = [g for g in hidden.guards if g.name == "groups-incomplete"]
    assert f"no DESCRIBE right on the topic {OFFSETS_TOPIC}" in found.reason
    assert f"--operation Describe --topic '{OFFSETS_TOPIC}'" in found.reason
    assert "groups-incomplete" not in [g.name for g in seen.guards]
    (found,) = [g for g in unproved.guards if g.name == "groups-incomplete"]
    assert "no DESCRIBE right on groups named lowwater-probe-*" in found.reason


@pytest.mark.further
def test_a_topic_without_the_delete_right_is_not_done_and_the_others_are(bench: Bench) -> None:
    topics = three_topics(bench)
    cluster = rule(ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE)
    configs = rule(ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE_CONFIGS)
    rights = [rule(ResourceType.TOPIC, t, AclOperation.DELETE) for t in topics[:2]]
    group = rule(ResourceType.GROUP, "*", AclOperation.DESCRIBE)
    allow(bench, cluster, configs, seen_coordinators(), *readable(topics), *rights)
    try:
        # A group whose offsets may not be read is a reader nobody knows.
        hidden = bench.plan(*topics).partitions[0]
        assert "groups-incomplete" in [g.name for g in hidden.guards]
        allow(bench, group)
        plan = bench.plan(*topics)
        found = plan.rights_missing or ()
        view = bench.apply(plan)
    finally:
        take_back(
            bench, cluster, configs, group, seen_coordinators()
        )  # the broker is shared with other tests
    errors = [row.error for row in view.partitions]
    assert errors == [None, None, "TOPIC_AUTHORIZATION_FAILED"]
    assert found == (MissingRight(topics[2], f"User:{LIMITED}"),), "told before it was confirmed"
    assert view.partitions[2].message == found[0].said
    assert f"User:{LIMITED} --operation Delete --topic '{topics[2]}'" in found[0].line
    assert view.exit_code == 2
    purged = [Left(topic, 0, "done", range(12, 20)) for topic in topics[:2]]
    kept = Left(topics[2], 0, "not_done", range(20))
    assert_proved(bench, view, "partial", *purged, kept)


def test_a_move_needs_read_on_the_group_and_the_topic(bench: Bench) -> None:
    topic, dead = bench.topic(20), f"rights-{uuid.uuid4().hex[:8]}"
    bench.commit("purge-rights", topic, {0: 12})
    bench.commit(dead, topic, {0: 5})
    known = [
        rule(ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE),
        rule(ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE_CONFIGS),
        rule(ResourceType.GROUP, "*", AclOperation.DESCRIBE),
        seen_coordinators(),
    ]
    allow(bench, *known, *readable([topic]), rule(ResourceType.TOPIC, topic, AclOperation.DELETE))
    found = []
    try:
        for kind, name in ((None, ""), (ResourceType.GROUP, dead), (ResourceType.TOPIC, topic)):
            if kind is not None:
                allow(bench, rule(kind, name, AclOperation.READ))
            view = bench.apply(bench.plan(topic, waive=(f"{dead}=gone",), move_waived=True))
            found.append((view.partitions[0].state, view.moves[0].state, view.moves[0].error))
    finally:
        take_back(bench, *known)
    assert found == [
        ("done", "refused", "GROUP_AUTHORIZATION_FAILED"),
        ("done", "refused", "TOPIC_AUTHORIZATION_FAILED"),
        ("done", "moved", None),
    ]


@pytest.mark.further
def test_a_topic_without_the_read_right_is_not_archived_and_so_not_purged(
    bench: Bench, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    topics = three_topics(bench)[:2]
    known = [
        rule(ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE),
        rule(ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE_CONFIGS),
        rule(ResourceType.GROUP, "*", AclOperation.DESCRIBE),
        seen_coordinators(),
    ]
    rights = [rule(ResourceType.TOPIC, t, AclOperation.DELETE) for t in topics]
    read = rule(ResourceType.TOPIC, topics[0], AclOperation.READ)
    allow(bench, *known, *readable(topics), *rights, read)
    try:
        view = bench.apply(bench.plan(*topics, archive=str(kept)))
    finally:
        take_back(bench, *known)
    assert [row.error for row in view.partitions] == [None, INCOMPLETE]
    assert "give READ on the topic" in str(view.partitions[1].message)
    kept = Left(topics[1], 0, "not_done", range(20))
    assert_proved(bench, view, "partial", Left(topics[0], 0, "done", range(12, 20)), kept)
