"""A partition's log in memory as a consumer and batches' headers show it, for tests of archives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from dashboard.archive.manifest import ArchivedTopic, Range, RunArchive
from dashboard.cluster.ranges import OUT_OF_RANGE, RangeError, Records
from dashboard.domain.model import BatchSpan, PartitionOffsets, TopicPartition

TOPIC, TOPIC_ID = "orders", "id-1"
KEY = TopicPartition(TOPIC, 0)


@dataclass(frozen=True)
class Batch:
    """One batch: the offsets that it spans, those of them that have a record, and its kind."""

    first: int
    last: int
    offsets: tuple[int, ...]
    control: bool = False
    epoch: int = 1


def data(first: int, last: int, *, without: Sequence[int] = (), epoch: int = 1) -> Batch:
    """A batch of records, some of which the log cleaner took."""
    return Batch(
        first, last, tuple(o for o in range(first, last + 1) if o not in without), False, epoch
    )


def marker(offset: int, epoch: int = 1) -> Batch:
    """A transaction's marker."""
    return Batch(offset, offset, (offset,), True, epoch)


def value_of(offset: int) -> bytes | None:
    """Every seventh is a tombstone, the others have no two the same."""
    return None if offset % 7 == 0 else b"%d" % offset * (1 + offset % 3)


@dataclass
class KeptLog:
    """Partition logs, a consumer of them, and what was read. `lost`: offsets that the consumer
    steps over though the log has them. `on_read` is called before each answer.
    """

    batches: list[Batch]
    log_start: int = 0
    lost: tuple[int, ...] = ()
    at_once: int = 3
    on_read: Callable[[int], None] = lambda _: None
    reads: list[tuple[int, int]] = field(default_factory=list)
    open_readers: int = 0

    @property
    def end(self) -> int:
        return self.batches[-1].last + 1 if self.batches else self.log_start

    # -- as `Reader`

    def reader(self) -> KeptLog:
        self.open_readers += 1
        return self

    def close(self) -> None:
        self.open_readers -= 1

    def read(self, _key: TopicPartition, start: int, target: int) -> Iterator[Records]:
        self.reads.append((start, target))
        at = start
        while at < target:
            self.on_read(at)
            if at < self.log_start:
                raise RangeError(OUT_OF_RANGE)
            found = [
                (o, b.epoch)
                for b in self.batches
                if not b.control
                for o in b.offsets
                if o >= at and o not in self.lost
            ][: self.at_once]
            below = [(o, epoch) for o, epoch in found if o < target]
            at = target if len(below) < len(found) or not found else below[-1][0] + 1
            if len(found) < self.at_once:
                at = target
            yield Records(columns([o for o, _ in below]), at, {epoch: o + 1 for o, epoch in below})

    # -- as `Log`

    def batch_spans(
        self, _key: TopicPartition, offset: int, _most_bytes: int
    ) -> tuple[BatchSpan, ...] | str:
        if offset < self.log_start:
            return OUT_OF_RANGE
        found = [b for b in self.batches if b.last >= offset]
        return tuple(
            BatchSpan(b.first, b.last, len(b.offsets), b.control, b.epoch) for b in found[:2]
        )

    def offsets(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, PartitionOffsets]:
        return {
            key: PartitionOffsets(*key, self.log_start, self.end, self.end) for key in partitions
        }


def columns(offsets: Sequence[int]) -> dict[str, list[Any]]:
    """The records of these offsets, as a consumer gives them."""
    return {
        "offset": list(offsets),
        "timestamp": [1_700_000_000_000 + o for o in offsets],
        "timestamp_type": ["create" for _ in offsets],
        "key": [None if o % 5 == 0 else b"k%d" % (o % 4) for o in offsets],
        "value": [value_of(o) for o in offsets],
        "headers": [[("trace", b"%d" % o)] if o % 4 == 0 else [] for o in offsets],
    }


def run_of(*ranges: Range) -> RunArchive:
    """The manifest of a run that is to keep these ranges."""
    return replace(_RUN, partitions=ranges or (Range(TOPIC, 0, 0, 20),))


_RUN = RunArchive(
    "c1", "local", "r1", "ab" * 32, datetime(2026, 3, 1, tzinfo=UTC), "open", None,
    (ArchivedTopic(TOPIC, TOPIC_ID, 2, 3, {"retention.ms": "1000"}),), (),
)  # fmt: skip
