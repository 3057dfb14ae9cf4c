"""How many bytes of all replicas lay between two offsets of a partition, in the past week.

What is still there is read from the newest curves, one of each partition (its largest replica's)
times what all its replicas hold. What has left since is told by the snapshot of that moment: its
bytes spread evenly over its offsets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.domain.columns import Ints, keys, positions
from dashboard.estimate import curve_tables
from dashboard.estimate.curve_tables import PLACE, ReplicaCurves, integers
from dashboard.estimate.curves import UNKNOWN, Curves
from dashboard.policies.simulate.past import Floats, Moment
from dashboard.policies.simulate.past_rows import Rows
from dashboard.store.snapshots import ClusterStore


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

    def evenly(self, low: Ints, high: Ints, moment: Moment) -> Floats:
        """Bytes of the offsets between two that lie before the curve; NaN where sizes are null."""
        length = moment.high_watermark - moment.log_start
        offsets = np.maximum(np.minimum(high, self.first) - np.minimum(low, self.first), 0)
        per_offset = moment.size_bytes / np.maximum(length, 1)
        return np.where(offsets > 0, offsets * per_offset, 0.0)


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
