"""Who is in each group and what it is assigned, asked of the coordinators in batches."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dashboard.cluster.connection import Connection, chunks
from dashboard.cluster.kafka_errors import error_name
from dashboard.cluster.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerProtocolAssignment,
    DescribeGroupsRequest,
    ShareGroupDescribeRequest,
)
from dashboard.cluster.wire import Wire
from dashboard.errors import ClusterError
from dashboard.model import TopicPartition

UNSUPPORTED = "API_UNSUPPORTED"
_GROUPS_PER_REQUEST = 200
_REQUESTS = {
    "classic": DescribeGroupsRequest,
    "consumer": ConsumerGroupDescribeRequest,
    "share": ShareGroupDescribeRequest,
}


class Described(NamedTuple):
    """State, number of members (None: unknown) and the partitions they read, sorted.

    `error` is Kafka's name of why they are unknown, or API_UNSUPPORTED; None with unknown
    members: a kind of group that this product cannot describe.
    """

    state: str
    members: int | None
    assigned: tuple[TopicPartition, ...]
    error: str | None


@dataclass(slots=True)
class MembersAnswer:
    """Described groups, and those that ended since they were listed."""

    groups: dict[str, Described] = field(default_factory=dict)
    vanished: list[str] = field(default_factory=list)


def read_members(connection: Connection, listed: Iterable[Any]) -> MembersAnswer:
    """Members and assignments of groups as `groups.Listed` names them.

    A group that is listed as Empty has none and is not asked about. Streams groups are described
    by an API of their own that no Python client speaks: their members stay unknown. So do those
    of one kind of group where its coordinator does not speak that kind's API.
    """
    answer = MembersAnswer()
    asked: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for group in listed:
        kind = group.type or "classic"
        if group.state in ("Empty", "Dead"):
            answer.groups[group.group_id] = Described(group.state, 0, (), None)
        elif kind in _REQUESTS:
            asked[group.coordinator][kind].append(group.group_id)
        else:
            answer.groups[group.group_id] = Described(group.state, None, (), None)
    replies = connection.ask_each({i: _question(kinds) for i, kinds in asked.items()})
    for broker_id, reply in replies.items():
        names = [name for kind in asked[broker_id].values() for name in kind]
        if isinstance(reply, ClusterError):
            answer.groups.update(_hidden(names, reply.code))
        else:
            for asked_for, found in reply:
                _take(asked_for, found, answer)
    return answer


def _question(
    kinds: dict[str, list[str]],
) -> Callable[[Wire, float], list[tuple[list[str], Any]]]:
    def ask(wire: Wire, deadline: float) -> list[tuple[list[str], Any]]:
        patience = deadline - time.monotonic()
        return [
            (names, _asked(wire, kind, names, time.monotonic() + patience))
            for kind, groups in sorted(kinds.items())
            for names in chunks(groups, _GROUPS_PER_REQUEST)
        ]

    return ask


def _asked(wire: Wire, kind: str, names: list[str], deadline: float) -> Any:
    """The answer, or the error where the broker does not speak the API of this kind."""
    try:
        return wire.ask(_request(_REQUESTS[kind], names), deadline)
    except ClusterError as error:
        if error.code != UNSUPPORTED:
            raise  # the connection is gone, and with it the answers for every kind
        return error


def _request(message: Any, names: list[str]) -> Callable[[Wire], Any]:
    def make(at: Wire) -> Any:
        version = at.version(message)
        field_name = "groups" if message is DescribeGroupsRequest else "group_ids"
        request = message(version=version, **{field_name: names})
        request.include_authorized_operations = False
        return request

    return make


def _take(names: list[str], reply: Any, answer: MembersAnswer) -> None:
    if isinstance(reply, ClusterError):
        answer.groups.update(_hidden(names, reply.code))
        return
    for group in reply.groups:
        error = error_name(group.error_code)
        if error == "GROUP_ID_NOT_FOUND" or (not error and group.group_state == "Dead"):
            answer.vanished.append(group.group_id)
        elif error:
            answer.groups.update(_hidden([group.group_id], error))
        else:
            answer.groups[group.group_id] = _described(group)


def _hidden(names: list[str], error: str) -> dict[str, Described]:
    return {name: Described("Unknown", None, (), error) for name in names}


def _described(group: Any) -> Described:
    assigned: set[TopicPartition] = set()
    for member in group.members:
        if hasattr(member, "member_assignment"):
            assigned.update(_classic(group.protocol_type, member.member_assignment))
        else:
            assigned.update(
                TopicPartition(topic.topic_name, partition)
                for topic in member.assignment.topic_partitions
                for partition in topic.partitions
            )
    return Described(group.group_state, len(group.members), tuple(sorted(assigned)), None)


def _classic(protocol_type: str, assignment: bytes) -> Iterable[TopicPartition]:
    # Other protocol types (Connect's, say) put bytes of their own here.
    if protocol_type != "consumer" or not assignment:
        return []
    try:
        decoded = ConsumerProtocolAssignment.decode(bytes(assignment))
    except (ValueError, IndexError):
        return []  # a client's own assignor may write anything: members stay counted
    return [
        TopicPartition(topic.topic, partition)
        for topic in decoded.assigned_partitions
        for partition in topic.partitions
    ]
