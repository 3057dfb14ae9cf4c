"""What time it is for the cluster: the active controller tells it in DescribeQuorum (KIP-836).

Of its own replica it answers the moment of the answer as `LastCaughtUpTimestamp` (Kafka's
LeaderState), which no other request of the protocol does.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

from dashboard.cluster.connection import Connection
from dashboard.cluster.kafka_errors import error_name
from dashboard.cluster.quorum import ask_quorum, partitions_of
from dashboard.errors import ClusterError

_FIRST_WITH_TIMES = 1
_EPOCH = datetime.fromtimestamp(0, UTC)


def read_controller_time(connection: Connection) -> datetime | None:
    """The active controller's clock, in whole milliseconds; any broker passes the question on.

    None where brokers speak no such API: with ZooKeeper, before Kafka 3.3, in some services.
    Raises ClusterError CLOCK_UNREAD where they do and the time could not be read, with the right
    that is missing if that is why.
    """
    try:
        answer = connection.ask_any(partial(ask_quorum, least=_FIRST_WITH_TIMES))
    except ClusterError as error:
        raise _unread(error.code) from error
    if answer is None:
        return None
    rows = partitions_of(answer)
    code = answer.error_code or next((p.error_code for p in rows if p.error_code), 0)
    if code:
        raise _unread(error_name(code) or str(code))
    told = [
        replica.last_caught_up_timestamp
        for p in rows
        for replica in p.current_voters
        if replica.replica_id == p.leader_id
    ]
    known = [at for at in told if at > 0]
    if not known:
        raise _unread("the controller told no time")
    return _EPOCH + timedelta(milliseconds=known[0])


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
