"""Compares what lies in a topic with an archive, record for record, and maps old offsets to new.

Of restores alone, and apart from them, since it decides whether one may be called done.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dashboard.archive.manifest import PartitionArchive
from dashboard.domain.records import Chunk, Row

Pairs = Callable[[list[int], list[int]], None]  # old offsets, and the new one of each
_ROWS_AT_ONCE = 1 << 18
_FIELDS = ("key", "value", "time", "headers")
MAP = pa.schema(
    [
        pa.field("topic", pa.dictionary(pa.int8(), pa.string())),
        pa.field("partition", pa.int32()),
        pa.field("old_offset", pa.int64()),
        pa.field("new_offset", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Compared:
    """`records` of the archive were found in order, the first at one offset, the last before
    another. `strangers`: records among and behind them that are not the archive's next one;
    `suspects` are the hashes of those whose time is one of the archive's. `difference` names the
    first record that is not as it was; None: as far as there are records, they are alike.
    """

    records: int = 0
    first_offset: int | None = None
    next_offset: int | None = None
    strangers: int = 0
    suspects: Sequence[int] = ()
    difference: str | None = None


def compare(
    archived: Iterable[Chunk],
    there: Iterable[Chunk],
    *,
    strangers: bool,
    pairs: Pairs | None = None,
) -> Compared:
    """Walk both in step: with `strangers` to the end of what is there, else until either ends or a
    record differs.
    """
    records = others = 0
    first: int | None = None
    after: int | None = None
    suspects, low, high = array("q"), 1 << 63, -(1 << 63)  # of times so far: none
    old, new = _Walk(archived), _Walk(there)
    while new.more() and (old.more() or strangers):
        count = min(old.left, new.left)
        if count and old.rows(count) != new.rows(count):
            count = _alike(old.rows(count), new.rows(count))
        if count:
            if pairs is not None:
                pairs(old.offsets(count), new.offsets(count))
            if strangers:
                times = [row[2] for row in old.rows(count)]
                low, high = min(low, *times), max(high, *times)
            first = new.offsets(1)[0] if first is None else first
            after = new.offsets(count)[-1] + 1
            records += count
            old.step(count)
            new.step(count)
        elif strangers:
            others += 1
            (row,) = new.rows(1)
            if low <= row[2] <= high:
                suspects.append(_hash(row))
            new.step(1)
        else:
            return Compared(records, first, after, others, (), _difference(old, new))
    return Compared(records, first, after, others, suspects)


def doubled(archived: Iterable[Chunk], suspects: Sequence[int]) -> int:
    """How many of the suspects are records of the archive once more: a producer that was killed
    may have sent what a broker took after the next one had begun.
    """
    wanted = np.unique(np.array(suspects, np.int64))
    found = np.zeros(len(wanted), bool)
    for _, rows in archived:
        hashes = np.fromiter(map(_hash, rows), np.int64, len(rows))
        at = np.searchsorted(wanted, hashes).clip(max=len(wanted) - 1)
        found[at[wanted[at] == hashes]] = True
    return int(np.isin(suspects, wanted[found]).sum())


def _hash(row: Row) -> int:
    key, value, time, headers = row
    return hash((key, value, time, tuple(headers or ())))


class _Walk:
    """Chunks as one list, read on as it is walked."""

    def __init__(self, chunks: Iterable[Chunk]) -> None:
        self._chunks: Iterator[Chunk] = iter(chunks)
        self._chunk: Chunk = ([], [])
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._chunk[0]) - self._at

    def more(self) -> bool:
        while not self.left:
            found = next(self._chunks, None)
            if found is None:
                return False
            self._chunk, self._at = found, 0
        return True

    def offsets(self, count: int) -> list[int]:
        return self._chunk[0][self._at : self._at + count]

    def rows(self, count: int) -> list[Row]:
        return self._chunk[1][self._at : self._at + count]

    def step(self, count: int) -> None:
        self._at += count


def _alike(old: list[Row], new: list[Row]) -> int:
    return next(at for at, (one, other) in enumerate(zip(old, new, strict=True)) if one != other)


def _difference(old: _Walk, new: _Walk) -> str:
    both = zip(_FIELDS, old.rows(1)[0], new.rows(1)[0], strict=True)
    other = " and ".join(name for name, one, another in both if one != another)
    return (
        f"the record at offset {new.offsets(1)[0]} has another {other} than the archive's of "
        f"offset {old.offsets(1)[0]}"
    )


@dataclass(frozen=True, slots=True)
class PartitionRestored:
    """One partition: `records` of the archive lie from `first_offset` up to `next_offset`, of
    `of_records`. `resumed_at`: so many were there before this call. `strangers`: records of others
    among and behind them, of which `doubled` are the archive's once more. `error`: why it is not
    done.
    """

    partition: int
    records: int
    of_records: int
    raw_bytes: int
    resumed_at: int
    first_offset: int | None = None
    next_offset: int | None = None
    strangers: int = 0
    doubled: int = 0
    error: str | None = None


def judged(
    one: PartitionArchive, resumed_at: int, same: Compared, behind: int, twice: int
) -> PartitionRestored:
    """Whether a partition is done: `behind` offsets of a topic that was made for it lie past the
    archive's, `twice` of its records lie there once more.
    """
    error = same.difference
    if error is None and same.records < one.records:
        error = f"{same.records} of {one.records} records are there"
    elif error is None and twice:
        error = f"{twice} records of the archive lie there once more"
    elif error is None and behind > 0:
        error = f"{behind} records lie behind the archive's"
    return PartitionRestored(
        one.partition, same.records, one.records, one.raw_bytes, resumed_at, same.first_offset,
        same.next_offset, same.strangers, twice, error,
    )  # fmt: skip


class OffsetsMap:
    """The Parquet file of old and new offsets: there as a whole once it is finished."""

    def __init__(self, path: Path, topic: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._topic = path, pa.array([topic]).dictionary_encode()
        self._unfinished = path.with_name(f"{path.name}.tmp")
        self._writer = pq.ParquetWriter(
            self._unfinished, MAP, compression="zstd", use_dictionary=["topic"],
            column_encoding=dict.fromkeys(("old_offset", "new_offset"), "DELTA_BINARY_PACKED"),
        )  # fmt: skip
        self._partition = 0
        self._old, self._new = array("q"), array("q")

    def of(self, partition: int) -> Pairs:
        """Takes the pairs of one partition, in their order."""
        self._flush()
        self._partition = partition

        def add(old: list[int], new: list[int]) -> None:
            self._old.extend(old)
            self._new.extend(new)
            if len(self._old) >= _ROWS_AT_ONCE:
                self._flush()

        return add

    def finish(self) -> None:
        """Give it its name."""
        self._flush()
        self._writer.close()
        self._unfinished.replace(self._path)

    def _flush(self) -> None:
        count = len(self._old)
        if not count:
            return
        topic = self._topic.cast(MAP.field("topic").type).take(pa.array(np.zeros(count, np.int8)))
        partition = np.full(count, self._partition, np.int32)
        columns = [topic, *map(pa.array, (partition, np.array(self._old), np.array(self._new)))]
        self._writer.write_batch(pa.record_batch(columns, schema=MAP))
        self._old, self._new = array("q"), array("q")
