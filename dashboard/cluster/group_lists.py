"""Which groups there are: every broker's own list, who coordinates, and what may be left out.

A broker that is cut off from the controllers goes on listing the groups that it coordinated, and
its metadata goes on naming it. One that leads a partition of the offsets topic and has not read it
yet lists nothing of it, without an error. So each broker is asked for its own view before and after
its list, and before that whether it coordinates what it leads.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dashboard.cluster.connection.connection import Connection, meet_bootstrap
from dashboard.cluster.connection.wire import Wire
from dashboard.cluster.group_members import PROBE, not_coordinated
from dashboard.cluster.protocol.messages import (
    MANY_KEYS_SINCE,
    RETRIABLE_READ_ERRORS,
    FindCoordinatorRequest,
    ListGroupsRequest,
    error_name,
)
from dashboard.cluster.quorum import read_caught_up
from dashboard.cluster.topics import ask_for_topics, may_describe_cluster, read_topics
from dashboard.core.errors import ClusterError
from dashboard.domain import rights
from dashboard.domain.model import PartitionState, TopicState

OFFSETS_TOPIC = rights.OFFSETS_TOPIC
_HIDES = "groups may be left out of every list"
_ABSENT = "UNKNOWN_TOPIC_OR_PARTITION"
_HIDDEN = "TOPIC_AUTHORIZATION_FAILED"


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
    """One broker's answers: its view of the offsets topic and our right there, why it does not
    coordinate what it leads there (by partition), its list, its view and our right again.
    """

    before: TopicState
    idle: Mapping[int, str]
    listed: Any
    after: TopicState
    may_see_all: tuple[bool | None, bool | None]


# By partition of the offsets topic: its newest leader epoch, and who leads in it.
_Leaders = dict[int, tuple[int, frozenset[int]]]


def read_lists(connection: Connection) -> Lists:
    """What all brokers list now, by a connection `apart`. Raises ClusterError when none answers."""
    read_topics(connection, [OFFSETS_TOPIC])  # for the addresses of who is alive now
    others = meet_bootstrap(connection)
    answers = connection.ask_each({i: _look_of(i) for i in connection.broker_ids()})
    looks = {i: a for i, a in sorted(answers.items()) if not isinstance(a, ClusterError)}
    lists = Lists(reasons=others)
    views = [view for look in looks.values() for view in (look.before, look.after)]
    leaders = _leaders(views)
    _doubt_rights([told for look in looks.values() for told in look.may_see_all], lists)
    _doubt_views(views, lists)
    _take(connection, looks, lists)
    silent = set(answers) - set(looks)
    lists.reasons += _missing(silent, set(looks), leaders)
    gone = {b for view in views for p in view.partitions for b in p.replicas} - set(answers)
    _doubt_silence(connection, silent, gone, leaders, lists)
    if not leaders and lists.groups and not _errors(views):
        lists.reasons.append(f"groups are listed, and no broker knows {OFFSETS_TOPIC}")
        lists.transient = True
    _doubt_coordinators(looks, leaders, lists)
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


def _look_of(broker_id: int) -> Callable[[Wire, float], _Look]:
    view = ask_for_topics([OFFSETS_TOPIC])

    def look(wire: Wire, deadline: float) -> _Look:
        before = view(wire, deadline)[OFFSETS_TOPIC]
        # Twice, as the view: a right that arrives in between was not there for all of the list.
        might_see = may_describe_cluster(wire, deadline)
        led = [p.partition for p in before.partitions if p.leader_id == broker_id]
        # Before the list: a partition that is read between the two would be in none, and active.
        # One that is active stays so while its leader epoch lasts (CoordinatorRuntime).
        idle = not_coordinated(wire, deadline, led, _count([before])) if led else {}
        listed = _list(wire, deadline)
        after = view(wire, deadline)[OFFSETS_TOPIC]
        return _Look(before, idle, listed, after, (might_see, may_describe_cluster(wire, deadline)))

    return look


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


def _doubt_views(views: Iterable[TopicState], lists: Lists) -> None:
    """Who may not see the offsets topic cannot tell which broker should have listed what.

    Kafka names it as hidden whether it is there or not (KafkaApis.handleTopicMetadataRequest), and
    as unknown to those alone who may see it: that is a cluster where nobody committed yet.
    """
    for error in sorted(_errors(views)):
        if error == _HIDDEN:
            right = f"DESCRIBE right on the topic {OFFSETS_TOPIC}"
            line = rights.command(rights.DESCRIBE_TOPIC, name=OFFSETS_TOPIC)
            lists.reasons.append(f"no {right}: {_HIDES} unseen; {line} gives it")
        else:
            lists.reasons.append(f"{OFFSETS_TOPIC} cannot be read: {error}")
            lists.transient |= error in RETRIABLE_READ_ERRORS


def _errors(views: Iterable[TopicState]) -> set[str]:
    # No topic is without partitions: an answer that says so proves nothing.
    told = {view.error or (None if view.partitions else "UNKNOWN_SERVER_ERROR") for view in views}
    return {error for error in told if error and error != _ABSENT}


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
        if version < MANY_KEYS_SINCE:
            return {}
        request = FindCoordinatorRequest(version=version, key_type=0, coordinator_keys=groups)
        answer = wire.ask(lambda _: request, deadline)
        return {c.key: c.node_id for c in answer.coordinators if not c.error_code}

    answers = connection.ask_each(dict.fromkeys(brokers, ask)).values()
    told = [{} if isinstance(answer, ClusterError) else answer for answer in answers]
    return {group_id: {answer.get(group_id) for answer in told} for group_id in groups}


def _count(views: Iterable[TopicState]) -> int:
    """How many partitions the offsets topic has: one that a view leaves out is one of them."""
    return max((p.partition + 1 for view in views for p in view.partitions), default=0)


def _leaders(views: list[TopicState]) -> _Leaders:
    """Who leads each partition in its newest leader epoch in any broker's view, at any moment.

    {} where no broker knows the topic: it is created with the first group. Old brokers tell no
    epoch: then whoever is named counts.
    """
    newest: dict[int, list[PartitionState]] = defaultdict(list)
    for p in (p for view in views for p in view.partitions):
        epoch = max((_epoch(other) for other in newest[p.partition]), default=-1)
        if _epoch(p) > epoch:
            newest[p.partition] = [p]
        elif _epoch(p) == epoch:
            newest[p.partition].append(p)
    return {
        number: (
            max((_epoch(p) for p in newest[number]), default=-1),
            frozenset(p.leader_id for p in newest[number] if p.leader_id is not None),
        )
        for number in range(_count(views))
    }


def _epoch(seen: PartitionState) -> int:
    return -1 if seen.leader_epoch is None else seen.leader_epoch


def _missing(silent: set[int], answered: set[int], leaders: _Leaders) -> Iterator[str]:
    if not leaders:
        # Without seeing the offsets topic every silent broker may be a coordinator.
        for broker_id in sorted(silent):
            unknown = f"{OFFSETS_TOPIC} is not known to the others"
            yield f"broker {broker_id} did not answer, and {unknown}"
        return
    led = Counter(leader for _, of_one in leaders.values() for leader in of_one)
    for broker_id in sorted(set(led) - answered):
        led_there = f"{led[broker_id]} partitions of {OFFSETS_TOPIC}"
        yield f"broker {broker_id} did not answer; it leads {led_there}"
    leaderless = sum(not of_one for _, of_one in leaders.values())
    if leaderless:
        yield f"{leaderless} partitions of {OFFSETS_TOPIC} have no leader"


def _doubt_silence(
    connection: Connection, silent: set[int], gone: set[int], leaders: _Leaders, lists: Lists
) -> None:
    """A silent broker that leads nothing here may have taken groups over, where all that answer are
    cut off from the controllers together with us; so may one that is `gone` and has a replica of
    the offsets topic, which is elected as it comes back (eligible leader replicas, KIP-966).

    One that answers and has read all that was decided must still know the same leaders afterwards.
    Where brokers do not speak of that (ZooKeeper) nobody can tell, and who is gone is elected only
    uncleanly.
    """
    led = {leader for _, of_one in leaders.values() for leader in of_one}
    if not leaders or not (silent | gone) - led:
        return
    known = read_caught_up(connection, set(connection.broker_ids()) - silent)
    speak = any(is_known is not None for is_known in known.values())
    elsewhere = (silent | gone if speak else silent) - led
    if not elsewhere:
        return
    reached = [b for b, is_known in known.items() if is_known]
    views = connection.ask_each(dict.fromkeys(reached, ask_for_topics([OFFSETS_TOPIC])))
    told = [view for view in views.values() if not isinstance(view, ClusterError)]
    if any(_leaders([view[OFFSETS_TOPIC]]) == leaders for view in told):
        return
    names = ", ".join(map(str, sorted(elsewhere)))
    lists.reasons.append(
        f"broker {names} did not answer, and none that did is known to have read all that the "
        "controllers decided: it may coordinate groups by now"
    )
    lists.transient = True


def _doubt_coordinators(looks: Mapping[int, _Look], leaders: _Leaders, lists: Lists) -> None:
    """The list of a partition's leader counts if it led in the newest epoch before and after, and
    coordinated the partition.

    What each broker saw is held against the newest of all: one that was looked at before a
    partition came to it has listed nothing of it, and one that was asked later has resigned it.
    """
    moved: Counter[int] = Counter()
    idle: Counter[tuple[int, str]] = Counter()
    for number, (epoch, of_one) in leaders.items():
        for leader in of_one & looks.keys():
            look = looks[leader]
            views = (look.before, look.after)
            if _errors(views):
                continue  # which is a reason already
            if not all(_leads(view, number, leader, epoch) for view in views):
                moved[leader] += 1
            elif number in look.idle:
                idle[leader, look.idle[number]] += 1
    for leader, count in sorted(moved.items()):
        lists.reasons.append(
            "coordinators moved while groups were listed: by its own words broker "
            f"{leader} did not lead {count} partitions of {OFFSETS_TOPIC} all the while"
        )
        lists.transient = lists.moved = True
    for (leader, error), count in sorted(idle.items()):
        lists.reasons.append(_why_idle(leader, error, f"{count} partitions of {OFFSETS_TOPIC}"))
        lists.transient |= error in RETRIABLE_READ_ERRORS


def _leads(view: TopicState, number: int, broker_id: int, epoch: int) -> bool:
    return any(
        p.partition == number and p.leader_id == broker_id and _epoch(p) == epoch
        for p in view.partitions
    )


def _why_idle(leader: int, error: str, led: str) -> str:
    if error == "GROUP_AUTHORIZATION_FAILED":
        line = rights.command(rights.DESCRIBE_GROUP)
        return (
            f"no DESCRIBE right on groups named {PROBE}*: whether broker {leader} has loaded "
            f"{led} cannot be asked; {line} gives it"
        )
    if error in RETRIABLE_READ_ERRORS:
        return f"broker {leader} leads {led} and does not list their groups yet: {error}"
    return f"whether broker {leader} lists the groups of {led} cannot be told: {error}"
