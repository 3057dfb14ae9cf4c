"""Which topics coordinators hide, and with them, without an error, what their groups read there.

Each broker judges by its own copy of the ACLs, and a copy may lag, or be lost. Asked for all that a
group committed, a coordinator leaves out topics that by its copy we may not DESCRIBE (KafkaApis,
fetchAllOffsetsForGroup, describeShareGroupAllOffsetsForGroup); and of a share group topics that it
has not heard of yet (GroupCoordinatorService.describeShareGroupAllOffsets).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from dashboard import rights
from dashboard.cluster.connection import Connection
from dashboard.cluster.kafka_errors import RETRIABLE_READ_ERRORS
from dashboard.cluster.list_offsets import EARLIEST, LEFT_OUT, Placed, ask_offsets
from dashboard.cluster.wire import Wire
from dashboard.errors import ClusterError
from dashboard.model import TopicPartition

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
    answers = connection.ask_each(dict.fromkeys(brokers, _question(topics)))
    return {b: a.code if isinstance(a, ClusterError) else a for b, a in answers.items()}


def _question(topics: list[str]) -> Callable[[Wire, float], dict[str, str]]:
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
