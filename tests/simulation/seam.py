"""The model cluster behind the product's seam: its reads, and DeleteRecords requests that are lost,
answered late, or carried out by a broker that woke up or leads no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dashboard.core.errors import BrokerError, UsageError
from dashboard.domain.model import DeleteRecordsPartitionResult, DeleteRecordsResult, TopicPartition
from tests.simulation.reads import BROKER_TIMEOUT, NAMES, Listed, ModelReads
from tests.simulation.records import Partition
from tests.simulation.truth import Truth
from tests.simulation.world import SESSION, TICK


@dataclass(frozen=True)
class Sent:
    """One partition of one request as it left the product, and what had been read before it."""

    at: float
    key: TopicPartition
    target: int
    listed: Listed  # the groups, for the last time
    topic_id: str | None  # as last read


@dataclass(frozen=True)
class Applied:
    """One truncation that a request of ours caused on a replica."""

    at: float
    sent: Sent
    broker: int
    topic_id: str
    before: int
    epoch: int
    led: bool  # whether that broker truly led then
    epochs: tuple[tuple[int, int], ...]
    truth: Truth
    gone: bool  # the topic was deleted, which that broker does not know
    young: int  # the first offset inside the replay window
    end: int  # of that broker's log


@dataclass
class ModelCluster(ModelReads):
    """Implements `dashboard.purge.plan.cluster_seam.Cluster`; keeps what was sent and done.

    No variant of `tests.support.cluster.FakeCluster`: that has one state and answers from it, and
    here each broker answers from its own view of a world that goes on while it is asked.
    """

    leader_only_brokers: frozenset[int] = frozenset()
    sent: list[Sent] = field(default_factory=list)
    applied: list[Applied] = field(default_factory=list)

    def delete_records(
        self,
        leader_id: int,
        targets: Mapping[TopicPartition, int],
        *,
        timeout_ms: int,
        leader_only: bool = False,
        may_leave: Callable[[], bool] = lambda: True,
    ) -> DeleteRecordsResult:
        if any(target < 0 for target in targets.values()):
            raise UsageError("below 0", "never", code="TARGET_NEGATIVE")
        self.hook("delete_records")
        if not self.world.brokers[leader_id].up:
            raise BrokerError(leader_id, "refused", "wait", code="BROKER_UNREACHABLE")
        if leader_only and leader_id not in self.leader_only_brokers:
            return _all(leader_id, targets, 35)
        if self.faults.slow_connection and self.rng.random() < self.faults.slow_connection:
            self.world.advance(self.rng.uniform(1, 60))
        if not may_leave():
            raise BrokerError(leader_id, "called off", "look again", code="NOT_SENT")
        sent = [self._sent(key, target) for key, target in sorted(targets.items())]
        self.sent += sent
        result = self._carried(leader_id, sent, timeout_ms / 1000, leader_only=leader_only)
        self.hook("answered")
        return result

    def _carried(
        self, leader_id: int, sent: Sequence[Sent], timeout: float, *, leader_only: bool
    ) -> DeleteRecordsResult:
        lost = BrokerError(leader_id, "lost", "read", code="ANSWER_LOST")
        broker, chance = self.world.brokers[leader_id], self.rng.random()
        if chance < self.faults.lost_request:
            self.world.advance(self.rng.uniform(0, timeout + BROKER_TIMEOUT))
            raise lost
        self.world.advance(0.005)
        self._struck(leader_id)
        if not self.world.answers(leader_id):
            # It lies in the socket's buffer until the broker wakes.
            if broker.up and not self.world.works(leader_id):
                broker.inbox.append(lambda: self._truncate(leader_id, sent))
            self.world.advance(timeout + BROKER_TIMEOUT)
            raise lost
        codes = self._truncate(leader_id, sent)
        self._befall(leader_id, sent)
        self.hook("carried out")
        until = self.world.at + timeout
        waiting = [s for s in sent if codes[s.key] == 0 and not leader_only]
        while (behind := [s for s in waiting if self._low(s.key, leader_id) < s.target]) and (
            self.world.at < until
        ):
            self.world.advance(TICK)
            if not self.world.answers(leader_id):
                self.world.advance(max(0.0, until - self.world.at) + BROKER_TIMEOUT)
                raise lost
            for s in behind:
                if self.world.brokers[leader_id].leads.get(s.key) is None:
                    codes[s.key] = 6
            waiting = [s for s in waiting if codes[s.key] == 0]
        for s in behind:
            codes[s.key] = 7 if codes[s.key] == 0 else codes[s.key]
        if chance > 1 - self.faults.lost_answer:
            self.world.advance(BROKER_TIMEOUT)
            raise lost
        return DeleteRecordsResult(leader_id, 3 if leader_only else 2, tuple(
            DeleteRecordsPartitionResult(
                *s.key, self._low(s.key, leader_id) if codes[s.key] in (0, 7) else -1,
                s.target if leader_only and codes[s.key] == 0 else -1,
                codes[s.key], NAMES.get(codes[s.key]),
            )
            for s in sent
        ))  # fmt: skip

    def _befall(self, leader_id: int, sent: Sequence[Sent]) -> None:
        """What happens when a leader has truncated, and has told nobody yet."""
        world = self.world
        if world.splits_when_sent:
            world.split(sent[0].key, leader_id, 150.0)
            world.advance(SESSION + 3.0)  # its answer is slower than the election
        if world.stops_when_sent:
            for each in sorted(world.brokers.keys() - {leader_id}):
                world.slow(each, 90.0)
        self._struck(leader_id)
        if self.faults.outage and self.rng.random() < self.faults.outage:
            for each in sorted(world.brokers):
                world.hang(each, 100.0)

    def _struck(self, broker_id: int) -> None:
        if self.rng.random() < self.faults.worst_moment:
            world = self.world
            blow = self.rng.choice((world.hang, world.crash, world.cut_off))
            blow(broker_id, self.rng.choice((4.0, 15.0, 60.0)))

    def _truncate(self, broker_id: int, sent: Iterable[Sent]) -> dict[TopicPartition, int]:
        """What the broker does on its own belief; error codes by partition."""
        codes = {}
        for s in sent:
            part = self.world.part_at(broker_id, s.key)
            epoch = self.world.brokers[broker_id].leads.get(s.key)
            if self.world.hiding == broker_id:
                codes[s.key] = 29
            elif part is None or broker_id not in part.replicas:
                codes[s.key] = 3
            elif epoch is None:
                codes[s.key] = 6
            elif s.target > min(part.replicas[broker_id].end, _high(part, broker_id)):
                codes[s.key] = 1
            else:
                codes[s.key] = 0
                self._moved(part, broker_id, s, epoch)
        return codes

    def _moved(self, part: Partition, broker_id: int, sent: Sent, epoch: int) -> None:
        replica = part.replicas[broker_id]
        before = replica.start
        replica.start = max(replica.start, sent.target)
        led = part.leader == broker_id and part.epoch == epoch
        self.applied.append(
            Applied(self.world.at, sent, broker_id, part.topic_id, before, epoch, led,
                    tuple(replica.epochs), self.world.truth(),
                    part is not self.world.parts.get(sent.key),
                    part.since(self.world.at - self.world.window), replica.end)
        )  # fmt: skip
        who = "" if led else ", which no longer leads"
        self.world.say(f"broker {broker_id} truncates {sent.key.topic}-{sent.key.partition} "
                       f"to {sent.target}{who}")  # fmt: skip
        part.note(self.world.at)

    def _low(self, key: TopicPartition, leader_id: int) -> int:
        """The low watermark as this broker computes it, over replicas on brokers it calls alive."""
        part = self.world.part_at(leader_id, key)
        if part is None:
            return -1
        view = self.world.brokers[leader_id].view or self.world.view()
        starts = [r.start for b, r in part.replicas.items() if b in view.alive or b == leader_id]
        if part.future is not None and part.future[0] == leader_id:
            starts.append(part.future[1])
        return min(starts)

    def _sent(self, key: TopicPartition, target: int) -> Sent:
        assert self.listed is not None
        topic_id = self._topic_ids.get(key.topic)
        return Sent(self.world.at, key, target, self.listed, topic_id)


def _high(part: Partition, broker_id: int) -> int:
    """The high watermark as the broker knows it; a follower's is not above its log end."""
    return min(part.high_watermark, part.replicas[broker_id].end)


def _all(leader_id: int, targets: Mapping[TopicPartition, int], code: int) -> DeleteRecordsResult:
    return DeleteRecordsResult(
        leader_id, 2,
        tuple(
            DeleteRecordsPartitionResult(*k, -1, -1, code, NAMES[code]) for k in sorted(targets)
        ),
        sent=False,
    )  # fmt: skip
