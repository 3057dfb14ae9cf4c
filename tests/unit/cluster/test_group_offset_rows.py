"""Committed offsets' own rows are, field by field, what kafka-python's schemas say."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from kafka.protocol.consumer import OffsetFetchResponse

from dashboard.cluster.group_offsets import GroupRows, decode
from dashboard.domain.model import GroupOffset


def answered(version: int, metadata: str | None) -> bytes:
    one = OffsetFetchResponse.OffsetFetchResponseGroup
    one_topic = one.OffsetFetchResponseTopics
    rows = [
        one_topic.OffsetFetchResponsePartitions(
            partition_index=p, committed_offset=offset, committed_leader_epoch=3, error_code=error,
            metadata=metadata if p == 1 else None, version=version,
        )
        for p, offset, error in ((0, 2**40, 0), (1, -1, 0), (2, 9, 88))
    ]  # fmt: skip
    topics = [one_topic(name="über", partitions=rows, version=version)]
    groups = [
        one(group_id="g", topics=topics, error_code=0, version=version),
        one(group_id="kühl", topics=[], error_code=16, version=version),
    ]
    return bytes(OffsetFetchResponse(version=version, throttle_time_ms=9, groups=groups).encode())


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("metadata", [None, "", "x", "m" * 300])
def test_an_answer_is_decoded_as_kafkas_schema_says(version: int, metadata: str | None) -> None:
    assert decode(memoryview(answered(version, metadata))) == [
        GroupRows(
            "g",
            None,
            [
                GroupOffset("g", "über", 0, 2**40, None, 3),
                GroupOffset("g", "über", 1, None, None, 3),
                GroupOffset("g", "über", 2, None, "UNSTABLE_OFFSET_COMMIT"),
            ],
        ),
        GroupRows("kühl", "NOT_COORDINATOR", []),
    ]


@pytest.mark.parametrize("metadata", ["", "x"])
@pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: b[:-25], lambda b: b + b"\0"])
def test_an_answer_of_another_length_is_refused(metadata: str, change: Any) -> None:
    with pytest.raises((struct.error, ValueError, IndexError)):
        decode(memoryview(change(answered(9, metadata))))


def test_rows_that_a_newer_broker_tagged_are_read_one_by_one() -> None:
    last = struct.pack(">iqiBhB", 2, 9, 3, 0, 88, 0)
    tagged = answered(9, None).replace(last, last[:-1] + bytes([1, 0, 2, 9, 9]), 1)
    assert decode(memoryview(tagged)) == decode(memoryview(answered(9, None)))
    assert len(tagged) == len(answered(9, None)) + 4
