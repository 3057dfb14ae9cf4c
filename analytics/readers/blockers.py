"""Which group holds back how much: per group and topic, and what waiving it would free."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.arrow import known_true

_KEY = ["group_id", "topic"]


def sums(holds: pa.Table, partitions: pa.Table) -> pa.Table:
    """group_id, topic and what some partitions add there: last_commit_at, the latest, held_alone
    and freed (bytes), is_first (on any the group is furthest behind); and topics that have
    partitions, with a null group. Sums of parts may be summed again.

    `partitions` are those of `reclaimable.described`.
    """
    there = pa.table({"topic": pc.unique(partitions["topic"])})
    parts = [holds.select([*_KEY, "last_commit_at"]), _first(partitions), there]
    return summed(pa.concat_tables(parts, promote_options="default"))


def summed(found: pa.Table) -> pa.Table:
    """One row per group and topic."""
    sums = found.group_by(_KEY).aggregate(
        [("last_commit_at", "max"), ("held_alone", "sum"), ("freed", "sum"), ("is_first", "max")]
    )
    return sums.rename_columns([*_KEY, "last_commit_at", "held_alone", "freed", "is_first"])


def blockers(found: pa.Table, groups: pa.Table, *, complete: bool) -> pa.Table:
    """The `blockers` table from `sums`: one row per group and topic that it holds an offset on.

    bytes_held_alone: bytes between the committed target and the target if only this group did not
    count (as far as the last stable offset and the replay window allow where it is the only
    group). bytes_freed_if_waived: whole segments of them, which would go at once; none of a
    partition without another group, where the guard no-committed-offset stands then. Both are 0
    where another group is further behind, and on topics whose records no purge may delete; null
    where they cannot be measured. A group that is gone has the state `Gone` and no members. Unless
    the snapshot's list of groups is `complete` it may as well be one that nobody could list, and
    both are unknown; so are members that nobody could read.
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
    freed = pc.subtract(rows["without_at_once"], rows["committed_at_once"])
    return pa.table(
        {
            "group_id": rows["first_group"],
            "topic": rows["topic"],
            "held_alone": pc.subtract(rows["without_likely"], rows["committed_likely"]),
            "freed": pc.if_else(rows["is_only"], 0, freed),
            "is_first": pa.repeat(True, rows.num_rows),
        }
    )


def _if_first(rows: pa.Table, name: str) -> pa.ChunkedArray:
    return pc.if_else(known_true(rows["is_first"]), rows[name], 0)
