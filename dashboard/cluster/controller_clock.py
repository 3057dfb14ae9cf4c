"""What time it is for the cluster: the active controller tells it in DescribeQuorum (KIP-836).

Of its own replica it answers the moment of the answer as `LastCaughtUpTimestamp` (Kafka's
LeaderState), which no other request of the protocol does.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from dashboard.cluster.connection import Connection
from dashboard.cluster.messages import DescribeQuorumRequest
from dashboard.cluster.wire import Wire
from dashboard.errors import ClusterError

_METADATA = "__cluster_metadata"
_FIRST_WITH_TIMES = 1
_EPOCH = datetime.fromtimestamp(0, UTC)


def read_controller_time(connection: Connection) -> datetime | None:
    """The active controller's clock, in whole milliseconds; None where it does not tell.

    That is with ZooKeeper, before Kafka 3.3, or without DESCRIBE on the cluster. Any broker
    passes the question on.
    """

    def request(at: Wire) -> Any:
        topic = DescribeQuorumRequest.TopicData
        partition = topic.PartitionData(partition_index=0)
        return DescribeQuorumRequest(
            version=at.version(DescribeQuorumRequest),
            topics=[topic(topic_name=_METADATA, partitions=[partition])],
        )

    try:
        answer = connection.ask_any(lambda wire, deadline: wire.ask(request, deadline))
    except ClusterError:
        return None
    if answer.error_code or answer.API_VERSION < _FIRST_WITH_TIMES:
        return None
    told = [
        replica.last_caught_up_timestamp
        for topic in answer.topics
        for p in topic.partitions
        for replica in p.current_voters
        if replica.replica_id == p.leader_id and not p.error_code
    ]
    known = [at for at in told if at > 0]
    return _EPOCH + timedelta(milliseconds=known[0]) if known else None
