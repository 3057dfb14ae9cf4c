"""The fold of committed offsets over snapshots: arrays, a snapshot at a time.

Each snapshot's offsets are put into the rows of the groups known before it, so nothing is sorted.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.memory import remembered
from dashboard.curve_tables import integers
from dashboard.curves import Ints
from dashboard.safety.arrow import column, looked_up
from dashboard.snapshot_files import Manifest, time_of
from dashboard.snapshots import ClusterStore

# Of a key's 63: a million partitions of each of 4 million topics, 2 million groups.
_NAME_BITS, _PARTITION_BITS = 22, 20
_NEVER = np.iinfo(np.int64).min
_TIME = pa.timestamp("us", tz="UTC")
_READ = ["group_id", "topic_no", "partition", "committed_offset", "leader_epoch", "taken_at"]
_HELD = ["topic", "topic_id", "partition", "group_id", "committed_offset", "leader_epoch",
         "last_seen_at", "last_commit_at"]  # fmt: skip


def folded(
    cluster: ClusterStore,
    new: Sequence[str],
    names: pa.Table,
    base: Manifest | None,
    oldest_kept: pa.Scalar,
) -> pa.Table:
    """name_no, partition, group_id, named, committed_offset, leader_epoch, last_seen_at and
    last_commit_at of every group, after the snapshots `new`, in their order.

    `names`: the rows of `holds`' names with name_no, named and is_told. `base`: the analysis whose
    offsets come first. Raises StoreError where one of them cannot be read.
    """
    state = _State()
    if base is not None:
        state.remember(remembered(cluster, base, _HELD), names, oldest_kept)
    for snapshot_id in new:
        own = names.filter(pc.equal(names["snapshot_id"], snapshot_id))
        offsets = cluster.read("snapshots", snapshot_id, "group_offsets", _READ)
        state.see(offsets, own, time_of(snapshot_id))
    return state.table()


class _State:
    """One row per topic, partition and group; times are microseconds, _NEVER is null."""

    def __init__(self) -> None:
        self.groups = pa.array([], pa.string())
        self.keys, self.last, self.rows = (np.zeros(0, dtype=np.int64) for _ in range(3))
        names = ("named", "offset", "epoch", "seen", "moved")
        self.values: dict[str, Ints] = {name: np.zeros(0, dtype=np.int64) for name in names}

    def remember(self, held: pa.Table, names: pa.Table, oldest_kept: pa.Scalar) -> None:
        """Begin with the holds of an earlier analysis, as far as their topics count."""
        known = names.filter(names["snapshot_id"].is_null())
        at = looked_up(_both(held), _both(known), pa.array(np.arange(known.num_rows)))
        there = looked_up(at, pa.array(np.arange(known.num_rows)), column(known, "is_present"))
        recent = pc.greater_equal(column(held, "last_seen_at"), oldest_kept)
        counts = pc.fill_null(pc.and_(at.is_valid(), pc.or_kleene(there, recent)), False)
        held, at = held.filter(counts), at.filter(counts)
        self._put(held, known.take(at), "last_seen_at")
        moved = held["last_commit_at"].cast(pa.int64())
        self.values["moved"][self.rows] = integers(moved, _NEVER)

    def see(self, offsets: pa.Table, names: pa.Table, by_order: datetime | None) -> None:
        """Go on with one snapshot. Failed look-ups and partitions never committed do not count.

        `by_order`: the time of its id, as in `snapshot_clocks.seen_at`; rows have its own.
        """
        at = pc.index_in(column(offsets, "topic_no"), value_set=column(names, "topic_no"))
        committed = pc.greater_equal(column(offsets, "committed_offset"), 0)
        counts = pc.fill_null(pc.and_(committed, at.is_valid()), False)
        own, least = offsets["taken_at"], pa.scalar(by_order, _TIME)
        seen = pc.if_else(pc.fill_null(pc.less(own, least), False), least, own)
        offsets = offsets.append_column("seen_at", seen)
        self._put(offsets.filter(counts), names.take(at.filter(counts)), "seen_at")

    def _put(self, rows: pa.Table, names: pa.Table, time: str) -> None:
        keys = self._keys(rows, names)
        if not np.array_equal(keys, self.last):
            self.last, self.rows = keys, self._placed(keys)
        at, values = self.rows, self.values
        offset = integers(rows["committed_offset"], 0)
        seen = integers(rows[time].cast(pa.int64()), _NEVER)
        moved = (values["seen"][at] != _NEVER) & (values["offset"][at] != offset)
        values["moved"][at] = np.where(moved, seen, values["moved"][at])
        values["offset"][at], values["seen"][at] = offset, seen
        told = names["is_told"].to_numpy() | (values["named"][at] == _NEVER)
        values["named"][at] = np.where(told, integers(names["named"], 0), values["named"][at])
        values["epoch"][at] = integers(rows["leader_epoch"].cast(pa.int64()), _NEVER)

    def _keys(self, rows: pa.Table, names: pa.Table) -> Ints:
        coded = column(rows, "group_id").dictionary_encode()
        unknown = pc.is_in(coded.dictionary, value_set=self.groups)
        self.groups = pa.concat_arrays([self.groups, coded.dictionary.filter(pc.invert(unknown))])
        number = pc.index_in(coded.dictionary, value_set=self.groups).take(coded.indices)
        group, name = (np.asarray(n, dtype=np.int64) for n in (number, names["name_no"]))
        return (group << _NAME_BITS | name) << _PARTITION_BITS | integers(rows["partition"], 0)

    def _placed(self, keys: Ints) -> Ints:
        """The row of each key; those that were not known get new ones."""
        found = pc.index_in(pa.array(keys), value_set=pa.array(self.keys))
        new = found.is_null().to_numpy(zero_copy_only=False)
        at = np.asarray(pc.fill_null(found, 0).to_numpy(zero_copy_only=False), dtype=np.int64)
        at[new] = len(self.keys) + np.arange(np.count_nonzero(new))
        self.keys = np.concatenate([self.keys, keys[new]])
        for name, values in self.values.items():
            more = np.full(len(self.keys) - len(values), _NEVER)
            self.values[name] = np.concatenate([values, more])
        return at

    def table(self) -> pa.Table:
        """Every row that was ever seen."""
        keys, values = self.keys, self.values
        place = keys & (1 << _NAME_BITS + _PARTITION_BITS) - 1
        return pa.table(
            {
                "name_no": _int(place >> _PARTITION_BITS),
                "partition": _int(place & (1 << _PARTITION_BITS) - 1),
                "group_id": self.groups.take(pa.array(keys >> _NAME_BITS + _PARTITION_BITS)),
                "named": _int(values["named"]),
                "committed_offset": pa.array(values["offset"]),
                "leader_epoch": pa.array(
                    values["epoch"], pa.int64(), mask=values["epoch"] == _NEVER
                ).cast(pa.int32()),
                "last_seen_at": _time(values["seen"]),
                "last_commit_at": _time(values["moved"]),
            }
        )


def _both(rows: pa.Table) -> pa.Array:
    """Topic and id as one text."""
    ids = pc.fill_null(column(rows, "topic_id"), "")
    return pc.binary_join_element_wise(column(rows, "topic"), ids, "\0")


def _int(values: Ints) -> pa.Array:
    return pa.array(values.astype(np.int32))


def _time(values: Ints) -> pa.Array:
    return pa.array(values, pa.int64(), mask=values == _NEVER).cast(_TIME)
