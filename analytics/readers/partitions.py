"""Per partition: who reads it, how far every group got, the targets, and its replicas' size; and
per group and topic how much it holds back, and what waiving it would free.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.arrow import column, known_true, looked_up, places, without
from dashboard.estimate.curves import NOT_MEASURABLE
from dashboard.history.log_ends import LOG_ENDS, log_ends
from dashboard.safety import committed_offsets, targets
from dashboard.safety.committed_offsets import EPOCH_ENDS
from dashboard.safety.guard_texts import NO_SNAPSHOT
from dashboard.safety.guards import as_lists, findings
from dashboard.safety.standing import Standing
from dashboard.safety.targets import Bounds
from dashboard.store.clocks import clock_was_right
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore
from dashboard.store.tables import FINDING_TABLES, replicas_proper


def _summed_sizes(replicas: pa.Table) -> pa.Table:
    """topic_no, partition, size_bytes over its measured replicas, and how many these are.

    Whose is_future is not known counts as a replica; what is not assigned does not.
    """
    whole = replicas.filter(replicas_proper(replicas))
    found = whole.group_by(["topic_no", "partition"]).aggregate(
        [("size_bytes", "sum"), ("size_bytes", "count")]
    )
    return found.rename_columns(["topic_no", "partition", "size_bytes", "replicas"])


def partitions(
    rows: pa.Table,
    replicas: pa.Table,
    *,
    topics: pa.Table,
    groups: Standing,
    windows: pa.Table,
) -> pa.Table:
    """Every partition of the snapshot with its facts, targets and size over its replicas.

    `rows`: COLUMNS of the snapshot's table (`of_topics`), `replicas` MOVES and size_bytes of its
    own; `topics`: `topics.with_new`; `groups` stand on `rows`; `windows`: topic_no, partition,
    window_offset, the log end at a time at least the replay window ago (later records lie inside
    the window).

    Columns: topic_no, partition, leader_id, log_start_offset, last_stable_offset,
    high_watermark, assigned (number of replicas), behind_brokers (not in sync); positions
    [{committed_offset, group_id}] lowest first, first_group; leader_moves_to (a log dir);
    limit_offset: how far any waiver could bring the committed target. Targets are null where
    unknown, `targets` has their rules: committed_target, end_target (to the high watermark);
    without_target is the committed target if the group furthest behind did not count (where it is
    the only one, as far as the last stable offset and the window allow); committed_problem and
    end_problem say why one is unknown. size_bytes is summed over the `replicas` that were measured.
    """
    where = places(column(rows, "topic_no"), column(rows, "partition"))
    sizes = _summed_sizes(replicas)
    there = places(column(sizes, "topic_no"), column(sizes, "partition"))
    answered = looked_up(where, there, column(sizes, "replicas").cast(pa.int32()))
    found = {name: rows[name] for name in _FACTS} | {
        "assigned": pc.fill_null(pc.list_value_length(rows["replicas"]), 0),
        "behind_brokers": _behind(column(rows, "replicas"), column(rows, "isr")),
        "positions": groups.positions,
        "first_group": groups.first_group,
        **_targets(groups, _bounds(rows, where, topics, windows)),
        "size_bytes": looked_up(where, there, column(sizes, "size_bytes")),
        "replicas": pc.fill_null(answered, 0),
        "leader_moves_to": _leader_moves(where, column(rows, "leader_id"), replicas),
    }
    return pa.table(found)


def of_topics(read: pa.Table, topics: pa.Table) -> pa.Table:
    """The rows of a snapshot's partitions whose topic its dictionary knows."""
    return read.filter(pc.is_in(read["topic_no"], value_set=column(topics, "topic_no")))


_FACTS = (
    "topic_no", "partition", "leader_id", "log_start_offset", "last_stable_offset",
    "high_watermark",
)  # fmt: skip
COLUMNS = [*_FACTS, "replicas", "isr"]
MOVES = ["topic_no", "partition", "broker_id", "log_dir", "is_future", "error"]


def _bounds(rows: pa.Table, where: pa.Array, topics: pa.Table, windows: pa.Table) -> Bounds:
    there = places(column(windows, "topic_no"), column(windows, "partition"))
    length = looked_up(
        column(rows, "topic_no"), column(topics, "topic_no"), column(topics, "replay_window_ms")
    )
    return Bounds(
        column(rows, "log_start_offset"),
        column(rows, "last_stable_offset"),
        column(rows, "high_watermark"),
        looked_up(where, there, column(windows, "window_offset")),
        pc.fill_null(pc.greater(length, 0), False),
        pa.repeat(NO_SNAPSHOT, rows.num_rows),
    )


def _targets(groups: Standing, bounds: Bounds) -> dict[str, pa.Array]:
    end = bounds.high_watermark
    committed, to_end = targets.committed(groups.first_offset, bounds), targets.capped(end, bounds)
    second = targets.without_waived(groups.second_offset, groups.first_offset, end)
    return {
        "committed_target": committed.offset,
        "committed_problem": committed.problem,
        "end_target": to_end.offset,
        "end_problem": to_end.problem,
        "without_target": targets.committed(second, bounds).offset,
        "limit_offset": targets.committed(end, bounds).offset,
        "is_only": pc.and_(groups.first_offset.is_valid(), groups.second_offset.is_null()),
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


# Where the replay window of each partition begins, as far as kept snapshots show it.

_PLACE = ("topic_no", "partition", "leader_epoch")


def window_starts(cluster: ClusterStore, snapshot: Manifest, topics: pa.Table) -> pa.Table:
    """topic_no, partition, window_offset for every topic with a replay window.

    Offsets only grow, so the log end of a snapshot that is at least the window old bounds the
    first offset inside the window; no snapshot that old, no row. Where the log lost its end since,
    what follows that end was written later, inside the window or not.
    """
    found = [LOG_ENDS.empty_table()]
    for window_ms in pc.unique(topics["replay_window_ms"]).to_pylist():
        if window_ms and clock_was_right(snapshot):
            windowed = topics.filter(pc.equal(topics["replay_window_ms"], window_ms))
            since = snapshot.taken_at - timedelta(milliseconds=window_ms)
            found.append(log_ends(cluster, since, windowed))
    ends = pa.concat_tables(found)
    known = cluster.read("snapshots", snapshot.id, "epoch_ends", EPOCH_ENDS.names)
    topic_no, partition, epoch = (column(ends, name) for name in _PLACE)
    end = column(ends, "high_watermark")
    left = pc.min_element_wise(end, committed_offsets.ends(topic_no, partition, epoch, known))
    window = pc.if_else(end.is_valid(), left, None)
    return ends.select(["topic_no", "partition"]).append_column("window_offset", window)


# Per partition and target: what a purge would take, how many bytes, and what stands against it.

_BYTES = ("low", "likely", "high", "at_once", "at_once_low", "at_once_high")
_COLUMNS = FINDING_TABLES["reclaimable"].unstamped.schema.names


def measurable(replicas: pa.Table, topics: pa.Table) -> pa.Table:
    """The `replicas` (topic) of topics without remote storage; `topics`: `topics.with_new`.

    Of the others a size is that of local segments alone, and a log start that of all the log: what
    lies below an offset on the disk neither tells (KIP-405).
    """
    remote = column(topics.filter(topics["remote_storage"]), "topic")
    return replicas.filter(pc.invert(pc.is_in(replicas["topic"], value_set=remote)))


def described(partitions: pa.Table, topics: pa.Table, reassignments: pa.Table) -> pa.Table:
    """`curves.with_bytes` partitions with the facts of their topics, and adding and removing (null
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


def to_their_ends(partitions: pa.Table) -> pa.Table:
    """`described` partitions whose target up to the end is the high watermark, whatever a replay
    window or an open transaction keeps: guards are those of whoever may read any of the log.
    """
    ends, names = partitions["high_watermark"], partitions.column_names
    found = partitions.set_column(names.index("end_target"), "end_target", ends)
    # Of a leader that was not read nothing more is known than before.
    problem = pc.if_else(ends.is_valid(), None, found["end_problem"])
    return found.set_column(names.index("end_problem"), "end_problem", problem)


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
    replica's size is unknown, or the topic has remote storage. `held_bytes` lie above the committed
    target and are held by `held_by`, the group that is furthest behind; null where it has read as
    far as the replay window, an open transaction or the log end lets any. The same on every
    target's rows.
    """
    named = {f"{sums}_target": "target_offset", f"{sums}_problem": "target_problem"}
    named |= {f"{sums}_{b}": f"bytes_{b}" for b in _BYTES}
    rows = partitions.rename_columns([named.get(c, c) for c in partitions.column_names])
    waits = pc.less(partitions["committed_target"], rows["limit_offset"])
    held_by_group = pc.and_(pc.greater(rows["held_bytes"], 0), waits)
    span = pc.subtract(rows["target_offset"], rows["log_start_offset"])
    added = {
        "target": pa.repeat(target, rows.num_rows),
        "records": pc.max_element_wise(span, 0, skip_nulls=False),
        "held_by": pc.if_else(held_by_group, rows["first_group"], None),
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
        pc.or_(pc.equal(answered, 0), rows["remote_storage"]),
        pc.less(answered, expected),
    )
    return pc.case_when(
        pc.make_struct(*conditions),
        "unknown: the leader's offsets were not read",
        "unknown: no group committed",
        "unknown: no kept snapshot is as old as the replay window",
        NOT_MEASURABLE,
        some,
        method,
    )


_KEY = ["group_id", "topic"]


def sums(holds: pa.Table, partitions: pa.Table) -> pa.Table:
    """group_id, topic and what some partitions add there: last_commit_at, the latest, held_alone
    and freed (bytes), unmeasured (how many partitions are missing in these), is_first (on any the
    group is furthest behind); and topics that have partitions, with a null group. Sums of parts may
    be summed again.

    `partitions` are those of `described`.
    """
    there = pa.table({"topic": pc.unique(partitions["topic"])})
    parts = [holds.select([*_KEY, "last_commit_at"]), _first(partitions), there]
    return summed(pa.concat_tables(parts, promote_options="default"))


def summed(found: pa.Table) -> pa.Table:
    """One row per group and topic."""
    sums = found.group_by(_KEY).aggregate(list(_SUMS.items()))
    return sums.rename_columns([*_KEY, *_SUMS])


_SUMS = {
    "last_commit_at": "max", "held_alone": "sum", "freed": "sum", "unmeasured": "sum",
    "is_first": "max",
}  # fmt: skip


def blockers(found: pa.Table, groups: pa.Table, *, complete: bool) -> pa.Table:
    """The `blockers` table from `sums`: one row per group and topic that it holds an offset on.

    bytes_held_alone: bytes between the committed target and the target if only this group did not
    count (as far as the last stable offset and the replay window allow where it is the only
    group). bytes_freed_if_waived: whole segments of them, which would go at once; none of a
    partition without another group, where the guard no-committed-offset stands then. Both are 0
    where another group is further behind, and on topics whose records no purge may delete; null
    where they cannot be measured on any partition. On so many as are `unmeasured` they cannot
    either: the sums are of the others alone. A group that is gone has the state `Gone` and no
    members. Unless the snapshot's list of groups is `complete` it may as well be one that nobody
    could list, and both are unknown; so are members that nobody could read.
    """
    nobody = found["group_id"].is_null()
    present = pc.is_in(found["topic"], value_set=pc.unique(found["topic"].filter(nobody)))
    rows = found.filter(pc.and_(present, pc.invert(nobody)))
    rows = rows.join(groups.select(["group_id", "state", "members"]), "group_id")
    return pa.table(
        {
            "group_id": rows["group_id"],
            "topic": rows["topic"],
            "bytes_held_alone": _if_first(rows, "held_alone"),
            "bytes_freed_if_waived": _if_first(rows, "freed"),
            "unmeasured": _if_first(rows, "unmeasured"),
            "last_commit_at": rows["last_commit_at"],
            "group_state": pc.fill_null(rows["state"], "Gone" if complete else "Unknown"),
            "members": pc.if_else(
                rows["state"].is_valid(),
                rows["members"],
                pa.scalar(0 if complete else None, pa.int32()),
            ),
        }
    )


def _first(partitions: pa.Table) -> pa.Table:
    """The partitions of a topic on which a group is the furthest behind."""
    # Compacted and system topics hold nothing back that a purge could give.
    deletable = pc.fill_null(pc.match_substring(partitions["cleanup_policy"], "delete"), True)
    counting = pc.and_(deletable, pc.invert(partitions["is_system"]))
    rows = partitions.filter(pc.and_(counting, partitions["first_group"].is_valid()))
    held = pc.subtract(rows["without_likely"], rows["committed_likely"])
    freed = pc.subtract(rows["without_at_once"], rows["committed_at_once"])
    return pa.table(
        {
            "group_id": rows["first_group"],
            "topic": rows["topic"],
            "held_alone": held,
            "freed": pc.if_else(rows["is_only"], 0, freed),
            "unmeasured": pc.or_(held.is_null(), freed.is_null()).cast(pa.int64()),
            "is_first": pa.repeat(True, rows.num_rows),
        }
    )


def _if_first(rows: pa.Table, name: str) -> pa.ChunkedArray:
    return pc.if_else(known_true(rows["is_first"]), rows[name], 0)
