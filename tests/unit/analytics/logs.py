"""Logs whose every byte is known, for estimators to be measured against."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from analytics.replicas.history import Looks
from analytics.replicas.points import Points
from dashboard.estimate.curve_tables import PLACE, ReplicaCurves
from dashboard.estimate.curves import Curves, Freed, curves_of

SEGMENT = 1000
MINUTE = 60_000_000  # microseconds


@dataclass
class Log:
    """One replica's log as a broker keeps it: batches in segments that roll by size."""

    start: int = 0
    sizes: list[int] = field(default_factory=list)  # of each record, by offset
    bases: list[int] = field(default_factory=lambda: [0])
    segment_bytes: int = SEGMENT

    @property
    def end(self) -> int:
        return len(self.sizes)

    def append(self, sizes: Sequence[int]) -> None:
        active = sum(self.sizes[self.bases[-1] :])
        for size in sizes:
            if active + size > self.segment_bytes:
                self.bases.append(self.end)
                active = 0
            self.sizes.append(size)
            active += size

    def truncate(self, start: int) -> int:
        """Move the log start and delete segments as a broker does; the bytes that left."""
        before = self.size
        self.start = start
        while len(self.bases) > 1 and self.bases[1] <= start:
            self.bases.pop(0)
        return before - self.size

    @property
    def size(self) -> int:
        return sum(self.sizes[self.bases[0] :])

    def below(self, offset: int) -> int:
        """Bytes on the disk below an offset."""
        return sum(self.sizes[self.bases[0] : offset])

    def once(self, target: int) -> int:
        """Bytes of the segments whose successor begins at or below the target."""
        passed = [base for base in self.bases if base <= target]
        return self.below(passed[-1])

    def rows(self, at: int = 0, *, preallocate: bool = False) -> list[dict[str, Any]]:
        """Its segments as an inventory lists them that was made at a time in microseconds."""
        ends = [*self.bases[1:], self.end]
        return [
            {"broker_id": 1, "log_dir": "/d1", "directory": "t-0", "base_offset": base,
             "topic": "t", "partition": 0, "topic_id": "id", "kind": "live",
             "log_bytes": self.segment_bytes if preallocate and base == self.bases[-1]
             else sum(self.sizes[base:end]), "scanned_at": at}
            for base, end in zip(self.bases, ends, strict=True)
        ]  # fmt: skip


def places(*topics: str, topic_id: str | None = "id") -> pa.Table:
    rows = [{"topic": t, "partition": 0, "broker_id": 1, "log_dir": "/d1"} for t in topics]
    fields = [("topic", pa.string()), ("partition", pa.int32()), ("broker_id", pa.int32())]
    table = pa.Table.from_pylist(rows, schema=pa.schema([*fields, ("log_dir", pa.string())]))
    ids = pa.array([topic_id] * len(rows), pa.string())
    return table.select(PLACE).append_column("topic_id", ids)


def points(*logs: Log, topics: Sequence[str] = ("t",), topic_id: str | None = "id") -> Points:
    return seen(
        [log.start for log in logs],
        [log.end for log in logs],
        [log.size for log in logs],
        places(*topics, topic_id=topic_id),
    )


def seen(
    start: Iterable[int],
    end: Iterable[int],
    size: Iterable[int],
    whose: pa.Table,
    *,
    ends_told: bool = True,
    delete_only: bool = True,
    leader_epoch: int = 0,
) -> Points:
    """Replicas that told their own log ends, and whose topics are not compacted, unless said."""
    columns = (np.array(list(values), np.int64) for values in (start, end, size))
    flags = (np.full(whose.num_rows, flag) for flag in (ends_told, delete_only))
    numbers = (np.full(whose.num_rows, number) for number in (0, leader_epoch))
    return Points(*columns, whose, *flags, *numbers)


def looks(step: int) -> Looks:
    """Of one snapshot a minute, which take a second each; the first is that of step 1."""
    return Looks((step - 1) * MINUTE, step * MINUTE + MINUTE // 60)


def nothing() -> ReplicaCurves:
    return ReplicaCurves(places(), curves_of([], [], 0))


def freed(curves: Curves, start: int, target: int) -> Freed:
    found = ReplicaCurves(places("t"), curves).with_segment_bytes(np.array([SEGMENT])).curves
    return found.freed(np.array([start]), np.array([target]))
