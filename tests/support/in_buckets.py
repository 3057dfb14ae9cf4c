"""The snapshots of a cluster once more, in other numbers of buckets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

from dashboard.store.snapshot_files import Writer
from dashboard.store.snapshots import ClusterStore, Store


def copied(
    cluster: ClusterStore, name: str, buckets: Sequence[int], store: Store | None = None
) -> ClusterStore:
    """A cluster of this name beside the other, or in another store, with its snapshots under their
    own ids; the numbers of buckets take turns.
    """
    other = ClusterStore(store or cluster.store, name)
    for snapshot_id, count in zip(cluster.ids("snapshots"), cycle(buckets), strict=False):
        found = cluster.manifest("snapshots", snapshot_id)
        tables = {table: cluster.read("snapshots", found.id, table) for table in found.tables}
        writer = Writer(other.fs, other.path, "snapshots", found.id, found.taken_at, buckets=count)
        for table, rows in tables.items():
            writer.split(table, rows, tables["topics"])
        writer.commit(found.seconds, found.details)
    return other
