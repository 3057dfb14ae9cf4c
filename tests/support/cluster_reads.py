"""What the cluster in memory holds, and how it answers to those who read it."""

# ruff: noqa: ARG002  (the signatures are LiveCluster's own, of which a fake needs few)
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np

from dashboard.cluster.configs import ConfigsAnswer
from dashboard.domain.columns import (
    BrokerSizes,
    LeaderOffsets,
    OwnOffsets,
    Placement,
    Sizes,
    ints,
)
from dashboard.domain.model import (
    Authorized,
    Batch,
    BatchSamples,
    Broker,
    ConfigEntry,
    EpochEnd,
    Group,
    GroupListing,
    GroupOffset,
    LeaderLogStart,
    LogDir,
    LogDirsAnswer,
    OffsetAtTime,
    Operations,
    PartitionOffsets,
    PartitionState,
    Reassignment,
    ReplicaOffsets,
    ReplicaSize,
    TopicPartition,
    TopicState,
)
from dashboard.domain.rights import OFFSETS_TOPIC
from tests.unit.purge.facts_of import NOW, TOPIC


@dataclass
class FakePartition:
    """One partition: the log start of each replica, who leads, and the end of each epoch."""

    starts: dict[int, int]
    leader_id: int | None = 1
    epoch: int = 3
    high_watermark: int = 100
    last_stable_offset: int = 100
    epoch_ends: dict[int, int] = field(default_factory=dict)
    isr: tuple[int, ...] = (1, 2, 3)
    log_dir: str = "/d"
    size_bytes: int | None = None  # of each replica; None: 1,000 for each offset up to 100


class Reads:
    """One state, of which every question is answered; a test changes what it is about.

    `parts` are partitions of any topics. In `offsets_of` a partition of the topic `orders` may be
    its number alone. `failing[part]` is raised by whoever asks for that part (collect's names of
    them), and `failing["all"]` by all.
    """

    def __init__(self, partitions: int = 1) -> None:
        self.failing: dict[str, BaseException] = {}
        self.id = "cluster-1"
        self.closed = 0
        # Brokers.
        self.alive = {1, 2, 3}
        self.alive_to_others: set[int] = set()  # what the broker that tells metadata does not know
        self.listed_brokers: tuple[Broker, ...] | None = None  # None: those alive
        self.controllers: set[int] | None = {1, 2, 3}  # who reaches them; None: nobody speaks of it
        self.controller_at: datetime | Exception | None = None
        self.broker_says: dict[int, str] = {}  # another id, or an error, of one broker alone
        # Topics and partitions.
        self.parts = {
            TopicPartition(TOPIC, n): FakePartition({1: 0, 2: 0, 3: 0}) for n in range(partitions)
        }
        self.states: dict[str, TopicState] = {}  # told instead of what `parts` say, or beside it
        self.topic_errors: dict[str, str] = {}
        self.topic_id = "id-1"  # of the topic `orders`
        self.nameless = False  # brokers before 2.8 tell no topic ids
        self.hidden_ids: set[str] = set()  # of topics that we may not describe
        self.leaders_say: str | None = None  # another id, or the error of asking them
        self.newer_views: dict[int, tuple[int | None, int]] = {}  # broker -> leader, its epoch
        self.moving: tuple[Reassignment, ...] = ()
        self.first_at: dict[TopicPartition, OffsetAtTime] = {}  # what a time finds
        # Replicas and log dirs.
        self.ends_behind: dict[int, int] = {}  # broker -> records its logs end below the leader's
        self.replica_errors: dict[int, str] = {}
        self.dirs: list[LogDir] = []
        self.dir_errors: dict[int, str] = {}
        self.hosted: list[ReplicaSize] | None = None  # None: what `parts` say
        # Groups.
        self.offsets_of: dict[str, dict[Any, int | None]] = {
            "a": dict.fromkeys(range(partitions), 60)
        }
        self.commit_epochs: dict[str, int | None] = {}  # of a group's commits
        self.members: dict[str, int | None] = {}
        # Beside those of `offsets_of`, or in their place.
        self.others: tuple[tuple[Group, ...], tuple[GroupOffset, ...]] = ((), ())
        self.incomplete: tuple[str, ...] = ()
        self.hidden: set[str] = set()  # groups whose coordinator hides the topic
        # Settings and rights.
        self.topic_configs: dict[str, str] = {"cleanup.policy": "delete"}
        self.broker_configs: dict[str, str] = {"replica.fetch.wait.max.ms": "500"}
        self.configs_of: dict[str, dict[str, str | None]] = {}  # of one topic or broker besides
        self.config_errors: dict[str, str] = {}
        self.cluster_rights: Operations | None = None
        self.rights: Operations | None = None  # on any topic that is not in `topic_rights`
        self.topic_rights: dict[str, Operations | None] = {}
        self.group_rights: Operations | None = None

    def _asked(self, part: str) -> None:
        """Somebody asks for this part. Raises what is `failing`."""
        if error := self.failing.get(part) or self.failing.get("all"):
            raise error

    # -- the cluster and its brokers

    def cluster_id(self) -> str:
        self._asked("cluster_id")
        return self.id

    def principal(self) -> str | None:
        return "User:ann"

    def authorized(self, topics: Iterable[str], groups: Iterable[str]) -> Authorized:
        on_topics = {t: self.topic_rights.get(t, self.rights) for t in topics}
        return Authorized(self.cluster_rights, on_topics, dict.fromkeys(groups, self.group_rights))

    def brokers(self, assigned: Iterable[int] = ()) -> tuple[Broker, ...]:
        self._asked("brokers")
        if self.listed_brokers is not None:
            return self.listed_brokers
        return tuple(
            Broker(b, "h", 1, api_versions={"DeleteRecords": 2}) for b in sorted(self.alive)
        )

    def alive_brokers(self) -> tuple[int, ...]:
        return tuple(sorted(self.alive))

    def alive_anywhere(self) -> tuple[int, ...]:
        return tuple(sorted(self.alive | self.alive_to_others))

    def controller_time(self) -> datetime | None:
        if isinstance(self.controller_at, Exception):
            raise self.controller_at
        return self.controller_at

    def caught_up(self, brokers: Iterable[int]) -> dict[int, bool | None]:
        told = {b: None if self.controllers is None else b in self.controllers for b in brokers}
        return {b: False if self.broker_says.get(b, "").isupper() else t for b, t in told.items()}

    # -- topics

    def topics(self, names: Iterable[str] | None) -> dict[str, TopicState]:
        self._asked("topics")
        known: dict[str, list[TopicPartition]] = {name: [] for name in self.states}
        for key in sorted(self.parts):
            known.setdefault(key.topic, []).append(key)
        return {n: self._topic(n, known.get(n)) for n in (known if names is None else names)}

    def _topic(self, name: str, keys: list[TopicPartition] | None) -> TopicState:
        if error := self.topic_errors.get(name):
            return TopicState(name, None, False, (), error)
        if name in self.states:
            return self.states[name]
        if keys is None and name != OFFSETS_TOPIC:
            return TopicState(name, None, False, (), "UNKNOWN_TOPIC_OR_PARTITION")
        found = ((k, self.parts[k]) for k in keys or ())
        partitions = tuple(
            PartitionState(*k, p.leader_id, p.epoch, tuple(p.starts), p.isr) for k, p in found
        )
        return TopicState(name, self.id_of(name), name == OFFSETS_TOPIC, partitions)

    def id_of(self, topic: str) -> str | None:
        """What brokers tell as the topic's id."""
        told = self.topic_id if topic == TOPIC else f"id-{topic}"
        return None if self.nameless else told

    def topics_at(
        self, topics: Mapping[int, Iterable[str]]
    ) -> dict[int, dict[str, TopicState] | str]:
        found: dict[int, dict[str, TopicState] | str] = {}
        for broker, names in topics.items():
            said = self.leaders_say or self.broker_says.get(broker, "")
            states = {n: self._seen_by(broker, s) for n, s in self.topics(names).items()}
            if said:
                states = {n: replace(s, topic_id=said) for n, s in states.items()}
            found[broker] = said if said.isupper() else states
        return found

    def _seen_by(self, broker: int, state: TopicState) -> TopicState:
        leader, newer = self.newer_views.get(broker, (None, 0))
        partitions = tuple(
            replace(p, leader_id=leader, leader_epoch=newer) if newer else p
            for p in state.partitions
        )
        return replace(state, partitions=partitions)

    def topic_of_id(self, topic_id: str) -> TopicState:
        found = next((s for s in self.topics(None).values() if s.topic_id == topic_id), None)
        hidden = topic_id in self.hidden_ids
        error = "TOPIC_AUTHORIZATION_FAILED" if hidden else "UNKNOWN_TOPIC_ID"
        return found or TopicState("", topic_id, False, (), error)

    def reassignments(self) -> tuple[Reassignment, ...]:
        self._asked("reassignments")
        return self.moving

    # -- settings

    def configs_answer(self, topics: Iterable[str], brokers: Iterable[int] = ()) -> ConfigsAnswer:
        self._asked("configs")
        wanted = [("topic", t, self.topic_configs) for t in topics]
        wanted += [("broker", str(b), self.broker_configs) for b in brokers if b in self.alive]
        entries = tuple(
            ConfigEntry(scope, name, key, value, "DEFAULT_CONFIG")
            for scope, name, usual in wanted
            if f"{scope} {name}" not in self.config_errors
            for key, value in {**usual, **self.configs_of.get(name, {})}.items()
        )
        return ConfigsAnswer(entries, self.config_errors)

    def configs(
        self, topics: Iterable[str], brokers: Iterable[int] = ()
    ) -> tuple[ConfigEntry, ...]:
        return self.configs_answer(topics, brokers).entries

    # -- offsets, in rows and in columns

    def offsets(
        self,
        partitions: Iterable[TopicPartition],
        topics: Mapping[str, TopicState] | None = None,
    ) -> dict[TopicPartition, PartitionOffsets]:
        self._asked("offsets")
        return {k: self._offsets(k) for k in partitions}

    def _offsets(self, key: TopicPartition) -> PartitionOffsets:
        p = self.parts[key]
        if p.leader_id is None:
            return PartitionOffsets(*key, None, None, None, "LEADER_NOT_AVAILABLE")
        start = p.starts[p.leader_id]
        return PartitionOffsets(
            *key, start, p.last_stable_offset, p.high_watermark, leader_epoch=p.epoch
        )

    def leader_offsets(self, placement: Placement) -> LeaderOffsets:
        rows = list(self.offsets(_keys(placement)).values())
        return LeaderOffsets(
            _column(r.log_start_offset for r in rows),
            _column(r.last_stable_offset for r in rows),
            _column(r.high_watermark for r in rows),
            np.array([r.error for r in rows], object),
        )

    def offsets_at(
        self, partitions: Iterable[TopicPartition], at: datetime
    ) -> dict[TopicPartition, OffsetAtTime]:
        return {k: self.first_at.get(k) or OffsetAtTime(*k, None) for k in partitions}

    def replica_offsets(
        self,
        partitions: Iterable[TopicPartition],
        brokers: Iterable[int] | None = None,
        topics: Mapping[str, TopicState] | None = None,
    ) -> tuple[ReplicaOffsets, ...]:
        self._asked("replicas")
        return tuple(self._replica(b, k) for k in partitions for b in sorted(self.parts[k].starts))

    def _replica(self, broker: int, key: TopicPartition) -> ReplicaOffsets:
        p = self.parts[key]
        if error := self.replica_errors.get(broker):
            return ReplicaOffsets(broker, *key, None, None, NOW, error)
        start = p.starts[broker] if broker in self.alive else None
        end = p.high_watermark - self.ends_behind.get(broker, 0)
        return ReplicaOffsets(broker, *key, start, end, NOW)

    def own_offsets(self, placement: Placement) -> OwnOffsets:
        self._asked("replicas")
        keys = _keys(placement)
        rows = [
            self._replica(b, keys[of])
            for b, of in zip(
                placement.replica_broker.tolist(), placement.replica_of.tolist(), strict=True
            )
        ]
        return OwnOffsets(
            _column(r.log_start_offset for r in rows),
            _column(r.log_end_offset for r in rows),
            np.full(len(rows), int(NOW.timestamp()) * 1_000_000),
            np.array([r.error for r in rows], object),
        )

    def leader_log_starts(
        self, epochs: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, LeaderLogStart]:
        return {
            k: LeaderLogStart(*k, p.starts[p.leader_id], p.epoch)
            if (p := self.parts[k]).leader_id is not None and p.epoch == epoch
            else LeaderLogStart(*k, None, None, "FENCED_LEADER_EPOCH")
            for k, epoch in epochs.items()
        }

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
        return {k: EpochEnd(*k, e, self.parts[k].epoch_ends.get(e)) for k, e in epochs.items()}

    def batches(
        self, offsets: Mapping[TopicPartition, Sequence[int]]
    ) -> dict[TopicPartition, BatchSamples]:
        return {
            k: BatchSamples(*k, tuple(Batch(offset, 1000, 1) for offset in found))
            for k, found in offsets.items()
        }

    # -- log dirs, in rows and in columns

    def log_dirs(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        brokers: Iterable[int] | None = None,
    ) -> LogDirsAnswer:
        self._asked("log_dirs")
        wanted = None if partitions is None else set(partitions)
        asked = None if brokers is None else set(brokers)
        offline = {(d.broker_id, d.log_dir) for d in self.dirs if d.error}

        def told(broker: int) -> bool:
            return broker not in self.dir_errors and (asked is None or broker in asked)

        sizes = tuple(
            r for r in (self._sizes() if self.hosted is None else self.hosted)
            if told(r.broker_id) and (r.broker_id, r.log_dir) not in offline
            and (wanted is None or (r.topic, r.partition) in wanted)
        )  # fmt: skip
        errors = {b: e for b, e in self.dir_errors.items() if asked is None or b in asked}
        return LogDirsAnswer(tuple(d for d in self.dirs if told(d.broker_id)), sizes, errors)

    def _sizes(self) -> list[ReplicaSize]:
        return [
            ReplicaSize(
                b, p.log_dir, *k,
                1000 * (100 - start) if p.size_bytes is None else p.size_bytes, 0, False,
            )
            for k, p in self.parts.items()
            for b, start in p.starts.items()
        ]  # fmt: skip

    def sizes(self) -> Sizes:
        found = self.log_dirs()
        by_broker: dict[int, list[ReplicaSize]] = {d.broker_id: [] for d in found.log_dirs}
        for row in found.replicas:
            by_broker.setdefault(row.broker_id, []).append(row)
        told = {broker: _columns(rows) for broker, rows in by_broker.items()}
        return Sizes(found.log_dirs, told, found.errors)

    # -- groups

    def groups(self, topics: Iterable[str], *, with_offsets: bool = True) -> GroupListing:
        self._asked("groups")
        more, their = self.others
        own = {g.group_id for g in more}
        groups = tuple(self._group(g) for g in sorted(self.offsets_of) if g not in own)
        offsets = tuple(
            GroupOffset(g, *key, offset, None, self.commit_epochs.get(g))
            for g, by in sorted(self.offsets_of.items())
            if g not in self.hidden
            for key, offset in sorted((_key(at), offset) for at, offset in by.items())
        )
        hidden = (f"broker 2 hides topic {TOPIC}",) if self.hidden and TOPIC in topics else ()
        return GroupListing((*groups, *more), (*offsets, *their), (*self.incomplete, *hidden))

    def _group(self, name: str) -> Group:
        members = self.members.get(name, 0)
        return Group(name, "classic", "Empty" if members == 0 else "Stable", members)


def _key(at: int | TopicPartition) -> TopicPartition:
    return TopicPartition(TOPIC, at) if isinstance(at, int) else at


def _keys(placement: Placement) -> list[TopicPartition]:
    rows = zip(placement.topic.tolist(), placement.partition.tolist(), strict=True)
    return [TopicPartition(placement.names[topic], partition) for topic, partition in rows]


def _column(values: Iterable[int | None]) -> Any:
    return ints(-1 if v is None else v for v in values)


def _columns(rows: Sequence[ReplicaSize]) -> BrokerSizes:
    """What one broker lists; names and log dirs in the order in which they come."""
    names, dirs = (tuple(dict.fromkeys(of)) for of in ([r.topic for r in rows],
                                                       [r.log_dir for r in rows]))  # fmt: skip
    return BrokerSizes(
        names, dirs,
        ints(names.index(r.topic) for r in rows), ints(dirs.index(r.log_dir) for r in rows),
        ints(r.partition for r in rows), ints(r.size_bytes for r in rows),
        np.array([r.is_future for r in rows], bool),
    )  # fmt: skip
