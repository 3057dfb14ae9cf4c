"""Every record of a range of a partition, in order, by confluent-kafka.

Assigned by hand, from the leader, with Kafka's checksums checked; no group is joined and nothing
committed. What a transaction aborted comes too. Offsets that no record has are told by what is not
there: who reads compares the offsets, and asks the log (`batch_spans`) what lies between.

Brokers count what they send to any consumer. librdkafka counts what came of each broker, on the
wire and also beyond the range (its STATISTICS.md): so much of a topic's bytes out was read here.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from dashboard.cluster.connection.security import librdkafka_properties
from dashboard.cluster.protocol.messages import error_name
from dashboard.cluster.records import BY_HAND, TIME_TYPES, headers_of, refuse_others
from dashboard.domain.model import TopicPartition
from dashboard.domain.records import Took

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

OUT_OF_RANGE = "OFFSET_OUT_OF_RANGE"
TIMED_OUT = "TIMED_OUT"
# Kafka's leader is asked without progress for so long: an election, or a broker's restart, passes.
PATIENCE_SECONDS = 120.0
_REACH_SECONDS = 30.0
_TICK_SECONDS = 0.02  # also bounds what one call takes out of a queue that is filled meanwhile
_MOST_AT_ONCE = 1000
_SETTLES_SECONDS = 5.0  # what was asked for when a range ends has come by then
_FEW_BYTES = 256 << 10  # of values: more of them is a long range
_NO_RECORDS_BYTES = 256  # of each response, at most: its header, topic, partition and errors
_SILENT_SECONDS = 0.5  # an answer without records, so that who reads hears pause and cancel
_PROPERTIES = {
    **BY_HAND,
    "auto.offset.reset": "error",  # an offset that is gone must be told, never stepped over
    "check.crcs": "true",
    "client.rack": "",  # the leader's log is what the purge is of, not a follower's nearby
    "fetch.max.bytes": str(2 << 20),
    "fetch.wait.max.ms": "100",
    "fetch.queue.backoff.ms": "2",
    "queued.min.messages": "100000",
}
_SHORT = {
    "fetch.message.max.bytes": str(64 << 10),
    "queued.max.messages.kbytes": "64",
    # They name each partition of all topics that were read: of many topics they are megabytes.
    "statistics.interval.ms": "1000",
}
_LONG = {
    # A fetch is decompressed as a whole: of what shrinks to a hundredth 2 MiB are enough.
    "fetch.message.max.bytes": str(2 << 20),
    "queued.max.messages.kbytes": str(4 << 10),
    "statistics.interval.ms": "500",
}


class RangeError(Exception):
    """The range cannot be read further; `name` is Kafka's error, TIMED_OUT, or ours in words."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass(frozen=True, slots=True)
class Records:
    """The next records of a range, a list for each column of `archive.format.SCHEMA`.

    Whatever lies below `next` and is not there has no record, as the consumer tells.
    `epochs`: one past the last record of each leader epoch; None: of those of which none is told.
    """

    columns: dict[str, list[Any]]
    next: int
    epochs: Mapping[int | None, int]

    @property
    def offsets(self) -> list[int]:
        return self.columns["offset"]


class _Broker(msgspec.Struct):
    nodeid: int
    rxbytes: int
    rx: int


class _Statistics(msgspec.Struct):
    brokers: dict[str, _Broker] = {}


_STATISTICS = msgspec.json.Decoder(_Statistics)


def untold(_topic: str, _broker_id: int, _size_bytes: int) -> None:
    """Nobody asks."""


class RangeReader:
    """Consumers that read one range after another: for one thread; close it.

    A range begins with small fetches, since what is fetched beyond its end was sent in vain. Once
    it proves to be long another consumer goes on, which is of its topic alone. `took` hears what
    brokers sent of each topic, the last of it as this is closed. It is rather too little: of short
    ranges of several topics in one second nobody knows how much was whose, and a response counts
    less its envelope.
    """

    def __init__(
        self, client: Mapping[str, str], cluster_id: str, topic: str, took: Took = untold
    ) -> None:
        """Raises SettingsError, ClusterError where no broker answers, OtherClusterError."""
        self._properties = librdkafka_properties(client)
        self._cluster_id, self._took = cluster_id, took
        self._long: _Source | None = None
        self._short = self._made(_SHORT, topic)

    def close(self) -> None:
        """Leave the cluster; twice is once."""
        for source in (self._short, self._long):
            if source is not None:
                source.close()

    def read(
        self,
        key: TopicPartition,
        start: int,
        target: int,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> Generator[Records, None, None]:
        """Records from `start` up to but not `target`; the last ones have `target` as `next`.

        Ones without records come, too, about twice a second while Kafka gives none. Raises
        RangeError: OFFSET_OUT_OF_RANGE where the log begins above what comes next by now.
        """
        source, few = self._short, _FEW_BYTES
        source.assign(key, start)
        at, moved = start, time.monotonic()
        told = moved
        try:
            while at < target:
                found = source.next(key, at, target)
                now = time.monotonic()
                if found.next > at:
                    at, moved = found.next, now
                elif now - moved > patience_seconds:
                    raise RangeError(TIMED_OUT)
                elif now - told < _SILENT_SECONDS:
                    continue
                told = now
                yield found
                self._hear_others(source)
                if source is self._short and at < target:
                    few -= sum(len(value) for value in found.columns["value"] if value)
                    if few < 0:
                        source.unassign()
                        source = self._of_long(key.topic)
                        source.assign(key, at)
                        moved = time.monotonic()
        finally:
            source.unassign()

    def _hear_others(self, source: _Source) -> None:
        """What the other one says of itself would be kept for it else."""
        for other in (self._short, self._long):
            if other is not None and other is not source:
                other.hear()

    def _of_long(self, topic: str) -> _Source:
        if self._long is not None and self._long.topic != topic:
            self._long.close()
            self._long = None
        if self._long is None:
            self._long = self._made(_LONG, topic)
        return self._long

    def _made(self, own: Mapping[str, str], topic: str) -> _Source:
        source = _Source({**self._properties, **_PROPERTIES, **own}, self._took)
        try:
            source.refuse_others(topic, self._cluster_id)
        except BaseException:
            source.close()
            raise
        return source


class _Source:
    """A consumer, and of which `topic` that is what brokers sent to it; None: it read nothing."""

    def __init__(self, properties: Mapping[str, str], took: Took) -> None:
        self._properties, self._took = properties, took
        self.topic: str | None = None
        self._mixed = 0  # so many statistics to come may tell of another topic, too
        self._counted: dict[int, int] = {}
        self._heard = 0  # statistics since it was unassigned
        self._quiet = False  # nothing more had come by the last of them
        self._consumer = self._made()

    def refuse_others(self, topic: str, cluster_id: str) -> None:
        """Raises ClusterError where no broker answers, OtherClusterError."""
        refuse_others(self._consumer, topic, cluster_id, time.monotonic() + _REACH_SECONDS)

    def assign(self, key: TopicPartition, offset: int) -> None:
        """Read on from there."""
        from confluent_kafka import TopicPartition as Position

        if self.topic not in (None, key.topic):
            self._mixed = 2  # what was asked for before may come a moment later
        self.topic = key.topic
        self._consumer.assign([Position(*key, offset)])

    def unassign(self) -> None:
        """Ask for no more."""
        self._consumer.unassign()
        self._heard = 0

    def hear(self, seconds: float = 0) -> None:
        """Take what it says of itself, while nothing is assigned."""
        self._consumer.consume(1, seconds)

    def close(self) -> None:
        """Hear the rest of what was asked for, and leave; twice is once."""
        if self.topic is not None:  # who read may have been ended in the middle
            self.unassign()
        until = time.monotonic() + _SETTLES_SECONDS
        while self.topic is not None and time.monotonic() < until:
            if self._heard > 1 and self._quiet:
                break
            self.hear(_TICK_SECONDS)
        self.topic = None
        self._consumer.close()

    def _made(self) -> Consumer:
        from confluent_kafka import Consumer  # 40 ms, and only who reads records needs it

        self._counted = {}
        return Consumer({**self._properties, "stats_cb": self._count})

    def _count(self, told: str) -> None:
        """Hear librdkafka's statistics, inside `consume`."""
        came = False
        for broker in _STATISTICS.decode(told).brokers.values():
            if broker.nodeid < 0:  # an address to begin with, of which no records come
                continue
            size = broker.rxbytes - _NO_RECORDS_BYTES * broker.rx
            more = size - self._counted.get(broker.nodeid, 0)
            if more > 0:
                came = True
                self._counted[broker.nodeid] = size
                if self.topic is not None and not self._mixed:
                    self._took(self.topic, broker.nodeid, more)
        self._heard += 1
        self._quiet, self._mixed = not came, max(0, self._mixed - 1)

    def next(self, key: TopicPartition, at: int, target: int) -> Records:
        """The next records of what is assigned. Raises RangeError."""
        messages = self._consumer.consume(_MOST_AT_ONCE, _TICK_SECONDS)
        records = [m for m in messages if m.error() is None]
        end = at
        if len(records) < len(messages):
            end = self._end_told([m for m in messages if m.error() is not None], key, at)
        offsets = [int(m.offset() or 0) for m in records]
        if offsets and (offsets[0] < at or any(_place(m) != key for m in records)):
            raise RangeError(f"offset {offsets[0]} came where {at} was next")
        below = bisect_left(offsets, target)
        if below < len(offsets):  # a record beyond: all below has come
            end = target
        elif offsets:
            end = max(end, offsets[-1] + 1)
        columns = _columns(records[:below], offsets[:below])
        epochs = {m.leader_epoch(): o + 1 for m, o in zip(records[:below], offsets, strict=False)}
        return Records(columns, min(end, target), epochs)

    def _end_told(self, events: Sequence[Message], key: TopicPartition, at: int) -> int:
        """Up to where the log was read to its end; `at` where nobody said. Raises RangeError."""
        from confluent_kafka import KafkaError

        end = at
        for event in events:
            error = event.error()
            if error is None or _place(event) not in (key, (key.topic, -1)):
                continue  # of a broker, which is tried again, or of a group that we are not in
            code = error.code()
            if code == KafkaError._PARTITION_EOF:
                end = max(end, int(event.offset() or 0))
            elif code == KafkaError.MSG_SIZE_TOO_LARGE:
                # librdkafka asks for twice as much after each answer without a record, as where
                # the log cleaner took all of them, and at 1 GiB gives up.
                self.close()
                self._consumer = self._made()
                self.assign(key, at)
            elif code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                raise RangeError(OUT_OF_RANGE)
            else:
                raise RangeError((error_name(code) if code > 0 else error.name()) or str(code))
        return end


def _place(message: Message) -> tuple[str | None, int | None]:
    return message.topic(), message.partition()


def _columns(records: Sequence[Message], offsets: list[int]) -> dict[str, list[Any]]:
    stamps = [m.timestamp() for m in records]
    try:
        headers = headers_of(records)
    except ValueError as error:
        raise RangeError(str(error)) from error
    return {
        "offset": offsets,
        "timestamp": [at if kind in TIME_TYPES and at != -1 else None for kind, at in stamps],
        "timestamp_type": [TIME_TYPES.get(kind) for kind, _ in stamps],
        "key": [m.key() for m in records],
        "value": [m.value() for m in records],
        "headers": headers,
    }
