"""Moves a group's committed offsets from outside: OffsetCommit to its coordinator, sent raw.

Without generation and member a coordinator accepts it only from a group that has no members
(org.apache.kafka.coordinator.group.OffsetMetadataManager): a living group cannot be moved.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from dashboard.cluster.connection.connection import Connection, called_off
from dashboard.cluster.connection.wire import Wire
from dashboard.cluster.protocol.messages import (
    MANY_KEYS_SINCE,
    FindCoordinatorRequest,
    OffsetCommitRequest,
    error_name,
)
from dashboard.core.errors import UsageError
from dashboard.domain.model import TopicPartition

_NAMES_UNTIL = 9  # v10 names topics by id alone (KIP-848)
_GROUP_KEY = 0
_NO_GENERATION, _NO_MEMBER, _UNKNOWN_EPOCH = -1, "", -1


def commit_offsets(
    connection: Connection,
    group_id: str,
    offsets: Mapping[TopicPartition, int],
    *,
    may_leave: Callable[[], bool] = lambda: True,
) -> dict[TopicPartition, str | None]:
    """Kafka's error name per partition, None where the coordinator accepted the offset.

    Sent once, on its own connection, and never repeated. Needs READ on the group and the topics.
    `may_leave` is asked once the connection stands, as for `delete_records`.
    Raises UsageError for a negative offset; BrokerError ANSWER_LOST when the offsets may have
    been moved: then they must be read; any other ClusterError (NOT_SENT: it may not leave) when
    nothing was sent.
    """
    for key, offset in sorted(offsets.items()):
        if offset < 0:
            raise UsageError(
                f"the offset for {key.topic}-{key.partition} is {offset}; below 0 is never sent",
                "Resolve it to an offset first.",
                code="TARGET_NEGATIVE",
            )
    coordinator, error = _coordinator(connection, group_id)
    if error:
        return dict.fromkeys(sorted(offsets), error)

    def ask(wire: Wire, deadline: float) -> Any:
        request = _request(wire, group_id, offsets)
        if not may_leave():
            raise called_off("the offsets were", "they stand")
        return wire.ask_now_or_never(lambda _: request, deadline)

    answer = connection.ask(coordinator, ask, once=True)
    found = {
        TopicPartition(topic.name, p.partition_index): error_name(p.error_code)
        for topic in answer.topics
        for p in topic.partitions
    }
    # A partition that the answer leaves out proves nothing, so its offset has to be read.
    return {key: found.get(key, "UNKNOWN_SERVER_ERROR") for key in sorted(offsets)}


def _coordinator(connection: Connection, group_id: str) -> tuple[int, str | None]:
    def request(at: Wire) -> Any:
        version = at.version(FindCoordinatorRequest)
        if version < MANY_KEYS_SINCE:
            return FindCoordinatorRequest(version=version, key=group_id, key_type=_GROUP_KEY)
        return FindCoordinatorRequest(
            version=version, key_type=_GROUP_KEY, coordinator_keys=[group_id]
        )

    answer = connection.ask_any(lambda wire, deadline: wire.ask(request, deadline))
    if answer.version < MANY_KEYS_SINCE:
        return answer.node_id, error_name(answer.error_code)
    told = [(c.node_id, error_name(c.error_code)) for c in answer.coordinators if c.key == group_id]
    return told[0] if told else (-1, "COORDINATOR_NOT_AVAILABLE")


def _request(at: Wire, group_id: str, offsets: Mapping[TopicPartition, int]) -> Any:
    version = at.version(OffsetCommitRequest, _NAMES_UNTIL)
    one_topic = OffsetCommitRequest.OffsetCommitRequestTopic
    one = one_topic.OffsetCommitRequestPartition
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for (topic, partition), offset in sorted(offsets.items()):
        by_topic[topic].append(
            one(
                partition_index=partition,
                committed_offset=offset,
                committed_leader_epoch=_UNKNOWN_EPOCH,
                committed_metadata="",
                version=version,
            )
        )
    return OffsetCommitRequest(
        version=version,
        group_id=group_id,
        generation_id_or_member_epoch=_NO_GENERATION,
        member_id=_NO_MEMBER,
        group_instance_id=None,
        retention_time_ms=-1,
        topics=[one_topic(name=t, partitions=p, version=version) for t, p in by_topic.items()],
    )
