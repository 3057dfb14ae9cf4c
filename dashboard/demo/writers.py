"""Who keeps writing to the demo's topics: a plain producer and a transactional one."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import KafkaException, Producer

from dashboard.demo.clients import LOG, client
from dashboard.demo.load import payload
from dashboard.demo.truth import TopicTruth, records_per_partition

# Every tenth transaction stays open for twenty ticks; every third of those is aborted.
LONG_EVERY, LONG_TICKS, ABORT_EVERY = 10, 20, 3
TRANSACTION_TIMEOUT_SECONDS = 5.0


class Writer:
    """Writes each topic's `per_second` records a tick; a dead broker costs waiting, not an end."""

    def __init__(self, bootstrap: str, topics: Sequence[TopicTruth]) -> None:
        self._topics = [topic for topic in topics if not topic.transactional]
        self._producer = Producer(client(bootstrap, **{"linger.ms": "20"}))
        self._ticks = 0

    def tick(self) -> None:
        self._ticks += 1
        for topic in self._topics:
            write(self._producer, topic, self._ticks)
        self._producer.poll(0)

    def close(self) -> None:
        self._producer.flush(1)


class TransactionalWriter:
    """Writes in transactions, most of them short, now and then one that stays open."""

    def __init__(self, bootstrap: str, topics: Sequence[TopicTruth]) -> None:
        self._bootstrap = bootstrap
        self._topics = [topic for topic in topics if topic.transactional]
        self._producer: Producer | None = None
        self._ticks = 0
        self._transactions = LONG_EVERY - 1  # a long one first: a young demo shows it too
        self._ticks_left = 0

    def tick(self) -> None:
        self._ticks += 1
        try:
            if self._ticks_left == 0:
                self._begin()
            for topic in self._topics:
                write(self._writer(), topic, self._ticks)
            self._writer().poll(0)
            self._ticks_left -= 1
            if self._ticks_left == 0:
                self._end()
        except KafkaException as error:
            # Fenced, timed out or a coordinator away: a new producer fences what it left open.
            LOG.warning("transaction given up: %s", error.args[0].str())
            self._producer, self._ticks_left = None, 0

    def close(self) -> None:
        if self._producer is not None and self._ticks_left:
            self._producer.abort_transaction(1)

    def _begin(self) -> None:
        self._transactions += 1
        self._ticks_left = LONG_TICKS if self._transactions % LONG_EVERY == 0 else 1
        self._writer().begin_transaction()

    def _end(self) -> None:
        if self._transactions % (LONG_EVERY * ABORT_EVERY) == 0:
            self._writer().abort_transaction(TRANSACTION_TIMEOUT_SECONDS)
        else:
            self._writer().commit_transaction(TRANSACTION_TIMEOUT_SECONDS)

    def _writer(self) -> Producer:
        if self._producer is None:
            producer = Producer(client(self._bootstrap, **{"transactional.id": "demo-transfers"}))
            producer.init_transactions(TRANSACTION_TIMEOUT_SECONDS)
            self._producer = producer
        return self._producer


def write(producer: Producer, topic: TopicTruth, tick: int) -> None:
    """One tick's records of a topic, of its latest size, turning over its partitions."""
    length = topic.load[-1].size_bytes
    for i in range(tick * topic.per_second, (tick + 1) * topic.per_second):
        key = str(i % topic.keys).encode() if topic.keys else None
        try:
            producer.produce(topic.name, payload(i, length), key, _partition(topic, i))
        except BufferError:  # brokers are away for long: drop, the demo goes on
            return


def _partition(topic: TopicTruth, number: int) -> int:
    """Where a record goes: turn by turn, or by weight where the topic is skewed."""
    if not topic.weights:
        return number % topic.partitions
    place = number % 100
    for partition, records in enumerate(records_per_partition(topic, 100)):
        if place < records:
            return partition
        place -= records
    return 0
