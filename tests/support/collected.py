"""A store that was collected into once: what it does not show is not there, and not unknown."""

from __future__ import annotations

from datetime import datetime

from dashboard.snapshots import ClusterStore


def collected(store: ClusterStore, at: datetime) -> ClusterStore:
    """`store`, with a snapshot of then in which there was nothing, and no group was hidden."""
    store.begin("snapshots", at).commit(0.0, {"groups_incomplete": []})
    return store
