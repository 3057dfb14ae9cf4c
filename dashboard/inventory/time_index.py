"""Finds the newest timestamp in a segment's time index without reading the whole file."""

from __future__ import annotations

import os

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
