"""Which offset every group still holds on: the memory of groups, carried from snapshot to snapshot.

A group that is gone today still counts at its last known offset: somebody may start it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics import absent
from analytics.earlier import commit_order, since
from analytics.memory import oldest_kept, remembered, with_memory
from analytics.offset_fold import folded
from dashboard.safety import epochs
from dashboard.safety.arrow import column, in_order, looked_up
from dashboard.safety.epochs import EPOCH_ENDS
from dashboard.seen_topics import UNKNOWN_ID, seen_topics
from dashboard.snapshot_files import Manifest
from dashboard.snapshots import ClusterStore


def fold(
    cluster: ClusterStore,
    snapshot: Manifest,
    present: pa.Table,
    base: Manifest | None,
    before: Sequence[Manifest] = (),
    *,
    kept_for: timedelta,
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
    that is absent keeps its holds until it has been for as long as snapshots are `kept_for`: it may
    only be hidden from us.
    Brokers before 2.8 know no topic ids: then the name has to do.

    Snapshots count in the order of their commits. Without `base`, what the analyses `before`
    (`earlier.going_on`) saw later than any kept snapshot stays.
    """
    new = since(cluster, base, snapshot)
    oldest = oldest_kept(cluster, snapshot)
    ended = absent.ended(snapshot, oldest, kept_for)
    names = _Names.of(cluster, new, present, base, ended)
    found = folded(cluster, new, names.numbered, base, oldest)
    held = in_order(names.spelt(found), ["topic", "partition", "group_id"])
    held = held if base else with_memory(held, before, cluster, snapshot, present, ended=ended)
    return with_ends(held, cluster, snapshot, present)


def with_ends(
    held: pa.Table, cluster: ClusterStore, snapshot: Manifest, present: pa.Table
) -> pa.Table:
    """`held` with epoch_end."""
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
        ended: datetime | None,
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
        unseen = absent.hidden(topics, present, base, ended)
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
        """What the fold found, with names instead of numbers."""
        names = self.rows.select(["topic", "topic_id"]).take(found["named"])
        return pa.table(
            {"topic": names["topic"], "partition": found["partition"],
             "group_id": found["group_id"], "topic_id": names["topic_id"]}
            | {name: found[name] for name in _FOUND}
        )  # fmt: skip


_FOUND = ("committed_offset", "leader_epoch", "last_seen_at", "last_commit_at")
_NAMED = ["snapshot_id", "topic_no", "topic", "topic_id"]
