"""What a cluster lacks costs something: each gap is one failed check that says what."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pytest

from dashboard.core.errors import ClusterError
from dashboard.doctor.cluster import cluster_checks
from dashboard.doctor.doctor import Check
from dashboard.domain.model import (
    Broker,
    ConfigEntry,
    Group,
    GroupListing,
    LogDir,
    LogDirsAnswer,
    PartitionState,
    Reassignment,
    ReplicaOffsets,
    ReplicaSize,
    TopicPartition,
    TopicState,
)

_VERSIONS = {
    "ListOffsets": 11,
    "OffsetFetch": 10,
    "ListGroups": 5,
    "DeleteRecords": 2,
    "OffsetForLeaderEpoch": 4,
    "DescribeLogDirs": 4,
}
_ORDERS = TopicState(
    "orders", "id", False, (PartitionState("orders", 0, 1, 0, (1, 2), (1, 2)),), None
)

_DIRS = LogDirsAnswer(
    (LogDir(1, "/d", 100, 50), LogDir(2, "/d", 100, 50)),
    (ReplicaSize(1, "/d", "orders", 0, 5, 0, False),),
    {},
)
_GROUPS = GroupListing((Group("g", "classic", "Empty", 0),), ())


@dataclass(frozen=True)
class _Fake:
    """A healthy cluster of two brokers; a test replaces what it wants broken."""

    broker_list: tuple[Broker, ...] = (
        Broker(1, "h1", 9092, api_versions=_VERSIONS),
        Broker(2, "h2", 9092, api_versions=_VERSIONS),
    )
    topic_list: dict[str, TopicState] = field(default_factory=lambda: {"orders": _ORDERS})
    dirs: LogDirsAnswer = _DIRS
    listing: GroupListing = _GROUPS
    replica_error: str | None = None
    config_topics: tuple[str, ...] = ("orders",)
    moving_error: ClusterError | None = None

    def cluster_id(self) -> str:
        return "c1"

    def brokers(self) -> tuple[Broker, ...]:
        return self.broker_list

    def topics(self, names: Iterable[str] | None) -> dict[str, TopicState]:  # noqa: ARG002
        return self.topic_list

    def log_dirs(self) -> LogDirsAnswer:
        return self.dirs

    def reassignments(self) -> tuple[Reassignment, ...]:
        if self.moving_error:
            raise self.moving_error
        return ()

    def groups(self, topics: Iterable[str], *, with_offsets: bool = True) -> GroupListing:  # noqa: ARG002
        return self.listing

    def configs(
        self,
        topics: Iterable[str],
        brokers: Iterable[int] = (),  # noqa: ARG002
    ) -> tuple[ConfigEntry, ...]:
        return tuple(
            ConfigEntry("topic", t, "cleanup.policy", "delete", "DEFAULT")
            for t in topics
            if t in self.config_topics
        )

    def replica_offsets(self, partitions: Iterable[TopicPartition]) -> tuple[ReplicaOffsets, ...]:
        at = datetime(2026, 3, 1, tzinfo=UTC)
        return tuple(
            ReplicaOffsets(b, p.topic, p.partition, 0, 5, at, self.replica_error)
            for p in partitions
            for b in (1, 2)
        )


def _checks(fake: _Fake) -> dict[str, Check]:
    return {check.name: check for check in cluster_checks(fake)}


def test_a_healthy_cluster_has_no_failed_check() -> None:
    assert [name for name, check in _checks(_Fake()).items() if check.ok is not True] == []


_SILENT = Broker(2, "h2", 9092, reachable=False, error="timed out")


@pytest.mark.parametrize(
    ("fake", "name", "detail", "costs"),
    [
        (
            _Fake(broker_list=(Broker(1, "h1", 9092, api_versions=_VERSIONS), _SILENT)),
            "brokers",
            "broker 2 (h2:9092): timed out",
            "missing from snapshots",
        ),
        (
            _Fake(dirs=LogDirsAnswer((), (), {1: "CLUSTER_AUTHORIZATION_FAILED"})),
            "log-dirs",
            "broker 1: CLUSTER_AUTHORIZATION_FAILED",
            "not measurable",
        ),
        (
            _Fake(dirs=LogDirsAnswer((LogDir(1, "/d", None, None),), (), {})),
            "log-dirs",
            "before DescribeLogDirs v4",
            "free space",
        ),
        (
            _Fake(dirs=LogDirsAnswer((LogDir(1, "/d", 1, 1, "KAFKA_STORAGE_ERROR"),), (), {})),
            "log-dirs",
            "/d: KAFKA_STORAGE_ERROR",
            "unknown",
        ),
        (
            _Fake(listing=GroupListing((), (), ("no DESCRIBE right on the cluster",))),
            "groups",
            "no DESCRIBE right",
            "every purge is refused",
        ),
        (
            _Fake(replica_error="NOT_LEADER_OR_FOLLOWER"),
            "replica-offsets",
            "broker 2: NOT_LEADER",
            "verified",
        ),
        (_Fake(config_topics=()), "configs", "orders", "cleanup.policy"),
        (_Fake(topic_list={}), "topics", "no topic is visible", "does not show"),
        (
            _Fake(topic_list={"x": replace(_ORDERS, error="TOPIC_AUTHORIZATION_FAILED")}),
            "topics",
            "cannot be described",
            "missing from every screen",
        ),
        (
            _Fake(moving_error=ClusterError("refused", "Ask.")),
            "reassignments",
            "refused",
            "not known",
        ),
    ],
)
def test_each_gap_is_named_with_what_it_costs(
    fake: _Fake, name: str, detail: str, costs: str
) -> None:
    check = _checks(fake)[name]
    assert check.ok is False
    assert detail in check.detail
    assert costs in check.costs
    assert check.next


def test_the_lowest_version_of_any_broker_counts() -> None:
    old = {k: v for k, v in _VERSIONS.items() if k != "DeleteRecords"}
    fake = _Fake(
        broker_list=(
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
    assert "native leader-only purges" in _checks(_Fake((native, both)))["leader-only"].detail
    assert "leader-only-verified" in _checks(_Fake((native, other)))["leader-only"].detail
    assert _checks(_Fake((native, other)))["leader-only"].ok
