"""Which partitions are being moved between brokers: ListPartitionReassignments (KIP-455)."""

from __future__ import annotations

import time
from typing import Any

from dashboard.cluster.connection.connection import Connection, passed_on
from dashboard.cluster.connection.kafka_errors import error_name
from dashboard.cluster.connection.wire import Wire
from dashboard.cluster.protocol.messages import ListPartitionReassignmentsRequest
from dashboard.core.errors import ClusterError
from dashboard.domain.model import Reassignment

# While a controller is elected, brokers pass the question on to one that no longer is.
_AGAIN = "NOT_CONTROLLER"
_PAUSES_SECONDS = (0.1, 0.3, 0.6)
_NO_RIGHT = "CLUSTER_AUTHORIZATION_FAILED"


def read_reassignments(connection: Connection) -> tuple[Reassignment, ...]:
    """Every reassignment under way, sorted.

    Any broker passes the question on to the controller. Raises ClusterError
    CLUSTER_AUTHORIZATION_FAILED without DESCRIBE on the cluster; REASSIGNMENTS_UNKNOWN when no
    controller told, which says nothing of what is moved.
    """
    answer = _ask(connection)
    for pause in _PAUSES_SECONDS:
        if error_name(answer.error_code) != _AGAIN:
            break
        time.sleep(pause)
        answer = _ask(connection)
    if answer.error_code:
        raise _refused(error_name(answer.error_code))
    return tuple(
        Reassignment(
            topic.name, p.partition_index, tuple(p.adding_replicas), tuple(p.removing_replicas)
        )
        for topic in sorted(answer.topics, key=lambda t: t.name)
        for p in sorted(topic.partitions, key=lambda p: p.partition_index)
    )


def _ask(connection: Connection) -> Any:

    def request(at: Wire) -> Any:
        version = at.version(ListPartitionReassignmentsRequest)
        patience_ms = int(connection.timeout_seconds * 1000)
        return ListPartitionReassignmentsRequest(
            version=version, timeout_ms=patience_ms, topics=None
        )

    return connection.ask_any(passed_on(lambda wire, deadline: wire.ask(request, deadline)))


def _refused(error: str | None) -> ClusterError:
    said = f"reassignments cannot be listed: {error}"
    if error == _NO_RIGHT:
        return ClusterError(said, "Grant DESCRIBE on the cluster.", code=_NO_RIGHT)
    return ClusterError(
        said,
        "Wait until the controller answers again.",
        code="REASSIGNMENTS_UNKNOWN",
        retriable=True,
    )
