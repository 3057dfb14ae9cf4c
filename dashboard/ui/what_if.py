"""What if these groups were waived? Exact minima over the groups that remain; no Spark.

Waiving two groups that hold the same records frees them once, so the bytes of a set of groups are
never the sum of its members' bytes: each partition's target is taken again over the remaining
groups, and the bytes below it are read from the replicas' curves.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
_PARTITION_BITS = 20  # Kafka's own limit of partitions per topic is far below a million
_END = np.iinfo(np.int64).max


def waive(
    facts: pa.Table, stable: pa.Table, holds: pa.Table, curves: pa.Table, waived: Collection[str]
) -> pa.Table:
    """`facts` with targets, records and bytes as they were without the groups in `waived`.

    `facts` are the committed target's partitions; `stable` those of target high-watermark, whose
    target (the high watermark, or below it the last stable offset) is the most a waiver can free.
    A target that a replay window keeps below every group's offset stays there. Partitions whose
    curve is missing get null bytes. Where the target moves, `bytes_at_once` becomes null: whole
    segments are the analysis' to tell.
    """
    topics = pc.unique(facts["topic"])
    keys = _keys(facts, topics)
    order = np.argsort(keys)
    row_of = _Lookup(keys[order], order)
    every = _lowest(holds, topics, row_of, facts.num_rows)
    names = pa.array(sorted(waived), pa.string())
    rest = holds.filter(pc.invert(pc.is_in(holds["group_id"], names)))
    remaining = _lowest(rest, topics, row_of, facts.num_rows)
    target = _targets(facts, _caps(stable, topics, row_of, facts.num_rows), every, remaining)
    known = pc.is_valid(facts["target_offset"]).to_numpy(zero_copy_only=False) | (remaining < _END)
    start = _int_column(facts, "log_start_offset", 0)
    target = np.maximum(target, start)
    bytes_below, has_curve = _bytes_below(curves, topics, row_of, target, facts.num_rows)
    moved = pa.array(target != _int_column(facts, "target_offset", -1))
    drawn = pa.array(bytes_below, mask=~(known & has_curve))
    likely = pc.if_else(moved, drawn, facts["bytes_likely"])
    holder = _holders(rest, topics, row_of, facts.num_rows)
    changed = {
        "target_offset": pa.array(target, mask=~known),
        "records": pa.array(target - start, mask=~known),
        "bytes_likely": likely,
        "held_bytes": pc.if_else(
            moved, pc.subtract(facts["size_bytes"], likely), facts["held_bytes"]
        ),
        "held_by": pc.if_else(moved, holder, facts["held_by"]),
        "bytes_at_once": pc.if_else(moved, None, facts["bytes_at_once"]),
    }
    for name, column in changed.items():
        facts = facts.set_column(facts.schema.get_field_index(name), name, column)
    return facts


class _Lookup:
    """Row numbers of partition keys; -1 for a partition that is not among the facts."""

    def __init__(self, sorted_keys: Ints, order: Ints) -> None:
        self.sorted_keys = sorted_keys
        self.order = order

    def rows(self, keys: Ints) -> Ints:
        if not len(self.sorted_keys):
            return np.full(len(keys), -1)
        at = np.minimum(np.searchsorted(self.sorted_keys, keys), len(self.sorted_keys) - 1)
        return np.where(self.sorted_keys[at] == keys, self.order[at], -1)


def _keys(table: pa.Table, topics: pa.Array) -> Ints:
    codes = pc.index_in(table["topic"], value_set=topics)
    known = pc.fill_null(codes, -1).to_numpy().astype(np.int64)
    partitions = table["partition"].to_numpy().astype(np.int64)
    return np.where(known < 0, -1, (known << _PARTITION_BITS) | partitions)


def _int_column(table: pa.Table, name: str, missing: int) -> Ints:
    return np.asarray(pc.fill_null(table[name], missing).to_numpy(), dtype=np.int64)


def _lowest(holds: pa.Table, topics: pa.Array, lookup: _Lookup, rows: int) -> Ints:
    """The lowest committed offset per partition; a group without one holds from the start (0)."""
    lowest = np.full(rows, _END, dtype=np.int64)
    row = lookup.rows(_keys(holds, topics))
    offsets = _int_column(holds, "committed_offset", 0)
    np.minimum.at(lowest, row[row >= 0], offsets[row >= 0])
    return lowest


def _holders(holds: pa.Table, topics: pa.Array, lookup: _Lookup, rows: int) -> pa.Array:
    """The group with the lowest commit per partition; null where none remains."""
    row = lookup.rows(_keys(holds, topics))
    order = np.lexsort((_int_column(holds, "committed_offset", 0), row))
    first = order[np.flatnonzero(np.diff(row[order], prepend=-2) != 0)]
    first = first[row[first] >= 0]
    index = np.full(rows, -1, dtype=np.int64)
    index[row[first]] = first
    return holds["group_id"].combine_chunks().take(pa.array(index, mask=index < 0))


def _caps(stable: pa.Table, topics: pa.Array, lookup: _Lookup, rows: int) -> Ints:
    caps = np.zeros(rows, dtype=np.int64)
    row = lookup.rows(_keys(stable, topics))
    offsets = _int_column(stable, "target_offset", 0)
    caps[row[row >= 0]] = offsets[row >= 0]
    return caps


def _targets(facts: pa.Table, caps: Ints, every: Ints, remaining: Ints) -> Ints:
    planned = _int_column(facts, "target_offset", 0)
    has_target = pc.is_valid(facts["target_offset"]).to_numpy(zero_copy_only=False)
    # Below every group's offset something else holds the target: the replay window.
    window = has_target & (planned < np.minimum(every, caps))
    return np.where(window, planned, np.minimum(remaining, caps))


def _bytes_below(
    curves: pa.Table, topics: pa.Array, lookup: _Lookup, target: Ints, rows: int
) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Bytes below `target` per partition, over all replicas: linear between a curve's knots."""
    row = lookup.rows(_keys(curves, topics))
    keep = row >= 0
    row, curves = row[keep], curves.filter(pa.array(keep))
    covered = np.zeros(rows, dtype=bool)
    if not len(row):
        return np.zeros(rows, dtype=np.int64), covered
    offsets, sizes = _int_column(curves, "offset", 0), _int_column(curves, "bytes_below", 0)
    first = _first_knots(curves, row)
    replica = np.cumsum(first) - 1
    starts = np.flatnonzero(first)
    ends = np.append(starts[1:], len(row)) - 1
    wanted = np.clip(target[row[starts]], offsets[starts], offsets[ends])
    # All replicas' knots on one line: replica number times stride, plus the offset from its start.
    stride = int((offsets[ends] - offsets[starts]).max()) + 2
    line = replica * stride + offsets - offsets[starts][replica]
    ask = np.arange(len(starts)) * stride + wanted - offsets[starts]
    left = np.searchsorted(line, ask, side="right") - 1
    right = np.minimum(left + 1, ends)
    span = np.maximum(offsets[right] - offsets[left], 1)
    share = (wanted - offsets[left]) / span
    found = sizes[left] + np.rint((sizes[right] - sizes[left]) * share).astype(np.int64)
    result = np.zeros(rows, dtype=np.int64)
    np.add.at(result, row[starts], found)
    covered[row] = True
    return result, covered


def _first_knots(curves: pa.Table, row: Ints) -> npt.NDArray[np.bool_]:
    """Where a new replica begins; the table is sorted by its key."""
    broker = _int_column(curves, "broker_id", -1)
    folder = curves["log_dir"].combine_chunks().dictionary_encode()
    if isinstance(folder, pa.ChunkedArray):
        folder = folder.combine_chunks()
    directory = pc.fill_null(folder.indices, -1).to_numpy(zero_copy_only=False)
    first = np.ones(len(row), dtype=bool)
    first[1:] = (np.diff(row) != 0) | (np.diff(broker) != 0) | (np.diff(directory) != 0)
    return first
