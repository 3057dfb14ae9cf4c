"""ListOffsets' own rows are, byte for byte, what kafka-python's schemas say."""

from __future__ import annotations

import struct
from datetime import timedelta
from typing import Any

import pytest
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

from dashboard.cluster.live import connect
from dashboard.cluster.protocol import list_offsets
from dashboard.domain.model import TopicPartition
from tests.support.fake_broker import FakeBroker, topic
from tests.unit.cluster.answers import offsets_answer

BY_TOPIC = {"orders": [(0, 7), (3, -1)], "kühl-1": [(2**31 - 1, 0)], "none": []}


def asked() -> Any:
    one_topic = ListOffsetsRequest.ListOffsetsTopic
    one = one_topic.ListOffsetsPartition
    topics = [
        one_topic(
            name=name,
            version=5,
            partitions=[
                one(partition_index=p, current_leader_epoch=e, timestamp=-2, version=5)
                for p, e in rows
            ],
        )
        for name, rows in BY_TOPIC.items()
    ]
    return ListOffsetsRequest(version=5, replica_id=-2, isolation_level=1, topics=topics)


def answered() -> bytes:
    one_topic = ListOffsetsResponse.ListOffsetsTopicResponse
    one = one_topic.ListOffsetsPartitionResponse
    rows = [
        one(partition_index=p, error_code=p, timestamp=p - 1, offset=2**40 + p, leader_epoch=3,
            version=5)
        for p in (0, 6)
    ]  # fmt: skip
    topics = [one_topic(name=n, partitions=rows[:k], version=5) for n, k in (("ä", 2), ("b", 0))]
    return bytes(ListOffsetsResponse(version=5, throttle_time_ms=9, topics=topics).encode())


def test_a_request_is_encoded_as_kafkas_schema_says() -> None:
    own = list_offsets.encode(BY_TOPIC, -2, replica_id=-2, isolation=1)
    assert own == bytes(asked().encode())


def test_an_answer_is_decoded_as_kafkas_schema_says() -> None:
    found = list(list_offsets.decode(memoryview(answered())))
    assert found == [("ä", 0, 0, -1, 2**40), ("ä", 6, 6, 5, 2**40 + 6)]


@pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: b[:-30], lambda b: b + b"\0"])
def test_an_answer_of_another_length_is_refused(change: Any) -> None:
    with pytest.raises((struct.error, ValueError)):
        list(list_offsets.decode(memoryview(change(answered()))))


@pytest.mark.parametrize("newest", [4, 5, 9])
def test_brokers_of_any_version_are_understood(newest: int) -> None:
    with FakeBroker(versions={3: 12, 2: newest, 60: 1}) as broker:
        broker.topics = [topic("orders", [1, 1])]
        broker.answers[2] = offsets_answer
        with connect({"bootstrap.servers": broker.bootstrap}, timedelta(seconds=120)) as live:
            found = live.offsets([TopicPartition("orders", 1)])
    assert [(o.log_start_offset, o.high_watermark) for o in found.values()] == [(10, 90)]


@pytest.mark.parametrize(
    ("newest", "found"),
    [
        (7, (None, None, "UNSUPPORTED_VERSION")),  # it would take -4 for a time
        (8, (40, None, None)),
        (9, (40, 71, None)),
        (11, (40, 71, None)),
    ],
)
def test_a_broker_is_asked_of_tiers_only_what_it_knows(newest: int, found: Any) -> None:
    """Local log start with v8 (KIP-405), last tiered offset with v9 (KIP-1005)."""
    asked: list[tuple[int, int]] = []

    def answer(request: Any, version: int) -> Any:
        (timestamp,) = {p.timestamp for t in request.topics for p in t.partitions}
        asked.append((timestamp, version))
        one_topic = ListOffsetsResponse.ListOffsetsTopicResponse
        one = one_topic.ListOffsetsPartitionResponse(
            partition_index=0, error_code=0, timestamp=-1, leader_epoch=4,
            offset={-4: 40, -5: 70}[timestamp], version=version,
        )  # fmt: skip
        topics = [one_topic(name="orders", partitions=[one], version=version)]
        return ListOffsetsResponse(version=version, throttle_time_ms=0, topics=topics)

    key = TopicPartition("orders", 0)
    with FakeBroker(versions={3: 12, 2: newest, 60: 1}) as broker:
        broker.topics = [topic("orders", [1])]
        broker.answers[2] = answer
        with connect({"bootstrap.servers": broker.bootstrap}, timedelta(seconds=120)) as live:
            told = live.tiered_offsets([key])[key]
    assert (told.local_start_offset, told.remote_end_offset, told.error) == found
    assert asked == [(-4, 8), (-5, 9)][: max(0, newest - 7)]


def test_offsets_bear_the_leader_epoch_that_answered_not_the_one_that_was_fenced() -> None:
    """Who has read metadata before holds the offsets against them: they may be of a newer log."""

    def fenced_once(request: Any, version: int) -> Any:
        asked = {p.current_leader_epoch for t in request.topics for p in t.partitions}
        if asked == {4}:
            broker.topics[0].partitions[0].leader_epoch = 5
        return offsets_answer(request, version, error=74 if asked == {4} else 0)

    key = TopicPartition("orders", 0)
    with FakeBroker(versions={3: 12, 2: 5, 60: 1}) as broker:
        broker.topics = [topic("orders", [1])]
        broker.answers[2] = fenced_once
        with connect({"bootstrap.servers": broker.bootstrap}, timedelta(seconds=120)) as live:
            before = live.topics(["orders"])
            found = live.offsets([key], before)[key]
    assert before["orders"].partitions[0].leader_epoch == 4
    assert (found.high_watermark, found.error, found.leader_epoch) == (90, None, 5)
