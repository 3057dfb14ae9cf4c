"""What no analysis has seen yet: snapshots that hold the only trace of what a group last did.

The findings table `holds` remembers every group of the snapshots that were analyzed. While no
analysis runs, a group may come and go between two snapshots that thinning would keep, or be met
there without the offset that it had before: then the newest snapshot that saw it stays until an
analysis has folded it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dashboard import met_readers, streams_groups
from dashboard.errors import StoreError
from dashboard.folded import late
from dashboard.snapshot_files import Manifest

if TYPE_CHECKING:  # slow to import; who asks only for JSON files stays quick
    import pyarrow as pa

    from dashboard.snapshots import ClusterStore

# A group with another name every minute keeps each snapshot: so many are looked into each time.
MOST_READ = 200
_KEY = ["group_id", "topic", "partition"]
# Analyses of earlier versions keep less: what they forgot some snapshot may still tell.
_DETAILS = {met_readers.DETAIL, streams_groups.DETAIL}


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
    known_to, unread = _shown(newest), {*late(ids, newest)}
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


def folded_to(cluster: ClusterStore) -> str:
    """The snapshot up to which the newest analysis remembers every group; "" if there is none."""
    return _shown(_newest_whole(cluster))


def _shown(analysis: Manifest | None) -> str:
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
    told += [(group, topic, _MET) for group, topic in met_readers.shown(groups)]
    rows_told = [dict(zip(_KEY, row, strict=True)) for row in told]
    return pa.concat_tables([commits, pa.Table.from_pylist(rows_told, schema=commits.schema)])


_STREAMS, _MET = -1, -2  # in place of a partition
_GROUPS = ["is_streams", *met_readers.READ]
_READ = ["topic_no", "group_id", "partition", "committed_offset"]
