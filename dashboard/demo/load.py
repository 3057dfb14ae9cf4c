"""Fills a cluster: topics, the first load, committed offsets, and many partitions for benches."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from dashboard.core.errors import DemoError
from dashboard.demo import truth
from dashboard.demo.kafka.brokers import LOG, client
from dashboard.demo.truth import GroupTruth, TopicTruth

ADMIN_TIMEOUT_SECONDS = 60
HISTORY_MS = 24 * 3600 * 1000  # the first load's timestamps reach back a day
# Small segments, so that a purge frees bytes within seconds; an upper bound for long demos.
TOPIC_CONFIG = {"segment.bytes": "1048576", "retention.bytes": "67108864"}
BENCH_CONFIG = {"segment.bytes": "1048576", "segment.index.bytes": "4096"}
BENCH_PARTITIONS_PER_TOPIC = 100
BENCH_RECORDS_PER_PARTITION = 3
_BULK = {
    "linger.ms": "50",
    "batch.num.messages": "10000",
    "queue.buffering.max.messages": "200000",
    "message.timeout.ms": "300000",
}
_TRANSACTION = {"transactional.id": "demo-load", "transaction.timeout.ms": "300000"}
_PAYLOAD = random.Random(20).randbytes(64 * 1024)


def create_topics(bootstrap: str, topics: Iterable[TopicTruth]) -> None:
    """Creates the demo's topics; those that exist stay. Raises DemoError naming one refused."""
    wanted = list(topics)
    replication = _replication(bootstrap)
    _create(
        bootstrap,
        [
            NewTopic(t.name, t.partitions, replication, config={**TOPIC_CONFIG, **t.config})
            for t in wanted
        ],
    )


def produce_first_load(bootstrap: str, topics: Iterable[TopicTruth], now_ms: int) -> int:
    """Writes every topic's load, timestamps spread over the last day; returns record bytes.

    Raises DemoError when the brokers did not take every record.
    """
    lost: list[str] = []
    plain = _producer(bootstrap, lost)
    size = 0
    for topic in topics:
        writer = plain
        if topic.transactional:
            writer = _producer(bootstrap, lost, _TRANSACTION)
            writer.init_transactions(ADMIN_TIMEOUT_SECONDS)
            writer.begin_transaction()
        size += _produce(writer, topic, now_ms)
        if topic.transactional:
            writer.commit_transaction(ADMIN_TIMEOUT_SECONDS)
    _flush(plain, lost)
    return size


def commit_offsets(bootstrap: str, topics: Iterable[TopicTruth]) -> None:
    """Commits what each group had read after the first load, without joining it."""
    for group_id, positions in _positions(topics).items():
        _await_commit(bootstrap, group_id, positions)


def set_back(bootstrap: str, group_id: str, topics: Iterable[TopicTruth], share: float) -> None:
    """Commits a share of each partition's first load for a group without members."""
    positions = [
        Position(topic.name, partition, int(count * share))
        for topic in topics
        for partition, count in enumerate(truth.loaded_records(topic))
    ]
    _await_commit(bootstrap, group_id, positions)


def create_many_partitions(bootstrap: str, partitions: int, now_ms: int) -> dict[str, int]:
    """Many small partitions with a few records each and a group per topic, for benches.

    Returns counts: topics, partitions, records.
    """
    names = _bench_topics(partitions)
    replication = _replication(bootstrap)
    for start in range(0, len(names), 10):
        batch = names[start : start + 10]
        _create(
            bootstrap, [NewTopic(name, n, replication, config=BENCH_CONFIG) for name, n in batch]
        )
    # One request per partition is sent: waiting for followers too would take minutes.
    lost: list[str] = []
    producer = _producer(bootstrap, lost, {"acks": "1"})
    records = 0
    for name, count in names:
        for partition in range(count):
            for _ in range(BENCH_RECORDS_PER_PARTITION):
                _send(producer, (name, partition), _PAYLOAD[:200], None, now_ms)
                records += 1
    _flush(producer, lost)
    for name, count in names:
        _await_commit(bootstrap, f"{name}-group", [Position(name, p, 1) for p in range(count)])
    return {"topics": len(names), "partitions": partitions, "records": records}


def _bench_topics(partitions: int) -> list[tuple[str, int]]:
    full, rest = divmod(partitions, BENCH_PARTITIONS_PER_TOPIC)
    counts = [BENCH_PARTITIONS_PER_TOPIC] * full + ([rest] if rest else [])
    return [(f"bench-{i:04d}", count) for i, count in enumerate(counts)]


def _replication(bootstrap: str) -> int:
    brokers = AdminClient(client(bootstrap)).list_topics(timeout=ADMIN_TIMEOUT_SECONDS).brokers
    return min(3, len(brokers))


def _create(bootstrap: str, topics: Sequence[NewTopic]) -> None:
    admin = AdminClient(client(bootstrap))
    asked = admin.create_topics(list(topics), operation_timeout=ADMIN_TIMEOUT_SECONDS)
    for name, created in asked.items():
        try:
            created.result(ADMIN_TIMEOUT_SECONDS)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise DemoError(
                    f"topic {name} could not be created: {error.args[0].str()}",
                    "See the brokers' logs in the demo's folder.",
                    code="DEMO_LOAD_FAILED",
                ) from error


def _produce(producer: Producer, topic: TopicTruth, now_ms: int) -> int:
    total = sum(batch.records for batch in topic.load)
    size = 0
    for i, (partition, length) in enumerate(truth.first_load(topic)):
        at = now_ms - HISTORY_MS + HISTORY_MS * i // total
        key = str(i % topic.keys).encode() if topic.keys else None
        _send(producer, (topic.name, partition), payload(i, length), key, at)
        size += length
    return size


def payload(number: int, length: int) -> bytes:
    """Bytes that do not compress, different for each record number."""
    start = number * 97 % (len(_PAYLOAD) - length)
    return _PAYLOAD[start : start + length]


def _send(
    producer: Producer, place: tuple[str, int], value: bytes, key: bytes | None, at_ms: int
) -> None:
    topic, partition = place
    while True:
        try:
            producer.produce(topic, value, key, partition, timestamp=at_ms)
            producer.poll(0)
            return
        except BufferError:  # the local queue is full: brokers are slower than this loop
            producer.poll(0.1)


def _producer(
    bootstrap: str, lost: list[str], properties: Mapping[str, str] | None = None
) -> Producer:
    """A producer for many records; what a broker refused or did not take in time is in `lost`."""

    def on_delivery(error: KafkaError | None, _message: object) -> None:
        if error is not None:
            lost.append(error.str())

    failures_only = {"on_delivery": on_delivery, "delivery.report.only.error": True}
    return Producer({**client(bootstrap, **_BULK, **(properties or {})), **failures_only})


def _flush(producer: Producer, lost: list[str]) -> None:
    """Waits as long as brokers keep taking records: thousands of new logs take their time."""
    left = len(producer)
    while left:
        before, left = left, producer.flush(ADMIN_TIMEOUT_SECONDS)
        if left >= before:
            break
    if left or lost:
        raise DemoError(
            f"{left + len(lost)} records of the load were not taken by the brokers"
            + (f": {lost[0]}" if lost else " in time"),
            "See the brokers' logs in the demo's folder; often the disk is slow or full.",
            code="DEMO_LOAD_FAILED",
        )


def _positions(topics: Iterable[TopicTruth]) -> dict[str, list[Position]]:
    found: dict[str, list[Position]] = {}
    for topic, group in _pairs(topics):
        offsets = truth.committed_after_load(topic, group)
        found.setdefault(group.group_id, []).extend(
            Position(topic.name, partition, offset) for partition, offset in enumerate(offsets)
        )
    return found


def _pairs(topics: Iterable[TopicTruth]) -> Iterator[tuple[TopicTruth, GroupTruth]]:
    return ((topic, group) for topic in topics for group in topic.groups)


def _await_commit(bootstrap: str, group_id: str, positions: list[Position]) -> None:
    """The first commit makes __consumer_offsets: its coordinator takes a moment to be there.

    By a consumer that never joins: librdkafka's own AlterConsumerGroupOffsets runs into an
    assertion, and ends the process, while there is no coordinator yet.
    """
    deadline = time.monotonic() + ADMIN_TIMEOUT_SECONDS
    consumer = Consumer(client(bootstrap, **{"group.id": group_id, "enable.auto.commit": "false"}))
    while (problem := _commit(consumer, positions)) is not None:
        if time.monotonic() > deadline:
            raise DemoError(
                f"group {group_id} could not commit: {problem}",
                "See the brokers' logs in the demo's folder.",
                code="DEMO_LOAD_FAILED",
            )
        LOG.info("group %s: %s; asked again", group_id, problem)
        time.sleep(0.3)
    consumer.close()


def _commit(consumer: Consumer, positions: list[Position]) -> str | None:
    """Commits and reads back; what is wrong, or None.

    An answer that counts as success may carry an error per partition, and a coordinator that
    has just been elected may have lost what an earlier one took.
    """
    wanted = {(p.topic, p.partition): p.offset for p in positions}
    try:
        consumer.commit(offsets=positions, asynchronous=False)
        answer = consumer.committed([Position(t, p) for t, p in wanted], ADMIN_TIMEOUT_SECONDS)
    except KafkaException as error:
        return str(error.args[0].str())
    found = {(p.topic, p.partition): p.offset for p in answer}
    return None if found == wanted else "not every partition was committed"
