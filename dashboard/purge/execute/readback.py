"""Where a purge has arrived: the leader read by its epoch, and every replica's own log start."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple

from dashboard.domain.model import (
    PartitionState,
    ReplicaOffsets,
    TopicPartition,
    TopicState,
)
from dashboard.purge.execute.topic_identity import (
    UNCERTAIN,
    doubts_of,
    epochs_told,
    gone,
    read_views,
)
from dashboard.purge.journal.rows import Follower
from dashboard.purge.plan.cluster_seam import Cluster

GONE = "UNKNOWN_TOPIC_ID"  # Kafka's word for a topic that is no more the one that was named


@dataclass(frozen=True, slots=True)
class Seen:
    """One partition as just read. `leader_log_start_offset` None: its leader was not read.

    It is given only when the leader answered for the epoch of the metadata, and that epoch was
    still the newest afterwards in the eyes of another replica's broker too. `leader_moves` says
    that the leader has a future replica, whose log start nobody can read; `move_untold` why it
    cannot be told whether there is one.
    """

    leader_id: int | None
    leader_epoch: int | None
    leader_log_start_offset: int | None
    followers: tuple[Follower, ...]
    leader_moves: bool = False
    move_untold: str | None = None
    error: str | None = None


class _Told(NamedTuple):
    """What brokers say of partitions: leader epochs by broker, and who is in doubt.

    `in_touch` is as `_in_touch` has it.
    """

    epochs: Mapping[TopicPartition, Mapping[int, int]]
    doubted: Mapping[TopicPartition, Mapping[int, str]]
    in_touch: Mapping[TopicPartition, bool]


def read_back(
    live: Cluster,
    targets: Mapping[TopicPartition, int],
    topic_ids: Mapping[str, str | None],
    done: Collection[TopicPartition] = (),
) -> dict[TopicPartition, Seen]:
    """Read leaders and replicas of each partition of `targets` (its target offset), sorted.

    Leaders are read by EARLIEST with replica id -1 and the current leader epoch, which an
    ex-leader refuses; followers with replica id -2. `topic_ids` are the plan's: a topic that was
    deleted and created again is another one, of which nothing is told. The broker of each replica
    is asked for its own view. The leader and followers past the target must know the id. A leader
    that is cut off answers for its epoch to the end: no live broker may know a newer one, and the
    leader's own broker must have read all that the controllers decided. Brokers that hung or were
    cut off together would confirm each other, and one that is silent, or gone and elected as it
    comes back (eligible leader replicas, KIP-966), may lead by now. Where nobody speaks of that
    (ZooKeeper), one other replica's broker, if any is alive, has to say that the epoch is the
    newest. Nobody is asked where the leader starts past the target of what is known to be `done`:
    nothing new is claimed there.
    Raises ClusterError when nothing answers.
    """
    keys = sorted(targets)
    names = sorted({key.topic for key in keys})
    before = _partitions(live.topics(names), topic_ids)
    epochs = {k: p.leader_epoch for k in keys if (p := before.get(k)) and _has_leader(p)}
    with ThreadPoolExecutor(4, thread_name_prefix="read-back") as pool:
        known = {k: e for k, e in epochs.items() if e is not None}
        starts = pool.submit(live.leader_log_starts, known)
        offsets = pool.submit(live.replica_offsets, [k for k in keys if k in before], None)
        dirs = pool.submit(live.log_dirs, keys)
        named = pool.submit(live.alive_anywhere)
    leaders, replicas = starts.result(), _by_partition(offsets.result())
    sizes = dirs.result()
    untold = sizes.untold()
    moving = {
        (r.broker_id, TopicPartition(r.topic, r.partition)) for r in sizes.replicas if r.is_future
    }
    claimed = {
        k: before[k]
        for k, answer in leaders.items()
        if (start := answer.log_start_offset) is not None and (k not in done or start < targets[k])
    }
    proofs = {k: _proofs(p, replicas.get(k, ()), targets[k]) for k, p in claimed.items()}
    # Those that hold the replicas may be cut off together: whoever lives may know a newer leader.
    everybody = {*live.alive_brokers(), *named.result()}
    told = _read_told(live, claimed, everybody, proofs, topic_ids)
    states = live.topics(names)
    after = _partitions(states, topic_ids)
    # The metadata just read may be of a broker that is cut off, and knows nobody who came since.
    alive = {*live.alive_brokers(), *named.result()}
    absent = {key.topic for key in keys} - {key.topic for key in after}
    left = gone(live, {name: states[name] for name in absent & states.keys()}, topic_ids)
    found: dict[TopicPartition, Seen] = {}
    for key in keys:
        was, now = before.get(key), after.get(key)
        if was is None or now is None:
            absence = _absence(key.topic, states, left, topic_ids)
            said = absence if now is None else "LEADER_CHANGED"
            found[key] = Seen(None, None, None, (), error=said)
            continue
        answer = leaders.get(key)
        start, error = (answer.log_start_offset, answer.error) if answer else (None, was.error)
        if why := _unproved(key, was, now, told, alive):
            start, error = None, why
        found[key] = Seen(
            leader_id=now.leader_id,
            leader_epoch=now.leader_epoch,
            leader_log_start_offset=start,
            followers=_followers(
                now, replicas.get(key, ()), alive, targets[key], told.doubted.get(key, ())
            ),
            leader_moves=(now.leader_id, key) in moving,
            move_untold=None if now.leader_id is None else untold(now.leader_id, key),
            error=None if start is not None else error or "LEADER_NOT_AVAILABLE",
        )
    return found


def _partitions(
    states: Mapping[str, TopicState], topic_ids: Mapping[str, str | None]
) -> dict[TopicPartition, PartitionState]:
    return {
        TopicPartition(state.topic, p.partition): p
        for state in states.values()
        if state.topic_id == topic_ids.get(state.topic)
        for p in state.partitions
    }


def _absence(
    topic: str,
    states: Mapping[str, TopicState],
    left: Collection[str],
    topic_ids: Mapping[str, str | None],
) -> str:
    """Why no metadata has a partition of the planned topic; `left` are the topics that are gone."""
    if topic in left:
        return GONE
    state = states.get(topic)
    if state is None:
        return "UNKNOWN_SERVER_ERROR"
    known = state.topic_id == topic_ids.get(topic)
    return state.error or ("UNKNOWN_TOPIC_OR_PARTITION" if known else UNCERTAIN)


def _has_leader(state: PartitionState) -> bool:
    return state.leader_id is not None and state.leader_epoch is not None


def _read_told(
    live: Cluster,
    claimed: Mapping[TopicPartition, PartitionState],
    everybody: set[int],
    proofs: Mapping[TopicPartition, Collection[int]],
    topic_ids: Mapping[str, str | None],
) -> _Told:
    asked = {k: everybody.union(p.replicas) for k, p in claimed.items()}
    views = read_views(live, asked)
    return _Told(
        epochs_told(views, asked, topic_ids),
        doubts_of(views, proofs, topic_ids),
        _in_touch(live, claimed, topic_ids),
    )


def _in_touch(
    live: Cluster,
    claimed: Mapping[TopicPartition, PartitionState],
    topic_ids: Mapping[str, str | None],
) -> dict[TopicPartition, bool]:
    """Whether the leader knew all that the controllers had decided, and knew no newer epoch then.
    Left out where its broker does not speak of that.
    """
    leaders = {k: p.leader_id for k, p in claimed.items() if p.leader_id is not None}
    caught_up = live.caught_up(set(leaders.values()))
    own = {k: [leader] for k, leader in leaders.items() if caught_up.get(leader)}
    epochs = epochs_told(read_views(live, own), own, topic_ids)
    return {
        k: k in own and epochs[k].get(leader) == claimed[k].leader_epoch
        for k, leader in leaders.items()
        if caught_up.get(leader) is not None
    }


def _unproved(
    key: TopicPartition, was: PartitionState, now: PartitionState, told: _Told, alive: set[int]
) -> str | None:
    """Why the leader's answer does not say who leads now; None: it does, or is not gone by."""
    epoch, epochs = was.leader_epoch, told.epochs.get(key)
    if now.leader_epoch != epoch:
        return "LEADER_CHANGED"
    if epochs is None or epoch is None:
        return None
    if any(other > epoch for other in epochs.values()):
        return "LEADER_CHANGED"
    if was.leader_id in told.doubted.get(key, ()):
        return UNCERTAIN
    if key in told.in_touch:
        return None if told.in_touch[key] else "LEADER_UNCONFIRMED"
    others = (set(was.replicas) & alive) - {was.leader_id}
    confirmed = not others or any(epochs.get(other) == epoch for other in others)
    return None if confirmed else "LEADER_UNCONFIRMED"


def _by_partition(
    rows: Iterable[ReplicaOffsets],
) -> dict[TopicPartition, list[ReplicaOffsets]]:
    found: dict[TopicPartition, list[ReplicaOffsets]] = {}
    for row in rows:
        found.setdefault(TopicPartition(row.topic, row.partition), []).append(row)
    return found


def _proofs(state: PartitionState, rows: Iterable[ReplicaOffsets], target: int) -> set[int]:
    """The brokers whose own log start is to prove something: the leader, followers past it."""
    past = {r.broker_id for r in rows if (r.log_start_offset or 0) >= target}
    leader = set() if state.leader_id is None else {state.leader_id}
    return (past & set(state.replicas)) | leader


def _followers(
    state: PartitionState,
    rows: Iterable[ReplicaOffsets],
    alive: set[int],
    target: int,
    doubted: Collection[int],
) -> tuple[Follower, ...]:
    by_broker = {row.broker_id: row for row in rows}
    leader = by_broker.get(state.leader_id) if state.leader_id is not None else None
    for broker_id in doubted:
        if broker_id in by_broker:
            by_broker[broker_id] = replace(
                by_broker[broker_id], log_start_offset=None, log_end_offset=None, error=UNCERTAIN
            )
    found = []
    for broker_id in sorted(set(state.replicas) - {state.leader_id}):
        row = by_broker.get(broker_id)
        start = row.log_start_offset if row else None
        arrived = start is not None and start >= target
        found.append(
            Follower(
                broker_id=broker_id,
                log_start_offset=start,
                alive=broker_id in alive,
                arrived=arrived,
                error=row.error if row else "not read",
                lag_records=None if arrived else _lag(leader, row),
            )
        )
    return tuple(found)


def _lag(leader: ReplicaOffsets | None, follower: ReplicaOffsets | None) -> int | None:
    ends = [row.log_end_offset for row in (leader, follower) if row is not None]
    if len(ends) < 2 or ends[0] is None or ends[1] is None:
        return None
    return max(0, ends[0] - ends[1])
