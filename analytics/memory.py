"""What only thinned-out snapshots knew: a fold over all that are kept must not forget a group."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.earlier import newest_base
from dashboard.curve_tables import changes
from dashboard.safety.arrow import column, looked_up
from dashboard.snapshot_files import Manifest, time_of
from dashboard.snapshots import ClusterStore

_KEY = ["topic", "partition", "group_id"]


def remembered(cluster: ClusterStore, base: Manifest, columns: list[str]) -> pa.Table:
    """Every last known offset of an analysis, on topics as they were then and on earlier ones."""
    found = [cluster.read("findings", base.id, "holds", columns)]
    if "former_readers" in base.tables:  # analyses of earlier versions have none
        found.append(cluster.read("findings", base.id, "former_readers", columns))
    return pa.concat_tables(found)


def with_memory(
    held: pa.Table, cluster: ClusterStore, snapshot: Manifest, present: pa.Table
) -> pa.Table:
    """`held`, the `holds` of a fold that began anew, and what an earlier analysis saw later.

    `present` are the topics of the snapshot: commits on a topic that was recreated since, or is
    not there, count as long as a kept snapshot knew them.
    """
    base = newest_base(cluster, snapshot, ["holds"])
    if base is None:
        return held
    before = remembered(cluster, base, held.column_names)
    before = before.filter(_counts(before, cluster, present))
    both = pa.concat_tables([_ranked(before, 0), _ranked(held, 1)])
    both = both.sort_by([(name, "ascending") for name in (*_KEY, "last_seen_at", "rank")])
    last = np.ones(both.num_rows, dtype=bool)
    if both.num_rows:
        last[:-1] = np.logical_or.reduce([changes(both[name]) for name in _KEY])
    return both.filter(pa.array(last)).drop_columns("rank")


def _ranked(rows: pa.Table, rank: int) -> pa.Table:
    return rows.append_column("rank", pa.repeat(pa.scalar(rank, pa.int8()), rows.num_rows))


def _counts(before: pa.Table, cluster: ClusterStore, present: pa.Table) -> pa.Array:
    topics = column(before, "topic")
    now = looked_up(topics, column(present, "topic"), column(present, "topic_id"))
    same = pc.fill_null(pc.equal(column(before, "topic_id"), now), True)
    there = pc.is_in(topics, value_set=column(present, "topic"))
    recent = pc.greater_equal(before["last_seen_at"], oldest_kept(cluster))
    return pc.or_(pc.and_(there, same), recent)


def oldest_kept(cluster: ClusterStore) -> pa.Scalar:
    """When the oldest kept snapshot was taken, by its id: it need not be readable."""
    times = (time_of(name) for name in cluster.ids("snapshots"))
    oldest = next((at for at in times if at is not None), None)
    return pa.scalar(oldest, pa.timestamp("us", tz="UTC"))
