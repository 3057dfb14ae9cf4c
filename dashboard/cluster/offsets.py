"""The leaders' offsets: log start, last stable offset, high watermark, and offsets by time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from dashboard.cluster.connection.connection import Connection
from dashboard.cluster.connection.wire import Wire
from dashboard.cluster.protocol.list_offsets import (
    ANY_REPLICA,
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    LEFT_OUT,
    READ_COMMITTED,
    FoundOffset,
    Placed,
    ask_offsets,
    from_leaders,
    placed,
)
from dashboard.cluster.protocol.messages import OffsetForLeaderEpochRequest, error_name
from dashboard.core.errors import ClusterError
from dashboard.domain.model import (
    EpochEnd,
    LeaderLogStart,
    OffsetAtTime,
    PartitionOffsets,
    PartitionState,
    ReplicaOffsets,
    TieredOffsets,
    TopicPartition,
    TopicState,
)


class _Three(NamedTuple):
    leader_epoch: int | None  # asked by it: another one is refused (KIP-320)
    log_start: FoundOffset
    last_stable: FoundOffset
    high_watermark: FoundOffset

    @property
    def error(self) -> str | None:
        return self.log_start.error or self.last_stable.error or self.high_watermark.error


def read_offsets(
    connection: Connection,
    partitions: Iterable[TopicPartition],
    topics: Mapping[str, TopicState] | None = None,
) -> dict[TopicPartition, PartitionOffsets]:
    """EARLIEST, LATEST as READ_COMMITTED and LATEST of each partition, from its leader.

    Asked in this order, so that log start <= last stable offset <= high watermark holds while
    records arrive. An error in any of the three leaves all three unknown.
    """
    found = from_leaders(connection, partitions, _three, topics=topics)
    return {key: _partition_offsets(key, value) for key, value in sorted(found.items())}


def _three(
    wire: Wire, deadline: float, states: list[PartitionState]
) -> dict[TopicPartition, _Three]:
    where = placed(states)
    starts = ask_offsets(wire, deadline, where, EARLIEST)
    stable = ask_offsets(wire, deadline, where, LATEST, isolation=READ_COMMITTED)
    latest = ask_offsets(wire, deadline, where, LATEST)
    epochs = {TopicPartition(s.topic, s.partition): s.leader_epoch for s in states}
    answers = (starts, stable, latest)
    return {
        key: _Three(epoch, *(found.get(key, LEFT_OUT) for found in answers))
        for key, epoch in epochs.items()
    }


def _partition_offsets(key: TopicPartition, found: _Three | str) -> PartitionOffsets:
    if isinstance(found, str):
        return PartitionOffsets(key.topic, key.partition, None, None, None, found)
    error = found.error
    if error:
        return PartitionOffsets(key.topic, key.partition, None, None, None, error)
    start, stable, high = found.log_start, found.last_stable, found.high_watermark
    offsets = _known(start.offset), _known(stable.offset), _known(high.offset)
    return PartitionOffsets(key.topic, key.partition, *offsets, leader_epoch=found.leader_epoch)


def _known(offset: int) -> int | None:
    # -1 is ListOffsets' word for "none": forwarded as an offset it would empty a partition.
    return offset if offset >= 0 else None


def read_offsets_at(
    connection: Connection, partitions: Iterable[TopicPartition], at: datetime
) -> dict[TopicPartition, OffsetAtTime]:
    """The first offset whose record is at or after `at`; None where there is no such record."""
    timestamp = max(int(at.timestamp() * 1000), 0)  # below 0 they are words: -1 asks for the end

    def ask(
        wire: Wire, deadline: float, states: list[PartitionState]
    ) -> dict[TopicPartition, FoundOffset]:
        return ask_offsets(wire, deadline, placed(states), timestamp)

    found = from_leaders(connection, partitions, ask)
    return {
        key: OffsetAtTime(key.topic, key.partition, None, value)
        if isinstance(value, str)
        else OffsetAtTime(
            key.topic,
            key.partition,
            None if value.error else _known(value.offset),
            value.error,
            _moment(value.timestamp_ms) if value.error is None else None,
        )
        for key, value in sorted(found.items())
    }


def _moment(timestamp_ms: int) -> datetime | None:
    """A record's time; None where it bears none, or one that no calendar has."""
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC) if timestamp_ms >= 0 else None
    except (OverflowError, ValueError):  # a producer may write anything
        return None


_LOCAL_SINCE, _TIERED_SINCE = 8, 9  # versions of ListOffsets


class _Tiers(NamedTuple):
    local_start: FoundOffset
    tiered: FoundOffset

    @property
    def error(self) -> str | None:
        return self.local_start.error


def read_tiered_offsets(
    connection: Connection,
    partitions: Iterable[TopicPartition],
    topics: Mapping[str, TopicState] | None,
) -> dict[TopicPartition, TieredOffsets]:
    """Where the local log begins and the remote one ends, from each partition's leader.

    Only for topics with remote storage: of others a leader tells its log start, and no end.
    """
    found = from_leaders(connection, partitions, _tiers, topics=topics)
    return {key: _tiered_offsets(key, value) for key, value in sorted(found.items())}


def _tiers(
    wire: Wire, deadline: float, states: list[PartitionState]
) -> dict[TopicPartition, _Tiers]:
    where = placed(states)
    starts = ask_offsets(wire, deadline, where, EARLIEST_LOCAL, least=_LOCAL_SINCE)
    ends = ask_offsets(wire, deadline, where, LATEST_TIERED, least=_TIERED_SINCE)
    keys = (TopicPartition(s.topic, s.partition) for s in states)
    return {key: _Tiers(starts.get(key, LEFT_OUT), ends.get(key, LEFT_OUT)) for key in keys}


def _tiered_offsets(key: TopicPartition, found: _Tiers | str) -> TieredOffsets:
    if isinstance(found, str) or found.error:
        error = found if isinstance(found, str) else found.error
        return TieredOffsets(key.topic, key.partition, None, None, error)
    last = found.tiered
    # It is the offset of the last record there, and -1 before the first is.
    end = None if last.error else last.offset + 1
    return TieredOffsets(key.topic, key.partition, _known(found.local_start.offset), end)


def read_leader_log_starts(
    connection: Connection, epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, LeaderLogStart]:
    """EARLIEST as a consumer, asked of the current leader with the leader epoch given.

    Success proves that this epoch is still the current one (KIP-320): `leader_epoch` is then the
    epoch given. FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH means that it is not; then
    `leader_epoch` is None.
    """

    def ask(
        wire: Wire, deadline: float, states: list[PartitionState]
    ) -> dict[TopicPartition, FoundOffset]:
        keys = [TopicPartition(s.topic, s.partition) for s in states]
        return ask_offsets(wire, deadline, [Placed(*k, epochs[k]) for k in keys], EARLIEST)

    found = from_leaders(connection, epochs, ask, keep=_unless_fenced)
    return {
        key: LeaderLogStart(key.topic, key.partition, None, None, value)
        if isinstance(value, str)
        else LeaderLogStart(
            key.topic,
            key.partition,
            None if value.error else _known(value.offset),
            None if value.error else epochs[key],
            value.error,
        )
        for key, value in sorted(found.items())
    }


def _unless_fenced(found: FoundOffset) -> str | None:
    # A fenced epoch stays fenced: asking again would only delay the answer.
    return None if found.error == "FENCED_LEADER_EPOCH" else found.error


# Where a leader epoch ended: OffsetForLeaderEpoch (KIP-101, KIP-320).

_NOT_A_BROKER = -1


class _End(NamedTuple):
    epoch: int
    offset: int
    error: str | None


def read_epoch_ends(
    connection: Connection, epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, EpochEnd]:
    """The end offset of the largest epoch at most the one asked for, as the leader knows it.

    For the current epoch that is the log end. None without error: the leader knows no such
    epoch any more (its records are gone).
    """

    def ask(
        wire: Wire, deadline: float, states: list[PartitionState]
    ) -> dict[TopicPartition, _End]:
        answer = wire.ask(lambda at: _request(at, states, epochs), deadline)
        return {
            TopicPartition(topic.topic, p.partition): _End(
                p.leader_epoch, p.end_offset, error_name(p.error_code)
            )
            for topic in answer.topics
            for p in topic.partitions
        }

    found = from_leaders(connection, epochs, ask)
    return {key: _epoch_end(key, value) for key, value in sorted(found.items())}


def _request(at: Wire, states: list[PartitionState], epochs: Mapping[TopicPartition, int]) -> Any:
    version = at.version(OffsetForLeaderEpochRequest)
    one_topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    one = one_topic.OffsetForLeaderPartition
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for state in states:
        by_topic[state.topic].append(
            one(
                partition=state.partition,
                current_leader_epoch=-1 if state.leader_epoch is None else state.leader_epoch,
                leader_epoch=epochs[TopicPartition(state.topic, state.partition)],
                version=version,
            )
        )
    topics = [one_topic(topic=t, partitions=p, version=version) for t, p in by_topic.items()]
    return OffsetForLeaderEpochRequest(version=version, replica_id=_NOT_A_BROKER, topics=topics)


def _epoch_end(key: TopicPartition, found: _End | str) -> EpochEnd:
    if isinstance(found, str):
        return EpochEnd(key.topic, key.partition, None, None, found)
    if found.error:
        return EpochEnd(key.topic, key.partition, None, None, found.error)
    return EpochEnd(
        key.topic,
        key.partition,
        found.epoch if found.epoch >= 0 else None,
        found.offset if found.offset >= 0 else None,
    )


# Each replica's own log start and log end, followers included: ListOffsets, replica id -2.


def read_replica_offsets(
    connection: Connection,
    partitions: Iterable[TopicPartition],
    topics: Mapping[str, TopicState],
    brokers: Iterable[int] | None,
) -> tuple[ReplicaOffsets, ...]:
    """One row per replica of each partition (of `brokers` only, if given), value or error, sorted.

    The end is the replica's log end offset, not the high watermark. A broker that does not
    answer costs its own rows: they carry BROKER_UNREACHABLE.
    """
    wanted = _by_broker(partitions, topics, None if brokers is None else set(brokers))
    answers = connection.ask_each({broker: _both(group) for broker, group in wanted.items()})
    rows = []
    for broker_id, group in sorted(wanted.items()):
        rows += _rows(broker_id, group, answers[broker_id])
    return tuple(rows)


def _by_broker(
    partitions: Iterable[TopicPartition],
    topics: Mapping[str, TopicState],
    brokers: set[int] | None,
) -> dict[int, list[Placed]]:
    chosen = set(partitions)
    found: dict[int, list[Placed]] = defaultdict(list)
    for name in sorted({p.topic for p in chosen}):
        state = topics.get(name)
        for partition in state.partitions if state else ():
            if (name, partition.partition) in chosen:
                for broker in partition.replicas:
                    if brokers is None or broker in brokers:
                        found[broker].append(Placed(name, partition.partition, -1))
    return found


def _both(group: list[Placed]) -> Callable[[Wire, float], Any]:
    def ask(wire: Wire, deadline: float) -> Any:
        starts = ask_offsets(wire, deadline, group, EARLIEST, replica_id=ANY_REPLICA)
        ends = ask_offsets(wire, deadline, group, LATEST, replica_id=ANY_REPLICA)
        return starts, ends, datetime.now(UTC)

    return ask


def _rows(broker_id: int, group: list[Placed], answer: Any) -> list[ReplicaOffsets]:
    if isinstance(answer, ClusterError):
        now = datetime.now(UTC)
        return [
            ReplicaOffsets(broker_id, p.topic, p.partition, None, None, now, answer.code)
            for p in group
        ]
    starts, ends, observed_at = answer
    rows = []
    for topic, partition, _ in group:
        start, end = starts.get((topic, partition)), ends.get((topic, partition))
        error = (start.error or end.error) if start and end else "UNKNOWN_SERVER_ERROR"
        rows.append(
            ReplicaOffsets(
                broker_id,
                topic,
                partition,
                None if error else start.offset,
                None if error else end.offset,
                observed_at,
                error,
            )
        )
    return rows
