"""How many bytes of each replica lie below an offset, and how many of them leave at once.

A curve is a replica's knots, offset to bytes of its log below it. Each knot is known, so between
two of them the bytes lie between theirs: `likely` is a straight line; `low` and `high` allow the
bytes per offset before the target to be up to SKEW times smaller or larger than those after it
(with p the share of the interval's offsets, p / (p + SKEW (1 - p)) and SKEW p / (SKEW p + 1 - p)
of its bytes). SKEW 16 covers a topic that went from records of 100 bytes to records of 1,500.

At once go whole segments: one is deleted when its successor's base offset is at or below the log
start, so the active one stays (UnifiedLog.deleteLogStartOffsetBreachedSegments). Between two
known bases that is exact. After the last known one segments are taken to be full
(`segment.bytes`): a log that rolls by time gives more, at most all that lies below the target,
and one segment less where the last one is not as full as that.

One reader serves findings, plans and the what-if, a whole cluster's replicas at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

SKEW = 16
DEFAULT_SEGMENT_BYTES = 1 << 30  # the broker's log.segment.bytes
# From the surest to the last resort: what is put together from several is called by the latter.
METHODS = ("segments", "history", "sampled", "proportional")
SEGMENTS, HISTORY, SAMPLED, PROPORTIONAL = range(len(METHODS))


@dataclass(frozen=True, slots=True)
class Freed:
    """Bytes that a purge frees, one entry per replica; `once` at the next retention check.

    low <= likely <= high holds of each; what is freed but not at once leaves when the segment
    around the target does. `method` is an index into METHODS.
    """

    low: Ints
    likely: Ints
    high: Ints
    once_low: Ints
    once: Ints
    once_high: Ints
    method: Ints


@dataclass(frozen=True)
class Curves:
    """Knots of many replicas, one replica after the other, by rising offset.

    `first`: the index of each replica's first knot. `below`: bytes of its log below `offset`; at
    the first knot those that lie in the segment of the log start, at the last one the whole size.
    `base`: a segment is known to begin there; the first one does not count. `method`: how the
    interval that ends at a knot was measured. `segment_bytes`: one per replica.
    """

    first: Ints
    offset: Ints
    below: Ints
    base: Flags
    method: Ints
    segment_bytes: Ints

    @cached_property
    def last(self) -> Ints:
        """The index of each replica's last knot."""
        return np.append(self.first, len(self.offset))[1:] - 1

    def freed(self, start: Ints, target: Ints) -> Freed:
        """What each replica frees when its log start moves from `start` to `target`.

        What lies below `start` in its segment leaves with that. Whole segments below a start that
        moved since the curve was drawn have left before, as surely as they were known.
        A target past the last knot frees what was measured there, never more.
        """
        found, before = self._read(target), self._read(start)
        moves = target > start
        later = start > self.offset[self.first]  # else its segment is the first one on the disk

        def left(part: Ints, gone: Ints) -> Ints:
            return np.where(moves, np.maximum(part - np.where(later, gone, 0), 0), 0)

        return Freed(
            low=left(found.low, before.once_high),
            likely=left(found.likely, before.once),
            high=left(found.high, before.once_low),
            once_low=left(found.once_low, before.once_high),
            once=left(found.once, before.once),
            once_high=left(found.once_high, before.once_low),
            method=found.method,
        )

    def keeping(self, size_bytes: Ints) -> Ints:
        """The highest offset of each replica at or above which `size_bytes` of its log surely lie.

        Surely: by the most that may lie below an offset. The first knot where it has fewer bytes.
        """
        low, high = self.offset[self.first], self.offset[self.last]
        while (low < high).any():
            middle = low + (high - low + 1) // 2
            enough = self.below[self.last] - self._read(middle).high >= size_bytes
            low, high = np.where(enough, middle, low), np.where(enough, high, middle - 1)
        return low

    def _read(self, target: Ints) -> Freed:
        left = self._left(target)
        right = np.minimum(left + 1, self.last)
        gain = self.below[right] - self.below[left]
        span = np.maximum(self.offset[right] - self.offset[left], 1)
        share = np.clip((target - self.offset[left]) / span, 0.0, 1.0)
        shares = (
            share / (share + SKEW * (1 - share)),
            share,
            SKEW * share / (SKEW * share + 1 - share),
        )
        low, likely, high = (
            self.below[left] + np.rint(gain * part).astype(np.int64) for part in shares
        )
        return Freed(low, likely, high, *self._once(left, low, likely, high), self.method[right])

    def _left(self, target: Ints) -> Ints:
        """The last knot at or below the target (the first one if none is), all bisected at once."""
        low, high = self.first.copy(), self.last.copy()
        while (low < high).any():
            middle = (low + high + 1) // 2
            passed = self.offset[middle] <= target
            low = np.where(passed, middle, low)
            high = np.where(passed, high, np.maximum(middle - 1, low))
        return low

    def _once(self, left: Ints, low: Ints, likely: Ints, high: Ints) -> tuple[Ints, Ints, Ints]:
        anchor = np.maximum(self._base_before[left], self.first)
        whole = np.where(anchor > self.first, self.below[anchor], 0)
        rest = self.below[self.last] - whole
        segment = np.maximum(self.segment_bytes, 1)
        closed = np.maximum(-(-rest // segment) - 1, 0)
        full = [
            np.clip((below - whole) // segment - spare, 0, closed) * segment
            for below, spare in ((low, 1), (likely, 0))
        ]
        # Between two bases there is one segment; after the last one of a fresh inventory too.
        open_end = anchor == np.maximum(self._base_before[self.last], self.first)
        known = (self.method[self.last] == SEGMENTS) & (rest <= segment)
        exact = ~open_end | known
        return (
            np.where(exact, whole, whole + full[0]),
            np.where(exact, whole, whole + full[1]),
            np.where(exact, whole, high),
        )

    @cached_property
    def _base_before(self) -> Ints:
        """Of each knot the last segment base at or before it, in any replica; -1: none."""
        at = np.where(self.base, np.arange(len(self.base)), -1)
        return np.maximum.accumulate(at) if len(at) else at


def curves_of(
    knots: Sequence[Sequence[tuple[int, int]]], segment_bytes: Sequence[int], method: int
) -> Curves:
    """Curves of a few replicas from lists of (offset, bytes below), none of them a known base."""
    lengths = [len(points) for points in knots]
    flat = np.array([p for points in knots for p in points], dtype=np.int64).reshape(-1, 2)
    return Curves(
        first=np.cumsum([0, *lengths[:-1]])[: len(knots)].astype(np.int64),
        offset=flat[:, 0],
        below=flat[:, 1],
        base=np.zeros(len(flat), dtype=bool),
        method=np.full(len(flat), method, dtype=np.int64),
        segment_bytes=np.array(segment_bytes, dtype=np.int64),
    )
