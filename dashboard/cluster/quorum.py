"""What the active controller says of the quorum, and what time it is for it (KIP-595, KIP-836).

Any broker passes the question on, so its answer says that this one reaches the controllers now; and
it tells how far each broker has read what they decided.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from dashboard.cluster.connection.connection import Connection, passed_on
from dashboard.cluster.connection.wire import Wire
from dashboard.cluster.protocol.messages import DescribeQuorumRequest, error_name
from dashboard.core.errors import ClusterError

_METADATA = "__cluster_metadata"
# A voter that has just fetched begins no election for so long (controller.quorum.fetch.timeout.ms).
_STILL_LED_MS = 2_000
# A broker that keeps up fetches a record within milliseconds of its being written.
_TRIES, _REST_SECONDS = 4, 0.05


def ask_quorum(wire: Wire, deadline: float, *, least: int = 0) -> Any:
    """The answer; None from a broker that does not speak this API in version `least` or later."""
    try:
        version = wire.version(DescribeQuorumRequest)
    except ClusterError as error:
        if error.code != "API_UNSUPPORTED":
            raise
        return None
    if version < least:
        return None
    topic = DescribeQuorumRequest.TopicData
    partition = topic.PartitionData(partition_index=0)
    request = DescribeQuorumRequest(
        version=version, topics=[topic(topic_name=_METADATA, partitions=[partition])]
    )
    return passed_on(lambda at, until: at.ask(lambda _: request, until))(wire, deadline)


def partitions_of(answer: Any) -> list[Any]:
    """The rows of the metadata partition in an answer."""
    return [p for topic in answer.topics for p in topic.partitions]


def read_caught_up(connection: Connection, brokers: Iterable[int]) -> dict[int, bool | None]:
    """Whether each broker reaches the active controller and has read all that it decided by now.

    None: it does not speak of that (ZooKeeper, some services). False where it does not answer, its
    controllers do not, they refuse us, or it is behind; and where the active controller has not
    heard of most voters lately, or does not tell (Kafka before 3.3): on the other side of a split
    they may have another one, while it resigns late, or never (before 3.7, KAFKA-15489).
    """
    found: dict[int, bool | None] = {}
    left = sorted(set(brokers))
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_REST_SECONDS)
        answers = connection.ask_each(dict.fromkeys(left, ask_quorum))
        found |= {b: _is_caught_up(answers[b], b) for b in left}
        left = [b for b in left if not found[b] and _end_of(answers[b], b) is not None]
        if not left:
            break
    return found


def _is_caught_up(answer: Any, broker_id: int) -> bool | None:
    if answer is None:
        return None
    end = _end_of(answer, broker_id)
    if end is None:
        return False
    of_metadata = partitions_of(answer)
    return end >= min(p.high_watermark for p in of_metadata) and all(map(_is_led, of_metadata))


def _is_led(partition: Any) -> bool:
    """Whether most voters have fetched from who answers since they could elect another one.

    It tells its own clock as the time of its own fetch (KIP-836); version 0 tells none.
    """
    fetched = {voter.replica_id: voter.last_fetch_timestamp for voter in partition.current_voters}
    now = fetched.get(partition.leader_id, -1)  # a leader that removes itself is no voter any more
    lately = [at for at in fetched.values() if 0 <= now - at <= _STILL_LED_MS]
    return now > 0 and 2 * len(lately) > len(fetched)


def _end_of(answer: Any, broker_id: int) -> int | None:
    """How far the broker has read the controllers' log, as they know it; None: they do not say."""
    if answer is None or isinstance(answer, ClusterError) or answer.error_code:
        return None
    ends = [
        int(replica.log_end_offset)
        for p in partitions_of(answer)
        if not p.error_code
        for replica in (*p.current_voters, *p.observers)
        if replica.replica_id == broker_id
    ]
    return min(ends) if ends else None


# What time it is for the cluster: the active controller tells it in DescribeQuorum (KIP-836).
#
# Of its own replica it answers the moment of the answer as `LastCaughtUpTimestamp` (Kafka's
# LeaderState), which no other request of the protocol does.

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
