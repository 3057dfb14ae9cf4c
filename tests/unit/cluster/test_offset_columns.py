"""Offsets as columns: each partition has its own value in any order of answers, or its error."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

from dashboard.cluster.live import LiveCluster, connect
from dashboard.cluster.protocol import offset_columns
from dashboard.cluster.protocol.offset_columns import Question
from dashboard.domain.columns import Placement, place
from dashboard.domain.model import PartitionState, TopicState
from tests.support.fake_broker import HANG, FakeBroker, topic
from tests.unit.cluster.answers import offsets_answer


def placement(*leaders: tuple[str, list[int]]) -> Placement:
    return place(
        {
            name: TopicState(
                name,
                None,
                False,
                tuple(
                    PartitionState(name, p, None if b < 0 else b, 4, (abs(b), 9), (abs(b),))
                    for p, b in enumerate(brokers)
                ),
            )
            for name, brokers in leaders
        }
    )


def answer(*topics: tuple[str, list[tuple[int, int, int]]]) -> memoryview[int]:
    """A ListOffsets answer: per topic its (partition, error, offset)."""
    one = ListOffsetsResponse.ListOffsetsTopicResponse
    rows = [
        one(
            name=name,
            version=5,
            partitions=[
                one.ListOffsetsPartitionResponse(
                    partition_index=p, error_code=e, timestamp=-1, offset=o, leader_epoch=3,
                    version=5,
                )
                for p, e, o in partitions
            ],
        )
        for name, partitions in topics
    ]  # fmt: skip
    return memoryview(bytes(ListOffsetsResponse(version=5, topics=rows).encode()))


ASKED = placement(("a", [1, 1]), ("bé", [1, 1, 1]))
ROWS = np.array([0, 1, 2, 4])


def question() -> Question:
    return Question(ASKED, ROWS, replica_id=-2, with_epoch=True)


def test_a_request_is_encoded_as_kafkas_schema_says() -> None:
    one = ListOffsetsRequest.ListOffsetsTopic
    topics = [
        one(
            name=name,
            version=5,
            partitions=[
                one.ListOffsetsPartition(
                    partition_index=p, current_leader_epoch=4, timestamp=-1, version=5
                )
                for p in partitions
            ],
        )
        for name, partitions in (("a", (0, 1)), ("bé", (0, 2)))
    ]
    schema = ListOffsetsRequest(version=5, replica_id=-2, isolation_level=1, topics=topics)
    assert question().encode(-1, 1) == bytes(schema.encode())


@pytest.mark.parametrize("shuffled", [False, True])
def test_values_find_their_partitions_in_any_order(shuffled: bool) -> None:
    a, b = ("a", [(0, 0, 10), (1, 0, 11)]), ("bé", [(0, 0, 20), (2, 6, -1)])
    if shuffled:
        a, b = ("bé", b[1][::-1]), ("a", a[1][::-1])
    offsets, errors = question().decode(answer(a, b))
    assert offsets.tolist() == [10, 11, 20, -1]
    assert errors.tolist() == [None, None, None, "NOT_LEADER_OR_FOLLOWER"]


def test_what_an_answer_leaves_out_is_an_error_and_what_it_adds_is_ignored() -> None:
    offsets, errors = question().decode(answer(("c", [(0, 0, 7)]), ("bé", [(2, 0, 22)])))
    assert offsets.tolist() == [-1, -1, -1, 22]
    assert errors.tolist() == [*["UNKNOWN_SERVER_ERROR"] * 3, None]
    assert question().decode(answer())[1].tolist() == ["UNKNOWN_SERVER_ERROR"] * 4


@pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: b[:-30], lambda b: b + b"\0"])
def test_an_answer_of_another_length_is_refused(change: Any) -> None:
    whole = bytes(answer(("a", [(0, 0, 10), (1, 0, 11)])))
    with pytest.raises((struct.error, ValueError)):
        question().decode(memoryview(change(whole)))


@pytest.fixture
def two() -> Iterator[tuple[FakeBroker, FakeBroker]]:
    with FakeBroker(1) as one, FakeBroker(2) as other:
        one.neighbours, other.neighbours = [other], [one]
        one.topics = other.topics = [topic("orders", [1, 2, 1])]
        one.answers[2] = other.answers[2] = offsets_answer
        yield one, other


def opened(broker: FakeBroker) -> LiveCluster:
    return connect({"bootstrap.servers": broker.bootstrap}, timedelta(seconds=60))


@pytest.mark.further_but("9")
@pytest.mark.parametrize("newest", [4, 5, 9])
def test_brokers_of_any_version_are_understood(newest: int) -> None:
    with FakeBroker(versions={3: 12, 2: newest, 60: 1}) as broker:
        broker.topics = [topic("orders", [1, -1])]
        broker.answers[2] = offsets_answer
        with opened(broker) as live:
            placed = place(live.topics(None))
            leaders, own = live.leader_offsets(placed), live.own_offsets(placed)
    assert leaders.log_start.tolist() == [10, -1]
    assert leaders.high_watermark.tolist() == [90, -1]
    assert leaders.errors.tolist() == [None, "LEADER_NOT_AVAILABLE"]
    assert own.log_end.tolist() == [90, 90]
    assert (own.observed_us > 0).all()


@pytest.mark.further
def test_a_broker_that_hangs_costs_its_own_rows_only(two: tuple[FakeBroker, FakeBroker]) -> None:
    one, other = two
    with opened(one) as live:
        placed = place(live.topics(None))
        other.answers[2] = HANG
        live._connection.timeout_seconds = 3
        leaders, own = live.leader_offsets(placed), live.own_offsets(placed)
    assert leaders.log_start.tolist() == [10, -1, 10]
    assert leaders.errors[[0, 2]].tolist() == [None, None]
    assert leaders.errors[1] in ("ANSWER_LOST", "BROKER_UNREACHABLE")
    assert placed.replica_broker.tolist() == [1, 1, 2]
    assert own.log_end.tolist() == [90, 90, -1]
    assert own.errors[:2].tolist() == [None, None]
    assert own.errors[2] in ("ANSWER_LOST", "BROKER_UNREACHABLE")


@pytest.mark.parametrize("code", [6, 3, 74])
def test_errors_of_a_restart_are_read_again(two: tuple[FakeBroker, FakeBroker], code: int) -> None:
    one, other = two
    with opened(one) as live:
        placed = place(live.topics(None))
        failing = [code] * 3

        def soon(request: Any, version: int) -> Any:
            return offsets_answer(request, version, error=failing.pop() if failing else 0)

        other.answers[2] = soon
        leaders = live.leader_offsets(placed)
    assert leaders.errors.tolist() == [None, None, None]
    assert leaders.high_watermark.tolist() == [90, 90, 90]


def test_large_questions_are_asked_in_parts(
    two: tuple[FakeBroker, FakeBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_columns, "_ROWS_PER_REQUEST", 1)
    one, _ = two
    with opened(one) as live:
        placed = place(live.topics(None))
        one.requests.clear()
        leaders = live.leader_offsets(placed)
    assert leaders.high_watermark.tolist() == [90, 90, 90]
    asked = [[p.partition_index for t in r.topics for p in t.partitions] for r in one.requests]
    assert asked == [[0], [0], [0], [2], [2], [2]]
