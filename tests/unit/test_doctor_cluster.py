"""What a cluster lacks costs something: each gap is one failed check that says what."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dashboard.core.errors import ClusterError
from dashboard.doctor.cluster import cluster_checks
from dashboard.doctor.doctor import Check
from dashboard.domain.model import Broker, LogDir, TopicPartition
from tests.support.cluster import FakeCluster, FakePartition

_VERSIONS = {
    "ListOffsets": 11,
    "OffsetFetch": 10,
    "ListGroups": 5,
    "DeleteRecords": 2,
    "OffsetForLeaderEpoch": 4,
    "DescribeLogDirs": 4,
}
_BROKERS = (
    Broker(1, "h1", 9092, api_versions=_VERSIONS),
    Broker(2, "h2", 9092, api_versions=_VERSIONS),
)


def cluster(**change: Any) -> FakeCluster:
    """A healthy cluster of two brokers; a test changes what it wants broken."""
    made = FakeCluster(0)
    made.alive, made.listed_brokers = {1, 2}, _BROKERS
    made.parts = {TopicPartition("orders", 0): FakePartition({1: 0, 2: 0}, isr=(1, 2))}
    made.dirs = [LogDir(b, "/d", 100, 50) for b in (1, 2)]
    for name, value in change.items():
        setattr(made, name, value)
    return made


def _checks(fake: FakeCluster) -> dict[str, Check]:
    return {check.name: check for check in cluster_checks(fake)}


def test_a_healthy_cluster_has_no_failed_check() -> None:
    assert [name for name, check in _checks(cluster()).items() if check.ok is not True] == []


_SILENT = Broker(2, "h2", 9092, reachable=False, error="timed out")


@pytest.mark.parametrize(
    ("fake", "name", "detail", "costs"),
    [
        (
            cluster(listed_brokers=(Broker(1, "h1", 9092, api_versions=_VERSIONS), _SILENT)),
            "brokers",
            "broker 2 (h2:9092): timed out",
            "missing from snapshots",
        ),
        (
            cluster(dir_errors={1: "CLUSTER_AUTHORIZATION_FAILED"}),
            "log-dirs",
            "broker 1: CLUSTER_AUTHORIZATION_FAILED",
            "not measurable",
        ),
        (
            cluster(dirs=[LogDir(1, "/d", None, None)]),
            "log-dirs",
            "before DescribeLogDirs v4",
            "free space",
        ),
        (
            cluster(dirs=[LogDir(1, "/d", 1, 1, "KAFKA_STORAGE_ERROR")]),
            "log-dirs",
            "/d: KAFKA_STORAGE_ERROR",
            "unknown",
        ),
        (
            cluster(incomplete=("no DESCRIBE right on the cluster",)),
            "groups",
            "no DESCRIBE right",
            "every purge is refused",
        ),
        (
            cluster(replica_errors=dict.fromkeys((1, 2), "NOT_LEADER_OR_FOLLOWER")),
            "replica-offsets",
            "broker 2: NOT_LEADER",
            "verified",
        ),
        (
            cluster(config_errors={"topic orders": "TOPIC_AUTHORIZATION_FAILED"}),
            "configs",
            "orders",
            "cleanup.policy",
        ),
        (cluster(parts={}), "topics", "no topic is visible", "does not show"),
        (
            cluster(topic_errors={"orders": "TOPIC_AUTHORIZATION_FAILED"}),
            "topics",
            "cannot be described",
            "missing from every screen",
        ),
        (
            cluster(failing={"reassignments": ClusterError("refused", "Ask.")}),
            "reassignments",
            "refused",
            "not known",
        ),
    ],
)
def test_each_gap_is_named_with_what_it_costs(
    fake: FakeCluster, name: str, detail: str, costs: str
) -> None:
    check = _checks(fake)[name]
    assert check.ok is False
    assert detail in check.detail
    assert costs in check.costs
    assert check.next


def test_the_lowest_version_of_any_broker_counts() -> None:
    old = {k: v for k, v in _VERSIONS.items() if k != "DeleteRecords"}
    fake = cluster(
        listed_brokers=(
            Broker(1, "h1", 9092, api_versions={**_VERSIONS, "OffsetFetch": 1}),
            Broker(2, "h2", 9092, api_versions=old),
        )
    )
    checks = _checks(fake)
    assert checks["api-DeleteRecords"].detail == "not offered"
    assert "nothing can be purged" in checks["api-DeleteRecords"].costs
    assert "version 1, 2 is needed" in checks["api-OffsetFetch"].detail
    assert checks["api-ListOffsets"].ok


def test_native_leader_only_needs_version_3_on_every_broker() -> None:
    native = Broker(1, "h1", 9092, api_versions={**_VERSIONS, "DeleteRecords": 3})
    other = Broker(2, "h2", 9092, api_versions=_VERSIONS)
    both = replace(native, broker_id=2)
    check = _checks(cluster(listed_brokers=(native, both)))["leader-only"]
    assert "native leader-only purges" in check.detail
    check = _checks(cluster(listed_brokers=(native, other)))["leader-only"]
    assert "leader-only-verified" in check.detail
    assert check.ok
