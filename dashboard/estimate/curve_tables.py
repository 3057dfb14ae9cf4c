"""The findings table `curves` and `dashboard.estimate.curves.Curves`: one into the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.domain.model import DEFAULT_SEGMENT_BYTES, METHODS
from dashboard.estimate.curves import NEVER, NO_EPOCH, PROPORTIONAL, UNKNOWN, Curves, Ints
from dashboard.store.snapshots import ClusterStore
from dashboard.store.tables import FINDING_TABLES, conform

_SPEC = FINDING_TABLES["curves"]
PLACE = ["topic", "partition", "broker_id", "log_dir"]


@dataclass(frozen=True)
class ReplicaCurves:
    """Curves and whose they are: one row of `places` (PLACE and topic_id) per replica."""

    places: pa.Table
    curves: Curves

    def with_segment_bytes(self, segment_bytes: Ints) -> ReplicaCurves:
        """The same curves read with other segment sizes, one per replica."""
        return ReplicaCurves(self.places, replace(self.curves, segment_bytes=segment_bytes))


def read(
    store: ClusterStore,
    analysis: str,
    only: pc.Expression | None = None,
    columns: list[str] | None = None,
) -> ReplicaCurves:
    """The curves of an analysis; the replicas of a partition stand side by side.

    `only` some of them, and only some `columns` of the table, the others as if unknown. A file
    becomes numbers before the next one is read: as texts a million partitions' knots are 10 GiB.
    Raises StoreError.
    """
    parts = store.parts("findings", analysis, "curves", columns, only=only)
    return _joined([from_table(conform(_SPEC, part)) for part in parts])


def drawn(store: ClusterStore, analysis: str) -> ReplicaCurves:
    """The curves of an analysis alone: what surely lies above an offset, since when growth counts
    and which epochs led are as if unknown. Raises StoreError.
    """
    columns = ["offset", "bytes_below", "is_base", "method", "segment_bytes", "rolled_bytes"]
    found = read(store, analysis, columns=[*PLACE, *columns])
    curves = replace(found.curves, above=None, sure_since=None, leader_epoch=None)
    return ReplicaCurves(found.places.select(PLACE), curves)


def _joined(parts: Sequence[ReplicaCurves]) -> ReplicaCurves:
    if len(parts) == 1:
        return parts[0]
    each = [part.curves for part in parts]
    knots = np.cumsum([0, *(len(one.offset) for one in each)])
    first = [one.first + at for one, at in zip(each, knots.tolist(), strict=False)]
    return ReplicaCurves(
        pa.concat_tables([part.places for part in parts]).combine_chunks(),
        Curves(
            first=np.concatenate(first),
            offset=np.concatenate([one.offset for one in each]),
            below=np.concatenate([one.below for one in each]),
            base=np.concatenate([one.base for one in each]),
            method=np.concatenate([one.method for one in each]),
            segment_bytes=np.concatenate([one.segment_bytes for one in each]),
            rolled_bytes=np.concatenate([one.rolled for one in each]),
            above=np.concatenate([one.surely for one in each]),
            sure_since=np.concatenate([one.since for one in each]),
            leader_epoch=np.concatenate([one.epoch for one in each]),
        ),
    )


def from_table(table: pa.Table) -> ReplicaCurves:
    """The curves in a table sorted by its key.

    Columns that an older minor did not have are null: those curves are proportional.
    """
    new = np.ones(table.num_rows, dtype=bool)
    if table.num_rows:
        new[1:] = np.logical_or.reduce([changes(table[name]) for name in PLACE])
    first = np.flatnonzero(new)
    methods = pc.index_in(table["method"], value_set=pa.array(METHODS))
    of_replica = ["segment_bytes", "rolled_bytes", "sure_since", "leader_epoch"]
    places = table.select([*PLACE, "topic_id", *of_replica]).take(pa.array(first))
    return ReplicaCurves(
        places.drop_columns(of_replica),
        Curves(
            first=first.astype(np.int64),
            offset=integers(table["offset"], 0),
            below=integers(table["bytes_below"], 0),
            base=pc.fill_null(table["is_base"], False).to_numpy(),
            method=integers(methods, PROPORTIONAL),
            segment_bytes=integers(places["segment_bytes"], DEFAULT_SEGMENT_BYTES),
            rolled_bytes=integers(places["rolled_bytes"], UNKNOWN),
            above=integers(table["bytes_above"], 0),
            sure_since=integers(places["sure_since"].cast(pa.int64()), NEVER),
            leader_epoch=integers(places["leader_epoch"], NO_EPOCH),
        ),
    )


def to_table(found: ReplicaCurves) -> pa.Table:
    """The columns of the findings table, without snapshot_id and taken_at; in `places`' order."""
    curves = found.curves
    lengths = curves.last - curves.first + 1
    row = np.repeat(np.arange(len(lengths)), lengths)
    table = found.places.select([*PLACE, "topic_id"]).take(pa.array(row))
    columns = {
        "offset": curves.offset,
        "bytes_below": curves.below,
        "bytes_above": curves.surely,
        "is_base": curves.base,
        "method": pa.array(METHODS).take(pa.array(curves.method)),
        "segment_bytes": curves.segment_bytes[row],
        "rolled_bytes": pa.array(curves.rolled[row], mask=curves.rolled[row] == UNKNOWN),
        "sure_since": _times(curves.since).take(pa.array(row)),
        "leader_epoch": pa.array(curves.epoch[row], pa.int32(), mask=curves.epoch[row] == NO_EPOCH),
    }
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values))
    return table


def _times(microseconds: Ints) -> pa.Array:
    return pa.array(microseconds, mask=microseconds == NEVER).cast(pa.timestamp("us", tz="UTC"))


def integers(column: pa.ChunkedArray, missing: int) -> Ints:
    """A column as 64-bit integers, null as `missing`."""
    return np.asarray(pc.fill_null(column, missing).to_numpy(), dtype=np.int64)


def changes(column: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Where a value differs from the one before it."""
    one = column.combine_chunks()
    if isinstance(one, pa.ChunkedArray):
        one = pa.concat_arrays(one.chunks)
    if not pa.types.is_integer(one.type):
        one = one.dictionary_encode().indices
    values = pc.fill_null(one, -1).to_numpy(zero_copy_only=False)
    return np.asarray(values[1:] != values[:-1])
