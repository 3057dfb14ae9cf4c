"""Whatever fails, dies or is typed: no partition is purged too soon, and none waits forever."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dashboard.core.errors import LowwaterError
from dashboard.domain.model import TopicPartition
from dashboard.policies.service.service import Service
from dashboard.purge.evidence.standards import standards
from dashboard.purge.execute.carrying import carry_out
from dashboard.purge.jobs.queue import enqueue
from dashboard.purge.journal.file import JournalFile
from dashboard.purge.plan.drafts import PlanRequest, read_live
from dashboard.purge.plan.guards import Lift
from dashboard.purge.plan.targets import parse_target
from tests.support.examples import examples
from tests.unit.policies.service_room import ServiceRoom

INTERVAL = timedelta(seconds=5)
# A dead service's lease and heartbeat (15 s each), the longest back-off (30 s), and as long again
# as the run that it left behind may take.
BOUND = timedelta(seconds=150)
TOPICS = ("billing-sum-repartition", "billing-join-repartition", "orders-sum-repartition")


class Killed(BaseException):
    """The service's process is gone."""


@dataclass
class World:
    """Applications, a service that is replaced when it dies, and what was really sent."""

    room: ServiceRoom
    service: Service
    topics: tuple[str, ...] = TOPICS
    sent: list[tuple[datetime, TopicPartition, str]] = field(default_factory=list)
    clicks: int = 0

    def restart(self) -> None:
        self.service = self.room.service()

    def act(self, step: tuple[str, Any]) -> None:
        kind, value = step
        getattr(self, kind)(value)

    def produce(self, which: int) -> None:
        self.room.live.produce(TOPICS[which], 10)

    def commit(self, which: int) -> None:
        self.room.live.commit(TOPICS[which].split("-")[0], TOPICS[which])

    def wait(self, seconds: float) -> None:
        until = self.room.clock() + timedelta(seconds=seconds)
        while self.room.clock() < until:
            left = (until - self.room.clock()).total_seconds()
            self.room.clock.sleep(max(0.001, min(self.service.turn(), left)))
            self.service.following.turn()

    def die(self, at: tuple[int, bool]) -> None:
        """Within half a minute, at a write of the journal: before it, or right after it."""
        with _dying(*at), suppress(Killed):
            self.wait(30)
        self.restart()

    def standby(self, seconds: float) -> None:
        """Another service has its turns too."""
        other = self.room.service()
        until = self.room.clock() + timedelta(seconds=seconds)
        while self.room.clock() < until:
            wait = min(self.service.turn(), other.turn())
            self.room.clock.sleep(max(0.001, wait))

    def outage(self, seconds: float) -> None:
        self.room.live.down = True
        self.wait(seconds)
        self.room.live.down = False

    def answers(self, answers: list[int | str]) -> None:
        self.room.live.answers += answers

    def step_clock(self, seconds: int) -> None:
        self.room.clock.now += timedelta(seconds=seconds)

    def by_hand(self, which: int) -> None:
        """An operator purges, when no policy does."""
        room, self.clicks = self.room, self.clicks + 1
        wanted = PlanRequest((TOPICS[which],), parse_target("committed"), by="ann")
        with suppress(LowwaterError):
            read = read_live(room.live, room.settings, room.store, wanted, now=room.clock())
            plan = read.plan([Lift("readers-undeclared", "test")])
            run_id = enqueue(
                room.settings, room.journal, plan, mode="wait-all", confirm=plan.confirmation,
                sha256=plan.sha256, who="ann", token=f"{self.clicks}", now=room.clock(),
                start=False,
            )  # fmt: skip
            carry_out(
                room.live, room.journal, run_id, now=room.clock, sleep=room.clock.sleep,
                read_only=lambda: None,
        standards=lambda plan: standards(room.settings, room.store, plan.topic_ids, room.clock()),
            )  # fmt: skip


STEPS = st.one_of(
    st.tuples(st.just("produce"), st.integers(0, 2)),
    st.tuples(st.just("commit"), st.integers(0, 2)),
    st.tuples(st.just("wait"), st.sampled_from([0.3, 2.0, 7.0, 20.0])),
    st.tuples(st.just("die"), st.tuples(st.integers(1, 40), st.booleans())),
    st.tuples(st.just("standby"), st.sampled_from([2.0, 20.0])),
    st.tuples(st.just("outage"), st.sampled_from([3.0, 40.0])),
    st.tuples(
        st.just("answers"),
        st.lists(st.sampled_from([0, 3, 7, 29, "lost", "lost-before", "unreachable"]), max_size=6),
    ),
    st.tuples(st.just("step_clock"), st.integers(-600, 600)),
    st.tuples(st.just("by_hand"), st.integers(0, 2)),
)
_BUSY = [("produce", 0), ("commit", 0), ("wait", 2.0)]


@settings(examples(10), suppress_health_check=list(HealthCheck))
@given(st.lists(STEPS, max_size=20))
@example([*_BUSY, ("die", (6, True)), *_BUSY, ("standby", 20.0)])
@example([*_BUSY, ("by_hand", 0), *_BUSY, ("step_clock", -300), *_BUSY])
def test_purges_keep_the_interval_and_none_waits_forever(steps: list[tuple[str, Any]]) -> None:
    _held(steps)


@pytest.mark.further
@settings(examples(40), suppress_health_check=list(HealthCheck))
@given(st.lists(STEPS, max_size=20))
def test_so_they_do_whatever_happens(steps: list[tuple[str, Any]]) -> None:
    _held(steps)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=500, suppress_health_check=list(HealthCheck))
@given(st.lists(STEPS, max_size=40))
def test_they_do_so_however_much_happens(steps: list[tuple[str, Any]]) -> None:
    _held(steps)


def _held(steps: list[tuple[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder, _world(Path(folder)) as world:
        for step in steps:
            world.act(step)
        _nobody_waits_forever(world)
        _no_purge_was_too_soon(world)
        assert world.room.journal.verify().ok


@pytest.mark.further_but("2")
@pytest.mark.parametrize("first", [1, 2, 3, 4])
def test_death_at_each_write_of_a_cycle_purges_once(first: int) -> None:
    for write in range(first, 17, 4):
        for after in (False, True):
            with tempfile.TemporaryDirectory() as folder, _world(Path(folder), TOPICS[:1]) as world:
                world.produce(0)
                world.commit(0)
                world.die((write, after))
                _nobody_waits_forever(world)
                _no_purge_was_too_soon(world)


@contextmanager
def _world(folder: Path, topics: tuple[str, ...] = TOPICS) -> Iterator[World]:
    room = ServiceRoom(folder)
    for topic in topics:
        room.live.topic(topic)
        room.live.commit(topic.split("-")[0], topic)
    world = World(room, room.service(), topics)
    delete = room.live.delete_records

    def noted(leader_id: int, targets: Any, **options: Any) -> Any:
        runs = room.journal.busy_topics(room.live.id)
        world.sent += [(room.clock(), key, runs[key.topic]) for key in targets]
        return delete(leader_id, targets, **options)

    room.live.delete_records = noted  # type: ignore[method-assign]
    yield world
    room.journal.close()


@contextmanager
def _dying(write: int, after: bool) -> Iterator[None]:
    """The process dies at its n-th write, with the transaction or without it."""
    whole, left = JournalFile.write, [write]

    @contextmanager
    def counted(file: JournalFile) -> Iterator[Any]:
        ours = threading.current_thread() is threading.main_thread()
        left[0] -= ours
        if ours and left[0] == 0 and not after:
            raise Killed
        with whole(file) as db:
            yield db
        if ours and left[0] == 0:
            raise Killed

    JournalFile.write = counted  # type: ignore[method-assign]
    try:
        yield
    finally:
        JournalFile.write = whole  # type: ignore[method-assign]


def _no_purge_was_too_soon(world: World) -> None:
    """A policy's run was queued an interval after every earlier start of its partitions."""
    before: dict[TopicPartition, datetime] = {}
    for run in world.room.runs():
        keys = [row.key for row in world.room.journal.partitions(run.run_id)]
        if run.policy is not None:
            for key in keys:
                last = before.get(key)
                assert last is None or last + INTERVAL <= run.queued_at, (key, run.run_id)
        sent = [(at, key) for at, key, of in world.sent if of == run.run_id]
        for at, key in [*sent, *((run.queued_at, key) for key in keys)]:
            before[key] = max(before.get(key, at), at)


def _nobody_waits_forever(world: World) -> None:
    """Once the cluster answers and something is to be purged, it soon is."""
    live, clock = world.room.live, world.room.clock
    live.down, live.answers = False, []
    for which in range(len(world.topics)):
        world.produce(which)
        world.commit(which)
    starts = world.room.journal.last_starts(live.id, world.topics).values()
    # A clock that stepped back waits for the starts that it has not reached yet.
    until = max([clock(), *starts]) + INTERVAL + BOUND
    while clock() < until and not all(map(_purged(world), world.topics)):
        world.wait(1.0)
    assert all(map(_purged(world), world.topics)), world.room.status()


def _purged(world: World) -> Any:
    live = world.room.live

    def found(topic: str) -> bool:
        return live.log_start(topic) == live.parts[TopicPartition(topic, 0)].high_watermark

    return found
