"""Which group holds back how much: per group and topic, and what waiving it would free."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.safety.arrow import known_true

_KEY = ["group_id", "topic"]


def blockers(holds: pa.Table, groups: pa.Table, partitions: pa.Table) -> pa.Table:
    """The `blockers` table: one row per group and topic that it holds an offset on.

    bytes_held_alone: bytes between the committed target and the target if only this group did not
    count (as far as the last stable offset and the replay window allow where it is the only
    group). bytes_freed_if_waived: whole segments of them, which would go at once. Both are 0
    where another group is further behind, and on topics whose records no purge may delete; null
    where they cannot be measured. A group that is gone has the state `Gone`.
    `partitions` are those of `reclaimable.described`.
    """
    present = pc.is_in(holds["topic"], value_set=pc.unique(partitions["topic"]))
    commits = holds.filter(present).group_by(_KEY).aggregate([("last_commit_at", "max")])
    state = groups.select(["group_id", "state", "members"])
    rows = commits.join(_first(partitions), _KEY).join(state, "group_id")
    return pa.table(
        {
            "group_id": rows["group_id"],
            "topic": rows["topic"],
            "bytes_held_alone": _if_first(rows, "held_alone_sum"),
            "bytes_freed_if_waived": _if_first(rows, "freed_sum"),
            "last_commit_at": rows["last_commit_at_max"],
            "group_state": pc.fill_null(rows["state"], "Gone"),
            "members": pc.fill_null(rows["members"], 0),
        }
    )


def _first(partitions: pa.Table) -> pa.Table:
    """Sums over the partitions of a topic on which a group is the furthest behind."""
    # Compacted and system topics hold nothing back that a purge could give.
    deletable = pc.fill_null(pc.match_substring(partitions["cleanup_policy"], "delete"), True)
    counting = pc.and_(deletable, pc.invert(partitions["is_system"]))
    rows = partitions.filter(pc.and_(counting, partitions["first_group"].is_valid()))
    alone = {
        "held_alone": pc.subtract(rows["without_likely"], rows["committed_likely"]),
        "freed": pc.subtract(rows["without_at_once"], rows["committed_at_once"]),
    }
    named = pa.table({"group_id": rows["first_group"], "topic": rows["topic"], **alone})
    sums = named.group_by(_KEY).aggregate([(name, "sum") for name in alone])
    return sums.append_column("is_first", pa.repeat(True, sums.num_rows))


def _if_first(rows: pa.Table, name: str) -> pa.ChunkedArray:
    return pc.if_else(known_true(rows["is_first"]), rows[name], 0)
