"""A stand-in for LiveCluster with two topics on two brokers; its parts can be made to fail."""

# ruff: noqa: ARG002 - the signatures are LiveCluster's own

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import numpy as np

from dashboard.cluster.configs import ConfigsAnswer
from dashboard.core.errors import ClusterError
from dashboard.domain.columns import (
    BrokerSizes,
    LeaderOffsets,
    OwnOffsets,
    Placement,
    Sizes,
    no_names,
)
from dashboard.domain.model import (
    Broker,
    ConfigEntry,
    Group,
    GroupListing,
    GroupOffset,
    LogDir,
    PartitionState,
    Reassignment,
    TopicPartition,
    TopicState,
)

OBSERVED_AT = datetime(2026, 3, 1, tzinfo=UTC)
REPLICAS = (1, 2)


class FakeLive:
    """`failing[part]` is raised by that part; `closed` counts calls of close."""

    def __init__(self, cluster_id: str = "fake") -> None:
        self.id = cluster_id
        self.failing: dict[str, BaseException] = {}
        self.log_dir_errors: dict[int, str] = {}
        self.hidden: set[str] = set()  # topics that we may not describe
        self.offsets_asked_of: set[str] = set()  # no offset of these topics may be missing
        self.closed = 0
        self.retentions: dict[str, str | None] = {}  # offsets.retention.minutes of brokers, by id

    def close(self) -> None:
        self.closed += 1

    def controller_time(self) -> datetime | None:
        return None

    def cluster_id(self) -> str:
        self._fail("cluster_id")
        return self.id

    def brokers(self, assigned: Iterable[int] = ()) -> tuple[Broker, ...]:
        self._fail("brokers")
        known = (Broker(1, "one", 9092, "r1", api_versions={"DeleteRecords": 2}),)
        return (*known, Broker(2, "two", 9092, "r2"))

    def topics(self, names: Iterable[str] | None) -> dict[str, TopicState]:
        self._fail("topics")
        listed = {name: _topic(name) for name in ("orders", "payments")}
        return listed if names is None else {n: listed.get(n) or self._absent(n) for n in names}

    def _absent(self, name: str) -> TopicState:
        hidden = name in self.hidden
        error = "TOPIC_AUTHORIZATION_FAILED" if hidden else "UNKNOWN_TOPIC_OR_PARTITION"
        return TopicState(name, None, False, (), error)

    def leader_offsets(self, placement: Placement) -> LeaderOffsets:
        self._fail("offsets")
        rows = len(placement.topic)
        start, stable, high = (np.full(rows, n) for n in (5, 80, 90))
        return LeaderOffsets(start, stable, high, no_names(rows))

    def own_offsets(self, placement: Placement) -> OwnOffsets:
        self._fail("replicas")
        rows = len(placement.replica_of)
        observed_us = int(OBSERVED_AT.timestamp()) * 1_000_000
        start, end, observed = (np.full(rows, n) for n in (5, 90, observed_us))
        return OwnOffsets(start, end, observed, no_names(rows))

    def sizes(self) -> Sizes:
        self._fail("log_dirs")
        answering = [b for b in REPLICAS if b not in self.log_dir_errors]
        return Sizes(
            tuple(LogDir(b, "/data", 1000, 400) for b in answering),
            dict.fromkeys(answering, _sizes()),
            dict(self.log_dir_errors),
        )

    def groups(self, topics: Iterable[str], *, with_offsets: bool = True) -> GroupListing:
        self._fail("groups")
        self.offsets_asked_of = set(topics)
        return GroupListing(
            (Group("billing", "classic", "Stable", 1, (TopicPartition("orders", 0),)),),
            (GroupOffset("billing", "orders", 0, 50), GroupOffset("billing", "deleted", 0, 3)),
            ("a reason",),
        )

    def configs_answer(self, topics: Iterable[str], brokers: Iterable[int] = ()) -> ConfigsAnswer:
        self._fail("configs")
        entry = ConfigEntry("topic", "orders", "cleanup.policy", "delete", "DEFAULT_CONFIG")
        told = (
            ConfigEntry("broker", broker, "offsets.retention.minutes", minutes, "DEFAULT_CONFIG")
            for broker, minutes in self.retentions.items()
        )
        return ConfigsAnswer((entry, *told), {"topic payments": "TOPIC_AUTHORIZATION_FAILED"})

    def reassignments(self) -> tuple[Reassignment, ...]:
        self._fail("reassignments")
        return (Reassignment("orders", 0, (3,), (1,)),)

    def _fail(self, part: str) -> None:
        if part in self.failing:
            raise self.failing[part]


def unreachable(**kwargs: Any) -> ClusterError:
    """The error of a cluster that is down."""
    return ClusterError("127.0.0.1:1 could not be reached: refused", "Start it.", **kwargs)


def _topic(name: str) -> TopicState:
    partition = PartitionState(name, 0, 1, 4, REPLICAS, (1,))
    return TopicState(name, f"id-of-{name}", False, (partition,))


def _sizes() -> BrokerSizes:
    """orders-0 in one log dir and on its way to another, and a replica the metadata denies."""
    return BrokerSizes(
        names=("orders", "stray", "orders"),
        log_dirs=("/data", "/data2"),
        topic=np.array([0, 1, 2]),
        log_dir=np.array([0, 0, 1]),
        partition=np.array([0, 7, 0]),
        size_bytes=np.array([300, 11, 20]),
        is_future=np.array([False, False, True]),
    )
