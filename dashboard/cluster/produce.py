"""Writes records into partitions by confluent-kafka, in order and once: for restoring alone.

Beside DeleteRecords, offsets of waived groups and a new topic this is the one thing that changes a
cluster; a contract of import-linter lets nothing but `archive/restore` import it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.cluster.connection.security import librdkafka_properties
from dashboard.cluster.protocol.messages import error_name
from dashboard.cluster.ranges import RangeError, RangeReader, Records, untold
from dashboard.cluster.records import refuse_others
from dashboard.core.errors import ClusterError
from dashboard.domain.model import TopicPartition
from dashboard.domain.records import Chunk, Row, Took

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, KafkaException, Message

_NO_TIME = -1  # org.apache.kafka.common.record.RecordBatch.NO_TIMESTAMP
_MOST_BATCH_BYTES = 1_000_000
_TICK_SECONDS = 0.1  # Ctrl-C is seen between two
_TELLS_WITHIN = 10  # ticks
_EACH_POLL = 1000
_PROPERTIES = {
    "acks": "all",
    # In order and once, whatever is sent again; what cannot be sent ends all, and leaves no gap.
    "enable.idempotence": True,
    "enable.gapless.guarantee": True,
    # Given up by us where nothing moves: librdkafka would leave the record out.
    "message.timeout.ms": 0,
    "delivery.report.only.error": True,
    "allow.auto.create.topics": False,
    "message.max.bytes": 1_000_000_000,  # of a record before it is packed: the broker judges it
    "queue.buffering.max.kbytes": 128 << 10,
    "queue.buffering.max.messages": 200_000,
    "linger.ms": 20,
}


@dataclass
class RecordClient:
    """The records of one cluster, by client properties in librdkafka's words: written, and read
    back, one range at a time. `patience_seconds` is how long nothing may move; `took` hears how
    much was read back, the last of it as this is closed.
    """

    client: Mapping[str, str] = field(repr=False)
    cluster_id: str
    compression: str = "lz4"
    patience_seconds: float = 120.0
    took: Took = field(default=untold, repr=False)
    _reader: RangeReader | None = field(default=None, init=False, repr=False)
    _ranges: Generator[Records, None, None] | None = field(default=None, init=False, repr=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the cluster. It takes a reader seconds, so that one reads all ranges."""
        self._end_range()
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _end_range(self) -> None:
        if self._ranges is not None:
            self._ranges.close()
            self._ranges = None

    def producer(self, topic: str, segment_bytes: int | None) -> RecordProducer:
        """Raises as `RecordProducer` does."""
        return RecordProducer(
            self.client, self.cluster_id, topic, compression=self.compression,
            segment_bytes=segment_bytes, patience=self.patience_seconds,
        )  # fmt: skip

    def read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Chunk]:
        """Its records from `start` up to but not `end`, in order, as a producer would take them.

        Raises ClusterError RECORDS_UNREAD, OtherClusterError and SettingsError.
        """
        self._end_range()  # who compared the one before may have stopped amid it
        if self._reader is None:
            self._reader = RangeReader(self.client, self.cluster_id, topic, self.took)
        key = TopicPartition(topic, partition)
        own = self._ranges = self._reader.read(key, start, end, self.patience_seconds)
        try:
            for found in own:
                if found.offsets:
                    yield found.offsets, _rows(found.columns)
        except RangeError as error:
            self.close()  # what it has fetched belongs to no other range
            raise ClusterError(
                f"records of {topic}-{partition} could not be read back: {error.name}",
                "Grant READ on the topic and look at its leader, then give the same command again.",
                code="RECORDS_UNREAD",
                retriable=True,
            ) from error
        finally:
            own.close()


def _rows(columns: Mapping[str, list[Any]]) -> list[Row]:
    times = [_NO_TIME if at is None else at for at in columns["timestamp"]]
    headers = [found or None for found in columns["headers"]]
    return list(zip(columns["key"], columns["value"], times, headers, strict=True))


class RecordProducer:
    """Sends to one topic of the one cluster. Close it: what was not sent by then is dropped.

    What lies in a partition is at any moment the first of what was given for it, also after a
    kill. `patience` in seconds is how long no record may be taken before it gives up.
    """

    def __init__(
        self,
        client: Mapping[str, str],
        cluster_id: str,
        topic: str,
        *,
        compression: str = "lz4",
        segment_bytes: int | None = None,
        patience: float = 120.0,
    ) -> None:
        """`segment_bytes` of the topic: no batch may be larger. Raises ClusterError,
        OtherClusterError and SettingsError.
        """
        from confluent_kafka import Producer  # it takes 40 ms to load

        most = min(_MOST_BATCH_BYTES, (segment_bytes or _MOST_BATCH_BYTES) // 2 + 1)
        self._topic, self._patience = topic, patience
        self._failed: ClusterError | None = None
        self._last_said = ""
        self._producer = Producer(
            {
                **librdkafka_properties(client), **_PROPERTIES, "compression.type": compression,
                "batch.size": most, "on_delivery": self._not_delivered, "error_cb": self._said,
            }
        )  # fmt: skip
        refuse_others(self._producer, topic, cluster_id, time.monotonic() + patience)

    def __enter__(self) -> RecordProducer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, partition: int, batch: pa.RecordBatch) -> None:
        """Queue records of the columns `timestamp`, `key`, `value` and `headers`; waits for room.

        Raises ClusterError RECORD_REFUSED where a broker did not take one before, and
        RESTORE_STALLED.
        """
        from confluent_kafka import KafkaException

        produce: Callable[..., None] = self._producer.produce
        topic = self._topic
        for at, (key, value, timestamp, headers) in enumerate(rows_of(batch), 1):
            while True:
                try:
                    produce(topic, value, key, partition, None, None, timestamp, headers)
                    break
                except BufferError:
                    self._wait()
                except KafkaException as error:  # nothing more is taken after what was not
                    raise self._fatal(error) from error
            if at % _EACH_POLL == 0:
                self._poll(0)

    def finish(self) -> None:
        """Return once brokers took all of it, every replica in sync too. Raises as `send`."""
        while len(self._producer):
            self._wait()
        self._poll(0)

    def close(self) -> None:
        """Drop what waits; what is on its way may still arrive, in order."""
        from confluent_kafka import KafkaException

        with suppress(KafkaException):  # it ended by one already
            self._producer.purge(in_queue=True, in_flight=False, blocking=False)
            self._producer.flush(1)

    def _wait(self) -> None:
        until, before = time.monotonic() + self._patience, len(self._producer)
        while True:
            self._poll(_TICK_SECONDS)
            if len(self._producer) < before:
                return
            if time.monotonic() > until:
                raise ClusterError(
                    f"no broker took a record of {self._topic} for {self._patience:g} s: "
                    f"{self._last_said or 'none answers'}",
                    "Look at the brokers, then give the same command again: it goes on.",
                    code="RESTORE_STALLED",
                    retriable=True,
                )

    def _poll(self, seconds: float) -> None:
        from confluent_kafka import KafkaException

        try:
            self._producer.poll(seconds)
        except KafkaException as error:
            raise self._fatal(error) from error
        if self._failed is not None:
            raise self._failed

    def _fatal(self, error: KafkaException) -> ClusterError:
        """What ended it: the record's own error, once librdkafka tells of the record."""
        from confluent_kafka import KafkaException

        for _ in range(_TELLS_WITHIN):
            if self._failed is not None:
                return self._failed
            with suppress(KafkaException):
                self._producer.poll(_TICK_SECONDS)
        return self._failed or _not_taken(self._topic, None, error.args[0].str())

    def _not_delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None or self._failed is not None:
            return
        name = error_name(error.code()) if error.code() > 0 else error.name().lstrip("_")
        self._failed = _not_taken(self._topic, message.partition(), str(name))

    def _said(self, error: KafkaError) -> None:
        self._last_said = error.str()


def _not_taken(topic: str, partition: int | None, name: str) -> ClusterError:
    where = topic if partition is None else f"{topic}-{partition}"
    return ClusterError(
        f"a record for {where} was not taken: {name}",
        _NEXT.get(name, "Look at the brokers, then give the same command again."),
        code="RECORD_REFUSED",
    )


_NEXT = {
    "MESSAGE_SIZE_TOO_LARGE": "Raise max.message.bytes of the topic, then give the command again.",
    "TOPIC_AUTHORIZATION_FAILED": "Grant WRITE on the topic, then give the same command again.",
    "INVALID_TIMESTAMP": "Set message.timestamp.before.max.ms and message.timestamp.after.max.ms "
    "of the topic to 9223372036854775807, then give the same command again.",
    "POLICY_VIOLATION": "See what the brokers' policy asks of records.",
}


def rows_of(batch: pa.RecordBatch) -> Iterator[Row]:
    """Key, value, time in ms (-1: none) and headers of each record, as a producer takes them.

    A time of 0 is 1 here: librdkafka takes 0 for the time of sending.
    """
    times = pc.fill_null(batch.column("timestamp").cast(pa.int64()), _NO_TIME).to_numpy()
    times = np.where(times == 0, 1, times).tolist()
    return zip(
        values_of(batch.column("key")),
        values_of(batch.column("value")),
        times,
        _headers(batch.column("headers")),
        strict=True,
    )


def values_of(column: pa.Array) -> Sequence[bytes | None]:
    """The bytes of each row, sliced out of Arrow's buffer: a fifth of what `to_pylist` takes."""
    if len(column) == 0:
        return []
    _, offsets, data = column.buffers()
    kind = np.int64 if pa.types.is_large_binary(column.type) else np.int32
    ends = np.frombuffer(offsets, kind)[column.offset : column.offset + len(column) + 1].tolist()
    first = ends[0]
    whole = b"" if data is None else data.slice(first, ends[-1] - first).to_pybytes()
    found: list[bytes | None] = [
        whole[start - first : end - first] for start, end in pairwise(ends)
    ]
    if column.null_count:
        valid = column.is_valid().to_pylist()
        found = [value if there else None for value, there in zip(found, valid, strict=True)]
    return found


def _headers(column: pa.ListArray) -> Iterator[list[tuple[str, bytes | None]] | None]:
    flat = column.flatten()
    if len(flat) == 0:
        return iter([None] * len(column))
    pairs = list(zip(flat.field(0).to_pylist(), flat.field(1).to_pylist(), strict=True))
    counts = pc.list_value_length(column).to_pylist()
    return _parted(pairs, counts)


def _parted(
    pairs: list[tuple[str, bytes | None]], counts: list[int]
) -> Iterator[list[tuple[str, bytes | None]] | None]:
    at = 0
    for count in counts:
        yield pairs[at : at + count] or None
        at += count
