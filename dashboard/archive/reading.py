"""What was read of a range: records that grow to a part, and offsets that no record has.

A consumer steps over markers of transactions, and over what the log cleaner took, in silence. So
each step is held against the headers of the batches there. What they do not explain is missing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dashboard.archive.format import SCHEMA, Contents, PartWriter, batch_of
from dashboard.archive.manifest import Gap, Why
from dashboard.cluster.ranges import Records
from dashboard.domain.model import BatchSpan

_GROUP_BYTES = 2 << 20  # of a row group: what is held as Python's objects
_GROUP_RECORDS = 50_000
_OF_A_RECORD = 24  # what an empty record takes: offset, time, lengths

# Headers of the batches from an offset on; Kafka's error name where they cannot be read.
Spans = Callable[[int], tuple[BatchSpan, ...] | str]


class Missing(Exception):
    """Offsets are not there, and nothing tells why; the argument says it in words."""


@dataclass
class Explainer:
    """Explains gaps of one range, in rising order. `compacted`: the log cleaner works on it.
    `epochs`: of the batches that explained, how far each leader epoch reached.
    """

    spans: Spans
    compacted: bool
    epochs: dict[int, int] = field(default_factory=dict)
    _known: Sequence[BatchSpan] = ()
    _at: int = 0  # of those that are known: the ones before lie below what was asked last
    _taken: tuple[int, int] = (-1, 0)  # of the last batch, by base offset: offsets without record

    def explain(self, gaps: Iterable[tuple[int, int]]) -> tuple[Gap, ...]:
        """What each offset of these gaps was, neighbours of one kind together. Raises Missing."""
        found: list[Gap] = []
        for first, end in gaps:
            at = first
            while at < end:
                until, why = self._step(at, end)
                if found and (found[-1].next, found[-1].why) == (at, why):
                    found[-1] = Gap(found[-1].first, until, why)
                else:
                    found.append(Gap(at, until, why))
                at = until
        return tuple(found)

    def _step(self, at: int, end: int) -> tuple[int, Why]:
        span = self._span_at(at)
        if span is None:
            raise Missing(f"offsets {at} to {end - 1} are not in the log, and nothing is behind")
        if span.base_offset > at:  # between two batches
            saw(self.epochs, span.leader_epoch, span.base_offset + 1)
            until = min(end, span.base_offset)
            return until, self._by_cleaner(at, until)
        saw(self.epochs, span.leader_epoch, span.last_offset + 1)
        until = min(end, span.last_offset + 1)
        if span.control:
            return until, "control"
        base, before = self._taken
        taken = until - at + (before if base == span.base_offset else 0)
        self._taken = span.base_offset, taken
        left = span.last_offset - span.base_offset + 1 - taken
        if left < span.records:
            raise Missing(
                f"offsets {at} to {until - 1} have no record, and the batch at {span.base_offset} "
                f"holds {span.records}"
            )
        return until, self._by_cleaner(at, until)

    def _by_cleaner(self, at: int, until: int) -> Why:
        if not self.compacted:
            raise Missing(
                f"offsets {at} to {until - 1} are not in the log, and no log cleaner works on it"
            )
        return "compacted"

    def _span_at(self, at: int) -> BatchSpan | None:
        """The batch that holds an offset, or the first behind it; None at the log's end."""
        for anew in (False, True):
            if anew:
                found = self.spans(at)
                if isinstance(found, str):
                    raise Missing(f"what lies at offset {at} cannot be read: {found}")
                self._known, self._at = found, 0
            while self._at < len(self._known) and self._known[self._at].last_offset < at:
                self._at += 1
            if self._at < len(self._known):
                return self._known[self._at]
        return None


def saw(epochs: dict[int, int], leader_epoch: int, epoch_to: int) -> None:
    """A batch of a leader epoch that reaches up to but not `epoch_to`."""
    epochs[leader_epoch] = max(epoch_to, epochs.get(leader_epoch, 0))


def gaps_between(start: int, offsets: ArrayLike, end: int) -> list[tuple[int, int]]:
    """Where offsets from `start` up to but not `end` are not among these ascending ones."""
    points = np.concatenate(([start - 1], np.asarray(offsets, np.int64), [end]))
    steps = np.flatnonzero(np.diff(points) > 1)
    return [(int(points[n]) + 1, int(points[n + 1])) for n in steps]


class GrowingPart:
    """Records of a part while it grows, and how far each leader epoch reached that they are of."""

    def __init__(self, first: int, level: int) -> None:
        """It begins at offset `first`; `level` is of zstd."""
        self.first = self.next = first
        self.size_bytes = 0  # of what was added, as it lies in memory
        self.holes = 0  # gaps between the records that were added at once
        self.epochs: dict[int, int] = {}
        self._writer = PartWriter(level)
        self._offsets: list[np.ndarray] = []
        self._group: dict[str, list[Any]] = {name: [] for name in SCHEMA.names}
        self._group_bytes = 0

    def add(self, records: Records) -> int:
        """The records behind those before: their bytes. Raises Missing where no epoch is told."""
        size = _size(records)
        if records.offsets:
            for leader_epoch, epoch_to in records.epochs.items():
                if leader_epoch is None:
                    raise Missing(f"no leader epoch is told of offset {epoch_to - 1}")
                saw(self.epochs, leader_epoch, epoch_to)
            offsets = np.asarray(records.offsets, np.int64)
            self._offsets.append(offsets)
            self.holes += int(np.count_nonzero(np.diff(offsets) > 1))
            for name, column in self._group.items():
                column.extend(records.columns[name])
            self._group_bytes += size
            if self._group_bytes >= _GROUP_BYTES or len(self._group["offset"]) >= _GROUP_RECORDS:
                self._flush()
        self.next = records.next
        self.size_bytes += size
        return size

    def gaps(self) -> list[tuple[int, int]]:
        """Where offsets of it are no record's."""
        found = np.concatenate(self._offsets) if self._offsets else np.array([], np.int64)
        return gaps_between(self.first, found, self.next)

    def finish(self) -> tuple[Contents, bytes]:
        """What it holds, and its bytes; it is not held twice: nothing may be added any more."""
        self._flush()
        writer = self._writer
        del self._writer
        body = writer.finish()
        return writer.contents, body

    def _flush(self) -> None:
        if self._group["offset"]:
            self._writer.add(batch_of(self._group))
            self._group = {name: [] for name in self._group}
            self._group_bytes = 0


class Pace:
    """Bytes a second of all readers together; None: no limit."""

    def __init__(self, bytes_per_second: int | None) -> None:
        self._rate = bytes_per_second
        self._lock = threading.Lock()
        self._free_at = 0.0

    def took(self, size_bytes: int, wait: Callable[[float], object]) -> None:
        """Wait until so many bytes more are within the rate."""
        if self._rate is None:
            return
        with self._lock:
            now = time.monotonic()
            self._free_at = max(now, self._free_at) + size_bytes / self._rate
            until = self._free_at - now
        wait(until)


def _size(records: Records) -> int:
    columns = records.columns
    named = (header for headers in columns["headers"] for header in headers)
    return (
        _OF_A_RECORD * len(columns["offset"])
        + sum(len(key) for key in columns["key"] if key)
        + sum(len(value) for value in columns["value"] if value)
        + sum(len(name) + len(value or b"") for name, value in named)
    )
