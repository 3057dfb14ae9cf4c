"""When logs ended where: a few knots per partition, closer together the younger they are.

Ends only grow, so two knots bound when any record between them came.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.estimate.curve_tables import integers
from dashboard.estimate.curves import Flags, Ints

KNOTS = 24
NEVER = np.iinfo(np.int64).min
_MINUTE = 60_000_000
_LONGEST = 60 * 24 * 60 * _MINUTE  # older than this one knot is enough
_TIMES = pa.list_(pa.timestamp("us", tz="UTC"))
Grid = npt.NDArray[np.int64]  # a row per partition, KNOTS wide


@dataclass(frozen=True)
class Knots:
    """Times (microseconds) and log ends, oldest first; only the first `count` of a row are any.

    A log that stood still has two knots of one end: the first and the last moment of it.
    """

    times: Grid
    ends: Grid
    count: Ints

    @property
    def newest_end(self) -> Ints:
        """NEVER where there is no knot."""
        last = self.ends[np.arange(len(self.count)), np.maximum(self.count - 1, 0)]
        return np.where(self.count > 0, last, NEVER)

    def taken(self, row: Ints) -> Knots:
        """Those of other rows; none where the row is -1."""
        none = np.full((1, KNOTS), NEVER)
        return Knots(
            np.concatenate([self.times, none])[row],
            np.concatenate([self.ends, none])[row],
            np.append(self.count, 0)[row],
        )

    def forgotten(self, rows: Flags) -> Knots:
        """Without those of these rows."""
        return Knots(self.times, self.ends, np.where(rows, 0, self.count))

    def youngest(self, offset: Ints, at: int) -> Ints:
        """How old at least the record at each offset was `at` that time; 0 past the newest end."""
        passed = self._passed(offset)
        first = self.times[np.arange(len(offset)), np.minimum(passed, KNOTS - 1)]
        return np.where(passed < self.count, at - first, 0)

    def oldest(self, offset: Ints, at: int) -> Ints:
        """How old at most; NEVER where no knot lies at or below the offset."""
        passed = self._passed(offset)
        last = self.times[np.arange(len(offset)), np.maximum(passed - 1, 0)]
        return np.where(passed > 0, at - last, NEVER)

    def _passed(self, offset: Ints) -> Ints:
        """How many knots lie at or below each offset."""
        there = np.arange(KNOTS) < self.count[:, None]
        found = ((self.ends <= offset[:, None]) & there).sum(axis=1)
        return np.asarray(found, dtype=np.int64)

    def lists(self) -> tuple[pa.Array, pa.Array]:
        """Times and ends as lists, for a table."""
        there = np.arange(KNOTS) < self.count[:, None]
        at = pa.array(np.concatenate([[0], np.cumsum(self.count)]).astype(np.int32))
        times = pa.array(self.times[there]).cast(_TIMES.value_type)
        return pa.ListArray.from_arrays(at, times), pa.ListArray.from_arrays(
            at, pa.array(self.ends[there])
        )


def from_lists(times: pa.ChunkedArray, ends: pa.ChunkedArray) -> Knots:
    """The knots of two columns of lists."""
    count = integers(pc.list_value_length(times), 0)
    there = np.arange(KNOTS) < count[:, None]
    found = []
    for lists in (times, ends):
        grid = np.full((len(count), KNOTS), NEVER)
        grid[there] = integers(pc.list_flatten(lists).cast(pa.int64()), NEVER)
        found.append(grid)
    return Knots(found[0], found[1], count)


def added(before: Knots, told: Flags, end: Ints, at: int) -> Knots:
    """One knot more where the end was `told`, at a time that is not before the newest knot's."""
    rows = np.arange(len(end))
    count = before.count
    last, second = np.maximum(count - 1, 0), np.maximum(count - 2, 0)
    stands = (count > 1) & (before.ends[rows, last] == end) & (before.ends[rows, second] == end)
    known = (count > 0) & (before.times[rows, last] == at)
    times, ends = before.times.copy(), before.ends.copy()
    moved = told & stands
    times[rows[moved], last[moved]] = at
    more = told & ~stands & ~known
    thin = more & (count == KNOTS)
    _drop(times, ends, np.flatnonzero(thin), at)
    to = np.where(thin, KNOTS - 1, count)
    times[rows[more], to[more]] = at
    ends[rows[more], to[more]] = end[more]
    return Knots(times, ends, np.where(more, to + 1, count))


def _drop(times: Grid, ends: Grid, rows: Ints, at: int) -> None:
    """Of full rows the knot without which ages are told best, relative to how old they are."""
    if not len(rows):
        return
    own = times[rows]
    age = (at - own) + _MINUTE
    lost = np.full(own.shape, np.inf)
    lost[:, 1:-1] = age[:, :-2] / age[:, 2:]
    lost[:, 0] = np.where(age[:, 1] > _LONGEST, 0.0, np.inf)
    gone = np.argmin(lost, axis=1)
    keep = np.arange(KNOTS) != gone[:, None]
    for grid in (times, ends):
        left = grid[rows][keep].reshape(len(rows), KNOTS - 1)
        grid[rows, : KNOTS - 1] = left
        grid[rows, KNOTS - 1] = NEVER
