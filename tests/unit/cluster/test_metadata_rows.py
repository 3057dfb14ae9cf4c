"""Metadata's own rows are, field by field, what kafka-python's schemas say."""

from __future__ import annotations

import struct
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kafka.protocol.metadata import MetadataResponse

from dashboard.cluster import topics as metadata_rows
from dashboard.cluster.live import connect
from dashboard.cluster.protocol.messages import skip_tags, varint
from dashboard.core.errors import ClusterError
from dashboard.domain.model import PartitionState, TopicState
from tests.support.fake_broker import FakeBroker, topic

MANY = tuple(range(130))  # their count takes two bytes, as a varint


def answered() -> bytes:
    one = MetadataResponse.MetadataResponseTopic
    part = one.MetadataResponsePartition
    partitions = [
        part(error_code=error, partition_index=index, leader_id=leader, leader_epoch=epoch,
             replica_nodes=list(replicas), isr_nodes=[1], offline_replicas=[2], version=12)
        for error, index, leader, epoch, replicas in (
            (0, 1, 1, 7, MANY), (5, 0, -1, -1, (1, 2)),
        )
    ]  # fmt: skip
    topics = [
        one(error_code=0, name="über", topic_id=UUID(int=1), is_internal=True,
            partitions=partitions, version=12),
        one(error_code=3, name="gone", topic_id=UUID(int=0), is_internal=False, partitions=[],
            version=12),
    ]  # fmt: skip
    brokers = [
        MetadataResponse.MetadataResponseBroker(
            node_id=4, host="kafka-4", port=9093, rack=rack, version=12
        )
        for rack in ("rack", None)
    ]
    return bytes(
        MetadataResponse(
            version=12, throttle_time_ms=9, brokers=brokers, cluster_id="c", controller_id=4,
            topics=topics,
        ).encode()
    )  # fmt: skip


def test_an_answer_is_decoded_as_kafkas_schema_says() -> None:
    brokers, cluster_id, topics = metadata_rows.decode(memoryview(answered()))
    assert (brokers, cluster_id) == ({4: ("kafka-4", 9093)}, "c")
    assert list(topics) == ["gone", "über"]
    assert topics["gone"] == TopicState("gone", None, False, (), "UNKNOWN_TOPIC_OR_PARTITION")
    assert topics["über"] == TopicState(
        "über",
        "AAAAAAAAAAAAAAAAAAAAAQ",
        True,
        (
            PartitionState("über", 0, None, None, (1, 2), (1,), "LEADER_NOT_AVAILABLE"),
            PartitionState("über", 1, 1, 7, MANY, (1,), None),
        ),
    )


@pytest.mark.parametrize("cut", [1, 3, 100, 600])
def test_an_answer_cut_short_is_refused(cut: int) -> None:
    with pytest.raises((struct.error, ValueError, IndexError)):
        metadata_rows.decode(memoryview(answered()[:-cut]))


def test_an_answer_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="as long as"):
        metadata_rows.decode(memoryview(answered() + b"\0"))


@pytest.mark.parametrize("newest", [5, 9, 12, 13])
def test_brokers_of_any_version_are_understood(newest: int) -> None:
    with FakeBroker(versions={3: newest, 60: 1}) as broker:
        broker.topics = [topic("orders", [1, -1], min(newest, 12))]
        with connect({"bootstrap.servers": broker.bootstrap}, timedelta(seconds=120)) as live:
            found = live.topics(["orders", "gone"])
    assert [p.leader_id for p in found["orders"].partitions] == [1, None]
    assert found["gone"].error == "UNKNOWN_TOPIC_OR_PARTITION"


def test_what_is_not_metadata_is_an_answer_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Any) -> Any:
        raise IndexError("cut short")

    with (
        FakeBroker() as broker,
        connect({"bootstrap.servers": broker.bootstrap}, timedelta(seconds=120)) as live,
    ):
        monkeypatch.setattr(metadata_rows, "decode", refuse)
        with pytest.raises(ClusterError, match="cut short"):
            live.topics(None)


def test_tags_that_a_newer_broker_adds_are_skipped() -> None:
    # Two tags: number 0 of one byte, number 200 of two bytes.
    body = memoryview(bytes([2, 0, 1, 9, 200, 1, 2, 9, 9]) + b"rest")
    assert bytes(body[skip_tags(body, 0) :]) == b"rest"
    assert varint(memoryview(b"\xac\x02"), 0) == (300, 2)
