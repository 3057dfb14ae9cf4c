"""Small certain workloads for broker tests: topics, records, commits, transactions."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from dashboard.cluster.connection.connection import Connection, open_connection
from dashboard.cluster.connection.wire import Wire
from dashboard.cluster.live import connect
from dashboard.cluster.protocol.messages import MetadataRequest
from dashboard.cluster.topics import read_brokers
from dashboard.core.errors import ClusterError
from dashboard.domain.model import TopicPartition

# Seconds. librdkafka gives up after 60: whoever waits for longer always gets its answer, and lets
# no client go with a question open, which would end the process.
ANSWERS_WITHIN = 70


class Workload:
    """Acts on one cluster with plain clients; every topic is deleted by `close`."""

    def __init__(self, client: Mapping[str, str]) -> None:
        self._plain = dict(client)
        # Silent: these clients outlive the brokers that a test stops.
        self.client = {**client, "log_level": "0"}
        self.admin = AdminClient(self.client)
        self._topics: list[str] = []
        self._groups: set[str] = set()

    def close(self) -> None:
        remove(self.admin, self._groups, self._topics)

    def topic(
        self,
        partitions: int = 1,
        replicas: int = 3,
        *,
        assignment: Sequence[Sequence[int]] | None = None,
        **config: str,
    ) -> str:
        """A new topic; config keys with `_` for the dots. `assignment`: brokers per partition."""
        name = f"t-{uuid.uuid4().hex[:10]}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        if assignment is None:
            new = NewTopic(name, partitions, replicas, config=settings)
        else:
            new = NewTopic(
                name, len(assignment), replica_assignment=[list(a) for a in assignment],
                config=settings,
            )  # fmt: skip
        try:
            self.admin.create_topics([new])[name].result(ANSWERS_WITHIN)
        except KafkaException as error:  # the client asked again: the first answer came too late
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        self._topics.append(name)
        until_all_know(self._plain, name)
        return name

    def produce(self, topic: str, partition: int, count: int, size: int = 100) -> None:
        producer = Producer({**self.client, "acks": "all"})
        for _ in range(count):
            producer.produce(topic, b"x" * size, partition=partition)
        assert producer.flush(30) == 0

    def commit(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit without joining: the group is then Empty."""
        self._groups.add(group)
        commit(self._plain, group, {TopicPartition(*key): o for key, o in offsets.items()})

    @contextmanager
    def member(self, group: str, topic: str, protocol: str) -> Iterator[Consumer]:
        """A joined member that was assigned something."""
        consumer = Consumer(
            {**self.client, "group.id": group, "group.protocol": protocol,
             "auto.offset.reset": "earliest", "enable.auto.commit": False}
        )  # fmt: skip
        self._groups.add(group)
        consumer.subscribe([topic])
        until(lambda: consumer.poll(0.2) is not None and bool(consumer.assignment()), 60)
        try:
            yield consumer
        finally:
            consumer.close()


def remove(admin: AdminClient, groups: Collection[str], topics: Collection[str]) -> None:
    """Remove groups and then topics: a group that loses its last offset with its topic may read
    anything, and guards what comes next on these brokers.
    """
    for ask, names in ((admin.delete_consumer_groups, groups), (admin.delete_topics, topics)):
        # An admin client that goes before its answers came takes the process with it.
        for done in ask(sorted(names)).values() if names else ():
            with suppress(KafkaException):
                done.result(ANSWERS_WITHIN)


def commit(client: Mapping[str, str], group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Set a group's committed offsets, without any member; the group need not be there yet.

    Over our own wire: while a group has no coordinator, librdkafka's AlterConsumerGroupOffsets
    ends the process, and its consumer may wait forever.
    """
    deadline = time.monotonic() + 60
    while errors := _refusals(client, group, offsets):
        assert time.monotonic() < deadline, errors
        time.sleep(0.1)


def _refusals(
    client: Mapping[str, str], group: str, offsets: Mapping[TopicPartition, int]
) -> set[str]:
    try:
        with connect(client, timedelta(seconds=20)) as live:
            return {error for error in live.commit_offsets(group, offsets).values() if error}
    except ClusterError as error:
        return {error.code}


def until_all_know(client: Mapping[str, str], topic: str) -> None:
    """Created means known to the controller: each broker hears of it a moment later."""
    with open_connection(client, timeout=timedelta(seconds=30)) as connection:
        alive = [b.broker_id for b in read_brokers(connection, ()) if b.reachable]
        until(lambda: all(known(connection, broker, topic) for broker in alive), 60)


def known(connection: Connection, broker_id: int, topic: str) -> bool:
    """Whether this very broker lists the topic; a client would ask whichever it likes."""

    def request(wire: Wire) -> Any:
        version = wire.version(MetadataRequest, 12)
        one = MetadataRequest.MetadataRequestTopic(name=topic, version=version)
        return MetadataRequest(version=version, topics=[one], allow_auto_topic_creation=False)

    answer = connection.ask(broker_id, lambda wire, deadline: wire.ask(request, deadline))
    return not answer.topics[0].error_code


def until(condition: Callable[[], bool], seconds: float) -> None:
    """Wait until the condition holds; AssertionError when it does not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)
