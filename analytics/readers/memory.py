"""What only thinned-out snapshots knew: a fold over all that are kept must not forget a group."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.readers.absent import hidden
from dashboard.core.arrow import column, looked_up
from dashboard.estimate.curve_tables import changes
from dashboard.store.clocks import seen_at, times
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore

_KEY = ["topic", "partition", "group_id"]
_TIME = pa.timestamp("us", tz="UTC")


def remembered(cluster: ClusterStore, base: Manifest, columns: list[str]) -> pa.Table:
    """Every last known offset of an analysis, on topics as they were then and on earlier ones."""
    found = [cluster.read("findings", base.id, "holds", columns)]
    if "former_readers" in base.tables:  # analyses of earlier versions have none
        found.append(cluster.read("findings", base.id, "former_readers", columns))
    return pa.concat_tables(found)


def with_memory(
    held: pa.Table,
    before: Sequence[Manifest],
    cluster: ClusterStore,
    snapshot: Manifest,
    present: pa.Table,
    *,
    ended: datetime | None,
) -> pa.Table:
    """`held`, the `holds` of a fold that began anew, and what the analyses `before` saw later.

    `present` are the topics of the snapshot: commits on a topic that was recreated since count as
    long as a kept snapshot knew them, those on one that is not there unless it has been away since
    before `ended` (`absent.ended`). Of a time that is still to come nobody knows whether it is the
    later one: then the lower offset counts.
    """
    if not before:
        return held
    oldest = oldest_kept(cluster, snapshot)
    seen = []
    for base in before:
        remembers = remembered(cluster, base, held.column_names)
        remembers = remembers.filter(_counts(remembers, present, base, oldest, ended))
        seen.append(_plausible(remembers, held, snapshot))
    ranked = [_ranked(rows, rank) for rank, rows in enumerate((*seen, held))]
    both = pa.concat_tables(ranked)
    both = both.sort_by([(name, "ascending") for name in (*_KEY, "last_seen_at", "rank")])
    last = np.ones(both.num_rows, dtype=bool)
    if both.num_rows:
        last[:-1] = np.logical_or.reduce([changes(both[name]) for name in _KEY])
    return both.filter(pa.array(last)).drop_columns("rank")


def _plausible(before: pa.Table, held: pa.Table, snapshot: Manifest) -> pa.Table:
    """Without what was seen at a time still to come, where a kept snapshot shows a lower offset."""
    to_come = pc.greater(before["last_seen_at"], pa.scalar(seen_at(snapshot), _TIME))
    if not pc.any(to_come).as_py():
        return before
    shown = looked_up(_keys(before), _keys(held), column(held, "committed_offset"))
    lower = pc.fill_null(pc.less(shown, column(before, "committed_offset")), False)
    return before.filter(pc.invert(pc.and_(to_come, lower)))


def _keys(rows: pa.Table) -> pa.Array:
    texts = [column(rows, name).cast(pa.string()) for name in _KEY]
    return pc.binary_join_element_wise(*texts, "\0")


def _ranked(rows: pa.Table, rank: int) -> pa.Table:
    return rows.append_column("rank", pa.repeat(pa.scalar(rank, pa.int32()), rows.num_rows))


def _counts(
    before: pa.Table,
    present: pa.Table,
    base: Manifest,
    oldest: pa.Scalar,
    ended: datetime | None,
) -> pa.Array:
    topics = column(before, "topic")
    now = looked_up(topics, column(present, "topic"), column(present, "topic_id"))
    same = pc.fill_null(pc.equal(column(before, "topic_id"), now), True)
    there = pc.is_in(topics, value_set=column(present, "topic"))
    recent = pc.greater_equal(before["last_seen_at"], oldest)
    unseen = hidden(topics, present, base, ended)
    return pc.or_(pc.or_(pc.and_(there, same), unseen), recent)


def oldest_kept(cluster: ClusterStore, snapshot: Manifest) -> pa.Scalar:
    """When the oldest kept snapshot was taken, which need not be readable: not after `snapshot`."""
    kept = times(cluster, cluster.ids("snapshots"), snapshot.taken_at)
    return pa.scalar(min([*kept.values(), snapshot.taken_at]), _TIME)
