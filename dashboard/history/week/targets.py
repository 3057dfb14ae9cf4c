"""Up to which offset a policy would have purged at a moment of the past, and who stands in the way.

Times are known as well as snapshots are: records below the high watermark of an older snapshot are
older than that. Bytes that stay are counted from the end of the log, spread evenly over it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.domain.columns import Flags, Ints, keys, positions
from dashboard.estimate import curve_tables
from dashboard.estimate.curve_tables import PLACE, ReplicaCurves, integers
from dashboard.estimate.curves import UNKNOWN, Curves
from dashboard.history.week.moments import Floats, Moment
from dashboard.history.week.rows import ABSENT, Rows
from dashboard.safety import targets
from dashboard.safety.guard_texts import NO_SNAPSHOT
from dashboard.safety.targets import Bounds
from dashboard.settings.settings import TopicDeclaration
from dashboard.store.snapshots import ClusterStore

FOR_EVER = -1
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Keeps:
    """What a target keeps per topic, or per row: milliseconds of age and bytes; -1: no limit.

    `known`: those whose limits are known at all.
    """

    age_ms: Ints
    size_bytes: Ints
    known: Flags

    def of(self, topic: Ints) -> Keeps:
        """Per row, of the topics that the rows are of."""
        return Keeps(self.age_ms[topic], self.size_bytes[topic], self.known[topic])


class Ends:
    """High watermarks of older moments, to tell what was younger than an age."""

    def __init__(self) -> None:
        self._at: list[datetime] = []
        self._ends: list[tuple[Ints, Ints]] = []

    def add(self, at: datetime, high_watermark: Ints, leader_epoch: Ints) -> None:
        self._at.append(at)
        self._ends.append((high_watermark, leader_epoch))

    def before(self, moment: Moment, age_ms: Ints) -> tuple[Ints, Flags]:
        """Per row the end of the log so long before the moment, or earlier, as far as it was not
        lost by then; ABSENT where no snapshot tells.

        The flags: rows for which none is as old.
        """
        found = np.full(len(age_ms), ABSENT, dtype=np.int64)
        young = np.zeros(len(age_ms), dtype=bool)
        for age in np.unique(age_ms[age_ms >= 0]).tolist():
            own = age_ms == age
            until = moment.at - timedelta(milliseconds=age)
            at = max((i for i, taken in enumerate(self._at) if taken <= until), default=None)
            if at is None:
                young |= own
            else:
                end, epoch = (values[own] for values in self._ends[at])
                lost = moment.commits.rows.epoch_ends(np.flatnonzero(own), epoch, moment.cut)
                found[own] = np.minimum(end, pc.fill_null(lost, _NEVER).to_numpy())
        return found, young


@dataclass(frozen=True)
class Wanted:
    """Per row the target of a moment (ABSENT: none), and where groups forbid to purge up to it."""

    target: Ints
    forbidden: Flags
    young: Flags  # no snapshot is old enough to tell


def wanted(
    moment: Moment, keep: Keeps | None, ends: Ends, owner: Ints | None, window_ms: Ints
) -> Wanted:
    """The targets of one moment, by the rules of plans (`dashboard.safety`).

    `owner`: the group whose commits count, as `Commits.code`. `window_ms`: each row's replay
    window, 0: it has none; a target inside it ends where the log did so long ago.
    """
    lowest = _lowest(moment)
    young = np.zeros(len(lowest), dtype=bool)
    window, unknown = ends.before(moment, np.where(window_ms > 0, window_ms, FOR_EVER))
    bounds = Bounds(
        _known(moment.log_start),
        _known(moment.last_stable),
        _known(moment.high_watermark),
        _known(window),
        pa.array(window_ms > 0),
        pa.repeat(NO_SNAPSHOT, len(lowest)),
    )
    if keep is None:
        offset = lowest if owner is None else moment.commits.of(owner, moment.high_watermark)
        found = targets.committed(_known(offset), bounds)
    else:
        offset, young = _kept(moment, keep, ends)
        stable = pc.min_element_wise(_known(offset), bounds.last_stable, skip_nulls=False)
        found = targets.capped(stable, bounds)
    told = (moment.log_start >= 0) & (moment.last_stable >= 0)
    # Nothing to purge is told as the log start, as the walk counts it.
    offset = np.maximum(integers(_chunked(found.offset), ABSENT), moment.log_start)
    target = np.where(told, offset, ABSENT)
    complete = moment.commits.complete(moment.high_watermark, moment.waived)
    return Wanted(target, ~complete | (lowest < target), (young | unknown) & told)


def _lowest(moment: Moment) -> Ints:
    """As `purge.plan.standing.lowest` has it."""
    every = moment.commits.lowest(moment.high_watermark)
    if not moment.waived:
        return every
    rest = moment.commits.lowest(moment.high_watermark, moment.waived)
    end = _known(moment.high_watermark)
    found = targets.without_waived(_known(rest), _known(every), end)
    return integers(_chunked(found), ABSENT)


def windows(found: Rows, declarations: Mapping[str, TopicDeclaration]) -> Ints:
    """The replay window of each row's topic in milliseconds; 0 where it has none."""
    length = [
        declared.replay_window // timedelta(milliseconds=1)
        if (declared := declarations.get(name)) is not None
        else 0
        for name, _ in found.names
    ]
    return np.array(length, dtype=np.int64)[found.topic]


def _known(values: Ints) -> pa.Array:
    return pa.array(values, pa.int64(), mask=values < 0)


def _chunked(values: pa.Array) -> pa.ChunkedArray:
    return pa.chunked_array([values])


def _kept(moment: Moment, keep: Keeps, ends: Ends) -> tuple[Ints, Flags]:
    """All that is too old, and all that is too much: the higher of the two."""
    by_age, young = ends.before(moment, keep.age_ms)
    length = np.maximum(moment.high_watermark - moment.log_start, 0)
    each = moment.size_bytes / np.maximum(moment.replicas, 1)
    share = np.minimum(keep.size_bytes / np.maximum(each, 1.0), 1.0)
    stays = np.where(np.isnan(share), length, np.ceil(share * length)).astype(np.int64)
    by_size = np.where(keep.size_bytes >= 0, moment.high_watermark - stays, ABSENT)
    return np.where(keep.known, np.maximum(by_age, by_size), ABSENT), young | ~keep.known


def owners(
    found: Mapping[str, str | None],
    names: Sequence[tuple[str, str | None]],
    topic: Ints,
    code: Callable[[str], int],
) -> Ints:
    """Per row the number of its topic's owner, by `code`; ABSENT where it has none. `topic`: which
    of `names` each row is of.
    """
    of_topic = [ABSENT if (owner := found.get(name)) is None else code(owner) for name, _ in names]
    return np.array(of_topic, dtype=np.int64)[topic]


# How many bytes of all replicas lay between two offsets of a partition, in the past.
#
# What is still there is read from the newest curves, one of each partition (its largest replica's)
# times what all its replicas hold. What has left since is told by the snapshot of that moment: its
# bytes spread evenly over its offsets.


@dataclass(frozen=True)
class PastBytes:
    """`first`: where a row's curve begins (UNKNOWN without one). `curves`: those of `rows`."""

    first: Ints
    rows: Ints
    curves: Curves
    times: Floats

    def meter(self) -> Meter:
        """A reader of offsets that move little from moment to moment."""
        return Meter(self)


class Meter:
    """Bytes between where each row's curve begins and an offset; 0 for rows without a curve.

    Curves are read for offsets that are not those of the moment before: it is what costs most.
    """

    def __init__(self, of: PastBytes) -> None:
        self._of = of
        self._offset = of.first.copy()
        self._found = np.zeros(len(of.first))

    def __call__(self, offset: Ints) -> Floats:
        of, wanted = self._of, np.maximum(offset, self._of.first)
        new = np.flatnonzero(wanted[of.rows] != self._offset[of.rows])
        row = of.rows[new]
        freed = of.curves.of(new).freed(of.first[row], wanted[row])
        self._found[row] = freed.likely * of.times[new]
        self._offset[row] = wanted[row]
        return self._found.copy()


def past_bytes(store: ClusterStore, rows: Rows) -> PastBytes:
    """By the newest analysis' curves; without an analysis all bytes are spread evenly."""
    first = np.full(len(rows), UNKNOWN, dtype=np.int64)
    analysis = store.latest("findings")
    if analysis is None:
        return PastBytes(first, np.zeros(0, np.int64), _none(), np.zeros(0))
    names = pa.array(sorted({name for name, _ in rows.names}), pa.string())
    # What leaves at once is not asked: the other columns may be unknown.
    columns = [*PLACE, "topic_id", "offset", "bytes_below"]
    found = curve_tables.read(store, analysis, pc.field("topic").isin(names), columns)
    row = _rows_of(found.places, rows)
    own, times = _largest(found, row)
    curves = found.curves.of(own)
    first[row[own]] = curves.offset[curves.first]
    return PastBytes(first, row[own], curves, times)


def _rows_of(places: pa.Table, rows: Rows) -> Ints:
    """The row of each replica, ABSENT where no snapshot of the week shows its topic.

    Curves of older minors, or of older brokers, carry no topic id: then the last of its name.
    """
    last = {name: at for at, (name, _) in enumerate(rows.names)}
    known = {topic: at for at, topic in enumerate(rows.names)}
    replica = list(zip(places["topic"].to_pylist(), places["topic_id"].to_pylist(), strict=True))
    numbers = {
        topic: known.get(topic, last.get(topic[0], -1) if topic[1] is None else -1)
        for topic in set(replica)
    }
    topic = np.array([numbers[one] for one in replica], dtype=np.int64)
    at, there = positions(keys(topic, integers(places["partition"], 0)), rows.keys)
    return np.where(there & (topic >= 0), at, -1)


def _largest(found: ReplicaCurves, row: Ints) -> tuple[Ints, Floats]:
    """The largest replica of each row, and all replicas' bytes over its own."""
    size = found.curves.below[found.curves.last]
    own = np.flatnonzero(row >= 0)
    order = own[np.lexsort((-size[own], row[own]))]
    if not len(order):
        return order, np.zeros(0)
    new = np.ones(len(order), dtype=bool)
    new[1:] = row[order][1:] != row[order][:-1]
    head = np.flatnonzero(new)
    total = np.add.reduceat(size[order], head)
    return order[head], total / np.maximum(size[order[head]], 1)


def _none() -> Curves:
    empty = np.zeros(0, dtype=np.int64)
    flags: npt.NDArray[np.bool_] = np.zeros(0, dtype=bool)
    return Curves(empty, empty, empty, flags, empty, empty)
