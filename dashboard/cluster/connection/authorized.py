"""What the brokers say that we may do (KIP-430): asked of them, nothing is tried out."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from dashboard.cluster.connection.connection import Connection, chunks
from dashboard.cluster.connection.wire import Wire
from dashboard.cluster.protocol.messages import (
    GROUPS_PER_REQUEST,
    MANY_KEYS_SINCE,
    RIGHTS_NOT_TOLD,
    RIGHTS_NOT_TOLD_BIT,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    MetadataRequest,
    error_name,
    rights_on_cluster,
)
from dashboard.core.errors import ClusterError
from dashboard.domain.model import Authorized, Operations

# Bits of Kafka's AclOperation, by the names that kafka-acls takes.
_OPERATIONS = {3: "Read", 6: "Delete", 8: "Describe", 10: "DescribeConfigs"}
_TOLD_SINCE = 8  # Metadata
_GROUPS_TOLD_SINCE, _ANY_GROUP_UNTIL = 3, 5  # DescribeGroups; v6 knows classic groups alone


def read_authorized(
    connection: Connection, topics: Iterable[str], groups: Iterable[str]
) -> Authorized:
    """Our rights on the cluster, on these topics and groups. Creates nothing.

    Raises ClusterError when no broker answers.
    """
    return Authorized(
        _of_cluster(connection),
        _of_topics(connection, sorted(set(topics))),
        _of_groups(connection, sorted(set(groups))),
    )


def _operations(bits: int) -> Operations | None:
    if bits == RIGHTS_NOT_TOLD:
        return None
    return frozenset(name for bit, name in _OPERATIONS.items() if bits & (1 << bit))


def _of_cluster(connection: Connection) -> Operations | None:
    """Brokers answer "none" to whoever has no DESCRIBE on the cluster (KIP-700)."""
    try:
        answer = connection.ask_any(lambda wire, deadline: wire.ask(rights_on_cluster, deadline))
    except ClusterError as error:
        if error.code == "API_UNSUPPORTED":
            return None
        raise
    return _operations(answer.cluster_authorized_operations)


def _of_topics(connection: Connection, names: list[str]) -> dict[str, Operations | None]:
    def ask(wire: Wire, deadline: float) -> dict[str, Operations | None]:
        version = wire.version(MetadataRequest, 12)
        if version < _TOLD_SINCE or not names:
            return dict.fromkeys(names)
        one = MetadataRequest.MetadataRequestTopic
        request = MetadataRequest(
            version=version,
            topics=[one(name=name, version=version) for name in names],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=True,
        )
        answer = wire.ask(lambda _: request, deadline)
        return {t.name: _of_topic(t) for t in answer.topics}

    found: dict[str, Operations | None] = connection.ask_any(ask)
    return {name: found.get(name) for name in names}


def _of_topic(found: Any) -> Operations | None:
    error = error_name(found.error_code)
    if error == "TOPIC_AUTHORIZATION_FAILED":
        return frozenset()
    bits = found.authorized_operations  # kafka-python's own schema makes a set of them, or None
    if error or bits is None or RIGHTS_NOT_TOLD_BIT in bits:
        return None
    return frozenset(name for bit, name in _OPERATIONS.items() if bit in bits)


def _of_groups(connection: Connection, names: list[str]) -> dict[str, Operations | None]:
    found: dict[str, Operations | None] = dict.fromkeys(names)
    by_coordinator: dict[int, list[str]] = defaultdict(list)
    for name, (coordinator, error) in _coordinators(connection, names).items():
        if error is None:
            by_coordinator[coordinator].append(name)
        elif error == "GROUP_AUTHORIZATION_FAILED":
            found[name] = frozenset()
    answers = connection.ask_each({i: _described(names) for i, names in by_coordinator.items()})
    for answer in answers.values():
        if not isinstance(answer, ClusterError):
            found.update(answer)
    return found


def _described(names: list[str]) -> Callable[[Wire, float], dict[str, Operations | None]]:
    def ask(wire: Wire, deadline: float) -> dict[str, Operations | None]:
        version = wire.version(DescribeGroupsRequest, _ANY_GROUP_UNTIL)
        if version < _GROUPS_TOLD_SINCE:
            return {}
        patience = deadline - time.monotonic()
        answers = [
            wire.ask(_groups_request(version, batch), time.monotonic() + patience)
            for batch in chunks(names, GROUPS_PER_REQUEST)
        ]
        return {g.group_id: _of_group(g) for answer in answers for g in answer.groups}

    return ask


def _groups_request(version: int, names: list[str]) -> Callable[[Wire], Any]:
    request = DescribeGroupsRequest(version=version, groups=names)
    request.include_authorized_operations = True
    return lambda _: request


def _of_group(found: Any) -> Operations | None:
    error = error_name(found.error_code)
    if error == "GROUP_AUTHORIZATION_FAILED":
        return frozenset()
    return None if error else _operations(found.authorized_operations)


def _coordinators(connection: Connection, names: list[str]) -> dict[str, tuple[int, str | None]]:
    """Group -> its coordinator's broker id, or why there is none; {} from brokers before 3.0."""

    def ask(wire: Wire, deadline: float) -> dict[str, tuple[int, str | None]]:
        version = wire.version(FindCoordinatorRequest)
        if version < MANY_KEYS_SINCE or not names:
            return {}
        request = FindCoordinatorRequest(version=version, key_type=0, coordinator_keys=names)
        answer = wire.ask(lambda _: request, deadline)
        return {c.key: (c.node_id, error_name(c.error_code)) for c in answer.coordinators}

    found: dict[str, tuple[int, str | None]] = connection.ask_any(ask)
    return found
