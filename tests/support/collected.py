"""A store that was collected into: what it does not show is not there, and not unknown."""

from __future__ import annotations

from datetime import datetime, timedelta

from dashboard.store.snapshots import ClusterStore
from dashboard.store.tables import SNAPSHOT_TABLES, build

# What a snapshot tells that hides nothing, of brokers that forget no group.
NOTHING_HIDDEN = {
    "groups_incomplete": [],
    "offsets_retention_minutes": timedelta(days=20 * 365) // timedelta(minutes=1),
}


def collected(store: ClusterStore, at: datetime, *topics: str) -> ClusterStore:
    """`store`, with a snapshot of then that shows these topics, on which no group had committed."""
    taken(store, at, *topics)
    return store


def taken(store: ClusterStore, at: datetime, *topics: str) -> str:
    """The id of such a snapshot."""
    writer = store.begin("snapshots", at)
    columns = {
        "topic_no": [*range(len(topics))],
        "topic": [*topics],
        "topic_id": [f"id-{topic}" for topic in topics],
    }
    writer.write("topics", build(SNAPSHOT_TABLES["topics"], columns))
    writer.commit(0.0, NOTHING_HIDDEN)
    return writer.id
