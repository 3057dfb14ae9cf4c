"""Each replica's own log start and log end, followers included: ListOffsets, replica id -2."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from dashboard.cluster.connection.connection import Connection
from dashboard.cluster.connection.wire import Wire
from dashboard.cluster.protocol.list_offsets import (
    ANY_REPLICA,
    EARLIEST,
    LATEST,
    Placed,
    ask_offsets,
)
from dashboard.core.errors import ClusterError
from dashboard.domain.model import ReplicaOffsets, TopicPartition, TopicState


def read_replica_offsets(
    connection: Connection,
    partitions: Iterable[TopicPartition],
    topics: Mapping[str, TopicState],
    brokers: Iterable[int] | None = None,
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
