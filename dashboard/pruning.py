"""Removes what is no longer kept: snapshots, analyses, and folders that were never finished.

Safe beside readers, writers and other pruners: what goes is chosen from one listing, so nothing
that was committed since is touched; the manifest goes first, and from then on the folder does not
exist for readers. What a killed pruner leaves is a folder without manifest, as a killed writer's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from dashboard.errors import StoreError
from dashboard.holes import holes
from dashboard.snapshot_clocks import clock_was_right
from dashboard.snapshot_files import Kind, Manifest, time_of
from dashboard.snapshot_retention import analyses_to_keep, snapshots_to_keep
from dashboard.snapshot_settings import SnapshotSettings
from dashboard.snapshot_times import times
from dashboard.snapshots import ClusterStore
from dashboard.unfolded import only_witnesses

_ABANDONED_AFTER = timedelta(hours=1)
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Pruned:
    """Ids that are gone now, and `{object, error}` of each folder that could not be removed."""

    removed: tuple[str, ...] = ()
    errors: tuple[Mapping[str, str], ...] = ()


def prune_snapshots(cluster: ClusterStore, keep: SnapshotSettings, now: datetime) -> Pruned:
    """Thin out snapshots as settings say, by a proved clock. What only one of them saw of a
    group stays, and one that cannot be read: nobody knows what it saw.
    """

    def chosen(ids: Sequence[str]) -> set[str]:
        kept = snapshots_to_keep(ids, now, keep, times(cluster, ids, now))
        return kept | only_witnesses(cluster, ids, kept) | _damaged(cluster)

    return prune(cluster, "snapshots", chosen, now)


def prune_findings(cluster: ClusterStore, keep: SnapshotSettings, snapshot: Manifest) -> Pruned:
    """Thin out analyses as settings say; the one that LATEST names stays.

    Their age is counted to the time of `snapshot`, the newest one, if its clock was right: that of
    the host which analyzes it nobody has compared with the cluster's. Else all stay.
    """
    now = snapshot.taken_at
    if not clock_was_right(snapshot) or snapshot.id < str(cluster.latest("snapshots") or ""):
        return Pruned()

    def chosen(ids: Sequence[str]) -> set[str]:
        kept = analyses_to_keep(ids, now, keep) | _damaged(cluster)
        with suppress(StoreError):  # a damaged LATEST names none
            return kept | {str(cluster.latest("findings"))}
        return kept

    return prune(cluster, "findings", chosen, now)


def _damaged(cluster: ClusterStore) -> set[str]:
    """What an analysis had to do without: somebody has to say that nobody misses it."""
    with suppress(StoreError):
        return {*holes(cluster)}
    return set()


def prune(
    cluster: ClusterStore,
    kind: Kind,
    keep: Callable[[Sequence[str]], Collection[str]],
    now: datetime,
) -> Pruned:
    """Remove committed folders that `keep` leaves out of those given, oldest first, and folders
    without manifest that are an hour old. One that cannot be removed does not stop the others.

    Raises StoreError when the folders cannot be listed.
    """
    folders = cluster.folders(kind)
    committed = [name for name, done in folders if done]
    kept = set(keep(committed))
    gone = [
        (name, done) for name, done in folders if (name not in kept if done else _old(name, now))
    ]
    removed, errors = [], []
    for name, done in gone:
        try:
            _remove(cluster, f"{cluster.path}/{kind}/{name}", done)
            removed.append(name)
        except OSError as error:
            errors.append({"object": f"{kind}/{name}", "error": error.strerror or str(error)})
    return Pruned(tuple(removed), tuple(errors))


def _remove(cluster: ClusterStore, folder: str, committed: bool) -> None:
    if committed:
        with suppress(FileNotFoundError):  # another pruner was faster
            cluster.fs.rm(f"{folder}/manifest.json")
    for _ in range(_TRIES):
        try:
            cluster.fs.rm(folder, recursive=True)
            return
        except FileNotFoundError:  # … and is at the rest of it too
            if not cluster.fs.exists(folder):
                return
    raise FileNotFoundError("it keeps changing")


def _old(name: str, now: datetime) -> bool:
    """Whether nobody can still be writing it. What bears no time is not ours to delete."""
    begun = time_of(name)
    return begun is not None and begun < now - _ABANDONED_AFTER
