"""Every group, with or without members, its offsets (share groups' too), and what ACLs may hide."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dashboard.cluster.connection.connection import Connection, chunks
from dashboard.cluster.connection.wire import Wire
from dashboard.cluster.group_lists import Listed, read_lists, still_listed
from dashboard.cluster.group_members import UNSUPPORTED, Described, read_members
from dashboard.cluster.group_offsets import (
    GroupOffsetsAnswer,
    GroupRows,
    gathered,
    place_of,
    read_group_offsets,
)
from dashboard.cluster.protocol.list_offsets import EARLIEST, LEFT_OUT, Placed, ask_offsets
from dashboard.cluster.protocol.messages import (
    GROUPS_PER_REQUEST,
    RETRIABLE_READ_ERRORS,
    DescribeShareGroupOffsetsRequest,
    error_name,
)
from dashboard.core.errors import ClusterError
from dashboard.domain import rights
from dashboard.domain.model import Group, GroupListing, GroupOffset, TopicPartition, TopicState

_PAUSES_SECONDS = (0.2, 0.5, 1.0)


@dataclass(slots=True)
class _Found:
    """What one pass over the brokers gave; `vanished` were called gone after they were listed."""

    groups: dict[str, Listed]
    reasons: list[str]
    transient: bool
    described: dict[str, Described] = field(default_factory=dict)
    offsets: tuple[GroupOffset, ...] = ()
    group_errors: dict[str, str] = field(default_factory=dict)
    streams: frozenset[str] = frozenset()
    vanished: set[str] = field(default_factory=set)


def read_groups(
    connection: Connection,
    topics: Iterable[str] | Mapping[str, TopicState | None],
    *,
    with_offsets: bool,
) -> GroupListing:
    """All groups of all brokers, sorted; `incomplete` names each reason to doubt the list.

    `topics` are those of which no offset may be missing: what is to be purged, or judged; as
    states by their names they tell commits of earlier topics of a name apart, which have None.

    Reasons: no DESCRIBE on the cluster (ListGroups then leaves groups out without an error), or
    nobody tells whether we hold it; no DESCRIBE on `__consumer_offsets`, or no such topic though
    groups are listed; no answer from a broker that leads a partition of it in any other's newest
    view (one that leads none holds no group), or one that has not read it, does not tell, or did
    not lead it all the while; a group that brokers list which do not agree on its coordinator, or
    whose coordinator lists it and calls it gone; a coordinator that is loading, or that hides one
    of `topics`; an OffsetFetch error; an unstable offset; members that cannot be read. What a
    moment cures is read again, at most three times. A share group's start offsets stand among the
    committed ones; where they are not known its `error` says why.
    Never raises for one broker; raises ClusterError when none answers.
    """
    wanted = topics if isinstance(topics, Mapping) else dict.fromkeys(topics)
    for pause in (*_PAUSES_SECONDS, None):
        found = _one_pass(connection, wanted, with_offsets)
        if not found.transient or pause is None:
            break
        time.sleep(pause)
    return GroupListing(_groups(found), found.offsets, tuple(found.reasons))


def _one_pass(
    connection: Connection, topics: Mapping[str, TopicState | None], with_offsets: bool
) -> _Found:
    # What others read meanwhile, of a broker that is cut off, must not take a broker from the list.
    connection = connection.apart()
    lists = read_lists(connection)
    found = _Found(lists.groups, lists.reasons, lists.transient)
    if lists.moved:
        return found
    members = read_members(connection, found.groups.values())
    found.described = members.groups
    found.vanished.update(members.vanished)
    if with_offsets:
        coordinators = {group.coordinator for group in found.groups.values()}
        before = hidden_topics(connection, coordinators, topics)
        _take_offsets(connection, found, topics)
        _take_share_offsets(connection, found)
        after = hidden_topics(connection, coordinators, topics)
        for doubt in doubts((before, after)):
            found.reasons.append(doubt.reason)
            found.transient |= doubt.transient
    _settle_vanished(connection, found)
    _doubt_members(found)
    return found


def _take_offsets(
    connection: Connection, found: _Found, topics: Mapping[str, TopicState | None]
) -> None:
    answer = read_group_offsets(connection, _by_coordinator(found, share=False), topics)
    found.vanished.update(found.groups.keys() & set(answer.vanished))
    found.offsets = answer.offsets
    found.streams = answer.streams
    found.group_errors = answer.errors
    for group_id, error in sorted(answer.errors.items()):
        found.reasons.append(f"offsets of group {group_id} cannot be read: {error}")
    for offset in answer.offsets:
        if offset.error:
            place = f"{offset.topic}-{offset.partition}"
            found.reasons.append(
                f"offset of group {offset.group_id} on {place} cannot be read: {offset.error}"
            )
    errors = {*answer.errors.values(), *(o.error for o in answer.offsets if o.error)}
    found.transient |= not errors.isdisjoint(RETRIABLE_READ_ERRORS)


def _take_share_offsets(connection: Connection, found: _Found) -> None:
    """Share groups keep start offsets (KIP-932) in place of commits.

    One that cannot be read is no gap of the list: its own error says that it may want anything.
    """
    answer = read_share_offsets(connection, _by_coordinator(found, share=True))
    found.vanished.update(found.groups.keys() & set(answer.vanished))
    if answer.offsets:
        found.offsets = tuple(sorted([*found.offsets, *answer.offsets], key=place_of))
    found.group_errors |= answer.errors
    found.transient |= not RETRIABLE_READ_ERRORS.isdisjoint(answer.errors.values())


def _settle_vanished(connection: Connection, found: _Found) -> None:
    """A group that is called gone is so if it has no offsets and is listed no more.

    A coordinator asked about a group of another kind than it has become answers "Dead" or
    GROUP_ID_NOT_FOUND: one that changes its protocol (KIP-848) lives on, with all its offsets.
    """
    if not found.vanished:
        return
    alive = {o.group_id for o in found.offsets} | found.group_errors.keys()
    alive |= still_listed(connection, [found.groups[g] for g in found.vanished - alive])
    for group_id in sorted(found.vanished):
        if group_id in alive:
            found.reasons.append(
                f"group {group_id} was called gone, yet it is listed or has offsets"
            )
            found.transient = True
        else:
            del found.groups[group_id]


def _doubt_members(found: _Found) -> None:
    """Members that could not be read may read anything, before their group's first commit.

    A share group says so by its own error. Where the coordinator does not speak a kind's API
    nothing cures it: such members are unknown, and their group is judged by its offsets.
    """
    for group_id, group in sorted(found.groups.items()):
        described = found.described.get(group_id)
        error = described.error if described else None
        if error is None or error == UNSUPPORTED:
            continue
        found.transient |= error in RETRIABLE_READ_ERRORS
        if _type(group) != "share" and group_id not in found.group_errors:
            found.reasons.append(f"members of group {group_id} cannot be read: {error}")


def _by_coordinator(found: _Found, *, share: bool) -> dict[int, list[str]]:
    by_coordinator: dict[int, list[str]] = defaultdict(list)
    for group in found.groups.values():
        if (_type(group) == "share") == share:
            by_coordinator[group.coordinator].append(group.group_id)
    return by_coordinator


def _groups(found: _Found) -> tuple[Group, ...]:
    return tuple(_group(found, listed) for _, listed in sorted(found.groups.items()))


def _group(found: _Found, listed: Listed) -> Group:
    described = found.described.get(listed.group_id)
    error = found.group_errors.get(listed.group_id)
    if described is None:
        described = Described(listed.state or "Unknown", None)
    return Group(
        listed.group_id,
        described.works_as or _type(listed),
        described.state,
        described.members,
        described.assigned,
        coordinator_answered=described.error is None and error is None,
        error=error or described.error,
        subscribed=described.subscribed,
        patterns=described.patterns,
        is_streams=(
            _type(listed) == "streams" or described.is_streams or listed.group_id in found.streams
        ),
    )


def _type(listed: Listed) -> str:
    # Brokers before 3.7 list no type: those knew classic groups alone.
    return listed.type or "classic"


# Start offsets of share groups: DescribeShareGroupOffsets (KIP-932), per coordinator, batched.


def read_share_offsets(
    connection: Connection, groups: Mapping[int, list[str]]
) -> GroupOffsetsAnswer:
    """Start offsets of share groups (coordinator's broker id -> group ids) on all their topics.

    Records at or past a start offset are still wanted, those before it are done with. None: the
    group has not begun there (Kafka's -1), so what it will want is unknown. An error of one
    partition hides the whole group: `errors` then names it, API_UNSUPPORTED where the broker
    does not speak this.
    """
    return gathered(connection, {i: (names, _question(names)) for i, names in groups.items()})


def _question(names: list[str]) -> Callable[[Wire, float], list[GroupRows]]:
    def ask(wire: Wire, deadline: float) -> list[GroupRows]:
        patience = deadline - time.monotonic()
        answers = [
            wire.ask(_request(batch), time.monotonic() + patience)
            for batch in chunks(names, GROUPS_PER_REQUEST)
        ]
        return [
            GroupRows(group.group_id, _error(group), _offsets(group))
            for answer in answers
            for group in answer.groups
        ]

    return ask


def _request(names: list[str]) -> Callable[[Wire], Any]:
    def make(at: Wire) -> Any:
        version = at.version(DescribeShareGroupOffsetsRequest)
        one = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
        groups = [one(group_id=name, topics=None, version=version) for name in names]
        return DescribeShareGroupOffsetsRequest(version=version, groups=groups)

    return make


def _error(found: Any) -> str | None:
    codes = [found.error_code]
    codes += [p.error_code for topic in found.topics for p in topic.partitions]
    return next((error for code in codes if (error := error_name(code))), None)


def _offsets(found: Any) -> list[GroupOffset]:
    return [
        GroupOffset(
            found.group_id,
            topic.topic_name,
            p.partition_index,
            p.start_offset if p.start_offset >= 0 else None,
        )
        for topic in found.topics
        for p in topic.partitions
    ]


# Which topics coordinators hide, and with them, without an error, what their groups read there.
#
# Each broker judges by its own copy of the ACLs, and a copy may lag, or be lost. Asked for all that
# a group committed, a coordinator leaves out topics that by its copy we may not DESCRIBE
# (KafkaApis, fetchAllOffsetsForGroup, describeShareGroupAllOffsetsForGroup); and of a share group
# topics that it has not heard of yet (GroupCoordinatorService.describeShareGroupAllOffsets).

_FORBIDDEN = "TOPIC_AUTHORIZATION_FAILED"
_UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION"
# All that a broker says of a topic which it does not show: any other error comes after these.
_HIDES = (_FORBIDDEN, _UNKNOWN, LEFT_OUT.error)
_MOST_NAMES = 3

# By broker: the topics that it does not show, each with the error; or why it did not tell.
Hidden = Mapping[int, Mapping[str, str] | str]


class Doubt(NamedTuple):
    """One reason to doubt a list of groups, and whether a moment may cure it."""

    reason: str
    transient: bool


def hidden_topics(
    connection: Connection, coordinators: Iterable[int], topics: Iterable[str]
) -> Hidden:
    """Which of these topics, that some broker told of, these coordinators do not show now.

    Topics that all call unknown are gone, and hide nothing. One row of ListOffsets a topic asks for
    the same right as OffsetFetch; Metadata would tell of every partition.
    """
    names, asked = sorted(set(topics)), set(coordinators)
    if not names or not asked:
        return {}
    told = _views(connection, asked, names)
    views = [view for view in told.values() if not isinstance(view, str)]
    unknown = {topic for view in views for topic, error in view.items() if error == _UNKNOWN}
    if not unknown:
        return told
    others = _views(connection, set(connection.broker_ids()) - asked, sorted(unknown)).values()
    views += [view for view in others if not isinstance(view, str)]
    gone = {topic for topic in unknown if all(view.get(topic) == _UNKNOWN for view in views)}
    return {
        broker: view if isinstance(view, str) else {t: e for t, e in view.items() if t not in gone}
        for broker, view in told.items()
    }


def doubts(looks: Iterable[Hidden]) -> list[Doubt]:
    """Each reason for which offsets may be missing, by looks before and after they were read.

    A right that arrives in between was not there for all of them, nor one that went.
    """
    untold: dict[int, str] = {}
    hidden: dict[tuple[int, str], set[str]] = defaultdict(set)
    for broker, view in ((b, v) for look in looks for b, v in look.items()):
        if isinstance(view, str):
            untold[broker] = view
            continue
        for topic, error in view.items():
            hidden[broker, error].add(topic)
    found = [_doubt(broker, error, sorted(names)) for (broker, error), names in hidden.items()]
    found += [
        Doubt(f"whether broker {b} hides topics cannot be told: {e}", e in RETRIABLE_READ_ERRORS)
        for b, e in untold.items()
    ]
    return sorted(found)


def _views(
    connection: Connection, brokers: Iterable[int], topics: list[str]
) -> dict[int, dict[str, str] | str]:
    answers = connection.ask_each(dict.fromkeys(brokers, _hidden_topics_question(topics)))
    return {b: a.code if isinstance(a, ClusterError) else a for b, a in answers.items()}


def _hidden_topics_question(topics: list[str]) -> Callable[[Wire, float], dict[str, str]]:
    # Every topic has a partition 0; its leader answers from memory.
    asked = {topic: TopicPartition(topic, 0) for topic in topics}

    def ask(wire: Wire, deadline: float) -> dict[str, str]:
        rows = [Placed(*key, -1) for key in asked.values()]
        found = ask_offsets(wire, deadline, rows, EARLIEST)
        errors = {topic: found.get(key, LEFT_OUT).error for topic, key in asked.items()}
        return {topic: error for topic, error in errors.items() if error in _HIDES and error}

    return ask


def _doubt(broker: int, error: str, topics: list[str]) -> Doubt:
    left_out = f"what its groups read of {_named(topics)} is left out unseen"
    if error == _FORBIDDEN:
        line = rights.command(rights.DESCRIBE_TOPIC, name=topics[0] if len(topics) == 1 else "")
        return Doubt(
            f"no DESCRIBE right at broker {broker}, by its own copy of the ACLs: {left_out}; "
            f"{line} gives it, and where it is given the broker may lag: wait, then see its log",
            transient=True,
        )
    if error == _UNKNOWN:
        return Doubt(
            f"broker {broker} does not know what others know: {left_out}; wait, then see its log",
            transient=True,
        )
    return Doubt(f"broker {broker} does not tell what it shows: {left_out} ({error})", False)


def _named(topics: Collection[str]) -> str:
    names = ", ".join([*topics][:_MOST_NAMES])
    if len(topics) > _MOST_NAMES:
        return f"the topics {names} and {len(topics) - _MOST_NAMES} more"
    return f"the topic{'s' * (len(topics) > 1)} {names}"
