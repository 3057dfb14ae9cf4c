"""Which replicas would keep a wait-all request waiting, why, and for how long; by broker. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from dashboard.core.sums import whole_sum
from dashboard.core.words import behind, brokers, closing, plural
from dashboard.domain.model import PartitionState, ReplicaOffsets, TopicPartition
from dashboard.purge.forecast.reading import Reading, seconds_behind

Ends = Mapping[TopicPartition, Sequence[tuple[datetime, int]]]
_NO_ANSWER = (
    "BROKER_UNREACHABLE", "ANSWER_LOST", "CLUSTER_UNREACHABLE", "CLUSTER_CHANGED",
    "TLS_FAILED", "AUTHENTICATION_FAILED",
)  # fmt: skip
_STILL = 1.0  # records a second
UNUSABLE = ("no-leader", "leader-silent")  # in any mode


@dataclass(frozen=True, slots=True)
class Stall:
    """One replica that a wait-all request on this partition would wait for.

    `cause`: `silent` (its broker does not answer), `leader-silent`, `no-leader`, `unreadable`
    (with Kafka's error), `behind`, `log-dir-move`. `closing_per_second` in records is positive
    when it closes, negative when it falls back. A follower behind that is `fetching` does not
    hold a purge up for long: once the leader has deleted, its next fetch is out of range or
    brings the new log start, and it jumps there (`AbstractFetcherThread`).
    """

    key: TopicPartition
    broker_id: int | None
    cause: str
    error: str | None = None
    lag_records: int | None = None
    lag_seconds: float | None = None
    closing_per_second: float | None = None
    in_sync: bool | None = None
    fetching: bool = False

    @property
    def trend(self) -> str | None:
        """`closing`, `falling back` or `standing still`; None: not known."""
        if self.closing_per_second is None:
            return None
        if abs(self.closing_per_second) < _STILL:
            return "standing still"
        return "closing" if self.closing_per_second > 0 else "falling back"

    @property
    def seconds_to_go(self) -> float | None:
        """Until a closing follower has every record of the leader; None: no end is in sight."""
        if self.trend != "closing" or self.lag_records is None or not self.closing_per_second:
            return None
        return self.lag_records / self.closing_per_second


def stalls_of(reading: Reading, state: PartitionState, ends: Ends) -> list[Stall]:
    """The replicas that hold one partition up; none: it would be answered at once.

    Replicas of brokers that are down are not waited for. `ends` tells since when a follower is
    behind; without it the lag in seconds stays unknown.
    """
    key = TopicPartition(state.topic, state.partition)
    if state.leader_id is None:
        return [Stall(key, None, "no-leader", state.error)]
    leader = reading.first.get((state.leader_id, key))
    if leader is None or leader.log_end_offset is None:
        return [_unread(key, state.leader_id, leader, "leader-silent")]
    found = [_move(reading, key, state.leader_id)] if key in reading.moving else []
    for broker_id in sorted(set(state.replicas) - {state.leader_id}):
        if broker_id in reading.alive:
            stall = _follower(reading, state, broker_id, leader.log_end_offset, ends.get(key, ()))
            found += [stall] if stall else []
    return found


def _move(reading: Reading, key: TopicPartition, leader_id: int) -> Stall:
    looks = reading.move_lags.get(key, ())
    pace = None
    if len(looks) > 1 and looks[-1][0] > looks[0][0]:
        pace = (looks[0][1] - looks[-1][1]) / (looks[-1][0] - looks[0][0])
    lag = looks[-1][1] if looks else None
    return Stall(key, leader_id, "log-dir-move", lag_records=lag, closing_per_second=pace)


def followers_behind(reading: Reading, stalls: Sequence[Stall]) -> dict[TopicPartition, int]:
    """Per partition with a follower behind, the lowest log end offset of those followers."""
    found: dict[TopicPartition, int] = {}
    for stall in stalls:
        row = reading.second.get((stall.broker_id or 0, stall.key))
        if stall.cause == "behind" and row and row.log_end_offset is not None:
            found[stall.key] = min(row.log_end_offset, found.get(stall.key, row.log_end_offset))
    return found


def _follower(
    reading: Reading,
    state: PartitionState,
    broker_id: int,
    leader_end: int,
    ends: Sequence[tuple[datetime, int]],
) -> Stall | None:
    key = TopicPartition(state.topic, state.partition)
    first, later = reading.first.get((broker_id, key)), reading.second.get((broker_id, key))
    if first is None or first.log_end_offset is None:
        return _unread(key, broker_id, first, "silent")
    if later is None:
        return None
    if later.log_end_offset is None:
        return _unread(key, broker_id, later, "silent")
    if broker_id in state.isr and later.log_end_offset >= leader_end:
        return None  # it has by now what the leader had a second ago: it keeps up
    leader = reading.second.get((state.leader_id or 0, key))
    if leader is None or leader.log_end_offset is None:
        return _unread(key, state.leader_id or 0, leader, "leader-silent")
    stall = _behind(first, later, leader_end - first.log_end_offset, leader, ends)
    return replace(stall, in_sync=broker_id in state.isr) if stall else None


def _behind(
    first: ReplicaOffsets,
    later: ReplicaOffsets,
    lag_before: int,
    leader: ReplicaOffsets,
    ends: Sequence[tuple[datetime, int]],
) -> Stall | None:
    assert first.log_end_offset is not None
    assert later.log_end_offset is not None
    assert leader.log_end_offset is not None
    lag = leader.log_end_offset - later.log_end_offset
    if lag <= 0:
        return None  # out of sync, yet at the log end: about to be let in again
    apart = (later.observed_at - first.observed_at).total_seconds()
    now = (leader.observed_at, leader.log_end_offset)
    return Stall(
        TopicPartition(later.topic, later.partition),
        later.broker_id,
        "behind",
        lag_records=lag,
        lag_seconds=seconds_behind([*ends, now], later.log_end_offset),
        closing_per_second=(lag_before - lag) / apart if apart > 0 else None,
        fetching=later.log_end_offset > first.log_end_offset,
    )


def _unread(key: TopicPartition, broker_id: int, row: ReplicaOffsets | None, silent: str) -> Stall:
    error = row.error if row else None
    return Stall(key, broker_id, silent if error in _NO_ANSWER else "unreadable", error)


# The stalls of a forecast by broker and cause, each in one sentence.


@dataclass(frozen=True, slots=True)
class Holdup:
    """One broker (None: none leads) and one cause, over the partitions that it holds up.

    `lag_records` and `lag_seconds` are the largest, `closing_per_second` is the sum,
    `seconds_to_go` the longest; None where one of them is not known.
    """

    broker_id: int | None
    cause: str
    partitions: int
    error: str | None
    lag_records: int | None
    lag_seconds: float | None
    closing_per_second: float | None
    seconds_to_go: float | None
    in_sync: bool | None = None
    fetching: bool = False

    @property
    def said(self) -> str:
        """The cause in one sentence."""
        return _SAID[self.cause](self)

    @property
    def short(self) -> str:
        """The same for a sentence that goes on: `broker 2 is 41 s behind`."""
        if self.cause == "behind" and self.lag_records is not None and self.broker_id is not None:
            return f"{brokers([self.broker_id])} is {behind(self.lag_records, self.lag_seconds)}"
        return self.said.rstrip(".").partition(":")[0]


def holdups(stalls: Sequence[Stall]) -> list[Holdup]:
    """The stalls by broker and cause; first what never ends, most partitions first."""
    groups: dict[tuple[int | None, str, str | None, bool], list[Stall]] = defaultdict(list)
    for stall in stalls:
        groups[stall.broker_id, stall.cause, stall.error, stall.fetching].append(stall)
    found = [
        Holdup(
            broker_id,
            cause,
            partitions=len(alike),
            error=error,
            lag_records=_largest(s.lag_records for s in alike),
            lag_seconds=_largest(s.lag_seconds for s in alike),
            closing_per_second=whole_sum(s.closing_per_second for s in alike),
            seconds_to_go=_largest(s.seconds_to_go for s in alike),
            in_sync=all(s.in_sync for s in alike) if cause == "behind" else None,
            fetching=fetching,
        )
        for (broker_id, cause, error, fetching), alike in groups.items()
    ]
    return sorted(found, key=lambda h: (h.fetching, -h.partitions, h.broker_id or 0, h.cause))


def _silent(h: Holdup) -> str:
    return (
        f"Broker {h.broker_id} does not answer: {plural(h.partitions, 'partition')} would wait for "
        "it until the request times out."
    )


def _leader_silent(h: Holdup) -> str:
    return (
        f"Broker {h.broker_id} does not answer and leads {plural(h.partitions, 'partition')}: "
        "nothing can be sent there in any mode."
    )


def _behind_said(h: Holdup) -> str:
    up_to = "up to " if h.partitions > 1 else ""
    end = "; it fetches, and a deletion reaches it with its next fetch" if h.fetching else ""
    return (
        f"Broker {h.broker_id} {'trails' if h.in_sync else 'is out of sync'} on "
        f"{plural(h.partitions, 'partition')}: {up_to}"
        f"{behind(h.lag_records or 0, h.lag_seconds)}"
        f"{closing(h.closing_per_second, h.seconds_to_go)}{end}."
    )


def _move_said(h: Holdup) -> str:
    far = ""
    if h.lag_records:
        up_to = "up to " if h.partitions > 1 else ""
        far = f"; it is {up_to}{behind(h.lag_records, None)}"
        far += closing(h.closing_per_second, h.seconds_to_go)
    return (
        f"Broker {h.broker_id} leads {plural(h.partitions, 'partition')} and moves the log to "
        f"another log dir: that waits until the move ends{far}."
    )


def _unreadable(h: Holdup) -> str:
    return (
        f"Broker {h.broker_id} gives no offsets for {plural(h.partitions, 'partition')} "
        f"({h.error or 'no reason given'}): how long it takes is not known."
    )


def _no_leader(h: Holdup) -> str:
    seen = f" that can be seen ({h.error})" if h.error else ""
    return (
        f"{plural(h.partitions, 'partition')} without a leader{seen}: nothing can be sent there "
        "now."
    )


_SAID = {
    "silent": _silent,
    "leader-silent": _leader_silent,
    "behind": _behind_said,
    "log-dir-move": _move_said,
    "unreadable": _unreadable,
    "no-leader": _no_leader,
}


def _largest(values: Iterable[Any]) -> Any:
    listed = list(values)
    return None if any(value is None for value in listed) else max(listed)
