"""What time it is for the cluster: the active controller tells it in DescribeQuorum (KIP-836).

Of its own replica it answers the moment of the answer as `LastCaughtUpTimestamp` (Kafka's
LeaderState), which no other request of the protocol does.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from dashboard.cluster.connection import Connection
from dashboard.cluster.kafka_errors import error_name
from dashboard.cluster.messages import DescribeQuorumRequest
from dashboard.cluster.wire import Wire
from dashboard.errors import ClusterError

_METADATA = "__cluster_metadata"
_FIRST_WITH_TIMES = 1
_EPOCH = datetime.fromtimestamp(0, UTC)


def read_controller_time(connection: Connection) -> datetime | None:
    """The active controller's clock, in whole milliseconds; any broker passes the question on.

    None where brokers speak no such API: with ZooKeeper, before Kafka 3.3, in some services.
    Raises ClusterError CLOCK_UNREAD where they do and the time could not be read, with the right
    that is missing if that is why.
    """
    try:
        answer = connection.ask_any(_ask)
    except ClusterError as error:
        raise _unread(error.code) from error
    if answer is None:
        return None
    topics = [p for topic in answer.topics for p in topic.partitions]
    code = answer.error_code or next((p.error_code for p in topics if p.error_code), 0)
    if code:
        raise _unread(error_name(code) or str(code))
    told = [
        replica.last_caught_up_timestamp
        for p in topics
        for replica in p.current_voters
        if replica.replica_id == p.leader_id
    ]
    known = [at for at in told if at > 0]
    if not known:
        raise _unread("the controller told no time")
    return _EPOCH + timedelta(milliseconds=known[0])


def _ask(wire: Wire, deadline: float) -> Any:
    """The answer; None from a broker that does not speak this API, or not of times."""
    try:
        version = wire.version(DescribeQuorumRequest)
    except ClusterError as error:
        if error.code != "API_UNSUPPORTED":
            raise
        return None
    if version < _FIRST_WITH_TIMES:
        return None
    topic = DescribeQuorumRequest.TopicData
    partition = topic.PartitionData(partition_index=0)
    request = DescribeQuorumRequest(
        version=version, topics=[topic(topic_name=_METADATA, partitions=[partition])]
    )
    return wire.ask(lambda _: request, deadline)


def _unread(why: str) -> ClusterError:
    missing = why == "CLUSTER_AUTHORIZATION_FAILED"
    right = ": this principal may not DESCRIBE the cluster" if missing else ""
    return ClusterError(
        f"the controller's clock cannot be read ({why}{right})",
        "Give this principal DESCRIBE on the cluster, then try again."
        if missing
        else "Try again once the controller answers.",
        code="CLOCK_UNREAD",
        retriable=not missing,
    )
