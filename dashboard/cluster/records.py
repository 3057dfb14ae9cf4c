"""Reads a few records of a partition by confluent-kafka: the first, the last, some between them.

The consumer assigns partitions by hand. librdkafka wants a group's id all the same, and asks who
coordinates it; it joins no group and commits nothing, so no broker ever lists one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, cast

from dashboard.cluster.connection.security import librdkafka_properties
from dashboard.cluster.protocol.messages import error_name
from dashboard.core.errors import ClusterError, OtherClusterError
from dashboard.domain.model import TopicPartition
from dashboard.domain.records import TIMED_OUT, Content, Header, LookedAt, Record, Span, TimeType

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, Producer

# Below a prefix that docs/acls.md names already: nobody's group, and none after this.
GROUP = "lowwater-probe-look"
_MOST_OF_VALUE = 64 * 1024
_MOST_OF_KEY = 1024
_READ_ON = 4  # so many offsets ahead come sooner by reading on than by another seek
_WHOLE_TOPIC = -1  # the partition of an error that is of all of a topic
_TICK_SECONDS = 0.1  # Ctrl-C is seen between two
TIME_TYPES: dict[int, TimeType] = {1: "create", 2: "append"}
# Of every consumer that is assigned by hand: it joins no group, commits nothing and makes no topic.
BY_HAND = {
    "group.id": GROUP,
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "allow.auto.create.topics": "false",
    # Records of aborted transactions lie below a target too, and go with it.
    "isolation.level": "read_uncommitted",
    "enable.partition.eof": "true",
}
_PROPERTIES = {
    **BY_HAND,
    # Retention may take an offset before it is fetched; the first record after it is meant then.
    "auto.offset.reset": "earliest",
    # A batch at a time (KIP-74): what is fetched beyond the record is of no use here.
    "fetch.message.max.bytes": "1",
    "fetch.wait.max.ms": "10",
    "queued.min.messages": "1",
    "fetch.queue.backoff.ms": "1",
}


def read_records(
    client: Mapping[str, str],
    cluster_id: str,
    spans: Mapping[TopicPartition, Span],
    *,
    sampled: int,
    values: bool,
    deadline: float,
) -> dict[TopicPartition, LookedAt]:
    """First, last and at most `sampled` records between them of each span, by their partitions.

    `values` keeps the first 64 KiB of each value, else its size alone. Needs READ on the topics.
    What was not read at the monotonic time `deadline` is left out, with TIMED_OUT. Raises
    SettingsError, ClusterError where no broker answers, and OtherClusterError.
    """
    found: dict[TopicPartition, LookedAt] = {}
    with closing(_Client(client, min(spans).topic, cluster_id, deadline)) as of_cluster:
        for key in sorted(spans):
            found[key] = _Look(of_cluster, key, spans[key], values, deadline).run(sampled)
    return found


class _Client:
    """A consumer of the one cluster, and after it another one."""

    def __init__(
        self, client: Mapping[str, str], topic: str, cluster_id: str, deadline: float
    ) -> None:
        self._properties = {**librdkafka_properties(client), **_PROPERTIES}
        self._of_cluster = topic, cluster_id, deadline
        self.consumer = self._reached()

    def anew(self) -> None:
        """Go on with a consumer that knows nothing of what this one has fetched."""
        self.close()
        self.consumer = self._reached()

    def close(self) -> None:
        """Leave the cluster; twice is once."""
        self.consumer.close()

    def _reached(self) -> Consumer:
        from confluent_kafka import Consumer  # 40 ms, and only who looks at records needs it

        consumer = Consumer(self._properties)
        try:
            refuse_others(consumer, *self._of_cluster)
        except BaseException:
            consumer.close()
            raise
        return consumer


def refuse_others(
    client: Consumer | Producer, topic: str, cluster_id: str, deadline: float
) -> None:
    """The addresses may lead elsewhere by now. Waits in steps: Ctrl-C ends it.

    Raises OtherClusterError, and ClusterError once the monotonic `deadline` is past.
    """
    from confluent_kafka import KafkaException

    last = "no broker answered"
    while time.monotonic() < deadline:
        try:
            reached = client.list_topics(topic, timeout=5 * _TICK_SECONDS).cluster_id
        except KafkaException as error:
            last = error.args[0].str()
            continue
        if reached == cluster_id:
            return
        if reached:
            raise OtherClusterError(
                str(reached),
                f"cluster {reached} answers, not {cluster_id}",
                "Correct the address, or collect from that cluster.",
            )
    raise ClusterError(
        f"records cannot be read: {last}", "Check the address and that the brokers run."
    )


class _Stopped(Exception):
    """The look at one partition ends here; its argument is an error's name, or ours in words."""


class _Look:
    """A consumer at one partition, and how far it has read."""

    def __init__(
        self, client: _Client, key: TopicPartition, span: Span, values: bool, deadline: float
    ) -> None:
        self._client = client
        self._key = key
        self._span = span
        self._values = values
        self._deadline = deadline
        self._known: list[tuple[int, Record | None]] = []  # what `_first_at` found from an offset
        self._next: int | None = None  # what comes next has this offset or a higher one
        self._said = ""  # what the client last told of brokers that it does not reach

    def run(self, sampled: int) -> LookedAt:
        """What of it can be read until the deadline, or until Kafka refuses."""
        first = last = None
        between: dict[int, Record] = {}
        error = None
        self._assign(self._span.start_offset)
        try:
            if first := self._first_at(self._span.start_offset):
                last = self._last_after(first)
                for offset in _evenly(first.offset, last.offset, sampled):
                    found = self._first_at(offset)
                    if found is not None and first.offset < found.offset < last.offset:
                        between[found.offset] = found
        except _Stopped as stopped:
            error = str(stopped)
        return LookedAt(
            *self._key, *self._span, first, last, [between[offset] for offset in sorted(between)],
            error, self._said,
        )  # fmt: skip

    def _last_after(self, first: Record) -> Record:
        """The last record below the target: by steps back that double, then by halves.

        Markers of transactions and what compaction took leave offsets without a record. That one
        comes at or after an offset is true up to the last record, and of no offset beyond it.
        """
        found, beyond, back = first, self._span.target_offset, 1
        while found.offset + 1 < beyond:
            lowest = found.offset + 1
            at = max(lowest, beyond - back) if found is first else (lowest + beyond) // 2
            if (record := self._first_at(at)) is None:
                beyond, back = at, 2 * back
            else:
                found = record
        return found

    def _first_at(self, offset: int) -> Record | None:
        """The first record at or after an offset; None: none comes before the target."""
        for asked, found in self._known:
            if asked <= offset and (found is None or offset <= found.offset):
                return found  # samples of one hole find one record
        found = self._read_at(offset)
        self._known.append((offset, found))
        return found

    def _read_at(self, offset: int) -> Record | None:
        if self._next is None or not 0 <= offset - self._next <= _READ_ON:
            self._seek(offset)
        while (message := self._poll()) is not None:
            at = int(message.offset() or 0)
            if at < (self._next or 0):  # the log was cut, and reading began anew
                raise _Stopped("OFFSET_OUT_OF_RANGE")
            self._next = at + 1
            if at >= offset:
                return _record(message, self._values) if at < self._span.target_offset else None
        self._next = None  # librdkafka tells the end of a log once: from here it has to seek
        return None

    def _seek(self, offset: int) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka import TopicPartition as Position

        try:
            self._client.consumer.seek(Position(*self._key, offset))
        except KafkaException:  # no fetch has begun yet
            self._assign(offset)
        self._next = offset

    def _assign(self, offset: int) -> None:
        from confluent_kafka import TopicPartition as Position

        self._client.consumer.assign([Position(*self._key, offset)])
        self._next = offset

    def _poll(self) -> Message | None:
        """The next record of any kind; None at the log's end. Raises _Stopped."""
        from confluent_kafka import KafkaError

        while (left := self._deadline - time.monotonic()) > 0:
            message = self._client.consumer.poll(min(left, _TICK_SECONDS))
            if message is None:
                continue
            error = message.error()
            if message.topic() != self._key.topic or message.partition() not in (
                self._key.partition,
                _WHOLE_TOPIC,
            ):
                # Of a broker, which is tried again, or of a group that we are not in.
                self._said = error.str() if error is not None else self._said
            elif error is None:
                return message
            elif error.code() == KafkaError._PARTITION_EOF:
                return None
            elif error.code() == KafkaError.MSG_SIZE_TOO_LARGE and self._next is not None:
                # For each answer without a record librdkafka asks for twice as much from then on,
                # and for ever; at 1 GiB it takes the next such hole for a record beyond that.
                self._client.anew()
                self._assign(self._next)
            else:
                raise _Stopped(error_name(error.code()) if error.code() > 0 else error.name()[1:])
        raise _Stopped(TIMED_OUT)


def _evenly(first: int, last: int, count: int) -> list[int]:
    """At most `count` offsets between two, spread evenly: two looks show the same records."""
    wanted = min(count, last - first - 1)
    return [first + (i + 1) * (last - first) // (wanted + 1) for i in range(wanted)]


def headers_of(messages: Sequence[Message]) -> list[list[tuple[str, bytes | None]]]:
    """The headers of each record. Raises ValueError, with the offsets, where one has no text."""
    try:
        return cast("list[list[tuple[str, bytes | None]]]", [m.headers() or [] for m in messages])
    except (SystemError, UnicodeError) as error:  # what confluent-kafka makes of such a name
        first, last = messages[0].offset(), messages[-1].offset()
        where = f"offset {first}" if first == last else f"one of offsets {first} to {last}"
        raise ValueError(f"a header's name is not UTF-8 at {where}") from error


def _record(message: Message, values: bool) -> Record:
    """Raises _Stopped where its headers cannot be told."""
    kind, timestamp_ms = message.timestamp()
    try:
        (headers,) = headers_of([message])
    except ValueError as error:
        raise _Stopped(str(error)) from error
    return Record(
        offset=int(message.offset() or 0),
        timestamp_ms=timestamp_ms if kind in TIME_TYPES else None,
        time_type=TIME_TYPES.get(kind),
        key=_content(message.key(), _MOST_OF_KEY),
        value=_content(message.value(), _MOST_OF_VALUE if values else None),
        headers=tuple(Header(name, _content(value, _MOST_OF_KEY)) for name, value in headers),
    )


def _content(found: bytes | None, most: int | None) -> Content | None:
    if found is None:
        return None
    return Content(len(found), None if most is None else found[:most])
