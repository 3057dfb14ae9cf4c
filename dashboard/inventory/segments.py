"""Sums the files of one partition folder into one row per segment."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from dashboard.inventory.names import INDEX_SUFFIXES, Folder, segment_file

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
