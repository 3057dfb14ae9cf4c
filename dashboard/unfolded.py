"""What no analysis has seen yet: snapshots that hold the only trace of a group's last commit.

The findings table `holds` remembers every group of the snapshots that were analyzed. While no
analysis runs, a group may come and go between two snapshots that thinning would keep: then the
newest snapshot that saw it stays until an analysis has folded it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dashboard.errors import StoreError

if TYPE_CHECKING:  # slow to import; who asks only for JSON files stays quick
    import pyarrow as pa

    from dashboard.snapshots import ClusterStore

# A group with another name every minute would keep each snapshot: of those the newest stay.
MOST_SPARED = 200
_KEY = ["group_id", "topic", "partition"]


def only_witnesses(
    cluster: ClusterStore, ids: Sequence[str], keep: set[str], most: int = MOST_SPARED
) -> set[str]:
    """Those of `ids` outside `keep` that saw a group's commit on a partition as the last ones.

    Only snapshots after the newest analysis' one are read; at most `most` are named, the newest.
    One that cannot be read may have seen any group.
    """
    known_to = folded_to(cluster)
    unfolded = [name for name in sorted(ids, reverse=True) if name > known_to]
    stays = iter([name for name in unfolded if name in keep])
    ahead = next(stays, None)
    newer: list[pa.Table] = []  # commits of the snapshots that stay, read as far as needed
    spared: set[str] = set()
    for name in (name for name in unfolded if name not in keep):
        if len(spared) == most:
            break
        seen = _commits(cluster, name)
        if seen is None:
            spared.add(name)
            continue
        alone = _unseen(seen, newer)
        while alone is not None and ahead is not None and ahead > name:
            commits = _commits(cluster, ahead)
            ahead = next(stays, None)
            if commits is not None:
                newer.append(commits)
                alone = _unseen(alone, [commits])
        if alone is not None:
            spared.add(name)
            newer.append(alone)
    return spared


def folded_to(cluster: ClusterStore) -> str:
    """The snapshot up to which the newest analysis remembers every group; "" if there is none."""
    try:
        newest = cluster.latest("findings")
        found = cluster.manifest("findings", newest) if newest else None
    except StoreError:
        return ""
    return str(found.details.get("snapshot_id", "")) if found and "holds" in found.tables else ""


def _unseen(commits: pa.Table | None, newer: Sequence[pa.Table]) -> pa.Table | None:
    """Those of `commits` that are in none of `newer`; None if there are none."""
    for others in newer:
        if commits is None or not commits.num_rows:
            return None
        commits = commits.join(others, _KEY, join_type="left anti")
    return commits if commits is not None and commits.num_rows else None


def _commits(cluster: ClusterStore, snapshot_id: str) -> pa.Table | None:
    """group_id, topic, partition of every commit that the snapshot shows; None: not readable.

    That a group is a Kafka Streams application counts like a commit, on no topic: its commits may
    go on while they no longer tell it.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        names = cluster.read("snapshots", snapshot_id, "topics", ["topic_no", "topic"])
        rows = cluster.read("snapshots", snapshot_id, "group_offsets", _READ)
        groups = cluster.read("snapshots", snapshot_id, "groups", ["group_id", "is_streams"])
    except StoreError:
        return None
    rows = rows.filter(pc.greater_equal(rows["committed_offset"], 0))
    commits = rows.join(names, "topic_no", join_type="inner").select(_KEY)
    streams = groups.filter(groups["is_streams"])["group_id"]
    nowhere = pa.array([""] * len(streams)), pa.array([-1] * len(streams), pa.int32())
    told = pa.table([streams, *nowhere], names=_KEY).cast(commits.schema)
    return pa.concat_tables([commits, told])


_READ = ["topic_no", "group_id", "partition", "committed_offset"]
