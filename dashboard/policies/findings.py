"""What triggers are judged by: disks and growth of the newest analysis."""

from __future__ import annotations

from typing import Any

from dashboard.snapshots import ClusterStore

Rows = list[dict[str, Any]]


def newest(store: ClusterStore) -> tuple[Rows, Rows]:
    """The rows of `disks` and `growth`; none before any analysis. Raises StoreError."""
    analysis = store.latest("findings")
    if analysis is None:
        return [], []
    disks, growth = (store.read("findings", analysis, name) for name in ("disks", "growth"))
    return disks.to_pylist(), growth.to_pylist()
