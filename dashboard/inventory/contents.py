"""What the files of a log dir say: meta.properties, partition.metadata and checkpoints by their
text, segments by their sizes.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from dashboard.domain.model import broker_id_of
from dashboard.inventory.names import INDEX_SUFFIXES, Folder, segment_file, segment_name

LONGEST_LINE = 4096

_TOPIC_ID = re.compile(r"topic_id:\s*([A-Za-z0-9_-]{22})\s*")
_ENTRY = re.compile(rb"(\S{1,249})\s+([0-9]{1,10})\s+(-?[0-9]{1,19})\s*")
_NO_TOPIC_ID = "A" * 22
_LARGEST_PARTITION = 2**31 - 1
_LARGEST_OFFSET = 2**63 - 1


class DamagedError(Exception):
    """A file that does not hold what its name says; the text says where and what."""


@dataclass(frozen=True, slots=True)
class Meta:
    """`meta.properties` of one log dir; null where the file does not say it."""

    cluster_id: str | None
    node_id: int | None
    directory_id: str | None


def parse_meta(lines: Iterable[bytes]) -> Meta:
    """Cluster, node and directory id; `broker.id` is the name that ZooKeeper's version 0 had.

    Raises DamagedError when neither cluster nor node is named.
    """
    found: dict[str, str] = {}
    for line in lines:
        key, equals, value = line.decode("utf-8", "replace").partition("=")
        if equals and not key.lstrip().startswith("#"):
            found[key.strip()] = value.strip().replace("\\", "")
    node_id = broker_id_of(found.get("node.id", found.get("broker.id", "")))
    meta = Meta(found.get("cluster.id") or None, node_id, found.get("directory.id") or None)
    if meta.cluster_id is None and meta.node_id is None:
        raise DamagedError("it names neither a cluster nor a node")
    return meta


def parse_topic_id(lines: Iterable[bytes]) -> str:
    """The topic id of a `partition.metadata`, 22 characters (KIP-516). Raises DamagedError."""
    for line in lines:
        match = _TOPIC_ID.fullmatch(line.decode("ascii", "replace"))
        if match and match[1] != _NO_TOPIC_ID:
            return match[1]
    raise DamagedError("it holds no topic id")


def parse_checkpoint(lines: Iterable[bytes]) -> Iterator[tuple[str, int, int]]:
    """Topic, partition and offset of each entry (server.common.CheckpointFile, version 0).

    One at a time: a broker has as many as it has partitions. A new broker's file is empty. Raises
    DamagedError when it meets what does not belong there; entries before it were given already.
    """
    numbered = enumerate(lines, start=1)
    first = next(numbered, None)
    if first is None:
        return
    if _number(first[1]) != 0:
        raise DamagedError("line 1 is not the version 0")
    expected = _number(next(numbered, (2, b""))[1])
    if expected is None:
        raise DamagedError("line 2 is not a count")
    given = 0
    for number, line in numbered:
        match = _ENTRY.fullmatch(line)
        if match is None:
            raise DamagedError(f"line {number} is not `topic partition offset`")
        partition, offset = int(match[2]), int(match[3])
        if partition > _LARGEST_PARTITION or not -_LARGEST_OFFSET <= offset <= _LARGEST_OFFSET:
            raise DamagedError(f"line {number} holds a number out of range")
        given += 1
        yield match[1].decode("utf-8", "backslashreplace"), partition, offset
    if given != expected:
        raise DamagedError(f"it announces {expected} entries and holds {given}")


def _number(line: bytes) -> int | None:
    text = line.strip()
    return int(text) if text.isdigit() and len(text) < 10 else None


# Sums the files of one partition folder into one row per segment.

BLOCK_BYTES = 512  # st_blocks and find's %b count these, whatever the file system's own size
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST = -((_EPOCH - datetime(1, 1, 2, tzinfo=UTC)).days * 86_400_000_000)
_LATEST = (datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH).days * 86_400_000_000


class Segment(NamedTuple):
    """One segment of a folder, or the folder itself (`base_offset` None) when it holds none.

    `log_bytes` and `index_bytes` are file sizes: the `.log`, and offset, time and transaction
    index, which Kafka preallocates. `allocated_bytes` is what the disk gave for all of them; the
    folder's first row carries its other files too (partition.metadata, producer snapshots,
    `.deleted` and `.cleaned` files), so that a folder's rows sum to what the folder holds.
    `log_end_offset` stands in the last row: the offset after the folder's last record; None: not
    known.
    """

    base_offset: int | None
    log_bytes: int
    index_bytes: int
    allocated_bytes: int
    newest_us: int  # microseconds since 1970
    log_end_offset: int | None = None


class FolderSum:
    """Takes a folder's files one by one, in any order; memory grows with its segments."""

    def __init__(self, folder: Folder, mtime_ns: int) -> None:
        self.folder = folder
        self._logs: dict[int, tuple[int, int]] = {}  # base offset -> bytes, newest
        self._indexes: dict[int, int] = {}
        self._blocks: dict[int, int] = {}
        self._times: dict[int, int] = {}
        self._other_blocks = 0
        self._log_end: int | None = None
        self._newest = mtime_ns // 1000  # of the folder and what is no segment

    def add(self, name: str, size: int, blocks: int, mtime_ns: int) -> None:
        """One regular file: its size in bytes and its 512-byte blocks."""
        found = segment_file(name)
        suffix = found[1] if found else ""
        mtime = mtime_ns // 1000
        if found and suffix == ".log":
            self._logs[found[0]] = (size, mtime)
        elif mtime > self._newest:
            self._newest = mtime
        if found and (suffix == ".log" or suffix in INDEX_SUFFIXES):
            base_offset = found[0]
            self._blocks[base_offset] = self._blocks.get(base_offset, 0) + blocks
            if suffix != ".log":
                self._indexes[base_offset] = self._indexes.get(base_offset, 0) + size
        else:
            self._other_blocks += blocks

    def add_time(self, base_offset: int, milliseconds: int) -> None:
        """The last entry of a segment's time index."""
        self._times[base_offset] = milliseconds * 1000

    @property
    def last_base_offset(self) -> int | None:
        """Of the segment that holds the folder's last records; None without a segment."""
        return max(self._logs, default=None)

    def add_end(self, log_end_offset: int | None) -> None:
        """The offset after the last record of the last segment."""
        self._log_end = log_end_offset

    def rows(self) -> Iterator[Segment]:
        """One row per `.log` file, by base offset; index files without one count as other files."""
        lost = self._indexes.keys() - self._logs.keys()
        other = self._other_blocks + sum(self._blocks[base_offset] for base_offset in lost)
        if not self._logs:
            size = sum(self._indexes.values())
            yield Segment(None, 0, size, other * BLOCK_BYTES, within_calendar(self._newest))
        last = self.last_base_offset
        for base_offset in sorted(self._logs):
            size, mtime = self._logs[base_offset]
            yield Segment(
                base_offset,
                size,
                self._indexes.get(base_offset, 0),
                (self._blocks[base_offset] + other) * BLOCK_BYTES,
                within_calendar(max(mtime, self._times.get(base_offset, mtime))),
                self._log_end if base_offset == last else None,
            )
            other = 0


def within_calendar(microseconds: int) -> int:
    """A time that a calendar can show: producers may write any timestamp they like."""
    return min(max(microseconds, _EARLIEST), _LATEST)


# Finds the offset after a segment's last record, by the headers of its last batches alone.

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# DefaultRecordBatch: base offset, length of what follows, leader epoch, magic, CRC, attributes,
# last offset delta. Magic 0 and 1 (LegacyRecord) have their magic in the same place; the offset of
# a compressed one is already that of its last record.
_BATCH = struct.Struct(">qiibIhi")
_SIZE_AND_OFFSET = 12
_LEAST_BYTES = {0: 14, 1: 22, 2: 49}  # after offset and size, by magic
_INDEX_ENTRY = struct.Struct(
    ">ii"
)  # OffsetIndex: offset after the segment's base, position in the log
_MOST_BATCHES = 100_000  # a segment whose index is lost is not walked for minutes


def log_end(folder: int, base_offset: int) -> int | None:
    """The end of the segment of this base offset in an open folder; None where it is not known.

    Not known is what is cut short, damaged or being written, and what cannot be opened.
    """
    try:
        log = os.open(segment_name(base_offset, ".log"), _FILE, dir_fd=folder)
    except OSError:
        return None
    try:
        size = os.fstat(log).st_size
        start = _last_indexed(folder, log, base_offset)
        return _walk(log, size, base_offset, start)
    except OSError:
        return None
    finally:
        os.close(log)


def _walk(log: int, size: int, base_offset: int, position: int) -> int | None:
    """The offset after the last of the batches that fill the log from `position` on."""
    end = base_offset
    for _ in range(_MOST_BATCHES):
        if position == size:
            return end
        batch = _batch(log, position)
        if batch is None:
            return None
        last, length = batch
        if last < end:
            return None
        end, position = last + 1, position + length
        if position > size:
            return None
    return None


def _batch(log: int, position: int) -> tuple[int, int] | None:
    """Last offset and whole length of the batch at a position; None: there is none."""
    raw = os.pread(log, _BATCH.size, position).ljust(_BATCH.size, b"\0")
    first, length, _, magic, _, _, delta = _BATCH.unpack(raw)
    if length < _LEAST_BYTES.get(magic, length + 1) or first < 0:
        return None
    if magic < 2:
        return first, length + _SIZE_AND_OFFSET
    return (first + delta, length + _SIZE_AND_OFFSET) if delta >= 0 else None


def _last_indexed(folder: int, log: int, base_offset: int) -> int:
    """Where the last batch lies that the offset index names; 0 where that does not hold.

    Behind its entries the index of an open segment is preallocated with zeros.
    """
    try:
        index = os.open(segment_name(base_offset, ".index"), _FILE, dir_fd=folder)
    except OSError:
        return 0
    try:
        low, high, found = 0, os.fstat(index).st_size // _INDEX_ENTRY.size, (0, 0)
        while low < high:
            middle = (low + high) // 2
            raw = os.pread(index, _INDEX_ENTRY.size, middle * _INDEX_ENTRY.size)
            entry = _INDEX_ENTRY.unpack(raw.ljust(_INDEX_ENTRY.size, b"\0"))
            if entry[1] > 0:
                low, found = middle + 1, entry
            else:
                high = middle
    except OSError:
        return 0
    finally:
        os.close(index)
    offset, position = found
    batch = _batch(log, position)
    return position if batch is not None and batch[0] == base_offset + offset else 0


# Finds the newest timestamp in a segment's time index without reading the whole file.

_ENTRY_BYTES = 12  # storage.internals.log.TimeIndex: timestamp int64 (ms), relative offset int32


def last_timestamp(file: int, size: int) -> int | None:
    """Milliseconds of the last entry in the open file `file` of `size` bytes; None without one.

    The index of an open segment is preallocated with zeros behind its last entry, and entries only
    grow: a search by halves finds the border in twenty small reads. Raises OSError.
    """
    low, high = 0, size // _ENTRY_BYTES
    if high == 0:
        return None
    newest = _timestamp(file, high - 1)  # a closed segment's index is cut to its entries
    if newest:
        return newest if newest > 0 else None
    newest = 0
    while low < high:
        middle = (low + high) // 2
        found = _timestamp(file, middle)
        if found:
            low, newest = middle + 1, found
        else:
            high = middle
    return newest if newest > 0 else None


def _timestamp(file: int, entry: int) -> int:
    raw = os.pread(file, 8, entry * _ENTRY_BYTES)
    return int.from_bytes(raw, "big", signed=True) if len(raw) == 8 else 0
