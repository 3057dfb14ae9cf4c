"""What a consumer gives of a record becomes columns, or the reason why it cannot."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dashboard.cluster import ranges
from dashboard.cluster.ranges import RangeError, _columns, _Source
from dashboard.domain.model import TopicPartition


class Message:
    """As confluent-kafka's, with a header that it cannot tell where it is odd."""

    def __init__(
        self, offset: int, odd: type[Exception] | None = None, at: int | None = None
    ) -> None:
        self._offset, self._odd = offset, odd
        self._at = 1_700_000_000_000 + offset if at is None else at

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return 1, self._at

    def key(self) -> bytes:
        return b"k"

    def value(self) -> bytes:
        return b"v"

    def headers(self) -> list[tuple[str, bytes]] | None:
        if self._odd is not None:
            raise self._odd("returned NULL without setting an exception")
        return [("trace", b"1")] if self._offset % 2 else None


def test_a_record_without_headers_has_an_empty_list_of_them() -> None:
    records: Any = [Message(4), Message(5)]
    assert _columns(records, [4, 5])["headers"] == [[], [("trace", b"1")]]


def test_of_times_before_1970_only_minus_one_is_none() -> None:
    """Kafka's NO_TIMESTAMP; a producer that is no Java one may write any other."""
    records: Any = [Message(4, at=-1), Message(5, at=-5), Message(6, at=0)]
    assert _columns(records, [4, 5, 6])["timestamp"] == [None, -5, 0]


def test_a_header_whose_name_is_not_utf_8_is_told_with_its_offsets() -> None:
    """confluent-kafka makes text of its bytes, and raises SystemError."""
    records: Any = [Message(4), Message(5, SystemError)]
    with pytest.raises(RangeError, match="not UTF-8 at one of offsets 4 to 5"):
        _columns(records, [4, 5])


class Consumer:
    """As librdkafka's, whose statistics tell what came of each broker at each call."""

    def __init__(self, properties: dict[str, Any]) -> None:
        self._told = properties["stats_cb"]
        self.received = {-1: 10_000, 1: 0, 2: 0}
        self.on_the_way: list[dict[int, int]] = []
        self.asks = False
        self.closed = 0

    def assign(self, _: object) -> None:
        self.asks = True

    def unassign(self) -> None:
        self.asks = False

    def consume(self, _count: int, _seconds: float) -> list[Any]:
        for broker, size in (self.on_the_way.pop(0) if self.on_the_way else {}).items():
            self.received[broker] += size
        self.tell()
        return []

    def tell(self) -> None:
        brokers = {
            f"b{n}": {"name": "b", "nodeid": n, "rxbytes": size, "rx": 0, "toppars": {}}
            for n, size in self.received.items()
        }
        self._told(json.dumps({"brokers": brokers, "topics": {}}))

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> _Source:
    monkeypatch.setattr("confluent_kafka.Consumer", Consumer)
    return _Source({}, lambda *each: TOOK.append(each))


TOOK: list[tuple[str, int, int]] = []


@pytest.fixture(autouse=True)
def nothing_yet() -> None:
    TOOK.clear()


def came(source: _Source, broker: int, size: int) -> None:
    source._consumer.on_the_way = [{broker: size}]  # type: ignore[attr-defined]
    source.hear()


def test_what_brokers_sent_is_of_the_topic_that_is_read(source: _Source) -> None:
    came(source, 1, 300)
    source.assign(TopicPartition("a", 0), 0)
    came(source, 1, 1000)
    came(source, 2, 50)
    came(source, -1, 9999)  # of the address to begin with
    assert TOOK == [("a", 1, 1000), ("a", 2, 50)]


def test_of_two_topics_in_one_statistic_or_just_before_it_nobody_knows(source: _Source) -> None:
    for topic in ("a", "b"):
        source.assign(TopicPartition(topic, 0), 0)
        source.unassign()
    for size in (10, 20, 40, 80):
        came(source, 1, size)
    assert TOOK == [("b", 1, 40), ("b", 1, 80)]


def test_each_response_counts_less_its_envelope(source: _Source) -> None:
    source.assign(TopicPartition("a", 0), 0)
    told = {"brokers": {"b": {"nodeid": 1, "rxbytes": 5000, "rx": 2}}}
    source._count(json.dumps(told))
    source._count(json.dumps(told | {"brokers": {"b": {"nodeid": 1, "rxbytes": 5100, "rx": 3}}}))
    assert TOOK == [("a", 1, 5000 - 2 * ranges._NO_RECORDS_BYTES)]


def test_what_was_on_its_way_is_heard_before_it_leaves(source: _Source) -> None:
    source.assign(TopicPartition("a", 0), 0)
    consumer: Any = source._consumer
    consumer.on_the_way = [{1: 10}, {1: 20}, {2: 30}]
    source.close()
    source.close()
    assert TOOK == [("a", 1, 10), ("a", 1, 20), ("a", 2, 30)]
    assert (consumer.asks, consumer.closed) == (False, 2)


def test_one_that_read_nothing_leaves_at_once(source: _Source) -> None:
    source._consumer.consume = lambda *_: pytest.fail("it waited")  # type: ignore[attr-defined]
    source.close()
