"""Committed offsets of many groups at once: OffsetFetch, stable offsets only, per coordinator."""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

from dashboard.cluster.connection.connection import Connection, chunks
from dashboard.cluster.connection.wire import Wire
from dashboard.cluster.protocol.messages import (
    GROUPS_PER_REQUEST,
    OffsetFetchRequest,
    error_name,
    length,
    skip_tags,
    string,
)
from dashboard.cluster.topics import raw_topic_id
from dashboard.core.errors import ClusterError
from dashboard.domain.model import GroupOffset, TopicState

_STABLE_SINCE = 7  # KIP-447
_BY_ID_SINCE = 10  # KIP-848
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
    connection: Connection,
    groups: Mapping[int, list[str]],
    topics: Mapping[str, TopicState | None] | None,
) -> GroupOffsetsAnswer:
    """All committed offsets of groups (coordinator's broker id -> group ids).

    Stable only: an offset inside an open transaction is asked for again for a second, the others
    are not; then it is an error of its partition, not a guess. A partition without a commit has
    None; so has one of `topics` whose commit is of an earlier topic of its name, where brokers
    tell (4.1 and newer): consumers that ask by the topic's id begin there as if it were not there.
    """
    ids = {
        name: raw_topic_id(state.topic_id)
        for name, state in (topics or {}).items()
        if state is not None and state.topic_id is not None
    }
    answer = _asked(connection, groups, ids)
    for pause in _PAUSES_SECONDS:
        moving = {o.group_id for o in answer.offsets if o.error == _UNSTABLE}
        if not moving:
            break
        time.sleep(pause)
        left = {i: [name for name in names if name in moving] for i, names in groups.items()}
        answer = _settled(answer, _asked(connection, left, ids))
    return answer


def _asked(
    connection: Connection, groups: Mapping[int, list[str]], ids: Mapping[str, bytes]
) -> GroupOffsetsAnswer:
    return gathered(connection, {i: (names, _question(names, ids)) for i, names in groups.items()})


def _settled(before: GroupOffsetsAnswer, later: GroupOffsetsAnswer) -> GroupOffsetsAnswer:
    """`before`, with what a later look tells of the groups that had an offset inside a transaction:
    of that one, and of those that went back, or are gone, meanwhile.
    """
    told = {place_of(o): o for o in later.offsets}
    again = {o.group_id for o in before.offsets if o.error == _UNSTABLE} - later.errors.keys()
    # A first commit is in no answer while its transaction is open: it comes with a later one.
    offsets = [_newest(o, told.pop(place_of(o), None), o.group_id in again) for o in before.offsets]
    found = tuple(sorted((*offsets, *told.values()), key=place_of))
    return replace(before, offsets=found, streams=before.streams | later.streams)


def _newest(before: GroupOffset, later: GroupOffset | None, answered: bool) -> GroupOffset:
    """What counts of two answers; `answered`: the group's later one came, with or without it."""
    if before.error == _UNSTABLE:
        return later or before
    if before.error:
        return before
    if before.committed_offset is None:  # a first commit, or one that was not seen for a moment
        return later or before
    if later is None:  # deleted, with its group or alone
        return replace(before, committed_offset=None, leader_epoch=None) if answered else before
    back = (later.committed_offset or 0) < before.committed_offset
    return later if back and not later.error else before


def place_of(offset: GroupOffset) -> tuple[str, str, int]:
    """By what offsets are sorted and told apart."""
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


def _question(
    names: list[str], ids: Mapping[str, bytes]
) -> Callable[[Wire, float], list[GroupRows]]:
    def ask(wire: Wire, deadline: float) -> list[GroupRows]:
        version = wire.version(OffsetFetchRequest, max(VERSIONS))
        by_id = bool(ids) and wire.version(OffsetFetchRequest) >= _BY_ID_SINCE
        patience = deadline - time.monotonic()
        # Of tens of thousands of groups each batch, not all of them, has the broker's time.
        if version not in VERSIONS:
            answers = [wire.ask(_one(version, n), time.monotonic() + patience) for n in names]
            return [_from_schema(n, answer) for n, answer in zip(names, answers, strict=True)]
        found = []
        for batch in chunks(names, GROUPS_PER_REQUEST):
            rows = wire.ask_rows(_many(version, batch), decode, time.monotonic() + patience)
            found += _of_ids(wire, rows, ids, time.monotonic() + patience) if by_id else rows
        return found

    return ask


def _of_ids(
    wire: Wire, groups: list[GroupRows], ids: Mapping[str, bytes], deadline: float
) -> list[GroupRows]:
    """`groups` by what their coordinator tells of the same offsets by the topics' ids.

    By names it lists an offset that was committed on an earlier topic of the name, too
    (OffsetMetadataManager.isMismatchedTopicId, which a listing of all topics passes over).
    """
    asked: dict[str, dict[str, list[int]]] = {}
    for group in groups:
        for offset in group.offsets:
            if offset.committed_offset is not None and offset.topic in ids:
                of_group = asked.setdefault(group.group_id, {})
                of_group.setdefault(offset.topic, []).append(offset.partition)
    if not asked:
        return groups
    names = {raw: name for name, raw in ids.items()}
    told = wire.ask_rows(_by_ids(asked, ids), lambda body: decode(body, names), deadline)
    answers = {group.group_id: group for group in told}
    settled = [_confirmed(group, answers.get(group.group_id), asked) for group in groups]
    return [group for group in settled if group is not None]


def _by_ids(
    asked: Mapping[str, Mapping[str, list[int]]], ids: Mapping[str, bytes]
) -> Callable[[Wire], Any]:
    one = OffsetFetchRequest.OffsetFetchRequestGroup
    one_topic = one.OffsetFetchRequestTopics

    def made(topics: Mapping[str, list[int]]) -> list[Any]:
        return [
            one_topic(
                topic_id=UUID(bytes=ids[name]), partition_indexes=numbers, version=_BY_ID_SINCE
            )
            for name, numbers in topics.items()
        ]

    groups = [one(group_id=g, topics=made(of), version=_BY_ID_SINCE) for g, of in asked.items()]
    return lambda _: OffsetFetchRequest(version=_BY_ID_SINCE, groups=groups, require_stable=True)


def _confirmed(
    group: GroupRows, told: GroupRows | None, asked: Mapping[str, Mapping[str, list[int]]]
) -> GroupRows | None:
    """None: the coordinator left the group out of the second answer."""
    if group.group_id not in asked:
        return group
    if told is None or told.error:
        return told
    answers = {place_of(offset): offset for offset in told.offsets}

    def confirmed(named: GroupOffset) -> GroupOffset:
        answer = answers.get(place_of(named))
        if answer is not None and answer.committed_offset is not None:
            return named
        if answer is not None and answer.error not in (None, "UNKNOWN_TOPIC_ID"):
            return answer
        return replace(named, committed_offset=None, leader_epoch=None)

    topics = asked[group.group_id]
    return group._replace(
        offsets=[
            confirmed(o) if o.topic in topics and o.committed_offset is not None else o
            for o in group.offsets
        ]
    )


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
    is_streams = any(is_of_streams(one) for one in metadata)
    return GroupRows(group_id, error_name(found.error_code), offsets, is_streams)


# OffsetFetch v8 to v10 decoded row by row: ten thousand groups commit millions of offsets.

VERSIONS = (8, 9)  # all offsets of many groups (KIP-709); v10 names topics by id alone
# Partition, offset, leader epoch, metadata (null or empty), error code, no tags.
_BARE = struct.Struct(">iqiBhB")
_METADATA, _TAGS = 16, 19  # where those two stand in it
_HEAD = struct.Struct(">iqi")
_ID_BYTES = 16
# Kafka Streams commits its stream time with each offset, in base 64 (TopicPartitionMetadata): a
# version, 1 or 2, then milliseconds since the epoch, -1 for none; since 3.4 more behind them.
_OF_STREAMS = re.compile(rb"A(?:QAA|gAA|f//|v//)[A-Za-z0-9+/]{8,}={0,2}")


class GroupRows(NamedTuple):
    """One group's committed offsets, or the error that hid them.

    `is_streams`: it committed in the way of a Kafka Streams application.
    """

    group_id: str
    error: str | None
    offsets: list[GroupOffset]
    is_streams: bool = False


def decode(body: memoryview[int], names: Mapping[bytes, str] | None = None) -> list[GroupRows]:
    """Groups in the order of the answer. A partition without a commit has None.

    `names`: the answer has topic ids (v10), which these are the names of.

    Raises IndexError, struct.error or ValueError for an answer that is cut short or too long.
    """
    count, at = length(body, 4)  # behind the throttle time
    groups = []
    for _ in range(count):
        group, at = _group(body, at, names)
        groups.append(group)
    if skip_tags(body, at) != len(body):
        raise ValueError("the answer is not as long as its rows")
    return groups


def is_of_streams(metadata: bytes) -> bool:
    """Whether a Kafka Streams application wrote this beside its offset."""
    return _OF_STREAMS.fullmatch(metadata) is not None


def _group(
    body: memoryview[int], at: int, names: Mapping[bytes, str] | None
) -> tuple[GroupRows, int]:
    group_id, at = string(body, at)
    topics, at = length(body, at)
    offsets: list[GroupOffset] = []
    is_streams = False
    for _ in range(topics):
        if names is None:
            topic, at = string(body, at)
        else:
            topic, at = names.get(bytes(body[at : at + _ID_BYTES]), ""), at + _ID_BYTES
        count, at = length(body, at)
        rows, of_streams, at = _rows(body, at, count)
        is_streams |= of_streams
        offsets += [
            GroupOffset(
                group_id,
                topic,
                partition,
                offset if offset >= 0 and not error else None,
                error_name(error) if error else None,
                epoch if epoch >= 0 and not error else None,
            )
            for partition, offset, epoch, error in rows
        ]
        at = skip_tags(body, at)
    (code,) = struct.unpack_from(">h", body, at)
    return GroupRows(group_id, error_name(code), offsets, is_streams), skip_tags(body, at + 2)


def _rows(
    body: memoryview[int], at: int, count: int
) -> tuple[list[tuple[int, int, int, int]], bool, int]:
    """Partition, offset, leader epoch and error code of each row, whether Streams wrote one, where
    they end.
    """
    end = at + count * _BARE.size
    if end <= len(body) and _bare(body[at:end]):
        bare = _BARE.iter_unpack(body[at:end])
        rows = [(p, offset, epoch, error) for p, offset, epoch, _, error, _ in bare]
        return rows, False, end
    rows = []
    of_streams = False
    for _ in range(count):
        partition, offset, epoch = _HEAD.unpack_from(body, at)
        size, at = length(body, at + _HEAD.size)  # the committer's own metadata
        of_streams = of_streams or is_of_streams(bytes(body[at : at + size]))
        at += size
        (error,) = struct.unpack_from(">h", body, at)
        at = skip_tags(body, at + 2)
        rows.append((partition, offset, epoch, error))
    return rows, of_streams, at


def _bare(rows: memoryview[int]) -> bool:
    """Whether no row has metadata or tags: then, one after another, all are of one size."""
    metadata, tags = bytes(rows[_METADATA :: _BARE.size]), bytes(rows[_TAGS :: _BARE.size])
    return not metadata.strip(b"\x00\x01") and not tags.strip(b"\x00")
