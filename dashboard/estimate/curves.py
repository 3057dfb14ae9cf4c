"""How many bytes of each replica lie below an offset, and how many of them leave at once.

A curve is a replica's knots, offset to bytes of its log below it. Each knot is known, so between
two of them the bytes lie between theirs: `likely` bends as the neighbouring intervals do (a
monotone cubic, Fritsch and Butland 1984); `low` and `high` allow the bytes per offset before the
target to be up to SKEW times smaller or larger than those after it (with p the share of the
interval's offsets, p / (p + SKEW (1 - p)) and SKEW p / (SKEW p + 1 - p) of its bytes). SKEW 16
covers a topic that went from records of 100 bytes to records of 1,500.

At once go whole segments: one is deleted when its successor's base offset is at or below the log
start, so the active one stays (UnifiedLog.deleteLogStartOffsetBreachedSegments). Between two
known bases that is exact. After the last known one segments are taken to be full
(`segment.bytes`), or as large as what is written in `segment.ms` where that is less
(LogSegment.shouldRoll). The interval allows for both: at most all that lies below the target, at
least a full segment less.

What was written past the last knot was not measured. A curve's likely bytes end there, as the least
that a target behind it frees; the most goes on as steeply as the steepest interval of the curve.

One reader serves findings, plans and the what-if, a whole cluster's replicas at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dashboard.domain.model import METHODS

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Flags = npt.NDArray[np.bool_]

SKEW = 16
DRIFT = 0.05  # of the bytes up to a segment's begin: its segments are not quite full
UNKNOWN = np.iinfo(np.int64).max
NEVER = np.iinfo(np.int64).max  # no time is later
NO_EPOCH = -1
_MOST = 2.0**53  # bytes of a replica; more is no bound, and sums of it would wrap
NOT_MEASURABLE = "not measurable"  # what findings call the method where no replica tells any bytes
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
    interval that ends at a knot was measured. `segment_bytes`: one per replica, and so is
    `rolled_bytes`, what is written in `segment.ms` (UNKNOWN: segments roll by size). `above`: bytes
    that surely lie at or above a knot, whatever left below it; not what `below` would say.
    `sure_since`, one per replica: since when growth counts there (microseconds since 1970; NEVER).
    `leader_epoch`, one per replica: the one that led when its last knot was seen (NO_EPOCH).
    """

    first: Ints
    offset: Ints
    below: Ints
    base: Flags
    method: Ints
    segment_bytes: Ints
    rolled_bytes: Ints | None = None
    above: Ints | None = None
    sure_since: Ints | None = None
    leader_epoch: Ints | None = None

    @cached_property
    def surely(self) -> Ints:
        """`above`, known or not: then nothing surely lies there."""
        return np.zeros(len(self.offset), dtype=np.int64) if self.above is None else self.above

    @cached_property
    def rolled(self) -> Ints:
        """`rolled_bytes`, known or not."""
        if self.rolled_bytes is None:
            return np.full(len(self.first), UNKNOWN, dtype=np.int64)
        return self.rolled_bytes

    @cached_property
    def since(self) -> Ints:
        """`sure_since`, known or not: then growth counts nowhere."""
        if self.sure_since is None:
            return np.full(len(self.first), NEVER, dtype=np.int64)
        return self.sure_since

    @cached_property
    def epoch(self) -> Ints:
        """`leader_epoch`, known or not."""
        if self.leader_epoch is None:
            return np.full(len(self.first), NO_EPOCH, dtype=np.int64)
        return self.leader_epoch

    @cached_property
    def last(self) -> Ints:
        """The index of each replica's last knot."""
        return np.append(self.first, len(self.offset))[1:] - 1

    def freed(self, start: Ints, target: Ints) -> Freed:
        """What each replica frees when its log start moves from `start` to `target`.

        What lies below `start` in its segment leaves with that. Whole segments below a start that
        moved since the curve was drawn have left before, as surely as they were known.
        A target past the last knot frees at least what was measured there; where `bounded` denies
        it, the highs are no bounds.
        """
        found = self._read(target)
        moves = target > start
        later = start > self.offset[self.first]  # else its segment is the first one on the disk
        before = self._read(start) if later.any() else found

        def left(part: Ints, gone: Ints) -> Ints:
            return np.where(moves, np.maximum(part - np.where(later, gone, 0), 0), 0)

        likely, once = left(found.likely, before.once), left(found.once, before.once)
        fits = self._segment_and_gap(start, target)
        return Freed(
            low=left(found.low, before.once_high),
            likely=likely,
            high=np.maximum(np.minimum(left(found.high, before.once_low), fits), likely),
            once_low=left(found.once_low, before.once_high),
            once=once,
            once_high=np.maximum(np.minimum(left(found.once_high, before.once_low), fits), once),
            method=found.method,
        )

    def bounded(self, target: Ints) -> Flags:
        """Whether the most that lies below each target is known.

        Not of one past the last knot of a curve without any interval that holds bytes: what was
        written there since, nobody can tell.
        """
        past = target > self.offset[self.last]
        return ~past | ((self._steepest > 0) & (self._past(target) < _MOST))

    def of(self, rows: Ints) -> Curves:
        """The curves of some replicas, by their numbers: the same knots, nothing is copied."""
        found = replace(
            self,
            first=self.first[rows],
            segment_bytes=self.segment_bytes[rows],
            rolled_bytes=self.rolled[rows],
            sure_since=self.since[rows],
            leader_epoch=self.epoch[rows],
        )
        # Cached here, so that they are not made from the knots between the chosen replicas.
        found.__dict__["last"] = self.last[rows]
        found.__dict__["_base_before"] = self._base_before
        found.__dict__["_steepest"] = self._steepest[rows]
        return found

    def keeping(self, size_bytes: Ints) -> tuple[Ints, Bools]:
        """The highest knot of each replica at or above which `size_bytes` of its log surely lie.

        And whether there is one: else all has to stay, also what lies below the first one by now.

        Between two knots nothing is sure, nor by the bytes below a knot: what an earlier purge left
        in the segment of the log start lies on the disk, and is none of the log.
        """
        if not len(self.first):
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.bool_)
        wanted = np.repeat(size_bytes, self.last - self.first + 1)
        enough = np.add.reduceat((self.surely >= wanted).astype(np.int64), self.first)
        return np.asarray(self.offset[self.first + np.maximum(enough - 1, 0)]), enough > 0

    def at_least(self, offset: Ints) -> Ints:
        """Bytes that surely lie at or above an offset of each replica: those of the next knot."""
        left = self._left(offset)
        at = np.minimum(left + (self.offset[left] < offset), self.last)
        return np.where(self.offset[at] >= offset, self.surely[at], 0)

    def _read(self, target: Ints) -> Freed:
        left = self._left(target)
        right = np.minimum(left + 1, self.last)
        gain = self.below[right] - self.below[left]
        span = np.maximum(self.offset[right] - self.offset[left], 1)
        share = np.clip((target - self.offset[left]) / span, 0.0, 1.0)
        least = share / (share + SKEW * (1 - share))
        most = SKEW * share / (SKEW * share + 1 - share)
        bent = np.clip(self._bent(left, right, share), least, most)
        low, likely, high = (
            self.below[left] + np.rint(gain * part).astype(np.int64) for part in (least, bent, most)
        )
        past = target > self.offset[self.last]
        high = high + self._past(target).astype(np.int64)
        once = self._once(left, low, likely, high, past=past)
        return Freed(low, likely, high, *once, self.method[right])

    def _past(self, target: Ints) -> Floats:
        """The most that was written between the last knot and a target behind it; _MOST: more."""
        offsets = np.maximum(target - self.offset[self.last], 0)
        return np.asarray(np.minimum(np.ceil(self._steepest * offsets), _MOST))

    def _segment_and_gap(self, start: Ints, target: Ints) -> Ints:
        """The most that leaves where the log start lies past the curve already: what is left of
        its segment, and what was written from there on. UNKNOWN where it does not.
        """
        past = start > self.offset[self.last]
        gap = np.minimum(np.ceil(self._steepest * np.maximum(target - start, 0)), _MOST)
        return np.where(past, self.segment_bytes + gap.astype(np.int64), UNKNOWN)

    def _bent(self, left: Ints, right: Ints, share: Floats) -> Floats:
        """The share of an interval's bytes below `share` of its offsets."""
        before, after = np.maximum(left - 1, self.first), np.minimum(right + 1, self.last)
        here, own = self._slope(left, right)
        begin = _tangent(here, own, *self._slope(before, left))
        end = _tangent(here, own, *self._slope(right, after))
        rest = 1 - share
        return np.asarray(
            share * share * (3 - 2 * share) + share * rest * (begin * rest - end * share)
        )

    def _slope(self, left: Ints, right: Ints) -> tuple[Floats, Floats]:
        """Bytes per offset between two knots, and how many offsets lie there."""
        span = (self.offset[right] - self.offset[left]).astype(np.float64)
        return (self.below[right] - self.below[left]) / np.maximum(span, 1.0), span

    def _left(self, target: Ints) -> Ints:
        """The last knot at or below the target (the first one if none is), all bisected at once."""
        low, high = self.first.copy(), self.last.copy()
        while (low < high).any():
            middle = (low + high + 1) // 2
            passed = self.offset[middle] <= target
            low = np.where(passed, middle, low)
            high = np.where(passed, high, np.maximum(middle - 1, low))
        return low

    def _once(
        self, left: Ints, low: Ints, likely: Ints, high: Ints, *, past: Flags
    ) -> tuple[Ints, Ints, Ints]:
        anchor = np.maximum(self._base_before[left], self.first)
        whole = np.where(anchor > self.first, self.below[anchor], 0)
        rest = self.below[self.last] - whole
        segment = np.maximum(self.segment_bytes, 1)
        rolled = np.maximum(np.minimum(segment, self.rolled), 1)
        at_least = np.clip((low - whole) // segment - 1, 0, _closed(rest, segment)) * segment
        expected = np.minimum(_whole(likely - whole, rolled), _closed(rest, rolled) * rolled)
        # Between two bases there is one segment; after the last one of a fresh inventory too.
        open_end = anchor == np.maximum(self._base_before[self.last], self.first)
        known = (self.method[self.last] == SEGMENTS) & (rest <= segment)
        exact = ~open_end | known
        return (
            np.where(exact, whole, whole + at_least),
            np.where(exact, whole, whole + expected),
            np.where(exact & ~past, whole, high),  # segments may have rolled past the last knot
        )

    @cached_property
    def _steepest(self) -> Floats:
        """Bytes per offset of each replica's steepest interval; 0: none holds any bytes."""
        if not len(self.first):
            return np.zeros(0)
        offsets = np.diff(self.offset, append=self.offset[-1:])
        gains = np.diff(self.below, append=self.below[-1:])
        offsets[self.last] = 0  # no interval: the next knot is another replica's
        slope = np.where(offsets > 0, gains / np.maximum(offsets, 1), 0.0)
        return np.asarray(np.maximum.reduceat(np.maximum(slope, 0.0), self.first))

    @cached_property
    def _base_before(self) -> Ints:
        """Of each knot the last segment base at or before it, in any replica; -1: none."""
        at = np.where(self.base, np.arange(len(self.base)), -1)
        return np.maximum.accumulate(at) if len(at) else at


def _tangent(here: Floats, own: Floats, there: Floats, beside: Floats) -> Floats:
    """The slope at a knot over that of the interval here, from the one on its other side.

    A neighbour that is shorter than the interval itself tells less of how that one bends.
    """
    own = np.maximum(own, 1.0)
    one, other = own + 2 * beside, 2 * own + beside
    both = (here > 0) & (there > 0) & (beside > 0)
    steep = np.where(both, here, 1.0), np.where(both, there, 1.0)
    mean = (one + other) / (one / steep[0] + other / steep[1])
    told = np.minimum(beside / own, 1.0)
    return np.where(both, 1 + (mean / steep[0] - 1) * told, np.where(beside > 0, 1 - told, 1.0))


def _closed(rest: Ints, size: Ints) -> Ints:
    """How many segments of one size these bytes fill, without the active one."""
    return np.asarray(np.maximum(-(-rest // size) - 1, 0))


def _whole(below: Ints, size: Ints) -> Ints:
    """Bytes of whole segments below some bytes that are sure to DRIFT: the mean over that range.

    Near the known begin of a segment that is the segments counted; far from it half a segment
    less than the bytes, wherever a segment may begin.
    """
    count = below / size
    off = np.minimum(DRIFT * count, 0.5)
    least, most = count - off, count + off
    mean = (_steps(most) - _steps(least)) / np.maximum(most - least, 1e-9)
    counted = np.where(most > least, mean, np.floor(count))
    return np.asarray(np.clip(np.rint(counted * size), 0, below).astype(np.int64))


def _steps(count: Floats) -> Floats:
    """The area below the steps of floor() from 0 on."""
    whole = np.floor(count)
    return np.asarray(whole * (whole - 1) / 2 + whole * (count - whole))


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


# What a log keeps under a retention, by the rate of what came. Pure.

# Before the window in which a topic's rate was seen, it may have been so many times more or less.
SWING = 2.0


def kept(come: Floats, seen: Floats, hours: Floats | float, segment: Floats) -> dict[str, Floats]:
    """Bytes that stay for `hours`: the most (`soonest` leads to a full disk), likely, the least.

    `come`: bytes per hour, seen for so many hours; `segment`: bytes of full segments, for whole
    ones leave (UnifiedLog.deleteRetentionMsBreachedSegments): up to one per replica stays longer.
    """
    within = np.minimum(seen, hours)
    before = hours - within
    return {
        "soonest": come * (within + before * SWING) + segment,
        "likely": come * hours + segment / 2,
        "latest": come * (within + before / SWING),
    }
