"""Which offset every group still holds on: the memory of groups, carried from snapshot to snapshot.

A group that is gone today still counts at its last known offset: somebody may start it again.
"""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa

from analytics.tables import Tables
from dashboard.snapshot_files import Manifest

# Failed look-ups and partitions never committed are no observations. Topics are named by the
# dictionary of each snapshot. Brokers before 2.8 know no topic ids: then the name has to do.
_FOLD = """
with history as (
    select topic, topic_id, partition, group_id, committed_offset,
        last_seen_at as seen_at, last_commit_at as moved_at
    from {remembered}
    union all
    select names.topic, names.topic_id, partition, group_id, committed_offset,
        taken_at, cast(null as timestamp)
    from {offsets} join {names} as names using (snapshot_id, topic_no)
    where committed_offset >= 0
),
counting as (
    select history.*, lag(committed_offset) over (
        partition by history.topic, partition, group_id order by seen_at) as before
    from history left join {present} as present on history.topic = present.topic
    where if(present.topic is null, seen_at >= :oldest_kept,
        coalesce(history.topic_id = present.topic_id, true))
)
select topic, partition, group_id,
    max_by(topic_id, seen_at) as topic_id,
    max_by(committed_offset, seen_at) as committed_offset,
    max(seen_at) as last_seen_at,
    max(if(before <> committed_offset, seen_at, moved_at)) as last_commit_at
from counting
group by topic, partition, group_id
"""


def fold(tables: Tables, snapshot: Manifest, present: pa.Table, base: Manifest | None) -> pa.Table:
    """The last known committed offset per topic, partition and group: the `holds` table.

    Goes on from the holds of `base`, an earlier analysis, with the offsets of every snapshot
    since then up to this one: a group may have come and gone in between. `present` are the topics
    of the snapshot. `last_commit_at` is the time of the first snapshot that showed the present
    offset after another one, so the commit was made at that time or before; null until a move
    was seen. An offset that moved back counts as a move.

    Offsets of a topic that was deleted and recreated (another topic_id) are dropped. A topic
    that is absent today keeps its holds as long as a kept snapshot knew it: it may only be
    hidden from us.
    """
    cluster = tables.cluster
    kept = cluster.ids("snapshots")
    known_to = str(base.details["snapshot_id"]) if base else ""
    new = [i for i in kept if known_to < i < snapshot.id] + [snapshot.id]
    names = [cluster.read("snapshots", i, "topics").select(_NAMED) for i in new]
    oldest_kept: datetime = cluster.manifest("snapshots", kept[0]).taken_at
    return tables.sql(
        _FOLD,
        args={"oldest_kept": oldest_kept},
        remembered=tables.read("findings", "holds", [base.id] if base else []),
        offsets=tables.read("snapshots", "group_offsets", new),
        names=tables.from_arrow(pa.concat_tables(names)),
        present=tables.from_arrow(present.select(["topic", "topic_id"])),
    ).toArrow()


_NAMED = ["snapshot_id", "topic_no", "topic", "topic_id"]
