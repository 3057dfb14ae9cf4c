"""A store that was collected into once: what it does not show is not there, and not unknown."""

from __future__ import annotations

from datetime import UTC, datetime

from dashboard.snapshots import ClusterStore

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def collected(store: ClusterStore) -> ClusterStore:
    """`store`, with a snapshot of long ago in which there was nothing."""
    store.begin("snapshots", LONG_AGO).commit(0.0, {})
    return store
