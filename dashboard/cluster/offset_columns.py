"""Offsets of every partition and of every replica of a cluster, as columns."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np

from dashboard.clock import microseconds
from dashboard.cluster.connection import Connection
from dashboard.cluster.kafka_errors import RETRIABLE_READ_ERRORS
from dashboard.cluster.list_offsets import (
    ANY_REPLICA,
    BROKER_ERRORS,
    CONSUMER,
    EARLIEST,
    LATEST,
    READ_COMMITTED,
)
from dashboard.cluster.list_offsets_columns import Question
from dashboard.cluster.offsets import read_offsets
from dashboard.cluster.wire import Wire
from dashboard.columns import Ints, LeaderOffsets, Names, OwnOffsets, Placement, failed, no_names
from dashboard.errors import ClusterError
from dashboard.model import TopicPartition

# A broker answers a request in one go: smaller ones let it serve others, and each has its time.
_ROWS_PER_REQUEST = 20_000


def read_leader_offsets(connection: Connection, placement: Placement) -> LeaderOffsets:
    """Log start, last stable offset and high watermark of every partition, from its leader.

    What a moment cures (an election, a restart) is asked again with fresh metadata.
    """
    count = len(placement.topic)
    found = [np.full(count, -1) for _ in range(3)]
    errors = no_names(count)
    errors[placement.leader < 0] = "LEADER_NOT_AVAILABLE"
    rows = {b: np.flatnonzero(placement.leader == b) for b in np.unique(placement.leader).tolist()}
    rows.pop(-1, None)
    questions = {broker: _in_parts(placement, part, _three) for broker, part in rows.items()}
    for broker, answer in connection.ask_each(questions).items():
        if isinstance(answer, ClusterError):
            errors[rows[broker]] = answer.code
            continue
        *columns, errors[rows[broker]] = answer
        for column, values in zip(found, columns, strict=True):
            column[rows[broker]] = values
    _ask_again(connection, placement, found, errors)
    for column in found:
        column[failed(errors)] = -1
    start, stable, high = found
    return LeaderOffsets(start, stable, high, errors)


def _ask_again(
    connection: Connection, placement: Placement, found: list[Ints], errors: Names
) -> None:
    curable = [e for e in set(errors.tolist()) if e in RETRIABLE_READ_ERRORS | BROKER_ERRORS]
    rows = np.flatnonzero(np.isin(errors.astype(str), curable)).tolist() if curable else []
    row_of = {
        TopicPartition(placement.names[placement.topic[row]], int(placement.partition[row])): row
        for row in rows
    }
    for key, value in (read_offsets(connection, row_of) if row_of else {}).items():
        row = row_of[key]
        errors[row] = value.error
        three = value.log_start_offset, value.last_stable_offset, value.high_watermark
        for column, offset in zip(found, three, strict=True):
            column[row] = -1 if offset is None else offset


def read_own_offsets(connection: Connection, placement: Placement) -> OwnOffsets:
    """Log start and log end of every replica, followers included (ListOffsets, replica id -2).

    The end is the log end offset, not the high watermark. A broker that does not answer costs its
    own rows.
    """
    count = len(placement.replica_of)
    start, end, observed = np.full(count, -1), np.full(count, -1), np.full(count, _now_us())
    errors = no_names(count)
    rows = {broker: placement.at_broker(broker) for broker in placement.brokers()}
    questions = {
        broker: _in_parts(placement, placement.replica_of[part], _two)
        for broker, part in rows.items()
    }
    for broker, answer in connection.ask_each(questions).items():
        part = rows[broker]
        if isinstance(answer, ClusterError):
            observed[part], errors[part] = _now_us(), answer.code
        else:
            start[part], end[part], observed[part], errors[part] = answer
    start[failed(errors)], end[failed(errors)] = -1, -1
    return OwnOffsets(start, end, observed, errors)


def _in_parts(
    placement: Placement, rows: Ints, ask: Callable[[Wire, float, Placement, Ints], tuple[Any, ...]]
) -> Callable[[Wire, float], tuple[Any, ...]]:
    """The question of one broker in parts, each of which has the broker's whole time."""

    def question(wire: Wire, deadline: float) -> tuple[Any, ...]:
        patience = deadline - time.monotonic()
        parts = [
            ask(wire, time.monotonic() + patience, placement, rows[at : at + _ROWS_PER_REQUEST])
            for at in range(0, len(rows), _ROWS_PER_REQUEST)
        ]
        return tuple(np.concatenate(column) for column in zip(*parts, strict=True))

    return question


def _three(wire: Wire, deadline: float, placement: Placement, rows: Ints) -> tuple[Any, ...]:
    asked = Question(placement, rows, replica_id=CONSUMER, with_epoch=True)
    start, first = asked.ask(wire, deadline, EARLIEST)
    stable, second = asked.ask(wire, deadline, LATEST, READ_COMMITTED)
    latest, third = asked.ask(wire, deadline, LATEST)
    return start, stable, latest, _first_of(first, second, third)


def _two(wire: Wire, deadline: float, placement: Placement, rows: Ints) -> tuple[Any, ...]:
    asked = Question(placement, rows, replica_id=ANY_REPLICA, with_epoch=False)
    start, first = asked.ask(wire, deadline, EARLIEST)
    end, second = asked.ask(wire, deadline, LATEST)
    return start, end, np.full(len(rows), _now_us()), _first_of(first, second)


def _first_of(first: Names, *others: Names) -> Names:
    for other in others:
        first = np.where(failed(first), first, other)
    return first


def _now_us() -> int:
    return microseconds(datetime.now(UTC))
