"""Per partition: how far every group got, and which groups never committed there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.arrow import STRINGS, column, looked_up, places, unfolded, without
from dashboard.curves import Ints

POSITIONS = pa.list_(pa.struct([("committed_offset", pa.int64()), ("group_id", pa.string())]))


@dataclass(frozen=True)
class Positions:
    """`lists` (POSITIONS) of each partition, lowest offset first, and its first two entries."""

    lists: pa.Array
    first_group: pa.Array
    first_offset: pa.Array
    second_offset: pa.Array


def positions(partitions: pa.Table, holds: pa.Table) -> Positions:
    """`partitions`: topic_no and partition; `holds`: those, group_id and committed_offset."""
    row, holds = _rows(partitions, holds)
    names, group = _ranked(column(holds, "group_id"))
    offset = column(holds, "committed_offset").to_numpy()
    order = np.lexsort((group, offset, row))
    ends = _ends(row, partitions.num_rows)
    offsets, groups = (pa.array(values[order]) for values in (offset, group))
    entries = pa.StructArray.from_arrays(
        [offsets, names.take(groups)], fields=list(POSITIONS.value_type)
    )
    first, second = (_at(ends, entry) for entry in (0, 1))
    return Positions(
        lists=pa.ListArray.from_arrays(pa.array(ends), entries),
        first_group=names.take(groups.take(first)),
        first_offset=offsets.take(first),
        second_offset=offsets.take(second),
    )


def silent(
    partitions: pa.Table, holds: pa.Table, members: pa.Table, topics: pa.Table
) -> tuple[pa.Array, pa.Array]:
    """Of each partition the groups whose members read it without a commit there, and the other
    groups of its topic without one. `members`: topic_no, partition, members_here; `topics`:
    topic_no, topic_groups.
    """
    count = partitions.num_rows
    row, holds = _rows(partitions, holds)
    reads, members = _rows(partitions, members)
    of_topic = looked_up(
        column(partitions, "topic_no"), column(topics, "topic_no"), column(topics, "topic_groups")
    )
    at, here = unfolded(column(members, "members_here"))
    wants, groups = unfolded(of_topic)
    every = pa.concat_arrays([column(holds, "group_id"), here, groups])
    names, rank = _ranked(every)
    width = max(len(names), 1)
    owner = np.concatenate([row, reads[at.to_numpy()], wants.to_numpy()])
    pairs = owner * width + rank
    committed, reading, known = np.split(pairs, [len(row), len(row) + len(at)])
    members_silent = without(reading, committed)
    groups_silent = without(without(known, committed), members_silent)

    def lists(found: Ints) -> pa.Array:
        texts = names.take(pa.array(found % width))
        return pa.ListArray.from_arrays(pa.array(_ends(found // width, count)), texts)

    return lists(members_silent).cast(STRINGS), lists(groups_silent).cast(STRINGS)


def _rows(partitions: pa.Table, table: pa.Table) -> tuple[Ints, pa.Table]:
    """The rows of `table` that belong to a partition, and which one each belongs to."""
    where, of = (places(column(t, "topic_no"), column(t, "partition")) for t in (partitions, table))
    row = pc.index_in(of, value_set=where)
    known = row.is_valid()
    return np.asarray(row.filter(known).to_numpy(), dtype=np.int64), table.filter(known)


def _ranked(names: pa.Array) -> tuple[pa.Array, Ints]:
    """All names once, sorted, and the place of each one among them."""
    coded = names.dictionary_encode()
    order = pc.sort_indices(coded.dictionary)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order.to_numpy()] = np.arange(len(order))
    return coded.dictionary.take(order), rank[coded.indices.to_numpy()]


def _ends(row: Ints, rows: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    counts = np.bincount(row, minlength=rows)
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int32)


def _at(ends: np.ndarray[tuple[int], np.dtype[np.int32]], entry: int) -> pa.Array:
    """The index of one entry of each list; null where it is shorter."""
    at = ends[:-1].astype(np.int64) + entry
    return pa.array(at, mask=at >= ends[1:])
