"""Every group of the cluster, with or without members, its offsets, and what may be missing."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from dashboard.cluster.connection import Connection
from dashboard.cluster.group_lists import Listed, read_lists, still_listed
from dashboard.cluster.group_members import UNSUPPORTED, Described, read_members
from dashboard.cluster.group_offsets import read_group_offsets
from dashboard.cluster.hidden_topics import doubts, hidden_topics
from dashboard.cluster.kafka_errors import RETRIABLE_READ_ERRORS
from dashboard.cluster.share_offsets import read_share_offsets
from dashboard.model import Group, GroupListing, GroupOffset

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
    connection: Connection, topics: Iterable[str] = (), *, with_offsets: bool = True
) -> GroupListing:
    """All groups of all brokers, sorted; `incomplete` names each reason to doubt the list.

    `topics` are those of which no offset may be missing: what is to be purged, or judged.

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
    wanted = sorted(set(topics))
    for pause in (*_PAUSES_SECONDS, None):
        found = _one_pass(connection, wanted, with_offsets)
        if not found.transient or pause is None:
            break
        time.sleep(pause)
    return GroupListing(_groups(found), found.offsets, tuple(found.reasons))


def _one_pass(connection: Connection, topics: list[str], with_offsets: bool) -> _Found:
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
        _take_offsets(connection, found)
        _take_share_offsets(connection, found)
        after = hidden_topics(connection, coordinators, topics)
        for doubt in doubts((before, after)):
            found.reasons.append(doubt.reason)
            found.transient |= doubt.transient
    _settle_vanished(connection, found)
    _doubt_members(found)
    return found


def _take_offsets(connection: Connection, found: _Found) -> None:
    answer = read_group_offsets(connection, _by_coordinator(found, share=False))
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
        found.offsets = tuple(sorted([*found.offsets, *answer.offsets], key=_place))
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


def _place(offset: GroupOffset) -> tuple[str, str, int]:
    return offset.group_id, offset.topic, offset.partition


def _groups(found: _Found) -> tuple[Group, ...]:
    return tuple(_group(found, listed) for _, listed in sorted(found.groups.items()))


def _group(found: _Found, listed: Listed) -> Group:
    described = found.described.get(listed.group_id)
    error = found.group_errors.get(listed.group_id)
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
        patterns=described.patterns,
        is_streams=(
            _type(listed) == "streams" or described.is_streams or listed.group_id in found.streams
        ),
    )


def _type(listed: Listed) -> str:
    # Brokers before 3.7 list no type: those knew classic groups alone.
    return listed.type or "classic"
