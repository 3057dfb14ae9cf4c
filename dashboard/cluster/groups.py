"""Every group of the cluster, with or without members, its offsets, and what may be missing."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dashboard.cluster.connection import Connection
from dashboard.cluster.group_members import UNSUPPORTED, Described, read_members
from dashboard.cluster.group_offsets import read_group_offsets
from dashboard.cluster.kafka_errors import RETRIABLE_READ_ERRORS, error_name
from dashboard.cluster.messages import ListGroupsRequest
from dashboard.cluster.share_offsets import read_share_offsets
from dashboard.cluster.topics import may_describe_cluster, read_topics
from dashboard.cluster.wire import Wire
from dashboard.errors import ClusterError
from dashboard.model import Group, GroupListing, GroupOffset

OFFSETS_TOPIC = "__consumer_offsets"
_PAUSES_SECONDS = (0.2, 0.5, 1.0)


class Listed(NamedTuple):
    """A group as its coordinator lists it; state and type are "" from old brokers."""

    group_id: str
    coordinator: int
    type: str
    state: str
    protocol_type: str


@dataclass(slots=True)
class _Found:
    """What one pass over the brokers gave."""

    groups: dict[str, Listed] = field(default_factory=dict)
    described: dict[str, Described] = field(default_factory=dict)
    offsets: tuple[GroupOffset, ...] = ()
    group_errors: dict[str, str] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    transient: bool = False


def read_groups(connection: Connection, *, with_offsets: bool = True) -> GroupListing:
    """All groups of all brokers, sorted; `incomplete` names each reason to doubt the list.

    Reasons: no DESCRIBE on the cluster (ListGroups then leaves groups out without an error); no
    answer from a broker that leads a `__consumer_offsets` partition (one that leads none holds
    no group); a coordinator that is loading; an OffsetFetch error; an unstable offset; members
    that cannot be read. What a moment cures is read again, at most three times. A share group's
    start offsets stand among the committed ones; where they are not known its `error` says why.
    Never raises for one broker; raises ClusterError when none answers.
    """
    rights = may_describe_cluster(connection)
    for pause in (*_PAUSES_SECONDS, None):
        found = _one_pass(connection, with_offsets)
        if not found.transient or pause is None:
            break
        time.sleep(pause)
    if rights is False:
        found.reasons.insert(
            0, "no DESCRIBE right on the cluster: groups may be left out of every list"
        )
    return GroupListing(_groups(found), found.offsets, tuple(found.reasons))


def _one_pass(connection: Connection, with_offsets: bool) -> _Found:
    found = _Found()
    before = _coordinators(connection)
    answers = connection.ask_each(dict.fromkeys(connection.broker_ids(), _list))
    _take_lists(answers, before, found)
    if _coordinators(connection) != before:
        found.reasons.append("coordinators moved while groups were listed")
        found.transient = True
        return found
    members = read_members(connection, found.groups.values())
    found.described = members.groups
    # A group that ended between being listed and being described is gone for good.
    for group_id in members.vanished:
        found.groups.pop(group_id, None)
    if with_offsets:
        _take_offsets(connection, found)
        _take_share_offsets(connection, found)
    _doubt_members(found)
    return found


def _coordinators(connection: Connection) -> dict[int, int | None] | str:
    """Leader per partition of the offsets topic; {} without the topic; an error name if hidden."""
    state = read_topics(connection, [OFFSETS_TOPIC])[OFFSETS_TOPIC]
    if state.error == "UNKNOWN_TOPIC_OR_PARTITION":
        return {}  # created with the first group: there is none yet
    if state.error:
        return state.error
    return {p.partition: p.leader_id for p in state.partitions}


def _list(wire: Wire, deadline: float) -> Any:
    # No filter of states or types: an empty filter means all of them (KIP-518, KIP-848).
    def request(at: Wire) -> Any:
        version = at.version(ListGroupsRequest)
        return ListGroupsRequest(version=version, states_filter=[], types_filter=[])

    return wire.ask(request, deadline)


def _take_lists(
    answers: Mapping[int, Any], coordinators: Mapping[int, int | None] | str, found: _Found
) -> None:
    for broker_id, answer in sorted(answers.items()):
        if isinstance(answer, ClusterError):
            continue
        error = error_name(answer.error_code)
        if error:
            found.reasons.append(f"broker {broker_id} did not list its groups: {error}")
            found.transient |= error in RETRIABLE_READ_ERRORS
        for group in answer.groups:
            found.groups[group.group_id] = Listed(
                group.group_id,
                broker_id,
                (group.group_type or "").lower(),
                group.group_state or "",
                group.protocol_type or "",
            )
    answered = {i for i, answer in answers.items() if not isinstance(answer, ClusterError)}
    found.reasons += _missing(answers, answered, coordinators)


def _missing(
    answers: Mapping[int, Any], answered: set[int], coordinators: Mapping[int, int | None] | str
) -> Iterable[str]:
    if isinstance(coordinators, str):
        # Without seeing the offsets topic every silent broker may be a coordinator.
        for broker_id in sorted(set(answers) - answered):
            yield f"broker {broker_id} did not answer, and {OFFSETS_TOPIC} is hidden"
        return
    led = Counter(leader for leader in coordinators.values() if leader is not None)
    for broker_id in sorted(set(led) - answered):
        led_there = f"{led[broker_id]} partitions of {OFFSETS_TOPIC}"
        yield f"broker {broker_id} did not answer; it leads {led_there}"
    leaderless = sum(leader is None for leader in coordinators.values())
    if leaderless:
        yield f"{leaderless} partitions of {OFFSETS_TOPIC} have no leader"


def _take_offsets(connection: Connection, found: _Found) -> None:
    answer = read_group_offsets(connection, _by_coordinator(found, share=False))
    for group_id in answer.vanished:
        found.groups.pop(group_id, None)
    found.offsets = answer.offsets
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
    for group_id in answer.vanished:
        found.groups.pop(group_id, None)
    if answer.offsets:
        found.offsets = tuple(sorted([*found.offsets, *answer.offsets], key=_place))
    found.group_errors |= answer.errors
    found.transient |= not RETRIABLE_READ_ERRORS.isdisjoint(answer.errors.values())


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


def _place(offset: GroupOffset) -> tuple[str, str, int]:
    return offset.group_id, offset.topic, offset.partition


def _groups(found: _Found) -> tuple[Group, ...]:
    return tuple(
        _group(listed, found.described.get(group_id), found.group_errors.get(group_id))
        for group_id, listed in sorted(found.groups.items())
    )


def _group(listed: Listed, described: Described | None, error: str | None) -> Group:
    if described is None:
        described = Described(listed.state or "Unknown", None)
    return Group(
        listed.group_id,
        _type(listed),
        described.state,
        described.members,
        described.assigned,
        coordinator_answered=described.error is None and error is None,
        error=error or described.error,
        subscribed=described.subscribed,
    )


def _type(listed: Listed) -> str:
    # Brokers before 3.7 list no type: those knew classic groups alone.
    return listed.type or "classic"
