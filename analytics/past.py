"""Which of the kept snapshots and analyses a history reads, and which analysis is a snapshot's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from dashboard.core.clock import parse_duration
from dashboard.core.errors import StoreError, UsageError
from dashboard.store.snapshot_files import Manifest, time_of
from dashboard.store.snapshots import ClusterStore

Last = int | str | timedelta | None


def newest_analysis(cluster: ClusterStore, snapshot_id: str | None) -> Manifest | None:
    """The newest analysis of a snapshot (None: the one that LATEST names); None without one."""
    if snapshot_id is None:
        shown = cluster.latest("findings")
        return cluster.manifest("findings", shown) if shown else None
    newest_first = _kept(cluster, reversed(cluster.ids("findings")))
    return next((m for m in newest_first if m.details.get("snapshot_id") == snapshot_id), None)


def snapshots(cluster: ClusterStore, newest: Manifest, last: Last) -> list[str]:
    """Ids of kept snapshots up to `newest`, oldest first. Raises UsageError for a wrong `last`."""
    return _last([i for i in cluster.ids("snapshots") if i <= newest.id], newest, last)


def analyses(cluster: ClusterStore, newest: Manifest, last: Last) -> list[str]:
    """Ids of the newest kept analysis of each snapshot up to `newest`, oldest first."""
    kept = _kept(cluster, cluster.ids("findings"))
    by_snapshot = {str(found.details["snapshot_id"]): found.id for found in kept}
    chosen = _last(sorted(i for i in by_snapshot if i <= newest.id), newest, last)
    return [by_snapshot[i] for i in chosen]


def _kept(cluster: ClusterStore, ids: Iterable[str]) -> Iterator[Manifest]:
    """Manifests of analyses, without those that were pruned since they were listed."""
    for analysis_id in ids:
        try:
            yield cluster.manifest("findings", analysis_id)
        except StoreError as error:
            if error.code != "SNAPSHOT_NOT_FOUND":
                raise


def _last(ids: list[str], newest: Manifest, last: Last) -> list[str]:
    if last is None:
        return ids
    if isinstance(last, int):
        if last < 1:
            raise UsageError(
                f"last={last} is no number of snapshots",
                'Give 1 or more, or a duration such as "24h".',
            )
        return ids[-last:]
    age = parse_duration(last) if isinstance(last, str) else last
    since = newest.taken_at - age
    return [i for i in ids if (time_of(i) or datetime.min.replace(tzinfo=UTC)) >= since]
