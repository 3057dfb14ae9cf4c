"""Which snapshots and analyses stay, and the removal of the others and of unfinished folders.

Safe beside readers, writers and other pruners: what goes is chosen from one listing, so nothing
that was committed since is touched; the manifest goes first, and from then on the folder does not
exist for readers. What a killed pruner leaves is a folder without manifest, as a killed writer's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from dashboard.core.errors import StoreError
from dashboard.history import past_groups
from dashboard.history.findings_age import holes, late
from dashboard.history.past_groups import HELD_FOR, last_sights
from dashboard.settings.sections import SnapshotSettings
from dashboard.store.clocks import clock_was_right, times
from dashboard.store.snapshot_files import Kind, Manifest, time_of
from dashboard.store.snapshots import ClusterStore

if TYPE_CHECKING:  # slow to import; who asks only for JSON files stays quick
    import pyarrow as pa

    from dashboard.store.snapshots import ClusterStore

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
        kept |= only_witnesses(cluster, ids, kept) | _damaged(cluster)
        return kept | last_sights(cluster, sorted(ids), kept, f"{now - HELD_FOR:%Y%m%dT%H%M%S}")

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


# Which snapshots and analyses stay: all, then one an hour, then one a day, as settings say.

_NEWEST_ANALYSES = 3  # readers may still be at the one or two before the newest


def snapshots_to_keep(
    ids: Iterable[str], now: datetime, keep: SnapshotSettings, times: Mapping[str, datetime]
) -> set[str]:
    """The ids to keep of those given: the newest always, and what its age allows.

    Of an hour and of a day (in UTC) the newest stays. An id without a time is not ours to delete.
    One from the future, by a clock that was wrong, counts like one as far in the past: it goes in
    the end, and may be the only one there is. `times`: when snapshots were taken, where ids may
    tell another time; what stays by either stays.
    """
    ordered = sorted(ids)
    by_id = _times(ordered)
    thinned = (_thinned(told, now, keep.keep_all_for, keep) for told in (by_id, {**by_id, **times}))
    return set(ordered[-1:]).union(*thinned)


def analyses_to_keep(ids: Iterable[str], now: datetime, keep: SnapshotSettings) -> set[str]:
    """Which analyses stay: the newest three, and one an hour and a day as long as snapshots."""
    ordered = sorted(ids)
    return {*ordered[-_NEWEST_ANALYSES:], *_thinned(_times(ordered), now, timedelta(0), keep)}


def _times(ids: Iterable[str]) -> dict[str, datetime | None]:
    return {name: time_of(name) for name in ids}


def _thinned(
    ordered: Mapping[str, datetime | None],
    now: datetime,
    keep_all_for: timedelta,
    keep: SnapshotSettings,
) -> set[str]:
    """`ordered`: the time of each id, as ids sort."""
    of_hour = {f"{at:%Y%m%dT%H}": name for name, at in ordered.items() if at is not None}
    of_day = {f"{at:%Y%m%d}": name for name, at in ordered.items() if at is not None}
    kept = set()
    for name, taken_at in ordered.items():
        if (
            taken_at is None
            or (age := abs(now - taken_at)) <= keep_all_for
            or (age <= keep.keep_hourly_for and of_hour[f"{taken_at:%Y%m%dT%H}"] == name)
            or (age <= keep.keep_daily_for and of_day[f"{taken_at:%Y%m%d}"] == name)
        ):
            kept.add(name)
    return kept


# What no analysis has seen yet: snapshots that hold the only trace of what a group last did.
#
# The findings table `holds` remembers every group of the snapshots that were analyzed. While no
# analysis runs, a group may come and go between two snapshots that thinning would keep, or be met
# there without the offset that it had before: then the newest snapshot that saw it stays until an
# analysis has folded it.

# A group with another name every minute keeps each snapshot: so many are looked into each time.
MOST_READ = 200
_KEY = ["group_id", "topic", "partition"]
# Analyses of earlier versions keep less: what they forgot some snapshot may still tell.
_DETAILS = {past_groups.DETAIL, past_groups.STREAMS_DETAIL}


def only_witnesses(
    cluster: ClusterStore, ids: Sequence[str], keep: set[str], most: int = MOST_READ
) -> set[str]:
    """Those of `ids` outside `keep` that saw a group's commit on a partition as the last ones, or
    met a group as the last ones (`met_readers`).

    Only snapshots that the newest analysis does not know are read. One that cannot be read may have
    seen any group, and so may those that are older than the `most` newest of such witnesses: they
    are named unread.
    """
    newest = _newest_whole(cluster)
    known_to, unread = _folded_to(newest), {*late(ids, newest)}
    unfolded = [n for n in sorted(ids, reverse=True) if n > known_to or n in unread]
    stays = iter([name for name in unfolded if name in keep])
    ahead = next(stays, None)
    newer: list[pa.Table] = []  # what those that stay tell, read as far as needed
    spared: set[str] = set()
    for name in (name for name in unfolded if name not in keep):
        if len(spared) >= most:
            spared.add(name)
            continue
        seen = _told(cluster, name)
        if seen is None:
            spared.add(name)
            continue
        alone = _unseen(seen, newer)
        while alone is not None and ahead is not None and ahead > name:
            told = _told(cluster, ahead)
            ahead = next(stays, None)
            if told is not None:
                newer.append(told)
                alone = _unseen(alone, [told])
        if alone is not None:
            spared.add(name)
            newer.append(alone)
    return spared


def _folded_to(analysis: Manifest | None) -> str:
    """The snapshot up to which an analysis remembers every group; "" if there is none."""
    return "" if analysis is None else str(analysis.details.get("snapshot_id", ""))


def _newest_whole(cluster: ClusterStore) -> Manifest | None:
    try:
        newest = cluster.latest("findings")
        found = cluster.manifest("findings", newest) if newest else None
    except StoreError:
        return None
    if found is None or "holds" not in found.tables or not found.details.keys() >= _DETAILS:
        return None
    return found


def _unseen(told: pa.Table | None, newer: Sequence[pa.Table]) -> pa.Table | None:
    """Those rows of `told` that are in none of `newer`; None if there are none."""
    for others in newer:
        if told is None or not told.num_rows:
            return None
        told = told.join(others, _KEY, join_type="left anti")
    return told if told is not None and told.num_rows else None


def _told(cluster: ClusterStore, snapshot_id: str) -> pa.Table | None:
    """group_id, topic, partition of every commit that the snapshot shows; None: not readable.

    That a group is a Kafka Streams application counts like a commit, on no topic: its commits may
    go on while they no longer tell it. That it was met counts as one on no topic:
    what was remembered of it before is outdated.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        names = cluster.read("snapshots", snapshot_id, "topics", ["topic_no", "topic"])
        rows = cluster.read("snapshots", snapshot_id, "group_offsets", _READ)
        groups = cluster.read("snapshots", snapshot_id, "groups", _GROUPS)
    except StoreError:
        return None
    rows = rows.filter(pc.greater_equal(rows["committed_offset"], 0))
    commits = rows.join(names, "topic_no", join_type="inner").select(_KEY)
    streams = groups.filter(groups["is_streams"])["group_id"]
    told = [(group, "", _STREAMS) for group in streams.to_pylist()]
    met = past_groups.shown(groups, names["topic"].to_pylist)
    told += [(group, topic, _MET) for group, topic in met]
    rows_told = [dict(zip(_KEY, row, strict=True)) for row in told]
    return pa.concat_tables([commits, pa.Table.from_pylist(rows_told, schema=commits.schema)])


_STREAMS, _MET = -1, -2  # in place of a partition
_GROUPS = ["is_streams", *past_groups.READ]
_READ = ["topic_no", "group_id", "partition", "committed_offset"]
