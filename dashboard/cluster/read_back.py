"""Reads the records of a range back as a producer would take them: for comparing what was restored.

As `records.py` it assigns partitions by hand, joins no group and commits nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, cast

from dashboard.cluster.connection.security import librdkafka_properties
from dashboard.cluster.protocol.messages import error_name
from dashboard.cluster.records import GROUP, refuse_others
from dashboard.core.errors import ClusterError
from dashboard.domain.model import TopicPartition
from dashboard.domain.records import Row, Span

if TYPE_CHECKING:
    from confluent_kafka import Message

_AT_ONCE = 2000
_TICK_SECONDS = 0.1  # Ctrl-C is seen between two
_NOT_AVAILABLE = 0  # of a time's type
_PROPERTIES = {
    "group.id": GROUP,
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "allow.auto.create.topics": "false",
    "isolation.level": "read_uncommitted",
    "auto.offset.reset": "error",  # a log that was cut is never read from another place
    "enable.partition.eof": "true",
    "check.crcs": "true",
    "queued.max.messages.kbytes": "32768",
}
Chunk = tuple[list[int], list[Row]]  # offsets, and the record at each


def read_back(
    client: Mapping[str, str],
    cluster_id: str,
    key: TopicPartition,
    span: Span,
    *,
    patience: float = 60.0,
) -> Iterator[Chunk]:
    """The records of a span in order, its target left out; needs READ on the topic.

    `patience` in seconds is how long none may come. Raises ClusterError RECORDS_UNREAD,
    OtherClusterError and SettingsError.
    """
    import confluent_kafka as kafka  # it takes 40 ms to load

    at, end = span
    with closing(kafka.Consumer({**librdkafka_properties(client), **_PROPERTIES})) as consumer:
        refuse_others(consumer, key.topic, cluster_id, time.monotonic() + patience)
        consumer.assign([kafka.TopicPartition(*key, at)])
        until = time.monotonic() + patience
        while at < end:
            messages = consumer.consume(_AT_ONCE, _TICK_SECONDS)
            found = [one for one in messages if not _ended(one, key)]
            if found:
                chunk = _chunk(found, end)
                at, until = int(found[-1].offset() or 0) + 1, time.monotonic() + patience
                yield chunk
            elif len(messages) > len(found):  # the log ends here: markers alone lie before `end`
                return
            elif time.monotonic() > until:
                raise _unread(key, f"none came for {patience:g} s")


def _ended(message: Message, key: TopicPartition) -> bool:
    """Whether it tells the end of the log, and no record. Raises ClusterError for an error."""
    from confluent_kafka import KafkaError

    error = message.error()
    if error is None:
        return False
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    name = error_name(error.code()) if error.code() > 0 else error.name().lstrip("_")
    raise _unread(key, str(name))


def _chunk(messages: list[Message], end: int) -> Chunk:
    offsets = [cast(int, one.offset()) for one in messages]
    rows = [(m.key(), m.value(), _time(m), m.headers() or None) for m in messages]
    if offsets[-1] >= end:
        most = next(at for at, offset in enumerate(offsets) if offset >= end)
        offsets, rows = offsets[:most], rows[:most]
    return offsets, cast("list[Row]", rows)


def _time(message: Message) -> int:
    kind, milliseconds = message.timestamp()
    return -1 if kind == _NOT_AVAILABLE else milliseconds


def _unread(key: TopicPartition, why: str) -> ClusterError:
    return ClusterError(
        f"records of {key.topic}-{key.partition} could not be read back: {why}",
        "Grant READ on the topic and look at its leader, then give the same command again.",
        code="RECORDS_UNREAD",
        retriable=True,
    )
