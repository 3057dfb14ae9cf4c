"""An offset of an earlier topic of a name is told apart by the coordinator's answer by the id."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kafka.protocol.consumer import OffsetFetchResponse

from dashboard.cluster import group_offsets
from dashboard.cluster.group_offsets import GroupOffsetsAnswer, read_group_offsets
from dashboard.cluster.live import connect
from dashboard.cluster.topics import topic_id
from dashboard.domain.model import GroupOffset, TopicState
from tests.support.fake_broker import VERSIONS, FakeBroker

RAW = bytes(range(1, 17))
ORDERS = {"orders": TopicState("orders", topic_id(RAW), False, ())}
BY_NAME = {0: 60, 1: 70}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_offsets, "_PAUSES_SECONDS", (0.01, 0.01))


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker(1, {**VERSIONS, 9: 10}) as found:
        yield found


def answer(
    request: Any, version: int, told: dict[int, int | tuple[int, int]], group_error: int = 0
) -> Any:
    """Offsets by partition, of the topics "orders" and "other" by name; a pair has an error."""
    one = OffsetFetchResponse.OffsetFetchResponseGroup
    one_topic = one.OffsetFetchResponseTopics
    rows = []
    for partition, found in told.items():
        offset, error = found if isinstance(found, tuple) else (found, 0)
        rows.append(
            one_topic.OffsetFetchResponsePartitions(
                partition_index=partition, committed_offset=offset, committed_leader_epoch=3,
                metadata=None, error_code=error, version=version,
            )
        )  # fmt: skip
    named = (
        [{"topic_id": UUID(bytes=RAW)}] if version > 9 else [{"name": "orders"}, {"name": "other"}]
    )
    topics = [one_topic(**name, partitions=rows, version=version) for name in named]
    groups = [
        one(group_id=g.group_id, topics=[] if group_error else topics, error_code=group_error,
            version=version)
        for g in request.groups
    ]  # fmt: skip
    return OffsetFetchResponse(version=version, groups=groups)


def read(broker: FakeBroker, by_id: Callable[[Any, int], Any]) -> GroupOffsetsAnswer:
    def answered(request: Any, version: int) -> Any:
        return by_id(request, version) if version == 10 else answer(request, version, {**BY_NAME})

    broker.answers[9] = answered
    with connect({"bootstrap.servers": broker.bootstrap}, timedelta(seconds=60)) as live:
        live.brokers()
        return read_group_offsets(live._connection, {1: ["etl"]}, ORDERS)


def of_orders(found: GroupOffsetsAnswer) -> list[tuple[int, int | None, str | None]]:
    """Those of the other topic, of which nobody knows the id, stay as they were listed."""
    other = [o for o in found.offsets if o.topic == "other"]
    assert other == [GroupOffset("etl", "other", p, at, None, 3) for p, at in BY_NAME.items()]
    return [
        (o.partition, o.committed_offset, o.error) for o in found.offsets if o.topic == "orders"
    ]


def test_one_of_an_earlier_topic_is_none(broker: FakeBroker) -> None:
    found = read(broker, lambda request, version: answer(request, version, {0: -1, 1: 75}))
    assert of_orders(found) == [(0, None, None), (1, 70, None)]
    (by_id,) = [r for r in broker.requests if r.API_KEY == 9 and r.API_VERSION == 10]
    (group,) = by_id.groups
    assert [(t.topic_id, t.partition_indexes) for t in group.topics] == [(UUID(bytes=RAW), [0, 1])]
    assert by_id.require_stable is True


def test_so_is_one_of_an_id_that_the_coordinator_does_not_know(broker: FakeBroker) -> None:
    told: dict[int, int | tuple[int, int]] = {0: (-1, 100), 1: (-1, 100)}
    found = read(broker, lambda request, version: answer(request, version, told))
    assert of_orders(found) == [(0, None, None), (1, None, None)]


def test_and_one_that_the_second_answer_leaves_out(broker: FakeBroker) -> None:
    found = read(broker, lambda request, version: answer(request, version, {1: 70}))
    assert of_orders(found) == [(0, None, None), (1, 70, None)]


def test_what_hides_the_second_answer_is_told(broker: FakeBroker) -> None:
    told: dict[int, int | tuple[int, int]] = {0: (-1, 88), 1: 70}
    found = read(broker, lambda request, version: answer(request, version, told))
    assert of_orders(found) == [(0, None, "UNSTABLE_OFFSET_COMMIT"), (1, 70, None)]
    found = read(broker, lambda request, version: answer(request, version, {}, group_error=16))
    assert (found.offsets, found.errors) == ((), {"etl": "NOT_COORDINATOR"})


def test_brokers_that_know_names_alone_are_asked_once() -> None:
    with FakeBroker(1, {**VERSIONS, 9: 9}) as broker:
        found = read(broker, lambda *_: None)
        assert of_orders(found) == [(0, 60, None), (1, 70, None)]
        assert [r.API_VERSION for r in broker.requests if r.API_KEY == 9] == [9]
