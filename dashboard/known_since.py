"""Since when a data folder knows its cluster: the oldest snapshot that its memory began with.

Each analysis carries that snapshot's id from the one it goes on from, whatever is pruned: it grows
only where a history was lost. So a folder that began later than what a purge rested on is another
one, or the one below a mount point. An analysis of an earlier version has none: then it is the
oldest snapshot that is kept, or the one that was analyzed.
"""

from __future__ import annotations

from dashboard.holes import newest_analysis
from dashboard.snapshot_files import Manifest
from dashboard.snapshots import ClusterStore

DETAIL = "known_since"  # of an analysis' manifest


def known_since(cluster: ClusterStore) -> str | None:
    """The id of the snapshot that the newest analysis' memory began with, or the kept ones' does;
    None: the folder knows nothing of the cluster. Raises StoreError.
    """
    return _of(cluster, _newest(cluster))


def carried_since(cluster: ClusterStore) -> str | None:
    """The same where the newest analysis carries it; None where pruning may yet change it."""
    newest = _newest(cluster)
    return None if newest is None else newest.details.get(DETAIL)


def of_analysis(cluster: ClusterStore, before: Manifest | None, *, anew: bool) -> str | None:
    """What a new analysis carries that remembers what the one `before` does.

    `anew`: it reads all kept snapshots besides.
    """
    found = _of(cluster, before)
    kept = cluster.ids("snapshots")[:1] if anew else []
    return min([*kept, *([found] if found else [])], default=None)


def _newest(cluster: ClusterStore) -> Manifest | None:
    newest = newest_analysis(cluster)
    return None if newest is None else cluster.manifest("findings", newest)


def _of(cluster: ClusterStore, analysis: Manifest | None) -> str | None:
    details = {} if analysis is None else analysis.details
    if details.get(DETAIL):
        return str(details[DETAIL])
    shown = [str(details["snapshot_id"])] if "snapshot_id" in details else []
    return min([*shown, *cluster.ids("snapshots")[:1]], default=None)
