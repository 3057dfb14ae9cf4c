"""Who is in each group and what it is assigned, asked of the coordinators in batches."""

from __future__ import annotations

import re
import struct
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, NamedTuple

from dashboard.cluster.connection.connection import Connection, called_off, chunks
from dashboard.cluster.connection.kafka_errors import error_name
from dashboard.cluster.connection.wire import Wire
from dashboard.cluster.protocol import group_offset_rows
from dashboard.cluster.protocol.group_offset_rows import GroupRows
from dashboard.cluster.protocol.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerProtocolAssignment,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    ShareGroupDescribeRequest,
    StreamsGroupDescribeRequest,
)
from dashboard.core.errors import ClusterError, UsageError
from dashboard.domain.model import WORKERS, GroupOffset, TopicPartition

# Committed offsets of many groups at once: OffsetFetch, stable offsets only, per coordinator.

_STABLE_SINCE = 7  # KIP-447
_group_offsets_GROUPS_PER_REQUEST = 200
_UNSTABLE = "UNSTABLE_OFFSET_COMMIT"
# Who processes exactly once commits in a transaction ten times a second (Kafka Streams), and it is
# open for milliseconds: of some hundred such offsets there is always one that a single look misses.
_PAUSES_SECONDS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.25)


@dataclass(frozen=True, slots=True)
class GroupOffsetsAnswer:
    """Offsets, sorted; per group the error that hid them; groups that ended meanwhile.

    `streams`: groups that committed in the way of a Kafka Streams application.
    """

    offsets: tuple[GroupOffset, ...]
    errors: dict[str, str]
    vanished: tuple[str, ...]
    streams: frozenset[str] = frozenset()


def read_group_offsets(
    connection: Connection, groups: Mapping[int, list[str]]
) -> GroupOffsetsAnswer:
    """All committed offsets of groups (coordinator's broker id -> group ids).

    Stable only: an offset inside an open transaction is asked for again for a second, the others
    are not; then it is an error of its partition, not a guess. A partition without a commit has
    None.
    """
    answer = _group_offsets_asked(connection, groups)
    for pause in _PAUSES_SECONDS:
        moving = {o.group_id for o in answer.offsets if o.error == _UNSTABLE}
        if not moving:
            break
        time.sleep(pause)
        left = {i: [name for name in names if name in moving] for i, names in groups.items()}
        answer = _settled(answer, _group_offsets_asked(connection, left))
    return answer


def _group_offsets_asked(
    connection: Connection, groups: Mapping[int, list[str]]
) -> GroupOffsetsAnswer:
    return gathered(
        connection, {i: (names, _group_offsets_question(names)) for i, names in groups.items()}
    )


def _settled(before: GroupOffsetsAnswer, later: GroupOffsetsAnswer) -> GroupOffsetsAnswer:
    """`before`, with what a later look tells of the offsets that were inside a transaction."""
    told = {_place(o): o for o in later.offsets}
    # A first commit is in no answer while its transaction is open: it comes with a later one.
    kept = {_place(o): o for o in before.offsets if o.error != _UNSTABLE or _place(o) not in told}
    offsets = tuple(sorted((told | kept).values(), key=_place))
    return replace(before, offsets=offsets, streams=before.streams | later.streams)


def _place(offset: GroupOffset) -> tuple[str, str, int]:
    return offset.group_id, offset.topic, offset.partition


def gathered(
    connection: Connection,
    questions: Mapping[int, tuple[list[str], Callable[[Wire, float], list[GroupRows]]]],
) -> GroupOffsetsAnswer:
    """Ask coordinators side by side (broker id -> its group ids, the question) and sum up.

    A coordinator that does not answer, or not for a group, is the error of each such group.
    """
    replies = connection.ask_each({i: ask for i, (names, ask) in questions.items() if names})
    offsets: list[GroupOffset] = []
    errors: dict[str, str] = {}
    vanished: list[str] = []
    streams: set[str] = set()
    for broker_id, reply in replies.items():
        if isinstance(reply, ClusterError):
            errors.update(dict.fromkeys(questions[broker_id][0], reply.code))
            continue
        missing = set(questions[broker_id][0]) - {group.group_id for group in reply}
        errors.update(dict.fromkeys(missing, "NOT_ANSWERED"))
        for group in reply:
            if group.is_streams:
                streams.add(group.group_id)
            if group.error == "GROUP_ID_NOT_FOUND":
                vanished.append(group.group_id)
            elif group.error:
                errors[group.group_id] = group.error
            else:
                offsets += group.offsets
    offsets.sort(key=attrgetter("group_id", "topic", "partition"))
    return GroupOffsetsAnswer(tuple(offsets), errors, tuple(vanished), frozenset(streams))


def _group_offsets_question(names: list[str]) -> Callable[[Wire, float], list[GroupRows]]:
    def ask(wire: Wire, deadline: float) -> list[GroupRows]:
        version = wire.version(OffsetFetchRequest, max(group_offset_rows.VERSIONS))
        patience = deadline - time.monotonic()
        # Of tens of thousands of groups each batch, not all of them, has the broker's time.
        if version not in group_offset_rows.VERSIONS:
            answers = [wire.ask(_one(version, n), time.monotonic() + patience) for n in names]
            return [_from_schema(n, answer) for n, answer in zip(names, answers, strict=True)]
        return [
            group
            for batch in chunks(names, _group_offsets_GROUPS_PER_REQUEST)
            for group in wire.ask_rows(
                _many(version, batch), group_offset_rows.decode, time.monotonic() + patience
            )
        ]

    return ask


def _many(version: int, names: list[str]) -> Callable[[Wire], Any]:
    one = OffsetFetchRequest.OffsetFetchRequestGroup
    groups = [one(group_id=name, topics=None, version=version) for name in names]
    return lambda _: OffsetFetchRequest(version=version, groups=groups, require_stable=True)


def _one(version: int, name: str) -> Callable[[Wire], Any]:
    request = OffsetFetchRequest(version=version, group_id=name, topics=None)
    if version >= _STABLE_SINCE:
        request.require_stable = True
    return lambda _: request


def _from_schema(group_id: str, found: Any) -> GroupRows:
    offsets = [
        GroupOffset(
            group_id,
            topic.name,
            p.partition_index,
            p.committed_offset if p.committed_offset >= 0 and not p.error_code else None,
            error_name(p.error_code),
            # Before v5 (Kafka 2.1) brokers tell none.
            epoch if (epoch := getattr(p, "committed_leader_epoch", -1)) >= 0 else None,
        )
        for topic in found.topics
        for p in topic.partitions
    ]
    metadata = ((p.metadata or "").encode() for topic in found.topics for p in topic.partitions)
    is_streams = any(group_offset_rows.is_of_streams(one) for one in metadata)
    return GroupRows(group_id, error_name(found.error_code), offsets, is_streams)


# Moves a group's committed offsets from outside: OffsetCommit to its coordinator, sent raw.
#
# Without generation and member a coordinator accepts it only from a group that has no members
# (org.apache.kafka.coordinator.group.OffsetMetadataManager): a living group cannot be moved.

_NAMES_UNTIL = 9  # v10 names topics by id alone (KIP-848)
_MANY_KEYS_SINCE = 4  # KIP-699
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
        request = _group_offsets_request(wire, group_id, offsets)
        if not may_leave():
            raise called_off("the offsets were", "they stand")
        return wire.ask(lambda _: request, deadline)

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
        if version < _MANY_KEYS_SINCE:
            return FindCoordinatorRequest(version=version, key=group_id, key_type=_GROUP_KEY)
        return FindCoordinatorRequest(
            version=version, key_type=_GROUP_KEY, coordinator_keys=[group_id]
        )

    answer = connection.ask_any(lambda wire, deadline: wire.ask(request, deadline))
    if answer.version < _MANY_KEYS_SINCE:
        return answer.node_id, error_name(answer.error_code)
    told = [(c.node_id, error_name(c.error_code)) for c in answer.coordinators if c.key == group_id]
    return told[0] if told else (-1, "COORDINATOR_NOT_AVAILABLE")


def _group_offsets_request(at: Wire, group_id: str, offsets: Mapping[TopicPartition, int]) -> Any:
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


UNSUPPORTED = "API_UNSUPPORTED"
_STREAMS_ASSIGNOR = "stream"  # StreamsPartitionAssignor.name()
_STREAMS_CLIENT = re.compile(r"-StreamThread-\d+-consumer$")  # ClientUtils.getConsumerClientId
_GROUPS_PER_REQUEST = 200
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
            answer.groups[group.group_id] = Described(group.state, 0)
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
