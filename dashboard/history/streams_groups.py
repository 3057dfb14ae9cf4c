"""Which groups kept snapshots knew as Kafka Streams applications.

A stopped application's group expires (offsets.retention.minutes), and what its commits tell of it
is lost where a tool sets its offsets: its state is restored all the same when it starts again.
"""

from __future__ import annotations

from collections.abc import Sequence

from dashboard.history.findings_age import told_since
from dashboard.history.once import Once
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore

DETAIL = "streams_groups"  # of an analysis' manifest: each name, and the last snapshot that told so


def told(analysis: Manifest | None) -> dict[str, str]:
    """What an analysis keeps of them; {} of one by an earlier version."""
    return {} if analysis is None else dict(analysis.details.get(DETAIL, {}))


def known(
    store: ClusterStore, analysis: Manifest | None, until: str | None = None
) -> dict[str, str]:
    """Each name and the last snapshot that told so: from `analysis`, and snapshots after its own.

    `until` is the last snapshot that counts. Without an analysis that keeps them all kept
    snapshots are read, but for those that it could not read itself. Raises StoreError.
    """
    found = told(analysis)
    for snapshot in told_since(store, analysis, DETAIL, until):
        for name in _shown(store, snapshot):
            found[name] = max(snapshot, found.get(name, ""))
    return found


def _read(store: ClusterStore, snapshot: str) -> Sequence[str]:
    rows = store.read("snapshots", snapshot, "groups", ["group_id", "is_streams"])
    names: list[str] = rows.filter(rows["is_streams"])["group_id"].to_pylist()
    return names


_shown = Once(_read, most=100_000)
