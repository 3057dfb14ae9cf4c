"""A cluster in memory for the decisions of a run: answers that get lost, elections, stalls."""

# ruff: noqa: ARG002  (the seam's arguments, of which a fake needs few)
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Self

from dashboard.core.errors import BrokerError
from dashboard.domain.model import (
    Authorized,
    Batch,
    BatchSamples,
    ConfigEntry,
    DeleteRecordsPartitionResult,
    DeleteRecordsResult,
    EpochEnd,
    Group,
    GroupListing,
    GroupOffset,
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
from tests.unit.purge.facts_of import NOW, TOPIC

HIDDEN = f"broker 2 hides topic {TOPIC}"


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


class FakeCluster:
    """`answers` are taken one per request: an error code, or `lost`, `lost-before`, `unreachable`.

    A request truncates the leader, and with code 0 its followers too; `on_send` runs before it,
    `on_connect` while its connection is made, before it is asked whether it may leave.
    `commit_answers` are taken one per OffsetCommit: an error's name, None, `lost`, `lost-before`
    or `unreachable`; a group with members refuses whatever they say. `others` are groups and their
    offsets beside those of `offsets_of`. It is opened and closed as the live one is.
    """

    def __init__(self, partitions: int = 1) -> None:
        self.parts = {
            TopicPartition(TOPIC, n): FakePartition({1: 0, 2: 0, 3: 0}) for n in range(partitions)
        }
        self.id = "cluster-1"
        self.topic_id = "id-1"
        self.topic_error: str | None = None
        self.leaders_say: str | None = None  # another id, or the error of asking them
        self.broker_says: dict[int, str] = {}  # another id, or an error, of one broker alone
        self.newer_views: dict[int, tuple[int | None, int]] = {}  # broker -> leader, its epoch
        self.offsets_of: dict[str, dict[int, int | None]] = {
            "a": dict.fromkeys(range(partitions), 60)
        }
        self.others: tuple[tuple[Group, ...], tuple[GroupOffset, ...]] = ((), ())
        self.incomplete: tuple[str, ...] = ()
        self.closed = 0
        self.hidden: set[str] = set()  # groups whose coordinator hides the topic
        self.alive = {1, 2, 3}
        self.alive_to_others: set[int] = set()  # what the broker that tells metadata does not know
        self.answers: list[int | str] = []
        self.leader_only_brokers = {1, 2, 3}
        self.sent: list[tuple[int, dict[TopicPartition, int], int]] = []
        self.on_send: list[Any] = []
        self.on_connect: list[Any] = []
        self.members: dict[str, int] = {}
        self.controllers: set[int] | None = {1, 2, 3}  # who reaches them; None: nobody speaks of it
        self.controller_at: datetime | None = None
        self.commit_answers: list[str | None] = []
        self.commits: list[tuple[str, dict[TopicPartition, int]]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.closed += 1

    def principal(self) -> str | None:
        return "User:ann"

    def authorized(self, topics: Iterable[str], groups: Iterable[str]) -> Authorized:
        return Authorized(None, dict.fromkeys(topics), dict.fromkeys(groups))

    def cluster_id(self) -> str:
        return self.id

    def controller_time(self) -> datetime | None:
        return self.controller_at

    def caught_up(self, brokers: Iterable[int]) -> dict[int, bool | None]:
        told = {b: None if self.controllers is None else b in self.controllers for b in brokers}
        return {b: False if self.broker_says.get(b, "").isupper() else t for b, t in told.items()}

    def alive_brokers(self) -> tuple[int, ...]:
        return tuple(sorted(self.alive))

    def alive_anywhere(self) -> tuple[int, ...]:
        return tuple(sorted(self.alive | self.alive_to_others))

    def topics(self, names: Iterable[str] | None) -> dict[str, TopicState]:
        if self.topic_error:
            return {TOPIC: TopicState(TOPIC, None, False, (), self.topic_error)}
        states = tuple(
            PartitionState(TOPIC, k.partition, p.leader_id, p.epoch, (1, 2, 3), p.isr)
            for k, p in sorted(self.parts.items())
        )
        return {TOPIC: TopicState(TOPIC, self.topic_id, False, states)}

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

    def configs(
        self, topics: Iterable[str], brokers: Iterable[int] = ()
    ) -> tuple[ConfigEntry, ...]:
        polls = tuple(
            ConfigEntry("broker", str(b), "replica.fetch.wait.max.ms", "500", "DEFAULT_CONFIG")
            for b in brokers
            if b in self.alive
        )
        return (ConfigEntry("topic", TOPIC, "cleanup.policy", "delete", "DEFAULT_CONFIG"), *polls)

    def offsets(
        self,
        partitions: Iterable[TopicPartition],
        topics: Mapping[str, TopicState] | None = None,
    ) -> dict[TopicPartition, PartitionOffsets]:
        return {k: self._offsets(k) for k in partitions}

    def _offsets(self, key: TopicPartition) -> PartitionOffsets:
        p = self.parts[key]
        if p.leader_id is None:
            return PartitionOffsets(*key, None, None, None, "LEADER_NOT_AVAILABLE")
        start = p.starts[p.leader_id]
        return PartitionOffsets(
            *key, start, p.last_stable_offset, p.high_watermark, leader_epoch=p.epoch
        )

    def offsets_at(
        self, partitions: Iterable[TopicPartition], at: datetime
    ) -> dict[TopicPartition, OffsetAtTime]:
        return {k: OffsetAtTime(*k, None) for k in partitions}

    def replica_offsets(
        self, partitions: Iterable[TopicPartition], brokers: Iterable[int] | None = None
    ) -> tuple[ReplicaOffsets, ...]:
        return tuple(
            ReplicaOffsets(b, *k, start if b in self.alive else None, 100, NOW)
            for k in partitions
            for b, start in sorted(self.parts[k].starts.items())
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

    def batches(
        self, offsets: Mapping[TopicPartition, Sequence[int]]
    ) -> dict[TopicPartition, BatchSamples]:
        return {
            k: BatchSamples(*k, tuple(Batch(offset, 1000, 1) for offset in found))
            for k, found in offsets.items()
        }

    def log_dirs(self, partitions: Iterable[TopicPartition] | None = None) -> LogDirsAnswer:
        wanted = self.parts.keys() if partitions is None else set(partitions)
        sizes = tuple(
            ReplicaSize(b, "/d", *k, 1000 * (100 - start), 0, False)
            for k, p in self.parts.items()
            if k in wanted
            for b, start in p.starts.items()
        )
        return LogDirsAnswer((), sizes, {})

    def reassignments(self) -> tuple[Reassignment, ...]:
        return ()

    def groups(self, topics: Iterable[str], *, with_offsets: bool = True) -> GroupListing:
        offsets = tuple(
            GroupOffset(g, TOPIC, n, o)
            for g, by in sorted(self.offsets_of.items())
            for n, o in sorted(by.items())
            if g not in self.hidden
        )
        groups = tuple(
            Group(g, "classic", "Stable" if (n := self.members.get(g, 0)) else "Empty", n)
            for g in sorted(self.offsets_of)
        )
        hidden = (HIDDEN,) if self.hidden and TOPIC in topics else ()
        more, their = self.others
        return GroupListing((*groups, *more), (*offsets, *their), (*self.incomplete, *hidden))

    def commit_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int],
        *,
        may_leave: Callable[[], bool] = lambda: True,
    ) -> dict[TopicPartition, str | None]:
        if not may_leave():
            raise BrokerError(1, "called off", "look again", code="NOT_SENT")
        self.commits.append((group_id, dict(offsets)))
        answer = self.commit_answers.pop(0) if self.commit_answers else None
        if answer == "unreachable":
            raise BrokerError(1, "refused", "wait", code="BROKER_UNREACHABLE")
        if self.members.get(group_id):
            answer = "UNKNOWN_MEMBER_ID"
        if answer in (None, "lost"):
            self.offsets_of[group_id].update({k.partition: o for k, o in offsets.items()})
        if answer in ("lost", "lost-before"):
            raise BrokerError(1, "lost", "read", code="ANSWER_LOST")
        return dict.fromkeys(offsets, answer)

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
        return {k: EpochEnd(*k, e, self.parts[k].epoch_ends.get(e)) for k, e in epochs.items()}

    def elect(self, leader_id: int | None) -> None:
        """Another replica leads every partition, in a new epoch."""
        for p in self.parts.values():
            p.epoch_ends[p.epoch] = p.high_watermark
            p.epoch, p.leader_id = p.epoch + 1, leader_id

    def delete_records(
        self,
        leader_id: int,
        targets: Mapping[TopicPartition, int],
        *,
        timeout_ms: int,
        leader_only: bool = False,
        may_leave: Callable[[], bool] = lambda: True,
    ) -> DeleteRecordsResult:
        if self.on_connect:
            self.on_connect.pop(0)()
        if not may_leave():
            raise BrokerError(leader_id, "called off", "look again", code="NOT_SENT")
        if leader_only and leader_id not in self.leader_only_brokers:
            results = tuple(
                DeleteRecordsPartitionResult(*k, -1, -1, 35, "UNSUPPORTED_VERSION") for k in targets
            )
            return DeleteRecordsResult(leader_id, 2, results, sent=False)
        self.sent.append((leader_id, dict(targets), timeout_ms))
        if self.on_send:
            self.on_send.pop(0)()
        answer = self.answers.pop(0) if self.answers else 0
        if answer == "unreachable":
            raise BrokerError(leader_id, "refused", "wait", code="BROKER_UNREACHABLE")
        if isinstance(answer, str) and answer.isupper():  # so the connection was not opened
            raise BrokerError(leader_id, "not opened", "correct it", code=answer)
        if answer not in (1, 17, 29, 44, "lost-before"):
            for key, target in targets.items():
                starts = self.parts[key].starts
                for b in starts if answer == 0 else (leader_id,):
                    starts[b] = max(starts[b], target)
        if answer in ("lost", "lost-before"):
            raise BrokerError(leader_id, "lost", "read", code="ANSWER_LOST")
        return DeleteRecordsResult(leader_id, 2, tuple(
            DeleteRecordsPartitionResult(
                *k, t if answer == 0 else -1, -1, int(answer), f"E{answer}" if answer else None
            )
            for k, t in targets.items()
        ))  # fmt: skip
