"""How long ago a leader's log ended where its follower is now: from the store's snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from dashboard.core.errors import StoreError
from dashboard.domain.model import TopicPartition
from dashboard.store.snapshots import ClusterStore

# Snapshots are read newest first until one lies before every follower: seldom more than two.
_MOST_SNAPSHOTS = 48
_COLUMNS = ["topic_no", "partition", "log_end_offset", "is_leader", "observed_at"]


def leader_ends(
    store: ClusterStore,
    followers: Mapping[TopicPartition, int],
    topic_ids: Mapping[str, str | None],
) -> dict[TopicPartition, list[tuple[datetime, int]]]:
    """When each leader's log ended where, newest first, back to the follower's own log end.

    `followers` maps a partition to its slowest follower's log end offset. A topic that was made
    anew since (another id) has no history. A snapshot that was pruned meanwhile is left out.
    """
    found: dict[TopicPartition, list[tuple[datetime, int]]] = {}
    open_ones = dict(followers)
    for snapshot in reversed(store.ids("snapshots")[-_MOST_SNAPSHOTS:]):
        if not open_ones:
            break
        try:
            points = _ends_in(store, snapshot, {k.topic for k in open_ones}, topic_ids)
        except StoreError:
            continue
        for key in [k for k in open_ones if k in points]:
            found.setdefault(key, []).append(points[key])
            if points[key][1] <= open_ones[key]:
                del open_ones[key]
    return found


def seconds_behind(points: Iterable[tuple[datetime, int]], offset: int) -> float | None:
    """How long before the newest point the log ended at `offset`, by a straight line between.

    None when no point lies at or below it: older than what is kept is unknown. Leaders' ends
    only grow, so the last moment at the offset counts: an idle hour is no lag.
    """
    ordered = sorted(points)
    if not ordered or ordered[-1][1] <= offset:
        return 0.0 if ordered else None
    after = ordered[-1]
    for point in reversed(ordered[:-1]):
        if point[1] <= offset:
            share = (offset - point[1]) / (after[1] - point[1])
            at = point[0] + (after[0] - point[0]) * share
            return (ordered[-1][0] - at).total_seconds()
        after = point
    return None


def _ends_in(
    store: ClusterStore, snapshot: str, topics: set[str], topic_ids: Mapping[str, str | None]
) -> dict[TopicPartition, tuple[datetime, int]]:
    # Here, because a purge's worker uses the rest of this module and reads no tables.
    import pyarrow as pa
    import pyarrow.compute as pc

    dictionary = store.read(
        "snapshots", snapshot, "topics", columns=["topic_no", "topic", "topic_id"]
    )
    names = {
        row["topic_no"]: row["topic"]
        for row in dictionary.filter(pc.field("topic").isin(sorted(topics))).to_pylist()
        if row["topic_id"] == topic_ids.get(row["topic"])
    }
    if not names:
        return {}
    leading = pc.field("is_leader") & pc.field("topic_no").isin(pa.array(sorted(names), pa.int32()))
    rows = store.read("snapshots", snapshot, "replicas", columns=_COLUMNS, only=leading)
    return {
        TopicPartition(names[row["topic_no"]], row["partition"]): (
            row["observed_at"],
            row["log_end_offset"],
        )
        for row in rows.to_pylist()
        if row["log_end_offset"] is not None and row["observed_at"] is not None
    }
