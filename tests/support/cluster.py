"""A cluster in memory, the one fake of `dashboard.cluster.live.LiveCluster` in this process.

It answers all that collect, doctor, plans, runs, triage and sweeps ask (`cluster_reads`), and
carries out what they send: answers that get lost, elections, stalls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

from dashboard.core.errors import BrokerError
from dashboard.domain.model import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResult,
    TopicPartition,
)
from tests.support.cluster_reads import FakePartition, Reads
from tests.unit.purge.facts_of import TOPIC

__all__ = ["FakeCluster", "FakePartition"]


class FakeCluster(Reads):
    """`answers` are taken one per request: an error code, or `lost`, `lost-before`, `unreachable`.

    A request truncates the leader, and with code 0 its followers too; `on_send` runs before it,
    `on_connect` while its connection is made, before it is asked whether it may leave.
    `commit_answers` are taken one per OffsetCommit: an error's name, None, `lost`, `lost-before`
    or `unreachable`; a group with members refuses whatever they say. It is opened and closed as
    the live one is.
    """

    def __init__(self, partitions: int = 1) -> None:
        super().__init__(partitions)
        self.answers: list[int | str] = []
        self.leader_only_brokers = {1, 2, 3}
        self.sent: list[tuple[int, dict[TopicPartition, int], int]] = []
        self.on_send: list[Any] = []
        self.on_connect: list[Any] = []
        self.commit_answers: list[str | None] = []
        self.commits: list[tuple[str, dict[TopicPartition, int]]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.closed += 1

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
            self.offsets_of[group_id].update(
                {k.partition if k.topic == TOPIC else k: o for k, o in offsets.items()}
            )
        if answer in ("lost", "lost-before"):
            raise BrokerError(1, "lost", "read", code="ANSWER_LOST")
        return dict.fromkeys(offsets, answer)

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
        self._asked("delete_records")
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
