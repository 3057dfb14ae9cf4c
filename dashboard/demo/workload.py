"""The demo's workload as a process: loads the topics first if asked, then reads and writes on."""

from __future__ import annotations

import argparse
import json
import logging
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
)
from confluent_kafka import TopicPartition as Position

from dashboard.core.errors import DemoError
from dashboard.core.processes import Stop
from dashboard.demo import load
from dashboard.demo.faults import Asked, DeadGroup
from dashboard.demo.kafka.brokers import LOG, client
from dashboard.demo.load import payload
from dashboard.demo.truth import KEEPS_UP, TOPICS, GroupTruth, TopicTruth, records_per_partition

# Who keeps writing to the demo's topics: a plain producer and a transactional one.

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


# Who keeps reading the demo's topics: groups that commit, and one reader that never does.

KEEP_UP_RECORDS = 5_000
SILENT_RECORDS = 300
_READER = {
    "enable.auto.commit": "false",
    "auto.offset.reset": "earliest",
    "fetch.wait.max.ms": "2000",
    "queued.min.messages": "1000",
    "queued.max.messages.kbytes": "2048",
}


class GroupReader:
    """A member of a consumer group that reads its share a tick and commits what it read."""

    def __init__(self, bootstrap: str, group: GroupTruth, topics: Sequence[str]) -> None:
        self._most = KEEP_UP_RECORDS if group.per_second == KEEPS_UP else group.per_second
        self.group_id = group.group_id
        self._topics = list(topics)
        self._properties = client(bootstrap, **_READER, **{"group.id": group.group_id})
        self._consumer: Consumer | None = None
        self.join()

    def join(self) -> None:
        """Become a member, and go on where the group stands."""
        if self._consumer is None:
            self._consumer = Consumer(self._properties)
            self._consumer.subscribe(self._topics)

    def leave(self) -> None:
        """Be no member any more; the group's offsets stay."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def tick(self) -> None:
        if self._consumer is None:
            return
        messages = self._consumer.consume(self._most, timeout=0.01)
        if sum(_is_record(message) for message in messages):
            self._consumer.commit(asynchronous=True)

    def close(self) -> None:
        self.leave()


class SilentReader:
    """Reads a topic from its beginning over and over, without a group and without a commit."""

    def __init__(self, bootstrap: str, topic: TopicTruth) -> None:
        # librdkafka wants a group id; without subscribe or commit no broker ever hears of it.
        own = {"group.id": "unused", "enable.partition.eof": "true"}
        self._consumer = Consumer(client(bootstrap, **_READER, **own))
        self._consumer.assign(
            [Position(topic.name, p, OFFSET_BEGINNING) for p in range(topic.partitions)]
        )

    def tick(self) -> None:
        for message in self._consumer.consume(SILENT_RECORDS, timeout=0.01):
            error = message.error()
            topic, partition = message.topic(), message.partition()
            if _is_record(message) or error is None or topic is None or partition is None:
                continue
            if error.code() == KafkaError._PARTITION_EOF:
                self._consumer.seek(Position(topic, partition, OFFSET_BEGINNING))

    def close(self) -> None:
        self._consumer.close()


def group_readers(bootstrap: str, topics: Sequence[TopicTruth]) -> list[GroupReader]:
    """One member for each group that has members, on all of the group's topics."""
    groups = {group.group_id: group for topic in topics for group in topic.groups}
    return [
        GroupReader(
            bootstrap,
            group,
            [t.name for t in topics if any(g.group_id == group.group_id for g in t.groups)],
        )
        for group in groups.values()
        if group.has_members
    ]


def _is_record(message: Message) -> bool:
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        LOG.info("reader: %s", error.str())
    return error is None


TICK_SECONDS = 1.0


class Actor(Protocol):
    """Anything that does a little work a second."""

    def tick(self) -> None: ...

    def close(self) -> None: ...


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m dashboard.demo.workload --bootstrap H:P [--room R] [--load] [--ready-file F] …`.

    0 when asked to end, 1 when the first load failed.
    """
    parser = argparse.ArgumentParser(prog="workload")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--room", type=Path, help="the demo's, for its faults; none without it")
    parser.add_argument("--load", action="store_true", help="create and fill the topics first")
    parser.add_argument("--ready-file", type=Path, help="written once the topics are loaded")
    parser.add_argument("--only", action="append", help="of all topics those of this name")
    options = parser.parse_args(arguments)
    topics = [t for t in TOPICS if options.only is None or t.name in options.only]
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    ended = Stop()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    try:
        loaded = first_load(options.bootstrap, topics) if options.load else {}
    except DemoError as error:
        LOG.error("%s", error.message)
        return 1
    if options.ready_file:
        options.ready_file.write_text(json.dumps(loaded))
    run(actors(options.bootstrap, topics, options.room), ended)
    return 0


def first_load(bootstrap: str, topics: Sequence[TopicTruth]) -> dict[str, float]:
    """Creates and fills the topics, commits the groups; record bytes and seconds."""
    began = time.monotonic()
    load.create_topics(bootstrap, topics)
    size = load.produce_first_load(bootstrap, topics, now_ms=int(time.time() * 1000))
    load.commit_offsets(bootstrap, topics)
    return {"record_bytes": size, "seconds": round(time.monotonic() - began, 1)}


def actors(bootstrap: str, topics: Sequence[TopicTruth], room: Path | None) -> list[Actor]:
    """Everybody who reads and writes, and with a room who breaks of that what is asked for."""
    readers = group_readers(bootstrap, topics)
    dying = [reader for reader in readers if reader.group_id == DeadGroup.GROUP]
    silent = [SilentReader(bootstrap, topic) for topic in topics if topic.reads_without_commit]
    return [
        Writer(bootstrap, topics),
        *([TransactionalWriter(bootstrap, topics)] if any(t.transactional for t in topics) else []),
        *readers,
        *silent,
        *([Asked(bootstrap, room, dying)] if room else []),
    ]


def run(everybody: Sequence[Actor], ended: Stop) -> None:
    """Lets everybody work once a second until `ended`; one that fails is named and tried again."""
    while not ended.wait(TICK_SECONDS):
        for actor in everybody:
            try:
                actor.tick()
            except KafkaException as error:
                LOG.warning("%s: %s", type(actor).__name__, error)
    for actor in everybody:
        try:
            actor.close()
        except KafkaException as error:
            LOG.info("%s: %s", type(actor).__name__, error)


if __name__ == "__main__":
    raise SystemExit(main())
