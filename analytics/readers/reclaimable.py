"""Per partition and target: what a purge would take, how many bytes, and what stands against it."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.arrow import column, looked_up, places
from dashboard.safety.guards import as_lists, findings
from dashboard.safety.standing import Standing
from dashboard.store.tables import FINDING_TABLES

_BYTES = ("low", "likely", "high", "at_once", "at_once_low", "at_once_high")
_COLUMNS = [
    name
    for name in FINDING_TABLES["reclaimable"].schema.names
    if name not in {"snapshot_id", "taken_at"}
]


def described(partitions: pa.Table, topics: pa.Table, reassignments: pa.Table) -> pa.Table:
    """`freed.with_bytes` partitions with the facts of their topics, and adding and removing (null
    where no reassignment is under way).
    """
    numbers = column(partitions, "topic_no")
    at = pc.index_in(numbers, value_set=column(topics, "topic_no"))
    moves = places(column(reassignments, "topic_no"), column(reassignments, "partition"))
    where = places(numbers, column(partitions, "partition"))
    for name in topics.column_names:
        if name not in partitions.column_names:
            partitions = partitions.append_column(name, column(topics, name).take(at))
    for name in ("adding", "removing"):
        found = looked_up(where, moves, column(reassignments, name))
        partitions = partitions.append_column(name, found)
    return partitions


def reclaimable(
    partitions: pa.Table,
    target: str,
    sums: str,
    *,
    groups: Standing,
    incomplete: Sequence[str],
    offset_errors: pa.Table | None,
) -> pa.Table:
    """The rows of the `reclaimable` table for one target, in the order of `described` partitions,
    on which `groups` stand and `offset_errors` (row, why) are.

    `sums` is that target's prefix in `partitions`. Bytes are null where the target or every
    replica's size is unknown. `held_bytes` lie above the committed target and are held by
    `held_by`, the group that is furthest behind; the same on every target's rows.
    """
    named = {f"{sums}_target": "target_offset", f"{sums}_problem": "target_problem"}
    named |= {f"{sums}_{b}": f"bytes_{b}" for b in _BYTES}
    rows = partitions.rename_columns([named.get(c, c) for c in partitions.column_names])
    span = pc.subtract(rows["target_offset"], rows["log_start_offset"])
    added = {
        "target": pa.repeat(target, rows.num_rows),
        "records": pc.max_element_wise(span, 0, skip_nulls=False),
        "held_by": pc.if_else(pc.greater(rows["held_bytes"], 0), rows["first_group"], None),
        "method": _method(rows, rows[f"{sums}_method"]),
        "guards": as_lists(findings(rows, groups, incomplete, offset_errors), rows.num_rows),
    }
    for name, values in added.items():
        rows = rows.append_column(name, values)
    return rows.select(_COLUMNS)


def _method(rows: pa.Table, method: pa.ChunkedArray) -> pa.ChunkedArray:
    """How the bytes were found, or why they are unknown; names replicas that did not answer."""
    answered, expected = rows["replicas"], rows["assigned"]
    some = pc.binary_join_element_wise(
        method, ", ", answered.cast(pa.string()), " of ", expected.cast(pa.string()),
        " replicas",
        "",
    )  # fmt: skip
    unknown = rows["target_offset"].is_null()
    conditions = (
        pc.and_(unknown, rows["high_watermark"].is_null()),
        pc.and_(unknown, pc.equal(pc.list_value_length(rows["positions"]), 0)),
        unknown,
        pc.equal(answered, 0),
        pc.less(answered, expected),
    )
    return pc.case_when(
        pc.make_struct(*conditions),
        "unknown: the leader's offsets were not read",
        "unknown: no group committed",
        "unknown: no kept snapshot is as old as the replay window",
        "not measurable",
        some,
        method,
    )
