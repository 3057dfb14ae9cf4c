"""What if these groups were waived? Exact minima over the groups that remain; no Spark.

Waiving two groups that hold the same records frees them once, so the bytes of a set of groups are
never the sum of its members' bytes: each partition's target is taken again over the remaining
groups, and the bytes below it are read from the replicas' curves, as a plan reads them.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.arrow import column
from dashboard.domain.model import METHODS
from dashboard.estimate.curve_tables import ReplicaCurves, integers
from dashboard.estimate.curves import NOT_MEASURABLE, Curves, Flags, Freed, Ints
from dashboard.safety import targets
from dashboard.safety.committed_offsets import tells

_PARTITION_BITS = 20  # Kafka's own limit of partitions per topic is far below a million
_END = np.iinfo(np.int64).max


def waive(
    facts: pa.Table, holds: pa.Table, curves: ReplicaCurves, waived: Collection[str]
) -> pa.Table:
    """`facts` with targets, records and bytes as they were without the groups in `waived`.

    `facts` are the committed target's partitions. Targets follow the rules of a plan with these
    waivers: `limit_offset` (the last stable offset, the replay window) caps what no group holds
    back any more, and an offset past the end of the log tells nothing. Where no group remains
    nothing more may go (guard no-committed-offset), and where the limit is not known, as in
    analyses of earlier versions: there a target stays. Bytes of targets that move are read from
    `curves` as the analysis reads them; without a curve they are null.
    """
    if not facts.num_rows:
        return facts
    topics = pc.unique(facts["topic"])
    keys = _keys(facts, topics)
    order = np.argsort(keys)
    row_of = _Lookup(keys[order], order)
    held = _telling(holds, topics, row_of, facts)
    names = pa.array(sorted(waived), pa.string())
    rest = held.filter(pc.invert(pc.is_in(held["group_id"], names)))
    remaining = _lowest(rest, facts.num_rows)
    found = _targets(facts, _lowest(held, facts.num_rows), remaining)
    known = found.is_valid().to_numpy(zero_copy_only=False)
    start = integers(facts["log_start_offset"], 0)
    target = np.maximum(integers(pa.chunked_array([found]), 0), start)
    moves = known & (target != integers(facts["target_offset"], -1))
    moved = pa.array(moves)
    row = row_of.rows(_keys(curves.places, topics))
    # Curves of topics with remote storage tell no bytes of a disk, here as in the analysis.
    measured = pc.fill_null(pc.not_equal(column(facts, "method"), NOT_MEASURABLE), True)
    reads = moves & measured.to_numpy(zero_copy_only=False)
    here = np.flatnonzero((row >= 0) & reads[row])
    drawn = _drawn(curves.curves.of(here), row[here], start, target, known)
    # What the limit alone holds back is no group's.
    waits = pc.less(pa.array(target), column(facts, "limit_offset"))
    holders = pc.if_else(waits, _holders(rest, remaining), None)
    changed = {name: pc.if_else(moved, sums, facts[name]) for name, sums in drawn.items()}
    changed |= {
        "target_offset": pa.array(target, mask=~known),
        "records": pa.array(target - start, mask=~known),
        "held_bytes": pc.if_else(
            moved, pc.subtract(facts["size_bytes"], drawn["bytes_likely"]), facts["held_bytes"]
        ),
        "held_by": pc.if_else(moved, holders, facts["held_by"]),
    }
    for name, values in changed.items():
        facts = facts.set_column(facts.schema.get_field_index(name), name, values)
    return facts


def freed(facts: pa.Table, curves: ReplicaCurves, chosen: Flags) -> Freed:
    """What each replica frees when the `chosen` partitions of `facts` are purged to their targets.

    Nothing for replicas of other partitions, or of a target that is not known.
    """
    topics = pc.unique(facts["topic"])
    keys = _keys(facts, topics)
    order = np.argsort(keys)
    row = _Lookup(keys[order], order).rows(_keys(curves.places, topics))
    start = integers(facts["log_start_offset"], 0)
    target = np.where(chosen, np.maximum(integers(facts["target_offset"], 0), start), start)
    # Row -1, a replica of no partition here, reads what is appended: nothing.
    bounds = np.stack([np.append(start, 0), np.append(target, 0)])
    return curves.curves.freed(*bounds[:, row])


def _drawn(
    curves: Curves, row: Ints, start: Ints, target: Ints, known: Flags
) -> dict[str, pa.Array]:
    """Bytes of each partition up to its target, over its replicas; `row` says whose each is.

    Null where there is no curve; the most is where a curve tells nothing of what lies past it.
    """
    freed = curves.freed(start[row], target[row])
    covered, endless = np.zeros(len(target), dtype=bool), np.zeros(len(target), dtype=bool)
    covered[row] = True
    np.logical_or.at(endless, row, ~curves.bounded(target[row]))
    parts = {
        "bytes_low": freed.low,
        "bytes_likely": freed.likely,
        "bytes_high": freed.high,
        "bytes_at_once": freed.once,
        "bytes_at_once_low": freed.once_low,
        "bytes_at_once_high": freed.once_high,
    }
    found = {}
    for name, values in parts.items():
        sums = np.zeros(len(target), dtype=np.int64)
        np.add.at(sums, row, values)
        unknown = endless if name.endswith("_high") else False
        found[name] = pa.array(sums, mask=~(covered & known) | unknown)
    worst = np.zeros(len(target), dtype=np.int64)
    np.maximum.at(worst, row, freed.method)
    found["method"] = pa.array(METHODS).take(pa.array(worst, mask=~(covered & known)))
    return found


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
    partitions = integers(table["partition"], 0)
    return np.where(known < 0, -1, (known << _PARTITION_BITS) | partitions)


def _telling(holds: pa.Table, topics: pa.Array, lookup: _Lookup, facts: pa.Table) -> pa.Table:
    """row, group_id and committed_offset of the holds that tell how far a group has read."""
    row = lookup.rows(_keys(holds, topics))
    here = pa.array(row >= 0)
    held = holds.select(["group_id", "committed_offset", "epoch_end"])
    held = held.append_column("row", pa.array(row))
    held = held.filter(here)
    end = facts["high_watermark"].take(held["row"])
    same = pa.repeat(True, held.num_rows)
    counts = tells(held["committed_offset"], same, end, held["epoch_end"])
    return held.filter(counts)


def _lowest(held: pa.Table, rows: int) -> pa.Array:
    """The lowest offset per partition; null where there is none."""
    lowest = np.full(rows, _END, dtype=np.int64)
    np.minimum.at(lowest, integers(held["row"], 0), integers(held["committed_offset"], 0))
    return pa.array(lowest, mask=lowest == _END)


def _holders(held: pa.Table, lowest: pa.Array) -> pa.Array:
    """The first group with the lowest offset per partition; null where none remains."""
    row = integers(held["row"], 0)
    offsets = pc.fill_null(lowest, _END).to_numpy(zero_copy_only=False)
    first = np.flatnonzero(integers(held["committed_offset"], 0) == offsets[row])[::-1]
    index = np.full(len(lowest), -1, dtype=np.int64)
    index[row[first]] = first
    return held["group_id"].combine_chunks().take(pa.array(index, mask=index < 0))


def _targets(facts: pa.Table, every: pa.Array, remaining: pa.Array) -> pa.Array:
    """The committed targets over the groups that remain; those of the facts where unknown."""
    limit, end = (column(facts, name) for name in ("limit_offset", "high_watermark"))
    bounds = targets.Bounds(
        column(facts, "log_start_offset"),
        limit,
        end,
        pa.nulls(facts.num_rows, pa.int64()),
        pa.repeat(False, facts.num_rows),
        pa.nulls(facts.num_rows, pa.string()),
    )
    # Without any group that tells, no-committed-offset stands, and nothing more may go.
    found = targets.committed(pc.coalesce(remaining, every), bounds).offset
    return pc.if_else(limit.is_valid(), found, column(facts, "target_offset"))
