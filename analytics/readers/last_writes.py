"""When each partition was last written to: since when its log end has not moved.

Log ends only grow, so an end that is the same in two snapshots was the same between them, whoever
read it meanwhile. What is read is the high watermark: it is the log's end only while all replicas
are in sync. Carried from snapshot to snapshot, a row per partition, so that snapshots may be pruned
before a topic has been quiet for long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from analytics.earlier import stepped
from analytics.replicas.points import matched, named
from dashboard.core.arrow import column, in_order, known_true
from dashboard.core.clock import microseconds
from dashboard.estimate.curve_tables import integers
from dashboard.estimate.curves import Flags, Ints
from dashboard.store.clocks import clock_was_right
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore
from dashboard.store.tables import FINDING_TABLES

_KEY = ["topic", "partition"]
_TIMES = ("moved_at", "known_since", "seen_at")
NEVER = np.iinfo(np.int64).min
_TIME = pa.timestamp("us", tz="UTC")
_COLUMNS = FINDING_TABLES["last_writes"].unstamped.schema.names


@dataclass(frozen=True)
class _Ends:
    """Per partition of `places` (_KEY and topic_id) its log end and _TIMES, microseconds.

    All are NEVER where the end was not read yet, `moved_at` also where it has not moved.
    """

    places: pa.Table
    end: Ints
    times: dict[str, Ints]


def fold(
    cluster: ClusterStore, snapshot: Manifest, base: Manifest | None, before: Sequence[Manifest]
) -> pa.Table:
    """The `last_writes` of a snapshot's partitions, without snapshot_id and taken_at, by its key.

    Goes on from those of `base`, an earlier analysis, over every snapshot since then. Without it,
    what the analyses `before` (`earlier.going_on`) knew of an end that still stands is kept.
    """
    found = _from_table(cluster.read("findings", base.id, "last_writes")) if base else _NOTHING
    found = stepped(cluster, base, snapshot, found, lambda was, now: _stepped(was, cluster, now))
    for analysis in () if base else before:
        if "last_writes" in analysis.tables:
            known = cluster.read("findings", analysis.id, "last_writes")
            found = _remembered(found, _from_table(known))
    return in_order(_to_table(found), _KEY)


def _stepped(before: _Ends, cluster: ClusterStore, snapshot: Manifest) -> _Ends:
    """One snapshot more. What it does not list is forgotten; what it could not read stays.

    Another topic id, and a clock that stepped back, begin anew. A snapshot by a clock that was
    wrong tells no times.
    """
    places, end, told = _read(cluster, snapshot)
    at = microseconds(snapshot.taken_at)
    row = matched(places, before.places, _KEY)
    was = {name: np.append(values, NEVER)[row] for name, values in before.times.items()}
    anew = other_topic(places, before.places, row) | (was["seen_at"] > at)
    known = (was["known_since"] != NEVER) & ~anew
    told = told & clock_was_right(snapshot)
    old = np.append(before.end, NEVER)[row]
    moved = told & known & (end != old)
    times = {
        "moved_at": np.where(moved, at, np.where(known, was["moved_at"], NEVER)),
        "known_since": np.where(known, was["known_since"], np.where(told, at, NEVER)),
        "seen_at": np.where(told, at, np.where(known, was["seen_at"], NEVER)),
    }
    return _Ends(places, np.where(told, end, np.where(known, old, NEVER)), times)


def _read(cluster: ClusterStore, snapshot: Manifest) -> tuple[pa.Table, Ints, Flags]:
    """The partitions of a snapshot with their log ends, and where these were read.

    Below min.insync.replicas the high watermark stands still, whatever producers with acks=1 write
    (KIP-966): with a replica out of sync, however many are asked for, it tells no end.
    """
    columns = ["topic_no", "partition", "high_watermark", "replicas", "isr"]
    rows = cluster.read("snapshots", snapshot.id, "partitions", columns)
    topics = cluster.read("snapshots", snapshot.id, "topics", ["topic_no", "topic", "topic_id"])
    rows = named(rows, topics)
    rows = rows.filter(rows["topic"].is_valid())
    lengths = [pc.list_value_length(rows[name]) for name in ("isr", "replicas")]
    whole = known_true(pc.greater_equal(*lengths))
    told = pc.and_(rows["high_watermark"].is_valid(), whole).to_numpy()
    return rows.select([*_KEY, "topic_id"]), integers(rows["high_watermark"], NEVER), told


def other_topic(places: pa.Table, before: pa.Table, row: Ints) -> Flags:
    """Where both ids are known and differ: brokers before 2.8 tell none."""
    index = pa.array(row, mask=row < 0)
    was = column(before, "topic_id").take(index)
    differs = pc.fill_null(pc.not_equal(column(places, "topic_id"), was), False)
    return np.asarray(differs.to_numpy(zero_copy_only=False), dtype=bool)


def _remembered(found: _Ends, known: _Ends) -> _Ends:
    """`found`, and of ends that an earlier analysis knew as they still are, since when it did."""
    row = matched(found.places, known.places, _KEY)
    same = (np.append(known.end, NEVER)[row] == found.end) & (found.end != NEVER)
    same &= ~other_topic(found.places, known.places, row)
    earlier = {name: np.append(values, NEVER)[row] for name, values in known.times.items()}
    longer = same & (earlier["known_since"] < found.times["known_since"])
    times = {
        name: np.where(longer, earlier[name], values) if name != "seen_at" else values
        for name, values in found.times.items()
    }
    return _Ends(found.places, found.end, times)


def _from_table(table: pa.Table) -> _Ends:
    times = {name: integers(table[name].cast(pa.int64()), NEVER) for name in _TIMES}
    end = integers(table["log_end_offset"], NEVER)
    return _Ends(table.select([*_KEY, "topic_id"]), end, times)


def _to_table(found: _Ends) -> pa.Table:
    columns = {"log_end_offset": pa.array(found.end, mask=found.end == NEVER)} | {
        name: pa.array(values, mask=values == NEVER).cast(_TIME)
        for name, values in found.times.items()
    }
    places = {name: found.places[name] for name in found.places.column_names}
    return pa.table(places | columns).select(_COLUMNS)


_NOTHING = _from_table(FINDING_TABLES["last_writes"].schema.empty_table())


def sums(writes: pa.Table, partitions: pa.Table, taken_at: int) -> pa.Table:
    """What some partitions add to each topic: partitions, unread (not read at `taken_at`,
    microseconds), moved_at and known_since (the latest), never_known, records, size_bytes of so
    many replicas, and unmeasured (partitions whose size or records are not known). Sums of parts
    may be summed again.

    `partitions`: `partitions.described` ones.
    """
    seen = pc.fill_null(pc.equal(writes["seen_at"].cast(pa.int64()), taken_at), False)
    ends = writes.select(["topic", "moved_at", "known_since"])
    ends = ends.append_column("partitions", _ones(writes.num_rows))
    ends = ends.append_column("unread", pc.invert(seen).cast(pa.int64()))
    ends = ends.append_column("never_known", writes["known_since"].is_null().cast(pa.int64()))
    records = pc.subtract(partitions["high_watermark"], partitions["log_start_offset"])
    size = partitions["size_bytes"]
    unknown = pc.or_(pc.or_(size.is_null(), records.is_null()),
                     pc.less(partitions["replicas"], partitions["assigned"]))  # fmt: skip
    bytes_held = pa.table(
        {"topic": partitions["topic"], "records": records, "size_bytes": size,
         "replicas": partitions["replicas"].cast(pa.int64()),
         "unmeasured": unknown.cast(pa.int64())}
    )  # fmt: skip
    return summed(pa.concat_tables([ends, bytes_held], promote_options="default"))


def summed(found: pa.Table) -> pa.Table:
    """One row per topic."""
    rows = found.group_by("topic").aggregate(list(_SUMS.items()))
    return rows.rename_columns(["topic", *_SUMS])


def _ones(count: int) -> pa.Array:
    return pa.repeat(pa.scalar(1, pa.int64()), count)


_SUMS = {
    "partitions": "sum", "unread": "sum", "never_known": "sum", "moved_at": "max",
    "known_since": "max", "records": "sum", "size_bytes": "sum", "replicas": "sum",
    "unmeasured": "sum",
}  # fmt: skip


# When logs ended where: a few knots per partition, closer together the younger they are.
#
# Ends only grow, so two knots bound when any record between them came.

KNOTS = 24
_MINUTE = 60_000_000
_LONGEST = 60 * 24 * 60 * _MINUTE  # older than this one knot is enough
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
        times = pa.array(self.times[there]).cast(_TIME)
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
