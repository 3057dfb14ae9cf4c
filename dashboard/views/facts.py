"""One row per partition, from the `reclaimable` findings: what is free, and what is not, and why.

Columns are those of `reclaimable` for one target, and beside or instead of them
- `guards`      of each its name, reason and lift, a text that many share once: of 100,000
                partitions they took eight times the memory of all the rest
- `guard_names` list<string>
- `consumed`   every known group has committed past the target; at most its readers are undeclared
- `free`       consumed, and no guard at all: readers are declared
- `guarded`    below the target lie records, and a guard beyond undeclared readers holds them
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.arrow import in_order
from dashboard.store.snapshots import ClusterStore
from dashboard.store.tables import FINDING_TABLES
from dashboard.views import formats

# Without this one alone a topic is consumed by every *known* group, which is the first headline.
UNDECLARED = "readers-undeclared"
# Which rows of `reclaimable` they are of: for who need not read the others.
COMMITTED = pc.field("target") == "committed"
_TOLD = ("name", "reason", "lift")


def committed_facts(cluster: ClusterStore, analysis: str) -> pa.Table:
    """`partition_facts` of an analysis, out of one file after the other: with the texts of all
    guards the rows take several times as much. Raises StoreError.
    """
    names = FINDING_TABLES["reclaimable"].unstamped.schema.names
    parts = [
        partition_facts(part).drop_columns(["target"])
        for part in cluster.parts("findings", analysis, "reclaimable", names, only=COMMITTED)
    ]
    return in_order(pa.concat_tables(parts).combine_chunks(), ["topic", "partition"])


class Guarded(NamedTuple):
    """What lies below the targets of the topics on which a guard stands; None: not measured."""

    guard: str
    size_bytes: int | None
    topics: int


def partition_facts(reclaimable: pa.Table) -> pa.Table:
    """The rows of the committed target with the columns above, sorted by topic and partition."""
    rows = reclaimable.filter(COMMITTED).combine_chunks()
    guards = rows["guards"].combine_chunks()
    if isinstance(guards, pa.ChunkedArray):
        guards = pa.concat_arrays(guards.chunks) if guards.num_chunks else pa.array([], guards.type)
    each = pc.list_flatten(guards)
    names = pc.struct_field(each, "name")
    parents = pc.list_parent_indices(guards).to_numpy(zero_copy_only=False)
    undeclared = pc.equal(names, UNDECLARED).to_numpy(zero_copy_only=False).astype(bool)
    measured = pc.is_valid(rows["target_offset"]).to_numpy(zero_copy_only=False)
    blocked = np.zeros(rows.num_rows, dtype=bool)
    blocked[parents[~undeclared]] = True
    guarded = np.zeros(rows.num_rows, dtype=bool)
    guarded[parents] = True
    more = pc.fill_null(pc.greater(rows["records"], 0), False).to_numpy().astype(bool)
    told = [pc.struct_field(each, name).dictionary_encode() for name in _TOLD]
    texts = pa.StructArray.from_arrays(told, _TOLD)
    return (
        rows.set_column(
            rows.column_names.index("guards"), "guards", _per_row(parents, texts, rows.num_rows)
        )
        .append_column("guard_names", _per_row(parents, names, rows.num_rows))
        .append_column("consumed", pa.array(measured & ~blocked))
        .append_column("free", pa.array(measured & ~guarded))
        .append_column("guarded", pa.array(measured & blocked & more))
    )


def _per_row(parents: np.ndarray, values: pa.Array, rows: int) -> pa.Array:
    counts = np.bincount(parents, minlength=rows) if len(parents) else np.zeros(rows, dtype=int)
    offsets = np.concatenate(([0], np.cumsum(counts))).astype("int32")
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def total(facts: pa.Table, column: str, where: str | None = None) -> int:
    """The sum of a column, over the rows whose flag `where` is set. Unknown rows add nothing."""
    values = facts[column] if where is None else facts.filter(facts[where])[column]
    return int(pc.sum(values).as_py() or 0)


def known_total(facts: pa.Table, column: str, where: str | None = None) -> int | None:
    """The sum as far as it is known; None where there are rows and not one of them is known."""
    values = facts[column] if where is None else facts.filter(facts[where])[column]
    found = pc.sum(values).as_py()
    return found if found is not None else (None if len(values) else 0)


def topics_where(facts: pa.Table, flag: str) -> list[str]:
    """Topics with at least one partition whose flag is set and whose target frees records."""
    rows = facts.filter(facts[flag])
    rows = rows.filter(pc.greater(rows["records"], 0))
    return sorted(pc.unique(rows["topic"]).to_pylist())


def by_guard(facts: pa.Table) -> list[Guarded]:
    """What each guard holds of the `guarded` partitions, most topics first: where several stand on
    a partition, each of them holds it.
    """
    rows = facts.filter(facts["guarded"])
    names = rows["guard_names"].combine_chunks()
    at = pc.list_parent_indices(names)
    held = pa.table(
        {"guard": pc.list_flatten(names), "topic": rows["topic"].take(at),
         "bytes": rows["bytes_likely"].take(at)}
    )  # fmt: skip
    sums = held.group_by("guard").aggregate([("bytes", "sum"), ("topic", "count_distinct")])
    found = [
        Guarded(row["guard"], row["bytes_sum"], row["topic_count_distinct"])
        for row in sums.to_pylist()
        if row["guard"] != UNDECLARED
    ]
    return sorted(found, key=lambda g: (-g.topics, -(g.size_bytes or 0), g.guard))


def guarded_said(size_bytes: int | None, found: Sequence[Guarded]) -> str:
    """`96.0 MiB below the targets are held by guards: under-replicated (96.0 MiB of 12 topics)`."""
    each = ", ".join(
        f"{g.guard} ({formats.size(g.size_bytes)} of {formats.plural(g.topics, 'topic')})"
        for g in found
    )
    size = "unknown bytes" if size_bytes is None else formats.size(size_bytes)
    return f"{size} below the targets are held by guards: {each}" if found else ""
