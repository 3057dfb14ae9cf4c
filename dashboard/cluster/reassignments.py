"""Which partitions are being moved between brokers: ListPartitionReassignments (KIP-455)."""

from __future__ import annotations

from typing import Any

from dashboard.cluster.connection import Connection
from dashboard.cluster.kafka_errors import error_name
from dashboard.cluster.messages import ListPartitionReassignmentsRequest
from dashboard.cluster.wire import Wire
from dashboard.errors import ClusterError
from dashboard.model import Reassignment


def read_reassignments(connection: Connection) -> tuple[Reassignment, ...]:
    """Every reassignment under way, sorted.

    Any broker passes the question on to the controller. Needs DESCRIBE on the cluster. Raises
    ClusterError REASSIGNMENTS_UNKNOWN when it is refused.
    """

    def request(at: Wire) -> Any:
        version = at.version(ListPartitionReassignmentsRequest)
        patience_ms = int(connection.timeout_seconds * 1000)
        return ListPartitionReassignmentsRequest(
            version=version, timeout_ms=patience_ms, topics=None
        )

    answer = connection.ask_any(lambda wire, deadline: wire.ask(request, deadline))
    if answer.error_code:
        raise ClusterError(
            f"reassignments cannot be listed: {error_name(answer.error_code)}",
            "Grant DESCRIBE on the cluster, or wait until the controller answers again.",
            code="REASSIGNMENTS_UNKNOWN",
        )
    return tuple(
        Reassignment(
            topic.name, p.partition_index, tuple(p.adding_replicas), tuple(p.removing_replicas)
        )
        for topic in sorted(answer.topics, key=lambda t: t.name)
        for p in sorted(topic.partitions, key=lambda p: p.partition_index)
    )
