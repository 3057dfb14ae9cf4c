"""A model of a Kafka cluster in virtual time: what brokers hold, believe and answer; and faults.

It follows measured behaviour: a leader truncates before it waits; a deposed leader that does not
know it yet truncates itself and says success; a request that reached a hanging broker is carried
out when that wakes; log starts survive a crash only as far as the checkpoint, written every 60 s,
or as far as files are gone. Every change of a partition is kept with its time, as the truth that
claims are held against.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random

from dashboard.domain.model import TopicPartition
from tests.simulation.coordinators import (
    ACTIVE,
    PARTITIONS,
    coordinate,
    freeze,
    of_group,
    resign,
    stage,
)
from tests.simulation.joining import Joined, Told
from tests.simulation.records import Broker, Partition, Replica, View
from tests.simulation.replication import elect_if_needed, replicate
from tests.simulation.truth import Read, Truth

BEGAN = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
TICK = 0.25
CALM_TICK = 2.0  # once nothing goes wrong any more
SESSION = 9.0  # a broker that is silent for so long leaves the metadata
LEARN = 1.0  # until a broker that is back knows what happened meanwhile
CHECKPOINT = 60.0  # log.flush.start.offset.checkpoint.interval.ms
RETENTION_CHECK = 20.0


class World:
    """The cluster. Time passes only by `advance`; what happens then is drawn from one seed."""

    def __init__(
        self,
        rng: Random,
        brokers: int,
        topics: dict[str, int],
        *,
        unclean: bool,
        replication: int = 3,
    ) -> None:
        self.rng = rng
        self.at = 0.0
        self.unclean = unclean
        self.replication = replication
        self.brokers = {n: Broker(n) for n in range(1, brokers + 1)}
        self.parts: dict[TopicPartition, Partition] = {}
        self.gone: list[Partition] = []  # of topics that were deleted
        self.groups: dict[str, dict[TopicPartition, int]] = {}  # what Kafka holds as committed
        self.has_read: dict[str, dict[TopicPartition, Read]] = {}
        self.members: dict[str, Joined] = {}  # groups without are Empty
        self.mourned: dict[str, frozenset[str]] = {}  # whose members died, by what they wanted
        self.met: dict[tuple[str, str], int] = {}  # when snapshots met a group on a topic, in µs
        self.old_clients: frozenset[str] = frozenset()  # groups that commit no leader epochs
        self.trace: list[str] = []
        self.due: list[tuple[float, Callable[[], None]]] = []
        self.traffic = True
        self.tick = TICK
        self.asked_first: int | None = None  # who answered this host last, if it still does
        self.host_ahead = 0.0  # the host's clock before the brokers'; negative: behind
        self.splits_when_sent = False  # as a leader has truncated what it was sent
        self.stops_when_sent = False  # followers fetch nothing any more once a leader has truncated
        self.tells_ids = False  # coordinators know of which topic an offset is (Kafka 4.1)
        self.recreates_when_split = False  # and the topic is made anew where the controllers are
        self.read_at: list[float] = []  # when leaders were asked where their logs start
        self.window = 0.0  # how old a record must be before it may go
        # How far a group had read of which neither a broker nor a snapshot tells any more.
        self.forgotten: dict[TopicPartition, int] = {}
        # Log end and leader epoch of each leader in the snapshot by which bytes are kept.
        self.measured: dict[TopicPartition, tuple[int, int]] = {}
        self.event_age = 0.0  # how old records say they are when they are written
        self.ends: list[tuple[float, dict[TopicPartition, int]]] = []  # that kept snapshots show
        self._births = 0
        self.coordinators: dict[int, int | None] = dict.fromkeys(range(PARTITIONS))
        self.coordinator_epochs = dict.fromkeys(range(PARTITIONS), 0)
        self.loaded_at = dict.fromkeys(range(PARTITIONS), 0.0)
        self.unloadable: set[int] = set()  # partitions of the offsets topic
        self.moves_when_looked_at: int | None = None  # another one of them
        self.hiding: int | None = None  # the broker whose ACLs do not let us see any topic
        coordinate(self, set(self.brokers))
        self.loaded_at = dict.fromkeys(range(PARTITIONS), 0.0)
        for topic, count in topics.items():
            self.create(topic, count)

    # -- time

    def now(self) -> datetime:
        return BEGAN + timedelta(seconds=self.at)

    def note_ends(self) -> None:
        """Snapshots of the last hours, as a host with a right clock took them."""
        for hours in (8, 4, 2.6, 2.2, 1.1, 0.5):
            at = -3600.0 * hours
            self.ends.append((at, {key: part.since(at) for key, part in self.parts.items()}))

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def say(self, text: str) -> None:
        self.trace.append(f"{self.at:8.2f}  {text}")

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Have `act` happen once so much time has passed."""
        bisect.insort(self.due, (self.at + seconds, act), key=lambda item: item[0])

    def advance(self, seconds: float) -> None:
        """Let time pass, tick by tick."""
        until = self.at + seconds
        while self.at < until:
            step = min(self.tick, until - self.at)
            self.at += step
            while self.due and self.due[0][0] <= self.at:
                self.due.pop(0)[1]()
            self._tick(step)

    def _tick(self, step: float) -> None:
        joined = {b for b in self.brokers if self.joined(b)}
        for b, broker in self.brokers.items():
            if b not in joined or broker.silent_since is not None or broker.learns_at is not None:
                self._heartbeat(broker)
        coordinate(self, joined)
        for part in self.parts.values():
            elect_if_needed(self, part, joined)
            replicate(self, part, step, joined)
            part.note(self.at)
        if int(self.at / CHECKPOINT) != int((self.at - step) / CHECKPOINT):
            self._each_replica(lambda r: setattr(r, "checkpoint", r.start))
        if int(self.at / RETENTION_CHECK) != int((self.at - step) / RETENTION_CHECK):
            # Whole segments of 50 records below the log start are deleted now.
            self._each_replica(lambda r: setattr(r, "floor", max(r.floor, r.start // 50 * 50)))

    def _each_replica(self, act: Callable[[Replica], None]) -> None:
        for part in self.parts.values():
            for broker_id, replica in part.replicas.items():
                if self.brokers[broker_id].up:
                    act(replica)

    # -- brokers

    def works(self, broker_id: int) -> bool:
        """Whether it runs and does not hang: it serves whoever reaches it."""
        broker = self.brokers[broker_id]
        return broker.up and broker.hangs_until <= self.at

    def answers(self, broker_id: int) -> bool:
        """Whether the host that plans and purges reaches it, too."""
        return self.works(broker_id) and self.brokers[broker_id].unreachable_until <= self.at

    def joined(self, broker_id: int) -> bool:
        """Whether it also hears from the controllers and the other brokers."""
        return self.works(broker_id) and self.brokers[broker_id].cut_off_until <= self.at

    def _heartbeat(self, broker: Broker) -> None:
        if self.joined(broker.broker_id):
            if broker.silent_since is not None:
                broker.silent_since, broker.registered = None, True
                broker.learns_at = self.at + LEARN
                self._wake(broker)
            if broker.learns_at is not None and self.at >= broker.learns_at:
                self._learn(broker)
            return
        if broker.silent_since is None:
            broker.silent_since = self.at
            broker.view = self.view()
            freeze(self, broker)
        # Controllers live in the same processes: while none of them runs, nobody is missed.
        missed = any(self.works(b) for b in self.brokers)
        if missed and broker.registered and self.at - broker.silent_since > SESSION:
            broker.registered = False
            self.say(f"broker {broker.broker_id} leaves the metadata")

    def _wake(self, broker: Broker) -> None:
        inbox, broker.inbox = broker.inbox, []
        for request in inbox:  # what it received before it knew anything new
            request()

    def _learn(self, broker: Broker) -> None:
        broker.learns_at, broker.view, broker.kept, broker.groups_then = None, None, {}, None
        broker.coordinates = {n for n, b in self.coordinators.items() if b == broker.broker_id}
        broker.leads = {
            key: part.epoch for key, part in self.parts.items() if part.leader == broker.broker_id
        }

    def crash(self, broker_id: int, seconds: float) -> None:
        """kill -9, and a start after so long: log starts come back from the checkpoint."""
        broker = self.brokers[broker_id]
        if not broker.up:
            return
        self.say(f"broker {broker_id} is killed, back in {seconds:.0f} s")
        broker.up, broker.inbox = False, []
        self.later(seconds, lambda: self._start(broker))

    def _start(self, broker: Broker) -> None:
        self.say(f"broker {broker.broker_id} starts")
        broker.up, broker.hangs_until, broker.leads = True, 0.0, {}
        broker.view, broker.kept = None, {}  # it serves nobody before it has caught up
        broker.groups_then, broker.coordinates = None, set()
        for number in [n for n, b in self.coordinators.items() if b == broker.broker_id]:
            resign(self, number, {b for b in self.brokers if self.joined(b)})
        for part in self.parts.values():
            replica = part.replicas.get(broker.broker_id)
            if replica is not None:
                replica.start = min(max(replica.checkpoint, replica.floor), replica.end)
            if part.leader == broker.broker_id:  # a new incarnation does not lead on
                others = [b for b in sorted(part.isr) if b != part.leader and self.joined(b)]
                self.lead(part, others[0] if others else part.leader)

    def hang(self, broker_id: int, seconds: float) -> None:
        """SIGSTOP for so long."""
        broker = self.brokers[broker_id]
        if broker.up and broker.hangs_until <= self.at:
            self.say(f"broker {broker_id} hangs for {seconds:.1f} s")
            broker.hangs_until = self.at + seconds

    def cut_off(self, broker_id: int, seconds: float) -> None:
        """It loses controllers and other brokers, while clients still reach it."""
        broker = self.brokers[broker_id]
        if self.joined(broker_id):
            self.say(f"broker {broker_id} is cut off for {seconds:.1f} s")
            broker.cut_off_until = self.at + seconds

    def split(self, key: TopicPartition, leader_id: int, seconds: float) -> None:
        """A leader loses one broker and all controllers, which lead on without. So does the host;
        or it hears the leader first, of a topic that is made anew once another one has led it.
        """
        others = [b for b in sorted(self.brokers) if b != leader_id and self.joined(b)]
        if not others:
            return
        if not self.recreates_when_split:
            self.split_off(self.rng.choice(others), seconds)
            return
        heirs = [b for b in others if key in self.parts and b in self.parts[key].isr]
        self._leave(self.rng.choice(heirs or others), seconds)
        self.asked_first = leader_id
        self.later(SESSION + 2.0, lambda: self.recreate(key.topic, filled=5000))

    def split_off(self, away: int, seconds: float) -> None:
        """The host and all others lose this broker and the controllers."""
        self.say(f"the host loses broker {away} for {seconds:.1f} s, which alone is not cut off")
        self.brokers[away].unreachable_until = self.at + seconds
        self._leave(away, seconds)

    def _leave(self, away: int, seconds: float) -> None:
        for b in self.brokers:
            if b != away:
                self.cut_off(b, seconds)

    def slow(self, broker_id: int, seconds: float) -> None:
        """Its fetchers stand still for so long."""
        self.say(f"broker {broker_id} fetches nothing for {seconds:.0f} s")
        self.brokers[broker_id].slow_until = self.at + seconds

    # -- partitions

    def create(self, topic: str, count: int) -> None:
        """A topic of `count` partitions with a new id."""
        self._births += 1
        ids = sorted(self.brokers)
        for number in range(count):
            key = TopicPartition(topic, number)
            where = [ids[(number + i) % len(ids)] for i in range(self.replication)]
            topic_id = f"id-{topic}-{self._births}".ljust(21, "-") + "A"  # as Kafka spells 16 bytes
            part = Partition(
                key, topic_id, {b: Replica() for b in where}, where[0], isr=set(where)
            )  # fmt: skip
            self.parts[key] = part
            if self.brokers[where[0]].view is None:  # else it learns of it later
                self.brokers[where[0]].leads[key] = 0
            part.note(self.at)

    def recreate(self, topic: str, filled: int = 0) -> None:
        """Delete a topic and create it again under its name: other records, offsets from 0."""
        keys = [key for key in self.parts if key.topic == topic]
        if not keys:
            return
        self.say(f"topic {topic} is deleted and created again")
        for key in keys:
            part = self.parts.pop(key)
            self.gone.append(part)
            for b, broker in self.brokers.items():
                if broker.view is not None and b in part.replicas and broker.up:
                    broker.kept.setdefault(key, part)  # it does not know yet, and has its log
                else:
                    broker.leads.pop(key, None)
        self.create(topic, len(keys))
        for part in (self.parts[key] for key in keys):
            part.fill(filled, self.at)

    def restart(self, key: TopicPartition, filled: int, left: int = 0) -> None:
        """It loses what follows its first `left` records, and has `filled` in all since.

        A disk is lost, and the same topic begins at 0 again; or a replica leads that missed an end.
        """
        part = self.parts[key]
        self.say(f"{key.topic}-{key.partition} keeps {left} records, and has {filled} since")
        part.epoch += 1
        for replica in part.replicas.values():
            replica.start = replica.checkpoint = replica.floor = 0
            older = [(epoch, first) for epoch, first in replica.epochs if first < left]
            replica.epochs = [*older, (part.epoch, left)]
        if part.leader is not None:
            self.brokers[part.leader].leads[key] = part.epoch
        older_rows = [row for row in part.written if row[0] < left]
        part.fill(filled, self.at)
        part.written = [*older_rows, (left, self.at)]
        part.note(self.at)

    def part_at(self, broker_id: int, key: TopicPartition) -> Partition | None:
        """The partition as this broker has it: of a topic that is gone, if it does not know."""
        part = self.brokers[broker_id].kept.get(key) or self.parts.get(key)
        return part if part is not None and broker_id in part.replicas else None

    def replicas(self, key: TopicPartition) -> list[tuple[int, Replica]]:
        """What each broker has of a partition, by id."""
        parts = {b: self.part_at(b, key) for b in sorted(self.brokers)}
        return [(b, part.replicas[b]) for b, part in parts.items() if part is not None]

    def elect(self, key: TopicPartition) -> None:
        """Another in-sync replica leads, in a new epoch (a preferred election, say)."""
        part = self.parts.get(key)
        if part is None:
            return
        others = [b for b in sorted(part.isr) if b != part.leader and self.joined(b)]
        if others:
            self.lead(part, self.rng.choice(others))

    def lead(self, part: Partition, leader: int | None) -> None:
        """Begin an epoch in which this broker leads, or none does."""
        before = part.leader
        part.leader, part.epoch, part.future = leader, part.epoch + 1, None
        if before is not None and self.joined(before):
            self.brokers[before].leads.pop(part.key, None)
        if leader is not None:
            replica = part.replicas[leader]
            replica.epochs.append((part.epoch, replica.end))
            self.brokers[leader].leads[part.key] = part.epoch
            # Followers know nothing higher than what the new leader has.
            part.high_watermark = min(part.high_watermark, replica.end)
            part.written = [row for row in part.written if row[0] < replica.end]
        self.say(f"{part.key.topic}-{part.key.partition}: broker {leader} leads epoch {part.epoch}")
        part.note(self.at)

    def lose(self, key: TopicPartition) -> None:
        """Followers stand still, then the leader is gone for long: an unclean election loses."""
        part = self.parts.get(key)
        if part is None or part.leader is None:
            return
        leader = part.leader
        for b in part.replicas:
            if b != leader:
                self.slow(b, 60)
        self.later(25, lambda: self.crash(leader, 60))

    def retain(self, key: TopicPartition, share: float) -> None:
        """Retention deletes the oldest records on the leader; followers see its log start."""
        part = self.parts.get(key)
        if part and part.leader is not None and self.joined(part.leader):
            replica = part.replicas[part.leader]
            high = min(part.high_watermark, replica.end)
            replica.start = max(replica.start, int(replica.start + (high - replica.start) * share))
            self.say(f"retention moves {key.topic}-{key.partition} to {replica.start}")
            part.note(self.at)

    def move_log_dir(self, key: TopicPartition) -> None:
        """The leader's replica begins to move to another log dir of its broker."""
        part = self.parts.get(key)
        if part and part.leader is not None:
            part.future = (part.leader, part.replicas[part.leader].start)
            self.say(f"{key.topic}-{key.partition} moves to another log dir")

    # -- what brokers tell

    def view(self) -> View:
        """Metadata as the controllers have it."""
        return View(
            {
                key: (p.leader, p.epoch, tuple(sorted(p.replicas)), tuple(sorted(p.isr)))
                for key, p in self.parts.items()
            },
            {key.topic: p.topic_id for key, p in self.parts.items()},
            tuple(b for b, broker in self.brokers.items() if broker.registered),
            {n: (b, self.coordinator_epochs[n]) for n, b in self.coordinators.items()},
        )

    # -- groups

    def told(self, group_id: str) -> Told:
        """A group as it is. Nobody is in those that no reader joined."""
        member = self.members.get(group_id)
        if member is not None:
            return member.told(self)
        commits, epochs = dict(self.groups[group_id]), self.epochs_of(group_id)
        return Told("classic", "Empty", 0, (), "", (), commits, epochs)

    def epochs_of(self, group_id: str) -> dict[TopicPartition, int]:
        """The leader epochs of what it committed. Whoever sets offsets by hand tells none, nor do
        clients before Kafka 2.1 (OffsetCommit v6).
        """
        if group_id in self.old_clients:
            return {}
        read = self.has_read.get(group_id, {})
        return {
            key: read[key].epoch
            for key, offset in self.groups.get(group_id, {}).items()
            if key in read and read[key].offset == offset and read[key].epoch >= 0
        }

    def with_coordinator(self, group_id: str, act: Callable[[], None]) -> None:
        """Have the group change, as soon as it has a coordinator that can write it down."""
        number = of_group(group_id)
        leader = self.coordinators[number]
        if leader is not None and self.joined(leader) and stage(self, leader, number) == ACTIVE:
            act()
        else:
            self.later(1.0, lambda: self.with_coordinator(group_id, act))

    def commit(
        self, group_id: str, key: TopicPartition, offset: int, read: int | None = None
    ) -> None:
        """The group commits; what it has read of this log, where that is something else."""
        self.groups.setdefault(group_id, {})[key] = offset
        part = self.parts.get(key)
        if part is not None:
            up_to = offset if read is None else read
            self.has_read.setdefault(group_id, {})[key] = Read(
                up_to, part.topic_id, tuple(part.log.epochs)
            )

    def is_of_now(self, group_id: str, key: TopicPartition) -> bool:
        """Whether the group has committed on the topic as it is now."""
        read, part = self.has_read.get(group_id, {}).get(key), self.parts.get(key)
        return read is not None and part is not None and read.topic_id == part.topic_id

    def start_over(self, group_id: str, key: TopicPartition) -> None:
        """The group stands at the log start, and reads from there."""
        part = self.parts.get(key)
        start = min(r.start for r in part.replicas.values()) if part else 0
        self.commit(group_id, key, start)
        self.say(f"group {group_id} stands at {start} on {key.topic}-{key.partition}")

    def truth(self) -> Truth:
        """Who wants what now: known to the model alone."""
        return Truth(
            self.at,
            {g: dict(by) for g, by in self.groups.items()},
            {
                g: {key: self._of_now(key, read) for key, read in by.items()}
                for g, by in self.has_read.items()
            },
            {**self.mourned, **{g: frozenset(m.topics) for g, m in self.members.items()}},
        )

    def _of_now(self, key: TopicPartition, read: Read) -> int:
        part = self.parts.get(key)
        return read.of(part.topic_id, part.log.epochs) if part is not None else 0
