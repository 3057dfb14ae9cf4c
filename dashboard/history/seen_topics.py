"""Which topic of a name the commits in a snapshot are of.

A coordinator may still list a commit on a topic that is deleted, so that nobody tells its id; a
topic made anew under the name is another one, of which the group has read nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # slow to import; who reads no tables stays quick
    import pyarrow as pa

    from dashboard.store.snapshots import ClusterStore

UNKNOWN_ID = "?"  # of a topic that the metadata did not have; no topic's own


def seen_topics(cluster: ClusterStore, snapshot_id: str, columns: list[str]) -> pa.Table:
    """These columns of a snapshot's topics, `topic_id` among them.

    UNKNOWN_ID stands for an id that nobody told. It stays null where brokers have none (before
    2.8): where the metadata named some topic, which only that one's `is_internal` shows, without
    its id. A broker whose copy of the ACLs is lost names no topic at all, and tells nothing of
    those that coordinators know. Raises StoreError.
    """
    import pyarrow.compute as pc

    found = cluster.read("snapshots", snapshot_id, "topics", [*columns, "is_internal"])
    ids, named = found["topic_id"], found["is_internal"].is_valid()
    found = found.select(columns)
    if not ids.null_count or pc.any(pc.and_(named, ids.is_null())).as_py():
        return found
    at = found.column_names.index("topic_id")
    return found.set_column(at, found.field(at), pc.fill_null(ids, UNKNOWN_ID))


def ids_of(
    cluster: ClusterStore, snapshot_id: str, topics: Collection[str]
) -> dict[str, str | None]:
    """The id of each of these topics that a snapshot names; None where nobody told it: disks or
    groups alone named the topic, or brokers have no ids. Raises StoreError.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = cluster.read("snapshots", snapshot_id, "topics", ["topic", "topic_id"])
    found = rows.filter(pc.field("topic").isin(pa.array(sorted(topics), pa.string()))).to_pylist()
    return {row["topic"]: row["topic_id"] for row in found}
