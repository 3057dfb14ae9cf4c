"""Finds the offset after a segment's last record, by the headers of its last batches alone."""

from __future__ import annotations

import os
import struct

from dashboard.inventory.names import segment_name

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# DefaultRecordBatch: base offset, length of what follows, leader epoch, magic, CRC, attributes,
# last offset delta. Magic 0 and 1 (LegacyRecord) have their magic in the same place; the offset of
# a compressed one is already that of its last record.
_BATCH = struct.Struct(">qiibIhi")
_SIZE_AND_OFFSET = 12
_LEAST_BYTES = {0: 14, 1: 22, 2: 49}  # after offset and size, by magic
_ENTRY = struct.Struct(">ii")  # OffsetIndex: offset after the segment's base, position in the log
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
        low, high, found = 0, os.fstat(index).st_size // _ENTRY.size, (0, 0)
        while low < high:
            middle = (low + high) // 2
            raw = os.pread(index, _ENTRY.size, middle * _ENTRY.size)
            entry = _ENTRY.unpack(raw.ljust(_ENTRY.size, b"\0"))
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
