"""What the model cluster answers to reads: late, partial, outdated, or nothing at all."""

# ruff: noqa: ARG002  (the seam's arguments, of which a model needs few)
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

from dashboard.core.errors import ClusterError
from dashboard.domain.model import (
    Authorized,
    BatchSamples,
    ConfigEntry,
    EpochEnd,
    GroupListing,
    LeaderLogStart,
    LogDirsAnswer,
    OffsetAtTime,
    PartitionOffsets,
    PartitionState,
    Reassignment,
    ReplicaOffsets,
    ReplicaSize,
    TopicPartition,
    TopicState,
)
from tests.simulation.records import Partition, Replica, View
from tests.simulation.truth import Truth
from tests.simulation.wire import ModelConnection, read_groups
from tests.simulation.world import BEGAN, World

BROKER_TIMEOUT = 10.0
NAMES = {
    1: "OFFSET_OUT_OF_RANGE", 3: "UNKNOWN_TOPIC_OR_PARTITION", 6: "NOT_LEADER_OR_FOLLOWER",
    7: "REQUEST_TIMED_OUT", 29: "TOPIC_AUTHORIZATION_FAILED", 35: "UNSUPPORTED_VERSION",
}  # fmt: skip


@dataclass
class Faults:
    """How often a call goes wrong while faults last; shares of calls."""

    lost_request: float = 0.0
    lost_answer: float = 0.0
    unread: float = 0.0
    incomplete: float = 0.0
    worst_moment: float = 0.0  # the leader is struck just before or after it truncates
    slow_connection: float = 0.0  # until a request can leave
    outage: float = 0.0  # all brokers stall once it has, for longer than a run waits


@dataclass(frozen=True)
class Listed:
    """The newest listing of groups: when it ended, what was true when it began, no gap in it."""

    at: float
    truth: Truth
    complete: bool


def epoch_end(replica: Replica, epoch: int) -> tuple[int | None, int | None]:
    """As LeaderEpochFileCache.endOffsetFor answers: the largest epoch at or below, and its end."""
    if replica.epochs and epoch == replica.epochs[-1][0]:
        return epoch, replica.end
    after = [first for e, first in replica.epochs if e > epoch]
    if not after:
        return None, None
    return max((e for e, _ in replica.epochs if e <= epoch), default=epoch), after[0]


def _topic(view: View, name: str) -> TopicState:
    """A topic as the broker of this view tells it."""
    if name not in view.topic_ids:
        return TopicState(name, None, False, (), NAMES[3])
    states = tuple(
        PartitionState(name, k.partition, leader, epoch, replicas, isr,
                       None if leader is not None else "LEADER_NOT_AVAILABLE")
        for k, (leader, epoch, replicas, isr) in sorted(view.partitions.items())
        if k.topic == name
    )  # fmt: skip
    return TopicState(name, view.topic_ids[name], False, states)


@dataclass
class ModelReads:
    """The reads of `dashboard.purge.plan.cluster_seam.Cluster`. `hook` is called at each call,
    where a worker may die.
    """

    world: World
    rng: Random
    faults: Faults
    wire_rng: Random
    hook: Callable[[str], None]
    cluster: str = "cluster-1"
    listed: Listed | None = None
    _view: View | None = None
    _topic_ids: dict[str, str | None] = field(default_factory=dict)
    _waited_for: set[int] = field(default_factory=set)

    # -- reads

    def principal(self) -> str | None:
        return "User:ann"

    def authorized(self, topics: Iterable[str], groups: Iterable[str]) -> Authorized:
        return Authorized(None, dict.fromkeys(topics), dict.fromkeys(groups))

    def cluster_id(self) -> str:
        self._pass("cluster_id")
        return self.cluster

    def controller_time(self) -> datetime | None:
        self._pass("controller_time")
        return self.world.now() - timedelta(seconds=self.world.host_ahead)

    def caught_up(self, brokers: Iterable[int]) -> dict[int, bool | None]:
        self._pass("caught_up")
        world = self.world
        return {
            b: world.answers(b) and world.joined(b) and world.brokers[b].learns_at is None
            for b in brokers
        }

    def alive_brokers(self) -> tuple[int, ...]:
        return (self._view or self.world.view()).alive

    def alive_anywhere(self) -> tuple[int, ...]:
        self._pass("alive_anywhere")
        now = self.world.view()
        asked = [b for b in self.alive_brokers() if self.world.answers(b)]
        views = [self.world.brokers[b].view or now for b in asked]
        return tuple(sorted({b for view in views for b in view.alive}))

    def topics(self, names: Iterable[str] | None) -> dict[str, TopicState]:
        self._pass("topics")
        asked = self._metadata()
        view = self._view or self.world.view()
        wanted = sorted(set(view.topic_ids) if names is None else set(names))
        found = {name: self._topic_at(asked, name) for name in wanted}
        self._topic_ids.update({name: state.topic_id for name, state in found.items()})
        return found

    def _topic_at(self, broker_id: int, name: str) -> TopicState:
        if self.world.hiding == broker_id:
            return TopicState(name, None, False, (), NAMES[29])
        return _topic(self.world.brokers[broker_id].view or self.world.view(), name)

    def topics_at(
        self, topics: Mapping[int, Iterable[str]]
    ) -> dict[int, dict[str, TopicState] | str]:
        """Every broker's address is a bootstrap one."""
        self._pass("topics_at")
        found: dict[int, dict[str, TopicState] | str] = {}
        for b, names in topics.items():
            if not self.world.answers(b) or self.rng.random() < self.faults.unread:
                found[b] = "ANSWER_LOST"
                continue
            found[b] = {name: self._topic_at(b, name) for name in names}
        return found

    def configs(
        self, topics: Iterable[str], brokers: Iterable[int] = ()
    ) -> tuple[ConfigEntry, ...]:
        self._pass("configs")
        values = {
            "cleanup.policy": "delete",
            "unclean.leader.election.enable": str(self.world.unclean).lower(),
            "file.delete.delay.ms": "1000",
        }
        found = [
            ConfigEntry("topic", t, key, value, "DYNAMIC_TOPIC_CONFIG")
            for t in topics
            for key, value in values.items()
        ]
        of_broker = {
            "replica.fetch.wait.max.ms": "500",
            "log.retention.check.interval.ms": "20000",
            "log.flush.start.offset.checkpoint.interval.ms": "60000",
        }
        found += [
            ConfigEntry("broker", str(b), key, value, "STATIC_BROKER_CONFIG")
            for b in brokers
            if self.world.answers(b)
            for key, value in of_broker.items()
        ]
        return tuple(found)

    def offsets(
        self,
        partitions: Iterable[TopicPartition],
        topics: Mapping[str, TopicState] | None = None,
    ) -> dict[TopicPartition, PartitionOffsets]:
        self._pass("offsets")
        found = {}
        for key in partitions:
            part, error = self._asked_leader(key)
            if part is None:
                found[key] = PartitionOffsets(*key, None, None, None, error)
                continue
            replica, high = part.replicas[int(error)], part.high_watermark
            high = max(replica.start, min(high, replica.end))
            epoch = self.world.brokers[int(error)].leads[key]
            found[key] = PartitionOffsets(*key, replica.start, high, high, leader_epoch=epoch)
        return found

    def offsets_at(
        self, partitions: Iterable[TopicPartition], at: datetime
    ) -> dict[TopicPartition, OffsetAtTime]:
        self._pass("offsets_at")
        # Records bear the brokers' time, or that of what they tell of; the host has its own.
        offset = self.world.host_ahead + self.world.event_age
        since = (at - BEGAN).total_seconds() + offset
        found = {}
        for key in partitions:
            part, error = self._asked_leader(key)
            if part is None:
                found[key] = OffsetAtTime(*key, None, error)
                continue
            first = part.since(since)
            none = first >= part.high_watermark
            found[key] = OffsetAtTime(
                *key, None if none else max(first, part.replicas[int(error)].start)
            )
        return found

    def replica_offsets(
        self, partitions: Iterable[TopicPartition], brokers: Iterable[int] | None = None
    ) -> tuple[ReplicaOffsets, ...]:
        self._pass("replica_offsets")
        keys, now = list(partitions), self.world.now()
        silent = any(
            self._hangs(b) for k in keys if k in self.world.parts
            for b in self.world.parts[k].replicas
        )  # fmt: skip
        if silent:
            self.world.advance(BROKER_TIMEOUT)
        rows = []
        for key in keys:
            for b, replica in self.world.replicas(key):
                if self.world.answers(b):
                    rows.append(ReplicaOffsets(b, *key, replica.start, replica.end, now))
                else:
                    rows.append(ReplicaOffsets(b, *key, None, None, now, "ANSWER_LOST"))
        return tuple(rows)

    def leader_log_starts(
        self, epochs: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, LeaderLogStart]:
        self._pass("leader_log_starts")
        self.world.read_at.append(self.world.at)
        found = {}
        for key, epoch in epochs.items():
            part, told = self._asked_leader(key)
            if part is None:
                found[key] = LeaderLogStart(*key, None, None, told)
            elif self.world.brokers[int(told)].leads[key] != epoch:
                newer = self.world.brokers[int(told)].leads[key] > epoch
                error = "FENCED_LEADER_EPOCH" if newer else "UNKNOWN_LEADER_EPOCH"
                found[key] = LeaderLogStart(*key, None, None, error)
            else:
                found[key] = LeaderLogStart(*key, part.replicas[int(told)].start, epoch)
        return found

    def batches(
        self, offsets: Mapping[TopicPartition, Sequence[int]]
    ) -> dict[TopicPartition, BatchSamples]:
        return {k: BatchSamples(*k, ()) for k in offsets}

    def log_dirs(self, partitions: Iterable[TopicPartition] | None = None) -> LogDirsAnswer:
        self._pass("log_dirs")
        wanted = set(self.world.parts) if partitions is None else set(partitions)
        rows, errors = [], {}
        for b in self.world.brokers:
            if not self.world.answers(b):
                errors[b] = "ANSWER_LOST"
        for key, part in self.world.parts.items():
            if key not in wanted:
                continue
            for b, r in part.replicas.items():
                if self.world.answers(b):
                    rows.append(ReplicaSize(b, "/d1", *key, 100 * (r.end - r.floor), 0, False))
            if part.future is not None and self.world.answers(part.future[0]):
                rows.append(ReplicaSize(part.future[0], "/d2", *key, 0, 10, True))
        return LogDirsAnswer((), tuple(rows), errors)

    def reassignments(self) -> tuple[Reassignment, ...]:
        """Brokers pass it on to the controllers, and one that is cut off cannot."""
        if not any(self.world.joined(b) for b in self.world.brokers):
            self.world.advance(BROKER_TIMEOUT)
            raise ClusterError("no controller told", "wait", code="REASSIGNMENTS_UNKNOWN")
        return ()

    def groups(self, topics: Iterable[str], *, with_offsets: bool = True) -> GroupListing:
        self._pass("groups")
        truth = self.world.truth()
        connection = ModelConnection(self.world, self.wire_rng, self._wait_for)
        if self.rng.random() < self.faults.incomplete:
            leaders = {b for b in self.world.coordinators.values() if b is not None}
            connection.unheard = self.wire_rng.choice(sorted(leaders)) if leaders else None
        listing = read_groups(connection, topics, with_offsets=with_offsets)
        self.listed = Listed(self.world.at, truth, not listing.incomplete)
        return listing

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
        self._pass("epoch_ends")
        found = {}
        for key, epoch in epochs.items():
            part, told = self._asked_leader(key)
            if part is None:
                found[key] = EpochEnd(*key, None, None, told)
            else:
                found[key] = EpochEnd(*key, *epoch_end(part.replicas[int(told)], epoch))
        return found

    def commit_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int],
        *,
        may_leave: Callable[[], bool] = lambda: True,
    ) -> dict[TopicPartition, str | None]:
        self._pass("commit_offsets")
        if not may_leave():
            raise ClusterError("called off", "look again", code="NOT_SENT")
        for key, offset in offsets.items():
            self.world.commit(group_id, key, offset)
        return dict.fromkeys(offsets)

    # -- how calls go wrong

    def _pass(self, name: str) -> None:
        self.hook(name)
        self._waited_for.clear()
        self.world.advance(self.rng.uniform(0.002, 0.03))
        if not any(self.world.answers(b) for b in self.world.brokers):
            self.world.advance(BROKER_TIMEOUT)
            raise ClusterError("nobody answers", "wait")

    def _metadata(self) -> int:
        """Any broker that answers, and its view: one that is cut off tells what it knew."""
        asked = self.rng.choice([b for b in self.world.brokers if self.world.answers(b)])
        first = self.world.asked_first
        asked = first if first is not None and self.world.answers(first) else asked
        self._view = self.world.brokers[asked].view or self.world.view()
        return asked

    def _wait_for(self, broker_id: int) -> None:
        if self._hangs(broker_id) and broker_id not in self._waited_for:
            self._waited_for.add(broker_id)  # brokers are asked side by side, once a call
            self.world.advance(BROKER_TIMEOUT)

    def _hangs(self, broker_id: int) -> bool:
        return self.world.brokers[broker_id].up and not self.world.answers(broker_id)

    def _asked_leader(self, key: TopicPartition) -> tuple[Partition | None, str]:
        """The partition and the leader's id as text, or None and the error of asking it."""
        view = self._view or self.world.view()
        leader = view.partitions.get(key, (None, 0, (), ()))[0]
        if leader is None:
            return None, "LEADER_NOT_AVAILABLE"
        part = self.world.part_at(leader, key)
        if part is None or self.world.hiding == leader:
            return None, NAMES[3 if part is None else 29]
        if not self.world.answers(leader):
            self._wait_for(leader)
            return None, "ANSWER_LOST"
        if self.rng.random() < self.faults.unread:
            return None, "ANSWER_LOST"
        if key not in self.world.brokers[leader].leads:
            return None, NAMES[6]
        return part, str(leader)
