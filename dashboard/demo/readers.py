"""Who keeps reading the demo's topics: groups that commit, and one reader that never does."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message
from confluent_kafka import TopicPartition as Position

from dashboard.demo.clients import LOG, client
from dashboard.demo.truth import KEEPS_UP, GroupTruth, TopicTruth

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
        self._consumer = Consumer(client(bootstrap, **_READER, **{"group.id": group.group_id}))
        self._consumer.subscribe(list(topics))

    def tick(self) -> None:
        messages = self._consumer.consume(self._most, timeout=0.01)
        if sum(_is_record(message) for message in messages):
            self._consumer.commit(asynchronous=True)

    def close(self) -> None:
        self._consumer.close()


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
