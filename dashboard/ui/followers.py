"""Which followers are furthest behind, straight from a snapshot's replicas."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True, slots=True)
class Follower:
    """A follower replica and how many records its log end is behind the leader's."""

    broker_id: int
    topic: str
    partition: int
    lag_records: int
    in_sync: bool | None


def furthest_behind(replicas: pa.Table, topics: pa.Table, limit: int) -> list[Follower]:
    """Followers that trail their leader's log end, most records first.

    Both ends were read moments apart, so a follower that keeps up may show a small lag.
    """
    ends = replicas.select(["topic_no", "partition", "log_end_offset", "is_leader"])
    leaders = ends.filter(pc.fill_null(ends["is_leader"], False)).drop_columns(["is_leader"])
    followers = replicas.filter(pc.invert(pc.fill_null(replicas["is_leader"], True)))
    followers = followers.filter(pc.invert(pc.fill_null(followers["is_future"], False)))
    joined = followers.select(
        ["topic_no", "partition", "broker_id", "log_end_offset", "in_sync"]
    ).join(leaders, ["topic_no", "partition"], join_type="inner", right_suffix="_leader")
    lag = pc.subtract(joined["log_end_offset_leader"], joined["log_end_offset"])
    joined = joined.append_column("lag", lag)
    behind = joined.filter(pc.fill_null(pc.greater(lag, 0), False))
    order = [("lag", "descending"), ("broker_id", "ascending"), ("partition", "ascending")]
    names = dict(zip(topics["topic_no"].to_pylist(), topics["topic"].to_pylist(), strict=True))
    return [
        Follower(
            row["broker_id"],
            names.get(row["topic_no"], f"topic {row['topic_no']}"),
            row["partition"],
            row["lag"],
            row["in_sync"],
        )
        for row in behind.sort_by(order).slice(0, limit).to_pylist()
    ]
