"""Who is in each group and what it is assigned, asked of the coordinators in batches; and whether a
broker really coordinates the groups that it should.
"""

from __future__ import annotations

import re
import struct
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from dashboard.cluster.connection.connection import Connection, chunks
from dashboard.cluster.connection.wire import Wire
from dashboard.cluster.protocol.messages import (
    GROUPS_PER_REQUEST,
    ConsumerGroupDescribeRequest,
    ConsumerProtocolAssignment,
    DescribeGroupsRequest,
    ShareGroupDescribeRequest,
    StreamsGroupDescribeRequest,
    error_name,
)
from dashboard.core.errors import ClusterError
from dashboard.domain.model import WORKERS, TopicPartition

UNSUPPORTED = "API_UNSUPPORTED"
_STREAMS_ASSIGNOR = "stream"  # StreamsPartitionAssignor.name()
_STREAMS_CLIENT = re.compile(r"-StreamThread-\d+-consumer$")  # ClientUtils.getConsumerClientId
_HEAD, _SIZE = struct.Struct(">hi"), struct.Struct(">h")  # version and number of topics; of a name
_REQUESTS = {
    "classic": DescribeGroupsRequest,
    "consumer": ConsumerGroupDescribeRequest,
    "share": ShareGroupDescribeRequest,
    "streams": StreamsGroupDescribeRequest,
}


class Described(NamedTuple):
    """State, number of members, and what they read and ask for, as `model.Group` has it.

    `error` is Kafka's name of why members are unknown (None), or API_UNSUPPORTED. Without an
    error they are unknown where this product knows no such kind of group, or nobody can tell
    what all of them read: a Streams application that is not ready, an assignor or a subscription
    in words of its own. What the others read is told nevertheless.
    """

    state: str
    members: int | None
    assigned: tuple[TopicPartition, ...] = ()
    error: str | None = None
    subscribed: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    is_streams: bool = False
    works_as: str | None = None  # the protocol type of WORKERS


@dataclass(slots=True)
class _Reads:
    """What members read and ask for; `known`: whether that is all they do."""

    assigned: set[TopicPartition] = field(default_factory=set)
    subscribed: set[str] = field(default_factory=set)
    patterns: set[str] = field(default_factory=set)
    known: bool = True


@dataclass(slots=True)
class MembersAnswer:
    """Described groups, and those that their coordinators called gone, though they listed them."""

    groups: dict[str, Described] = field(default_factory=dict)
    vanished: list[str] = field(default_factory=list)


def read_members(connection: Connection, listed: Iterable[Any]) -> MembersAnswer:
    """Members and assignments of groups as `groups.Listed` names them.

    A group that is listed as Empty has none and is not asked about. Members of a kind of group
    that is not known here, or whose API its coordinator does not speak, stay unknown.
    """
    answer = MembersAnswer()
    asked: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for group in listed:
        kind = group.type or "classic"
        if group.state in ("Empty", "Dead"):
            works = group.protocol_type if group.protocol_type in WORKERS else None
            answer.groups[group.group_id] = Described(group.state, 0, works_as=works)
        elif kind in _REQUESTS:
            asked[group.coordinator][kind].append(group.group_id)
        else:
            answer.groups[group.group_id] = Described(group.state, None)
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
            for names in chunks(groups, GROUPS_PER_REQUEST)
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
    answer.groups.update(_hidden(names, "NOT_ANSWERED"))
    asked = set(names)
    for group in (g for g in reply.groups if g.group_id in asked):
        answer.groups.pop(group.group_id, None)
        error = error_name(group.error_code)
        if error == "GROUP_ID_NOT_FOUND" or (not error and group.group_state == "Dead"):
            answer.vanished.append(group.group_id)
        elif error:
            answer.groups.update(_hidden([group.group_id], error))
        else:
            answer.groups[group.group_id] = _described(group)


def _hidden(names: list[str], error: str) -> dict[str, Described]:
    return {name: Described("Unknown", None, error=error) for name in names}


def _described(group: Any) -> Described:
    is_streams = hasattr(group, "topology")
    protocol = getattr(group, "protocol_type", None)  # of classic groups alone
    if is_streams:
        reads = _streams(group)
    elif hasattr(group, "protocol_type"):
        reads = _classic(group)
        is_streams = group.protocol_type == "consumer" and _is_of_streams(group)
    else:
        reads = _consumer(group)
    return Described(
        group.group_state,
        len(group.members) if reads.known else None,
        tuple(sorted(reads.assigned)),
        subscribed=tuple(sorted(reads.subscribed)),
        patterns=tuple(sorted(reads.patterns)),
        is_streams=is_streams,
        works_as=protocol if protocol in WORKERS else None,
    )


def _consumer(group: Any) -> _Reads:
    """Groups whose coordinator assigns (KIP-848, KIP-932); what will be assigned counts as asked.

    A regular expression is resolved in the background, at most every ten seconds
    (GroupMetadataManager): a topic made since then is in no target assignment.
    """
    reads = _Reads()
    for member in group.members:
        reads.assigned.update(
            TopicPartition(topic.topic_name, partition)
            for topic in member.assignment.topic_partitions
            for partition in topic.partitions
        )
        reads.subscribed.update(member.subscribed_topic_names)
        if hasattr(member, "target_assignment"):
            reads.subscribed.update(t.topic_name for t in member.target_assignment.topic_partitions)
        if pattern := getattr(member, "subscribed_topic_regex", None):
            reads.patterns.add(pattern)
    return reads


def _streams(group: Any) -> _Reads:
    """Partition p of each source topic of a subtopology belongs to its task p (KIP-1071).

    A topic with fewer partitions than its neighbours has none for the last tasks: such a pair
    names no partition. Unknown while the application is not ready: only it knows its topics.
    """
    subtopologies = group.topology.subtopologies if group.topology else None
    if subtopologies is None:
        return _Reads(known=False)
    sources = {
        s.subtopology_id: {*s.source_topics, *(topic.name for topic in s.repartition_source_topics)}
        for s in subtopologies
    }
    assigned = {
        TopicPartition(topic, partition)
        for member in group.members
        for tasks in member.assignment.active_tasks
        for topic in sources.get(tasks.subtopology_id, ())
        for partition in tasks.partitions
    }
    return _Reads(assigned, set().union(*sources.values()))


def _classic(group: Any) -> _Reads:
    """What a group's leader assigned, and what its members subscribe to.

    Brokers show subscriptions of a Stable group alone (ClassicGroupMember.describeNoMetadata).
    Members of other protocol types put bytes of their own there, and may read what they want.
    """
    reads = _Reads()
    if group.protocol_type != "consumer":
        reads.known = group.protocol_type in WORKERS or not group.members
        return reads
    for member in group.members:
        try:
            if member.member_assignment:
                reads.assigned.update(_assigned(bytes(member.member_assignment)))
            if group.group_state == "Stable":
                reads.subscribed.update(_subscribed(bytes(member.member_metadata)))
        except (struct.error, ValueError, IndexError):
            reads.known = False
    return reads


def _is_of_streams(group: Any) -> bool:
    """By its assignor; while it rebalances brokers hide that, and its members' names tell."""
    return group.protocol_data == _STREAMS_ASSIGNOR or any(
        _STREAMS_CLIENT.search(member.client_id) for member in group.members
    )


def _assigned(written: bytes) -> list[TopicPartition]:
    return [
        TopicPartition(topic.topic, partition)
        for topic in ConsumerProtocolAssignment.decode(written).assigned_partitions or ()
        for partition in topic.partitions or ()
    ]


def _subscribed(written: bytes) -> list[str]:
    """Topics of a ConsumerProtocolSubscription: they come first in every version of it.

    No more is read: some clients name a version and leave out the fields that came with it.
    """
    _, count = _HEAD.unpack_from(written)
    if count < 0:
        raise ValueError("a list of topics that is null")
    topics, at = [], _HEAD.size
    for _ in range(count):
        (size,) = _SIZE.unpack_from(written, at)
        at += _SIZE.size
        if size < 0 or at + size > len(written):
            raise ValueError("a name that is longer than its bytes")
        topics.append(written[at : at + size].decode())
        at += size
    return topics


# Whether a broker really coordinates the groups of the offsets partitions that it leads.
#
# It leads a partition as soon as it hears so, and knows that partition's groups only once it has
# read it. Until then, and after a load that failed (CoordinatorRuntime's FAILED), ListGroups leaves
# them out without an error, while a question about one group is answered with NOT_COORDINATOR.

PROBE = "lowwater-probe-"  # such names are asked about; whoever has rights by prefix needs this one
_ANY_GROUP_UNTIL = 5  # DescribeGroups: v6 calls a group that is not there GROUP_ID_NOT_FOUND
_PROVES = (None, "GROUP_ID_NOT_FOUND")


def not_coordinated(
    wire: Wire, deadline: float, numbers: Iterable[int], count: int
) -> dict[int, str]:
    """Those of these partitions of the offsets topic (of `count`) that this broker does not
    coordinate, or does not tell of, by Kafka's name of the error.

    One DescribeGroups asks about a group of each that nobody has: coordinators of every age answer
    "Dead" for it, and look at the partition before they look for the group. They look at rights
    even before that: GROUP_AUTHORIZATION_FAILED tells nothing of the coordinator.
    """
    asked = {probe_of(number, count): number for number in numbers}
    errors = dict.fromkeys(asked, "NOT_ANSWERED")
    try:
        version = wire.version(DescribeGroupsRequest, _ANY_GROUP_UNTIL)
    except ClusterError as unsupported:
        return dict.fromkeys(asked.values(), unsupported.code)
    for names in chunks(sorted(asked), GROUPS_PER_REQUEST):
        answer = wire.ask(_probing(version, names), deadline)
        for group in answer.groups:
            error = error_name(group.error_code)
            if error in _PROVES:
                errors.pop(group.group_id, None)
            elif group.group_id in asked:
                errors[group.group_id] = str(error)
    return {asked[name]: error for name, error in errors.items()}


def _probing(version: int, names: list[str]) -> Callable[[Wire], Any]:
    request = DescribeGroupsRequest(version=version, groups=names)
    request.include_authorized_operations = False
    return lambda _: request


def probe_of(number: int, count: int) -> str:
    """The name of a group whose commits would lie in this partition, of `count`."""
    return _probes(count)[number]


@lru_cache(maxsize=8)
def _probes(count: int) -> dict[int, str]:
    found: dict[int, str] = {}
    tried = 0
    while len(found) < count:
        name = f"{PROBE}{tried}"
        found.setdefault(partition_of(name, count), name)
        tried += 1
    return found


def partition_of(group_id: str, count: int) -> int:
    """The partition of an offsets topic of `count` that holds a group (GroupMetadataManager's and
    GroupCoordinatorService's `partitionFor`: `Utils.abs(groupId.hashCode) % count`).
    """
    code = 0
    written = group_id.encode("utf-16-be")  # Java's chars
    for at in range(0, len(written), 2):
        code = (31 * code + (written[at] << 8 | written[at + 1])) & 0xFFFFFFFF
    return _absolute(code) % count


def _absolute(code: int) -> int:
    """Utils.abs of an int32 given as its bits: the one int without a positive is 0."""
    if code < 1 << 31:
        return code
    return 0 if code == 1 << 31 else (1 << 32) - code
