"""The cluster in memory as collect finds it: two topics on two brokers, and what disagrees."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dashboard.core.errors import ClusterError
from dashboard.domain.model import (
    Broker,
    Group,
    GroupListing,
    GroupOffset,
    LogDir,
    Reassignment,
    ReplicaSize,
    TopicPartition,
)
from tests.support.cluster import FakeCluster, FakePartition

REPLICAS = (1, 2)


class FakeLive(FakeCluster):
    """Log dirs hold orders-0, one of it on its way, and a replica the metadata denies."""

    def __init__(self, cluster_id: str = "fake") -> None:
        super().__init__(0)
        self.id = cluster_id
        self.topic_id = "id-orders"
        self.offsets_asked_of: set[str] = set()  # no offset of these topics may be missing
        self.parts = {
            TopicPartition(name, 0): FakePartition({1: 5, 2: 5}, 1, 4, 90, 80, isr=(1,))
            for name in ("orders", "payments")
        }
        self.listed_brokers = (
            Broker(1, "one", 9092, "r1", api_versions={"DeleteRecords": 2}),
            Broker(2, "two", 9092, "r2"),
        )
        self.dirs = [LogDir(b, "/data", 1000, 400) for b in REPLICAS]
        self.hosted = [
            ReplicaSize(b, *row)
            for b in REPLICAS
            for row in (
                ("/data", "orders", 0, 300, 0, False),
                ("/data", "stray", 7, 11, 0, False),
                ("/data2", "orders", 0, 20, 0, True),
            )
        ]
        billing = Group("billing", "classic", "Stable", 1, (TopicPartition("orders", 0),))
        committed = GroupOffset("billing", "orders", 0, 50), GroupOffset("billing", "deleted", 0, 3)
        self.offsets_of, self.others = {}, ((billing,), committed)
        self.incomplete = ("a reason",)
        self.broker_configs = {}
        self.config_errors = {"topic payments": "TOPIC_AUTHORIZATION_FAILED"}
        self.moving = (Reassignment("orders", 0, (3,), (1,)),)

    def groups(self, topics: Iterable[str], *, with_offsets: bool = True) -> GroupListing:
        self.offsets_asked_of = set(topics)
        return super().groups(topics, with_offsets=with_offsets)


def unreachable(**kwargs: Any) -> ClusterError:
    """The error of a cluster that is down."""
    return ClusterError("127.0.0.1:1 could not be reached: refused", "Start it.", **kwargs)
