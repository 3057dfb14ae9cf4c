"""Holes in the memory of groups: what an analysis could not read, and the store still keeps.

A group that one damaged snapshot alone saw is known to nobody. Until somebody puts that snapshot
back, or removes it and so says that nobody misses what it knew, no list of groups is complete.
"""

from __future__ import annotations

from collections.abc import Mapping

from dashboard.history.findings_age import late
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore


def holes(cluster: ClusterStore) -> dict[str, str]:
    """Snapshots and analyses that the newest analysis had to do without, and why, by id.

    Raises StoreError where that analysis itself cannot be read.
    """
    newest = newest_analysis(cluster)
    return {} if newest is None else holes_of(cluster, cluster.manifest("findings", newest))


def holes_of(cluster: ClusterStore, analysis: Manifest) -> dict[str, str]:
    """The same of one analysis. What was removed since is missed by nobody. Raises StoreError."""
    told = analysis.details.get("left_out", {})
    kept = {*cluster.ids("snapshots"), *cluster.ids("findings")} if told else set()
    return {name: str(why) for name, why in sorted(told.items()) if name in kept}


def told_since(
    cluster: ClusterStore, analysis: Manifest | None, detail: str, until: str | None
) -> list[str]:
    """The kept snapshots of which `detail` of an analysis does not tell yet, oldest first: those
    after its own or unknown to it (`folded.late`), without it all of them, but for those that it
    could not read itself.

    `until` is the last one that counts; None: the newest.
    """
    after, missed = "", frozenset[str]()
    if analysis is not None:
        missed = frozenset(analysis.details.get("left_out", {}))
        after = str(analysis.details["snapshot_id"]) if detail in analysis.details else ""
    ids = cluster.ids("snapshots")
    unread = {*late(ids, analysis)}
    kept = [name for name in ids if (name > after or name in unread) and name not in missed]
    return [name for name in kept if until is None or name <= until]


def newest_analysis(cluster: ClusterStore) -> str | None:
    """The analysis that LATEST names; where there is no such file, that of the newest snapshot.

    Raises StoreError.
    """
    named = cluster.latest("findings")
    if named is not None:
        return named
    of_snapshots = [
        (str(cluster.manifest("findings", i).details.get("snapshot_id", "")), i)
        for i in cluster.ids("findings")
    ]
    return max(of_snapshots, default=("", None))[1]


def reasons(found: Mapping[str, str]) -> list[str]:
    """Why a list of groups is incomplete, in words, with the next step."""
    return [
        f"{name} cannot be read, and a group that it alone saw is not remembered: put it back and "
        f"run lowwater analyze --full, or remove its folder ({why})"
        for name, why in found.items()
    ]
