"""Which groups there are: every broker's own list, who coordinates, and what may be left out.

A broker that is cut off from the controllers goes on listing the groups that it coordinated, and
its metadata goes on naming it. So each broker is asked for its own view along with its list.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dashboard.cluster.connection import Connection
from dashboard.cluster.kafka_errors import RETRIABLE_READ_ERRORS, error_name
from dashboard.cluster.messages import FindCoordinatorRequest, ListGroupsRequest
from dashboard.cluster.topics import ask_for_topics, may_describe_cluster, read_topics
from dashboard.cluster.wire import Wire
from dashboard.errors import ClusterError
from dashboard.model import PartitionState, TopicState

OFFSETS_TOPIC = "__consumer_offsets"
_MANY_KEYS_SINCE = 4  # FindCoordinator, KIP-699
_HIDES = "groups may be left out of every list"


class Listed(NamedTuple):
    """A group as its coordinator lists it; state and type are "" from old brokers."""

    group_id: str
    coordinator: int
    type: str
    state: str
    protocol_type: str


@dataclass(slots=True)
class Lists:
    """Groups by id, and each reason to doubt that these are all; `moved`: not worth reading on."""

    groups: dict[str, Listed] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    transient: bool = False
    moved: bool = False


class _Look(NamedTuple):
    """One broker's answers: its list, its view of the offsets topic around it, our right there."""

    before: TopicState
    listed: Any
    after: TopicState
    may_see_all: bool | None


_Leaders = dict[int, frozenset[int]]  # who leads each partition of the offsets topic


def read_lists(connection: Connection) -> Lists:
    """What all brokers list now. Raises ClusterError when none answers."""
    read_topics(connection, [OFFSETS_TOPIC])  # for the addresses of who is alive now
    answers = connection.ask_each(dict.fromkeys(connection.broker_ids(), _look))
    looks = {i: a for i, a in sorted(answers.items()) if not isinstance(a, ClusterError)}
    lists = Lists()
    _doubt_rights([look.may_see_all for look in looks.values()], lists)
    _take(connection, looks, lists)
    leaders = _leaders(look.after for look in looks.values())
    lists.reasons += _missing(set(answers) - set(looks), set(looks), leaders)
    if leaders == {} and lists.groups:
        lists.reasons.append(f"groups are listed, and no broker knows {OFFSETS_TOPIC}")
        lists.transient = True
    if _leaders(look.before for look in looks.values()) != leaders:
        lists.reasons.append("coordinators moved while groups were listed")
        lists.transient = lists.moved = True
    return lists


def still_listed(connection: Connection, groups: Iterable[Listed]) -> set[str]:
    """Which of these groups their brokers list now; those of a broker that does not tell, too."""
    asked: dict[int, set[str]] = defaultdict(set)
    for group in groups:
        asked[group.coordinator].add(group.group_id)
    found: set[str] = set()
    for broker_id, answer in connection.ask_each(dict.fromkeys(asked, _list)).items():
        told = not isinstance(answer, ClusterError) and not answer.error_code
        found |= (
            asked[broker_id] & {g.group_id for g in answer.groups} if told else asked[broker_id]
        )
    return found


def _look(wire: Wire, deadline: float) -> _Look:
    view = ask_for_topics([OFFSETS_TOPIC])
    return _Look(
        view(wire, deadline)[OFFSETS_TOPIC],
        _list(wire, deadline),
        view(wire, deadline)[OFFSETS_TOPIC],
        may_describe_cluster(wire, deadline),
    )


def _list(wire: Wire, deadline: float) -> Any:
    # No filter of states or types: an empty filter means all of them (KIP-518, KIP-848).
    def request(at: Wire) -> Any:
        version = at.version(ListGroupsRequest)
        return ListGroupsRequest(version=version, states_filter=[], types_filter=[])

    return wire.ask(request, deadline)


def _doubt_rights(told: list[bool | None], lists: Lists) -> None:
    # Each broker judges by its own copy of the ACLs.
    if False in told:
        lists.reasons.append(f"no DESCRIBE right on the cluster: {_HIDES}")
    elif None in told:
        lists.reasons.append(
            f"brokers do not tell whether we hold DESCRIBE on the cluster (KIP-700): {_HIDES}"
        )


def _take(connection: Connection, looks: Mapping[int, _Look], lists: Lists) -> None:
    twice: dict[str, list[Listed]] = defaultdict(list)
    for broker_id, look in looks.items():
        error = error_name(look.listed.error_code)
        if error:
            lists.reasons.append(f"broker {broker_id} did not list its groups: {error}")
            lists.transient |= error in RETRIABLE_READ_ERRORS
        for found in look.listed.groups:
            group = Listed(
                found.group_id,
                broker_id,
                (found.group_type or "").lower(),
                found.group_state or "",
                found.protocol_type or "",
            )
            other = lists.groups.setdefault(group.group_id, group)
            if other is not group:
                twice[group.group_id] = [*(twice[group.group_id] or [other]), group]
    if twice:
        _choose(connection, list(looks), twice, lists)


def _choose(
    connection: Connection, brokers: list[int], twice: Mapping[str, list[Listed]], lists: Lists
) -> None:
    """Of a group that several brokers list, the one counts that all of them call coordinator."""
    named = _coordinators(connection, brokers, sorted(twice))
    doubtful: Counter[tuple[int, ...]] = Counter()
    for group_id, listed in twice.items():
        real = [group for group in listed if named[group_id] == {group.coordinator}]
        if real:
            lists.groups[group_id] = real[0]
        else:
            doubtful[tuple(group.coordinator for group in listed)] += 1
    for at, count in sorted(doubtful.items()):
        lists.reasons.append(
            f"{count} groups are listed by each of the brokers {', '.join(map(str, at))}, which do "
            "not agree who coordinates them: one may be cut off, and what it tells be old"
        )
        lists.transient = True


def _coordinators(
    connection: Connection, brokers: list[int], groups: list[str]
) -> dict[str, set[int | None]]:
    """Per group each coordinator that these brokers name; None of one that names none."""

    def ask(wire: Wire, deadline: float) -> Any:
        version = wire.version(FindCoordinatorRequest)
        if version < _MANY_KEYS_SINCE:
            return {}
        request = FindCoordinatorRequest(version=version, key_type=0, coordinator_keys=groups)
        answer = wire.ask(lambda _: request, deadline)
        return {c.key: c.node_id for c in answer.coordinators if not c.error_code}

    answers = connection.ask_each(dict.fromkeys(brokers, ask)).values()
    told = [{} if isinstance(answer, ClusterError) else answer for answer in answers]
    return {group_id: {answer.get(group_id) for answer in told} for group_id in groups}


def _leaders(views: Iterable[TopicState]) -> _Leaders | str:
    """The leaders of each partition by its newest leader epoch in any broker's view.

    {} where no broker knows the topic: it is created with the first group. An error's name where
    it is hidden from us. Old brokers tell no epoch: then whoever is named counts.
    """
    newest: dict[int, list[PartitionState]] = defaultdict(list)
    hidden = None
    for view in views:
        if view.error and view.error != "UNKNOWN_TOPIC_OR_PARTITION":
            hidden = view.error
        for p in view.partitions:
            epoch = max((_epoch(other) for other in newest[p.partition]), default=-1)
            if _epoch(p) > epoch:
                newest[p.partition] = [p]
            elif _epoch(p) == epoch:
                newest[p.partition].append(p)
    if hidden and not newest:
        return hidden
    return {
        number: frozenset(p.leader_id for p in seen if p.leader_id is not None)
        for number, seen in newest.items()
    }


def _epoch(seen: PartitionState) -> int:
    return -1 if seen.leader_epoch is None else seen.leader_epoch


def _missing(silent: set[int], answered: set[int], leaders: _Leaders | str) -> Iterator[str]:
    if not leaders or isinstance(leaders, str):
        # Without seeing the offsets topic every silent broker may be a coordinator.
        why = "is hidden" if leaders else "is not known to the others"
        for broker_id in sorted(silent):
            yield f"broker {broker_id} did not answer, and {OFFSETS_TOPIC} {why}"
        return
    led = Counter(leader for of_one in leaders.values() for leader in of_one)
    for broker_id in sorted(set(led) - answered):
        led_there = f"{led[broker_id]} partitions of {OFFSETS_TOPIC}"
        yield f"broker {broker_id} did not answer; it leads {led_there}"
    leaderless = sum(not of_one for of_one in leaders.values())
    if leaderless:
        yield f"{leaderless} partitions of {OFFSETS_TOPIC} have no leader"
