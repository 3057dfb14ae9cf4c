"""Per partition: who reads it, how far every group got, the targets, and its replicas' size."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.arrow import column, looked_up, places, without
from analytics.positions import Positions, positions, silent
from analytics.tables import Tables
from dashboard.snapshot_files import Manifest

# Whose is_future is not known counts as a replica.
_SUMS = """
select topic_no, partition,
    sum(if(is_future, null, size_bytes)) as size_bytes,
    cast(count(if(is_future, null, size_bytes)) as int) as replicas
from {replicas} group by topic_no, partition
"""


def sums(tables: Tables, snapshot: Manifest) -> pa.Table:
    """topic_no, partition, size_bytes over its measured replicas, and how many these are.

    The longest table of a snapshot, so Spark sums it by two numbers; what hangs on a partition
    is put to the sums on the driver.
    """
    replicas = tables.read("snapshots", "replicas", [snapshot.id])
    return tables.sql(_SUMS, replicas=replicas).toArrow()


def partitions(
    read: pa.Table,
    replicas: pa.Table,
    sizes: pa.Table,
    *,
    topics: pa.Table,
    holds: pa.Table,
    members: pa.Table,
    windows: pa.Table,
) -> pa.Table:
    """Every partition of the snapshot with its facts, targets and size over its replicas.

    `read`: COLUMNS of the snapshot's table, `replicas` MOVES of its own, `sizes`: `sums`;
    `topics`: `topics.known`; `holds`: the findings table; `members`: topic_no, partition,
    members_here; `windows`: topic_no, partition, window_offset, the log end at a time at least
    the replay window ago (later records lie inside the window).

    Columns: topic_no, partition, leader_id, log_start_offset, last_stable_offset,
    high_watermark, assigned (number of replicas), behind_brokers (not in sync); positions
    [{committed_offset, group_id}] lowest first, first_group; silent_members (groups whose members
    read the partition but never committed there), silent_groups (other groups of the topic
    without a commit there), leader_moves_to (a log dir). Targets are null where unknown:
    committed_target is the lowest offset over all groups, at most the last stable offset and
    window_offset; end_target the high watermark; without_target the committed target if the group
    furthest behind did not count (where it is the only one, as far as the last stable offset and
    the window allow). size_bytes is summed over the `replicas` that were measured.
    """
    rows = read.filter(pc.is_in(read["topic_no"], value_set=column(topics, "topic_no")))
    where = places(column(rows, "topic_no"), column(rows, "partition"))
    numbers = looked_up(column(holds, "topic"), column(topics, "topic"), column(topics, "topic_no"))
    held = holds.select(["partition", "group_id", "committed_offset"])
    held = held.append_column("topic_no", numbers).filter(numbers.is_valid())
    got = positions(rows, held)
    silent_members, silent_groups = silent(rows, held, members, topics)
    there = places(column(sizes, "topic_no"), column(sizes, "partition"))
    answered = looked_up(where, there, column(sizes, "replicas"))
    found = {name: rows[name] for name in _FACTS} | {
        "assigned": pc.fill_null(pc.list_value_length(rows["replicas"]), 0),
        "behind_brokers": _behind(column(rows, "replicas"), column(rows, "isr")),
        "positions": got.lists,
        "first_group": got.first_group,
        **_targets(rows, got, _limits(rows, where, topics, windows)),
        "silent_members": silent_members,
        "silent_groups": silent_groups,
        "size_bytes": looked_up(where, there, column(sizes, "size_bytes")),
        "replicas": pc.fill_null(answered, 0),
        "leader_moves_to": _leader_moves(where, column(rows, "leader_id"), replicas),
    }
    return pa.table(found)


_FACTS = (
    "topic_no", "partition", "leader_id", "log_start_offset", "last_stable_offset",
    "high_watermark",
)  # fmt: skip
COLUMNS = [*_FACTS, "replicas", "isr"]
MOVES = ["topic_no", "partition", "broker_id", "log_dir", "is_future"]


def _limits(rows: pa.Table, where: pa.Array, topics: pa.Table, windows: pa.Table) -> pa.Array:
    """How far a purge may go whatever the groups did; null: not known."""
    there = places(column(windows, "topic_no"), column(windows, "partition"))
    window = looked_up(where, there, column(windows, "window_offset"))
    length = looked_up(
        column(rows, "topic_no"), column(topics, "topic_no"), column(topics, "replay_window_ms")
    )
    end = column(rows, "high_watermark")
    known = pc.and_(end.is_valid(), pc.or_(pc.equal(length, 0), window.is_valid()))
    limit = pc.min_element_wise(end, column(rows, "last_stable_offset"), window)
    return pc.if_else(known, limit, None)


def _targets(rows: pa.Table, got: Positions, limit: pa.Array) -> dict[str, pa.Array]:
    # The least of two skips nulls: hence conditions where unknown is the answer.
    known = pc.and_(got.first_offset.is_valid(), limit.is_valid())

    def least(offset: pa.Array) -> pa.Array:
        return pc.if_else(known, pc.min_element_wise(offset, limit), None)

    return {
        "committed_target": least(got.first_offset),
        "end_target": rows["high_watermark"],
        "without_target": least(got.second_offset),
    }


def _behind(replicas: pa.Array, isr: pa.Array) -> pa.Array:
    """Of each partition the assigned brokers that are not in sync, sorted; null: not known."""
    both = pc.and_(replicas.is_valid(), isr.is_valid())
    if replicas.equals(isr) and pc.all(both).as_py():
        return pa.array([[]], replicas.type).take(pa.array(np.zeros(len(replicas), dtype=np.int8)))
    assigned, in_sync = (_pairs(lists) for lists in (replicas, isr))
    behind = without(assigned, in_sync)
    counts = np.bincount(behind >> 32, minlength=len(replicas))
    ends = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    brokers = pa.array((behind & 0xFFFFFFFF).astype(np.int32))
    return pc.if_else(both, pa.ListArray.from_arrays(pa.array(ends), brokers), None)


def _pairs(lists: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    row, broker = pc.list_parent_indices(lists), pc.list_flatten(lists)
    return np.asarray((row.to_numpy().astype(np.int64) << 32) | broker.to_numpy(), dtype=np.int64)


def _leader_moves(where: pa.Array, leader: pa.Array, replicas: pa.Table) -> pa.Array:
    """The log dir that each leader copies its partition to."""
    moving = replicas.filter(pc.fill_null(replicas["is_future"], False))
    there = places(column(moving, "topic_no"), column(moving, "partition"))
    leads = looked_up(there, where, leader)
    own = pc.fill_null(pc.equal(leads, column(moving, "broker_id")), False)
    return looked_up(where, there.filter(own), column(moving, "log_dir").filter(own))
