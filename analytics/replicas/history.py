"""Estimator `history`: the curve that end offset and size draw from snapshot to snapshot.

Between two snapshots with the same log start the growth of size is exactly the bytes of the new
offsets. Where the log start moved, segments may have left. Two things tell how many bytes: what the
size lacks if the newest interval's bytes per offset went on, and what lay below the new log start,
but for a part of one segment. Each counts by how little it may be off. Sizes that
shrank otherwise (the cleaner, lower bounds of an estimate) scale the curve.
A recreated topic, or a log that lost its end (`cuts`), begins a new one: two knots,
`proportional`. A replica that has no more than those, because it is new or its broker was away,
goes on from another replica of its partition as soon as it has caught up with that one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.replicas import points as cuts
from analytics.replicas.points import Cuts, Offsets, Points, Rolls, first_matched, matched
from dashboard.core.arrow import column
from dashboard.estimate.curve_tables import ReplicaCurves
from dashboard.estimate.curves import (
    HISTORY,
    NEVER,
    PROPORTIONAL,
    SEGMENTS,
    UNKNOWN,
    Curves,
    Flags,
    Floats,
    Ints,
    curves_of,
)

KNOTS = 16  # per replica: 300,000 replicas are 5 million rows
_RATE_OFF = 0.25  # how far the newest interval's bytes per offset may be off in the next one
_AT_A_TIME = 8192  # replicas whose rows of knots stay in the processor's cache


@dataclass(frozen=True)
class _Dense:
    """Curves as rows of equal width; only the first `count` knots of a row are any."""

    offset: Ints
    below: Ints
    above: Ints
    method: Ints
    count: Ints

    def at(self, index: Ints) -> tuple[Ints, Ints]:
        rows = np.arange(len(self.count))
        return self.offset[rows, index], self.below[rows, index]


@dataclass(frozen=True)
class Step:
    """What one snapshot does to each replica: bytes that came, and bytes that left below a moved
    log start. Where its curve begins anew, both are 0, or all of them where the log start passed
    the last log end.
    """

    growth: Ints
    gone: Ints


@dataclass(frozen=True)
class Looks:
    """When the snapshot before was begun, and when this one was read to its end; microseconds."""

    before: int
    now: int


@dataclass(frozen=True)
class _Sure:
    """Of replicas: where growth counts in `above`, and where what was sure before stays so."""

    grows: Flags
    stays: Flags

    def of(self, some: slice) -> _Sure:
        return _Sure(self.grows[some], self.stays[some])


_NO_TIME = Looks(0, NEVER)


def extended(
    before: ReplicaCurves,
    points: Points,
    by: Rolls | None = None,
    looks: Looks = _NO_TIME,
    ends_told: pa.Table | None = None,
) -> tuple[Curves, Step]:
    """The curves of `points`' replicas, in their order, going on from those of `before`; and what
    the step was. `by` says when their segments roll; without `looks` no growth is sure.
    `ends_told`: `cuts.ends_told`.
    """
    by = by or cuts.default(len(points.end))
    own = matched(points.places, before.places)
    row = _known(before, points, own)
    cut = cuts.cuts(before.curves, row, points, ends_told)
    other = _other_topic(before.places, points.places, row) | cut.lost
    anew = other | (row != own)
    since = np.append(before.curves.since, NEVER)[row]
    sure = _sure(since, points, anew, cut, looks)
    parts = [
        _extended(
            before.curves,
            row[some],
            other[some],
            anew[some],
            points.offsets(some),
            segment_bytes=by.segment_bytes[some],
            sure=sure.of(some),
        )
        for some in (slice(at, at + _AT_A_TIME) for at in range(0, len(row), _AT_A_TIME))
    ]
    if not parts:
        return curves_of([], [], PROPORTIONAL), Step(row, row)
    steps = [step for _, step, _ in parts]
    whole = Step(
        np.concatenate([step.growth for step in steps]),
        np.concatenate([step.gone for step in steps]),
    )
    was = np.append(before.curves.rolled, UNKNOWN)[np.where(other, -1, row)]
    rolled = cuts.rolled(was, whole.growth, points.size, by)
    fresh = np.concatenate([fresh for *_, fresh in parts])
    counted = points.ends_told & points.delete_only
    begun = anew | fresh | cut.changed | (since == NEVER)
    since = np.where(counted, np.where(begun, looks.now, since), NEVER)
    curves = _flat([dense for dense, *_ in parts])
    found = replace(curves, rolled_bytes=rolled, sure_since=since, leader_epoch=points.leader_epoch)
    return found, whole


def _sure(since: Ints, points: Points, anew: Flags, cut: Cuts, looks: Looks) -> _Sure:
    """Growth counts between snapshots that all saw a replica's own log end, and its topic without
    compaction; from the second on, so that the log end of the first was there before its size.

    A follower whose end its leader told may lack what lies below the knots, and catch up with it.
    A cleaner takes bytes from above them, and what is written meanwhile hides it: nothing is sure
    of a snapshot whose topic was compacted or did not tell. The step in which that was switched
    off does not count either, so it does not matter when a cleaner that was at work ended.

    Nor do the step in which another leader epoch came and the one after it: a follower may cut what
    it had from the leader before only then. Of what was sure nothing was cut, if its end was told.
    """
    stays = points.delete_only & (points.ends_told | ~anew)  # another one's bytes: has it them?
    grows = points.ends_told & ~anew & ~cut.changed & (since < looks.before)
    return _Sure(grows, stays & ~cut.untold)


def _known(before: ReplicaCurves, points: Points, row: Ints) -> Ints:
    """The row of `before` that each replica goes on from, mostly its own `row`; -1: it has none."""
    curves = before.curves
    length = curves.last - curves.first + 1
    if not (length > 2).any():
        return row
    short = np.flatnonzero((row < 0) | (length[np.maximum(row, 0)] == 2))
    if not len(short):
        return row
    longest = np.argsort(-length, kind="stable")
    longest = longest[length[longest] > 2]
    beside = first_matched(
        points.places.take(pa.array(short)),
        before.places.take(pa.array(longest)),
        by=["topic", "partition"],
    )
    short, other = short[beside >= 0], longest[beside[beside >= 0]]
    there = (curves.offset[curves.last][other] <= points.end[short]) & (
        curves.offset[curves.first][other] <= points.start[short]
    )
    row = row.copy()
    row[short[there]] = other[there]
    return row


def _extended(
    curves: Curves,
    row: Ints,
    other: Flags,
    anew: Flags,
    now: Offsets,
    *,
    segment_bytes: Ints,
    sure: _Sure,
) -> tuple[_Dense, Step, Flags]:
    """Some replicas, few enough for the processor's cache; `row` is their place in `curves`. And
    which of them begin a new curve.
    """
    old = _dense(curves, row)
    fresh = _fresh(old, now) | other
    grown, step = _grown(old, now, segment_bytes, sure)
    _begin(grown, np.flatnonzero(fresh), now)
    dense = _pruned(grown)
    end, size = old.at(np.maximum(old.count - 1, 0))
    passed = (old.count > 1) & (now.start >= end)
    known = ~anew & (passed | ~fresh)
    growth, gone = (
        np.where(known, np.where(passed, whole, part), 0)
        for whole, part in ((now.size, step.growth), (size, step.gone))
    )
    return dense, Step(growth, gone), fresh


def _dense(curves: Curves, row: Ints) -> _Dense:
    """At most KNOTS of each replica's knots, its first and last among them; none for row -1."""
    if not len(curves.offset):
        nothing = np.zeros((len(row), KNOTS), dtype=np.int64)
        return _Dense(nothing, nothing, nothing, nothing, np.zeros(len(row), dtype=np.int64))
    length = np.where(row < 0, 0, (curves.last - curves.first + 1)[row])
    last = np.maximum(length - 1, 0)[:, np.newaxis]
    chosen = np.minimum(np.arange(KNOTS), last)
    long = np.flatnonzero(length > KNOTS)
    chosen[long] = np.arange(KNOTS) * last[long] // (KNOTS - 1)
    at = curves.first[np.maximum(row, 0)][:, np.newaxis] + chosen
    offset, below, above, method = (
        np.take(values, at)
        for values in (curves.offset, curves.below, curves.surely, curves.method)
    )
    method[method == SEGMENTS] = HISTORY
    return _Dense(offset, below, above, method, np.minimum(length, KNOTS))


def _fresh(old: _Dense, points: Offsets) -> Flags:
    end, _ = old.at(np.maximum(old.count - 1, 0))
    start = old.offset[:, 0]
    gone = (points.end < end) | (points.start < start) | (points.start >= end)
    return np.asarray((old.count < 2) | gone)


def _other_topic(before: pa.Table, now: pa.Table, row: Ints) -> Flags:
    """Recreated under its name; where an id is not known the name has to do."""
    was = column(before, "topic_id").take(pa.array(row, mask=row < 0))
    other = pc.fill_null(pc.not_equal(was, column(now, "topic_id")), False)
    return np.asarray(other.to_numpy(zero_copy_only=False))


def _begin(grown: _Dense, fresh: Ints, points: Offsets) -> None:
    """In these rows log start and log end: all that one snapshot tells."""
    grown.offset[fresh] = points.end[fresh, np.newaxis]
    grown.offset[fresh, 0] = points.start[fresh]
    grown.below[fresh] = points.size[fresh, np.newaxis]
    grown.below[fresh, 0] = 0
    grown.above[fresh] = 0  # what lies below the log start in its segment, nobody knows
    grown.method[fresh] = PROPORTIONAL
    grown.count[fresh] = 2


def _grown(old: _Dense, points: Offsets, segment_bytes: Ints, sure: _Sure) -> tuple[_Dense, Step]:
    """The old curve without what left, and one more knot where the log end moved."""
    rows = np.arange(len(old.count))
    last = np.maximum(old.count - 1, 0)
    end, size = old.at(last)
    moved = points.start > old.offset[:, 0]
    kept = np.arange(KNOTS) < old.count[:, np.newaxis]
    passed = ((old.offset <= points.start[:, np.newaxis]) & kept).sum(axis=1)
    left = np.maximum(passed - 1, 0)
    below_start, unsure = _below(old, left, np.minimum(left + 1, last), points.start)
    expected = np.asarray(_slope(old, last) * (points.end - end), dtype=np.float64)
    gone = _gone(
        size + expected - points.size, _RATE_OFF * expected, below_start, unsure, segment_bytes
    )
    gone = np.where(moved, np.clip(gone, 0, below_start), 0)
    came = points.size - size + gone
    growth = np.where(came < 0, np.rint(expected).astype(np.int64), came)  # the cleaner was there
    growth = np.where(points.end > end, growth, 0)
    total = size - gone + growth
    same_end = points.end == end
    shrank = np.where(same_end, points.size != total, points.size < np.where(moved, total, size))
    scale = np.where(shrank, points.size / np.maximum(total, 1), 1.0)

    offset, below, method = (_left(v, left) for v in (old.offset, old.below, old.method))
    offset[:, 0], below[:, 0] = points.start, below_start
    other = np.flatnonzero((gone != 0) | shrank)
    less = (below[other] - gone[other, np.newaxis]) * scale[other, np.newaxis]
    below[other] = np.clip(np.rint(less).astype(np.int64), 0, points.size[other, np.newaxis])
    count = np.maximum(old.count - left + ~same_end, 1)
    method[rows, count - 1] = np.where(same_end, method[rows, count - 1], HISTORY)
    method[:, 0] = method[:, 1]
    past = np.arange(KNOTS + 1) >= (count - 1)[:, np.newaxis]
    came = np.where(sure.grows & ~same_end, points.size - size, 0)
    above = _above(old, left, points, came)
    above[past | ~sure.stays[:, np.newaxis]] = 0
    dense = _Dense(
        np.where(past, points.end[:, np.newaxis], offset),
        np.where(past, points.size[:, np.newaxis], below),
        above,
        method,
        count,
    )
    return dense, Step(growth, gone)


def _left(knots: Ints, left: Ints) -> Ints:
    """Rows of knots without the first ones that `left`, and with room for one more: mostly none
    did, and copying whole rows is quicker than picking their knots.
    """
    wide = np.empty((len(knots), KNOTS + 1), dtype=np.int64)
    wide[:, :KNOTS], wide[:, KNOTS] = knots, knots[:, -1]
    some = np.flatnonzero(left)[:, np.newaxis]
    wide[some[:, 0]] = knots[some, np.minimum(left[some] + np.arange(KNOTS + 1), KNOTS - 1)]
    return wide


def _above(old: _Dense, left: Ints, points: Offsets, came: Ints) -> Ints:
    """What surely lies at or above each knot that is left: as much more as the replica's own size
    grew.

    Segments that left at the same time, or dead bytes that did, only lower it. A knot counts from
    the snapshot after its own on: the end of a log and its size are not read at the same moment.
    The log start has what the first knot above it has.
    """
    rows, last = np.arange(len(old.count)), np.maximum(old.count - 1, 0)
    first = np.minimum(left + (points.start > old.offset[rows, left]), last)
    above = _left(old.above, left)
    above[:, 0] = old.above[rows, first]
    counts = np.arange(KNOTS + 1) < (last - left)[:, np.newaxis]
    counts[:, 0] = first < last
    above += np.maximum(came, 0)[:, np.newaxis] * counts
    return np.minimum(above, points.size[:, np.newaxis], out=above)


def _slope(old: _Dense, last: Ints) -> Floats:
    """Bytes per offset of the newest interval."""
    (end, size), (before, less) = old.at(last), old.at(np.maximum(last - 1, 0))
    return np.asarray((size - less) / np.maximum(end - before, 1))


def _gone(
    lacking: Floats, lacking_off: Floats, below_start: Ints, unsure: Floats, segment_bytes: Ints
) -> Ints:
    """Bytes that left: the mean of both measures, weighted by the inverse of their variances.

    Retention deletes all that lies below its new log start; a purge leaves a part of a segment.
    Nothing left where both allow it: a purge at every snapshot mostly stays inside one segment.
    """
    first = lacking_off**2
    second = unsure**2 + segment_bytes.astype(np.float64) ** 2 / 12  # anywhere in a segment
    weight = first / np.maximum(first + second, 1.0)
    little = np.minimum(lacking_off, segment_bytes / 8)
    nothing = (below_start < segment_bytes) & (np.abs(lacking) <= little)
    found = lacking + (below_start - lacking) * weight
    return np.where(nothing, 0, np.rint(found)).astype(np.int64)


def _below(old: _Dense, left: Ints, right: Ints, offset: Ints) -> tuple[Ints, Floats]:
    """A straight line between two knots, and how far it may be off: nothing at a knot."""
    (from_offset, low), (to_offset, high) = old.at(left), old.at(right)
    share = np.clip((offset - from_offset) / np.maximum(to_offset - from_offset, 1), 0.0, 1.0)
    straight = low + np.rint((high - low) * share).astype(np.int64)
    return straight, np.asarray((high - low) * share * (1 - share))


def _pruned(wide: _Dense) -> _Dense:
    """At most KNOTS: of more, the one without which least becomes unsure goes.

    Between two knots the truth lies anywhere in their rectangle of offsets and bytes; without the
    knot between two rectangles that area grows by offsets x bytes of one and the other.
    """
    over = np.flatnonzero(wide.count > KNOTS)
    offsets = np.diff(wide.offset[over], axis=1).astype(np.float64)
    sizes = np.diff(wide.below[over], axis=1).astype(np.float64)
    unsure = offsets[:, :-1] * sizes[:, 1:] + offsets[:, 1:] * sizes[:, :-1]
    dropped = 1 + unsure.argmin(axis=1)
    method = wide.method.copy()
    # What stays covers both intervals, and is no surer than either.
    method[over, dropped + 1] = np.maximum(method[over, dropped], method[over, dropped + 1])
    least = np.full(len(wide.count), KNOTS)
    least[over] = dropped
    later = np.arange(KNOTS) >= least[:, np.newaxis]

    def kept(values: Ints) -> Ints:
        return np.where(later, values[:, 1:], values[:, :KNOTS])

    return _Dense(
        kept(wide.offset), kept(wide.below), kept(wide.above), kept(method),
        np.minimum(wide.count, KNOTS),
    )  # fmt: skip


def _flat(parts: Sequence[_Dense]) -> Curves:
    kept = [np.arange(KNOTS) < dense.count[:, np.newaxis] for dense in parts]
    count = np.concatenate([dense.count for dense in parts])
    offset, below, above, method = (
        np.concatenate([values[mask] for values, mask in zip(columns, kept, strict=True)])
        for columns in (
            [dense.offset for dense in parts],
            [dense.below for dense in parts],
            [dense.above for dense in parts],
            [dense.method for dense in parts],
        )
    )
    return Curves(
        first=(np.cumsum(count) - count).astype(np.int64),
        offset=offset,
        below=below,
        base=np.zeros(len(offset), dtype=bool),
        method=method,
        segment_bytes=np.zeros(len(count), dtype=np.int64),
        above=above,
    )
