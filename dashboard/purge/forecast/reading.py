"""What a forecast reads: live, leaders and replicas of the partitions, moves, waits, versions; from
the store, how long ago a log ended where a follower is now.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from dashboard.core.clock import utc_now
from dashboard.core.errors import StoreError
from dashboard.domain.model import (
    Broker,
    ConfigEntry,
    LogDirsAnswer,
    PartitionState,
    ReplicaOffsets,
    TopicPartition,
    TopicState,
)
from dashboard.store.snapshots import ClusterStore

# A rate needs two reads; a second apart it tells a follower that stands still from one that moves.
APART_SECONDS = 1.0
_FETCH_WAIT = "replica.fetch.wait.max.ms"

Replica = tuple[int, TopicPartition]


class Cluster(Protocol):
    """The part of `dashboard.cluster.live.LiveCluster` that a forecast asks; no group is read."""

    def topics(self, names: Iterable[str] | None) -> dict[str, TopicState]: ...
    def alive_brokers(self) -> tuple[int, ...]: ...
    def brokers(self, assigned: Iterable[int] = ()) -> tuple[Broker, ...]: ...
    def log_dirs(self, partitions: Iterable[TopicPartition] | None = None) -> LogDirsAnswer: ...
    def configs(
        self, topics: Iterable[str], brokers: Iterable[int] = ()
    ) -> tuple[ConfigEntry, ...]: ...
    def replica_offsets(
        self,
        partitions: Iterable[TopicPartition],
        brokers: Iterable[int] | None = None,
        topics: Mapping[str, TopicState] | None = None,
    ) -> tuple[ReplicaOffsets, ...]: ...


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at the cluster. Offsets are each replica's own, value or error. A partition that
    metadata did not describe has no leader, and the topic's error.

    `second` holds a later look at the partitions that had a follower behind. `moving` are
    partitions whose leader has a future replica; of brokers in `log_dirs_unread` that is not
    known; `move_lags` has looks at what the future replica lacks: (monotonic seconds, records).
    `fetch_wait_ms` and `versions` (DeleteRecords, highest) lack brokers that did not say.
    """

    partitions: Mapping[TopicPartition, PartitionState]
    topic_ids: Mapping[str, str | None]
    alive: frozenset[int]
    first: Mapping[Replica, ReplicaOffsets]
    second: Mapping[Replica, ReplicaOffsets]
    moving: frozenset[TopicPartition]
    log_dirs_unread: frozenset[int]
    fetch_wait_ms: Mapping[int, int]
    versions: Mapping[int, int]
    read_at: datetime
    seconds: float
    move_lags: Mapping[TopicPartition, tuple[tuple[float, int], ...]] = field(default_factory=dict)


def read(
    live: Cluster,
    keys: Collection[TopicPartition],
    *,
    now: Callable[[], datetime] = utc_now,
    sleep: Callable[[float], None] = time.sleep,
) -> Reading:
    """Read everything side by side, so that a hanging broker costs its deadline once.

    Raises ClusterError only when no broker answers at all.
    """
    began = time.monotonic()
    topics = live.topics(sorted({key.topic for key in keys}))
    described = {
        TopicPartition(topic.topic, partition.partition): partition
        for topic in topics.values()
        for partition in topic.partitions
    }
    states = {key: described.get(key) or _untold(key, topics.get(key.topic)) for key in keys}
    alive = frozenset(live.alive_brokers())
    with ThreadPoolExecutor(4) as pool:
        placed = sorted(key for key, state in states.items() if state.replicas)
        offsets = pool.submit(live.replica_offsets, placed, None, topics)
        log_dirs = pool.submit(live.log_dirs, sorted(states))
        brokers = pool.submit(live.brokers)
        configs = pool.submit(live.configs, (), sorted(alive))
        first = _by_replica(offsets.result())
        looked_at = time.monotonic()
        dirs = log_dirs.result()
        versions = {
            b.broker_id: b.api_versions["DeleteRecords"]
            for b in brokers.result()
            if "DeleteRecords" in b.api_versions
        }
        waits = fetch_waits(configs.result())
    moving = _moving(dirs, states)
    again = sorted(key for key, state in states.items() if _behind(state, key, first))
    second: dict[Replica, ReplicaOffsets] = {}
    lags = [_lags(dirs, moving, looked_at)]
    if again or moving:
        sleep(max(0.0, APART_SECONDS - (time.monotonic() - looked_at)))
    if again:
        second = _by_replica(live.replica_offsets(again, None, topics))
    if moving:
        lags.append(_lags(live.log_dirs(sorted(moving)), moving, time.monotonic()))
    return Reading(
        partitions=states,
        topic_ids={name: topic.topic_id for name, topic in topics.items()},
        alive=alive,
        first=first,
        second=second,
        moving=frozenset(moving),
        log_dirs_unread=frozenset(dirs.errors),
        fetch_wait_ms=waits,
        versions=versions,
        read_at=now(),
        seconds=time.monotonic() - began,
        move_lags={key: tuple(look[key] for look in lags if key in look) for key in moving},
    )


def _untold(key: TopicPartition, topic: TopicState | None) -> PartitionState:
    """One of a topic that is gone, or hidden by its rights: nobody is known to lead it."""
    why = (topic.error if topic else None) or "UNKNOWN_TOPIC_OR_PARTITION"
    return PartitionState(key.topic, key.partition, None, None, (), (), why)


def _by_replica(rows: Iterable[ReplicaOffsets]) -> dict[Replica, ReplicaOffsets]:
    return {(row.broker_id, TopicPartition(row.topic, row.partition)): row for row in rows}


def _behind(
    state: PartitionState, key: TopicPartition, first: Mapping[Replica, ReplicaOffsets]
) -> bool:
    """Whether a follower that answered is out of sync, or not at the leader's log end."""
    leader = first.get((state.leader_id, key)) if state.leader_id is not None else None
    if leader is None or leader.log_end_offset is None:
        return False
    for broker_id in state.replicas:
        row = first.get((broker_id, key))
        end = row.log_end_offset if row else None
        if end is not None and (broker_id not in state.isr or end < leader.log_end_offset):
            return True
    return False


def _moving(
    answer: LogDirsAnswer, states: Mapping[TopicPartition, PartitionState]
) -> dict[TopicPartition, int]:
    """Partitions whose leader has a future replica -> that leader."""
    found = {}
    for replica in answer.replicas:
        key = TopicPartition(replica.topic, replica.partition)
        if replica.is_future and key in states and states[key].leader_id == replica.broker_id:
            found[key] = replica.broker_id
    return found


def _lags(
    answer: LogDirsAnswer, moving: Mapping[TopicPartition, int], at: float
) -> dict[TopicPartition, tuple[float, int]]:
    """How many records each future replica lacks: its `offset_lag` (Kafka's `LogManager`)."""
    return {
        key: (at, replica.offset_lag)
        for replica in answer.replicas
        if replica.is_future
        and moving.get(key := TopicPartition(replica.topic, replica.partition)) == replica.broker_id
    }


def fetch_waits(entries: Iterable[ConfigEntry]) -> dict[int, int]:
    """Broker id -> its followers' long poll in milliseconds, out of brokers' configs."""
    return {
        int(entry.name): int(entry.value)
        for entry in entries
        if entry.scope == "broker" and entry.key == _FETCH_WAIT and entry.value is not None
    }


# How long ago a leader's log ended where its follower is now: from the store's snapshots.

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
