"""Which offset every group still holds on: the memory of groups, carried from snapshot to snapshot.

A group that is gone today still counts at its last known offset: somebody may start it again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.absent import hidden
from analytics.earlier import commit_order
from analytics.memory import oldest_kept, remembered, with_memory
from analytics.offset_fold import folded
from analytics.tables import Tables
from dashboard.safety import epochs
from dashboard.safety.arrow import column, in_order, looked_up
from dashboard.safety.epochs import EPOCH_ENDS
from dashboard.seen_topics import UNKNOWN_ID, seen_topics
from dashboard.snapshot_files import Manifest
from dashboard.snapshots import ClusterStore

# Topics travel as numbers (`name_no`), and so do their ids (`named`, a row of _Names): aggregates
# of numbers are hashed, those of texts would be sorted. Failed look-ups and partitions never
# committed are no observations.
_REMEMBERED = """
    select name_no, named, is_told, partition, group_id, committed_offset, leader_epoch,
        last_seen_at as seen_at, last_commit_at as moved_at, last_seen_at as ordered_at
    from {remembered} as remembered join {names} as names on names.snapshot_id is null
        and remembered.topic = names.topic and coalesce(remembered.topic_id, '') = names.topic_id
    where is_present or last_seen_at >= :oldest_kept
"""
_SEEN = """
    select name_no, named, is_told, partition, group_id, committed_offset, leader_epoch,
        taken_at as seen_at, cast(null as timestamp) as moved_at, ordered_at
    from {offsets} join {names} using (snapshot_id, topic_no)
    where committed_offset >= 0
"""
# One snapshot more: a group has at most two offsets, so the largest of one is that one. Its topics
# are found by one number.
_NEXT = f"""
with both as (
    select *, committed_offset as old, named as old_named, leader_epoch as old_epoch,
        cast(null as bigint) as new, cast(null as int) as new_named,
        cast(null as int) as new_told, cast(null as int) as new_epoch
    from ({_REMEMBERED})
    union all
    select *, cast(null as bigint), cast(null as int), cast(null as int),
        committed_offset, named, if(is_told, named, null), leader_epoch
    from ({_SEEN.replace("snapshot_id, ", "")})
)
select name_no, partition, group_id,
    coalesce(max(new_told), max(old_named), max(new_named)) as named,
    coalesce(max(new), max(old)) as committed_offset,
    if(max(new) is null, max(old_epoch), max(new_epoch)) as leader_epoch,
    max_by(seen_at, ordered_at) as last_seen_at,
    if(max(new) <> max(old), max_by(seen_at, ordered_at), max(moved_at)) as last_commit_at
from both
group by name_no, partition, group_id
"""
# Several: each offset beside the one before it. The hash goes first, because one number decides
# most comparisons of a sort.
_SEVERAL = f"""
with history as ({_REMEMBERED} union all {_SEEN}),
counting as (
    select *, lag(committed_offset) over (
        partition by hashed, name_no, partition, group_id order by ordered_at) as before
    from (select *, xxhash64(name_no, partition, group_id) as hashed from history)
)
select name_no, partition, group_id,
    coalesce(max_by(named, if(is_told, ordered_at, null)), max_by(named, ordered_at)) as named,
    max_by(committed_offset, ordered_at) as committed_offset,
    max_by(leader_epoch, ordered_at) as leader_epoch,
    max_by(seen_at, ordered_at) as last_seen_at,
    max_by(
        if(before <> committed_offset, seen_at, moved_at),
        if(before <> committed_offset or moved_at is not null, ordered_at, null)) as last_commit_at
from counting
group by hashed, name_no, partition, group_id
"""


def fold(
    tables: Tables,
    snapshot: Manifest,
    present: pa.Table,
    base: Manifest | None,
    *,
    one_machine: bool = False,
) -> pa.Table:
    """The last known committed offset per topic, partition and group, as `holds` has it, sorted.

    `epoch_end` is where the offset's leader epoch ends in the snapshot's logs, as far as its
    `epoch_ends` know that records of it, or of a later one, were lost.

    Goes on from the holds of `base`, an earlier analysis, with the offsets of every snapshot
    since then up to this one: a group may have come and gone in between. `present` are the topics
    of the snapshot. `last_commit_at` is the time of the first snapshot that showed the present
    offset after another one, so the commit was made at that time or before; null until a move
    was seen. An offset that moved back counts as a move.

    Offsets of a topic that was deleted and recreated (another topic_id) stay until the group
    commits on the new one, as long as a kept snapshot knew them: `split` tells them apart. A topic
    that is absent keeps its holds until it has been for as long: it may only be hidden from us.
    Brokers before 2.8 know no topic ids: then the name has to do.

    Snapshots count in the order of their commits. Without `base`, what the newest analysis saw
    later than any kept snapshot stays. Several new snapshots are folded by Spark, on `one_machine`
    by arrays: there a sort of all their offsets takes some ten times as long.
    """
    cluster = tables.cluster
    kept = cluster.ids("snapshots")
    known_to = str(base.details["snapshot_id"]) if base else ""
    new = [i for i in kept if known_to < i < snapshot.id] + [snapshot.id]
    oldest = oldest_kept(cluster, snapshot)
    names = _Names.of(cluster, new, present, base, oldest)
    if one_machine and len(new) > 1:
        found = folded(cluster, new, names.numbered, base, oldest)
    else:
        found = tables.sql(
            _NEXT if len(new) == 1 else _SEVERAL,
            args={"oldest_kept": oldest.as_py()},
            remembered=tables.read("findings", "holds", [base.id] if base else [])
            .drop("epoch_end")  # of that snapshot's logs
            .unionByName(tables.read("findings", "former_readers", [base.id] if base else [])),
            offsets=tables.read("snapshots", "group_offsets", new),
            names=tables.from_arrow(names.numbered),
        ).toArrow()
    held = in_order(names.spelt(found), ["topic", "partition", "group_id"])
    held = held if base else with_memory(held, cluster, snapshot, present)
    return _with_ends(held, cluster, snapshot, present)


def _with_ends(
    held: pa.Table, cluster: ClusterStore, snapshot: Manifest, present: pa.Table
) -> pa.Table:
    known = cluster.read("snapshots", snapshot.id, "epoch_ends", EPOCH_ENDS.names)
    number = looked_up(column(held, "topic"), column(present, "topic"), column(present, "topic_no"))
    partition, epoch = column(held, "partition"), column(held, "leader_epoch")
    return held.append_column("epoch_end", epochs.ends(number, partition, epoch, known))


def split(found: pa.Table, present: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The `holds`, and the `former_readers`: offsets of an earlier topic of a name."""
    now = looked_up(column(found, "topic"), column(present, "topic"), column(present, "topic_id"))
    same = pc.fill_null(pc.equal(found["topic_id"], now), True)
    return found.filter(same), found.filter(pc.invert(same))


@dataclass(frozen=True)
class _Names:
    """Topics by name and id; snapshot_id and topic_no are null for remembered ones. `is_present`:
    the snapshot has the topic, with this id, or it may be hidden. `is_told`: some broker told the
    id; one that nobody told does not replace one that is known.
    """

    rows: pa.Table

    @classmethod
    def of(
        cls,
        cluster: ClusterStore,
        new: list[str],
        present: pa.Table,
        base: Manifest | None,
        oldest: pa.Scalar,
    ) -> _Names:
        seen = [seen_topics(cluster, i, _NAMED) for i in new]
        if base:
            pairs = remembered(cluster, base, ["topic", "topic_id"])
            seen.append(pairs.group_by(pairs.column_names).aggregate([]))
        rows = pa.concat_tables(seen, promote_options="default").select(_NAMED)
        topics, ids = column(rows, "topic"), column(rows, "topic_id")
        now = looked_up(topics, column(present, "topic"), column(present, "topic_id"))
        there = pc.is_in(topics, value_set=column(present, "topic"))
        same = pc.fill_null(pc.equal(ids, now), True)
        unseen = hidden(topics, present, base, oldest)
        rows = rows.append_column("is_present", pc.or_(pc.and_(there, same), unseen))
        told = pc.fill_null(pc.not_equal(ids, UNKNOWN_ID), True)
        rows = rows.append_column("is_told", told)
        times = looked_up(column(rows, "snapshot_id"), pa.array(new), commit_order(new))
        rows = rows.append_column("ordered_at", times)
        return cls(rows)

    @property
    def numbered(self) -> pa.Table:
        """With name_no, the same for every id of a topic, and named, the row here."""
        topics = column(self.rows, "topic")
        at = self.rows.column_names.index("topic_id")
        return (
            self.rows.set_column(at, "topic_id", pc.fill_null(self.rows["topic_id"], ""))
            .append_column("name_no", pc.index_in(topics, value_set=pc.unique(topics)))
            .append_column("named", pa.array(np.arange(len(topics), dtype=np.int32)))
        )

    def spelt(self, found: pa.Table) -> pa.Table:
        """What Spark found, with names instead of numbers."""
        names = self.rows.select(["topic", "topic_id"]).take(found["named"])
        return pa.table(
            {"topic": names["topic"], "partition": found["partition"],
             "group_id": found["group_id"], "topic_id": names["topic_id"]}
            | {name: found[name] for name in _FOUND}
        )  # fmt: skip


_FOUND = ("committed_offset", "leader_epoch", "last_seen_at", "last_commit_at")
_NAMED = ["snapshot_id", "topic_no", "topic", "topic_id"]
