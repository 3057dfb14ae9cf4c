"""One seed: a cluster, a plan, faults while it is carried out, workers that die, and the end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from dashboard.cluster import groups
from dashboard.core.errors import JournalError, LowwaterError, RefusedError
from dashboard.purge.execute import send
from dashboard.purge.execute.carrying import carry_out
from dashboard.purge.journal import head
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.rows import Options, RunView
from dashboard.purge.plan.claims import RememberedOffset
from dashboard.purge.plan.facts import read_facts
from dashboard.purge.plan.guards import Override, Waiver
from dashboard.purge.plan.plan import Plan, build
from dashboard.purge.plan.resolve import resolve
from dashboard.purge.plan.targets import parse_target
from dashboard.purge.receipt.replica_watch import ReplicaWatch
from dashboard.store import clocks
from dashboard.store.snapshots import ClusterStore
from tests.simulation import restoring
from tests.simulation.collecting import snapshots_in
from tests.simulation.faults import FAULTS_FOR, Misfortune
from tests.simulation.joining import Joining
from tests.simulation.past import Past
from tests.simulation.reads import Faults
from tests.simulation.seam import ModelCluster
from tests.simulation.situations import FOUR, LONE, REWRITTEN, SPREAD, Situation, of_seed
from tests.simulation.standards import OfModel
from tests.simulation.truth import NOTHING_KNOWN, Truth
from tests.simulation.world import CALM_TICK, World
from tests.support.at_once import AtOnce, reads_at_once

WATCH_FOR = 900.0
TOO_LONG = 3600.0
_MOST_CRASHES = 4
MODES = ("wait-all", "wait-all", "leader-only", "leader-only-verified")


class Died(BaseException):
    """The worker's process, or its host, is gone at this very point."""


@dataclass(frozen=True)
class Naps:
    """The module `time`, for a reader that waits a moment before it reads again."""

    sleep: Callable[[float], None]


@contextmanager
def one_thread(sleep: Callable[[float], None]) -> Iterator[None]:
    """The executor's pools work in one thread, in the order of the code."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(reads_at_once())
        stack.enter_context(mock.patch.object(send, "ThreadPoolExecutor", AtOnce))
        stack.enter_context(mock.patch.object(groups, "time", Naps(sleep)))
        # No power fails here: only processes die.
        stack.enter_context(mock.patch.object(head.os, "fdatasync", lambda _: None))
        yield


@dataclass
class Story:
    """What a seed led to, for the checks: model, memory, plan, the run as it ended, the chain."""

    seed: int
    world: World
    cluster: ModelCluster
    remembered: tuple[RememberedOffset, ...] = ()
    plan: Plan | None = None
    plan_truth: Truth = NOTHING_KNOWN
    run: RunView | None = None
    run_id: str = ""
    entries: list[Any] = field(default_factory=list)
    chain_ok: bool = True
    kind: str = ""  # the situation that this seed is about, if any
    crashes: int = 0
    keeps: int = 0  # records of each partition that stay
    named: bool = True  # a journal that was put back is called so
    cancelled_at: float | None = None  # an operator was told that it is
    problem: str | None = None  # what the product raised, or that it never ended


class Scenario:
    """Plays one seed with a journal in `folder`."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed, self.folder = seed, folder
        self.rng = Random(seed)
        fate = Random(seed + 7)
        kind = of_seed(seed)
        brokers = self.rng.choice((3, 3, 3, 4))
        topics = {f"t{n}": self.rng.randint(1, 3) for n in range(self.rng.randint(1, 2))}
        if kind in FOUR:  # the fourth coordinates nothing, and has not all partitions
            brokers = 4
        if kind in SPREAD:  # some of it is sent, or committed, while some is not
            topics = dict.fromkeys(topics, 3)
        self.world = World(
            Random(seed + 1), brokers, topics,
            unclean=self.rng.random() < 0.3 or kind == "tail lost",
            replication=min(self.rng.choice((1, 2, 3, 3, 3)), 1 if kind in LONE else 3),
        )  # fmt: skip
        self.past = Past(Random(seed + 3), self.world, kind)
        self.stale = (self.world.unclean and self.rng.random() < 0.4) or kind == "tail lost"
        self.mode = self.rng.choice(MODES)
        v3 = frozenset(b for b in self.world.brokers if self.rng.random() < 0.8)
        self.faults = Faults()
        self.joining = Joining(Random(seed + 4), self.world)
        self.situation = Situation(kind, fate, self.world, self.joining)
        self.world.window = self.situation.window
        if kind not in REWRITTEN:  # what grew past such a group's offset nobody can tell
            old = Random(seed + 8)
            self.world.old_clients = frozenset(g for g in "ab" if old.random() < 0.8)
        self.cluster = ModelCluster(
            self.world, Random(seed + 2), self.faults, Random(seed + 6), self._hook,
            leader_only_brokers=v3 if self.mode == "leader-only" else frozenset(),
        )  # fmt: skip
        self.crash_share = self.rng.choice((0.0, 0.0, 0.01, 0.05))
        self.disk_full_until = -1.0
        self.copy: Path | None = None
        self.copied = False
        self.alive = False
        self.patience = 1.0  # how much longer than it asks a worker sleeps
        self.until = 2 * TOO_LONG
        self.story = Story(seed, self.world, self.cluster, kind=kind, keeps=self.situation.keeps)
        self.journal: Journal | None = None
        self.store: ClusterStore | None = None  # of what snapshots tell, where that is asked

    def play(self) -> Story:
        """The whole story. Errors of the product are part of it, not raised."""
        with one_thread(self.world.sleep):
            self.past.recreate()
            self._live_before()
            self.situation.before()
            if self.situation.aged:
                self.store = snapshots_in(self.folder, self.situation.rng, self.world)
            self.story.remembered = self.past.kept()
            plan = self._plan()
            self.story.plan = plan
            if plan is not None and plan.free_partitions:
                self._run(plan)
        return self.story

    # -- before

    def _live_before(self) -> None:
        """Records, commits, and in some worlds followers that have never fetched anything."""
        if self.stale:
            for broker in self.world.brokers:
                self.world.slow(broker, 90)
        for key, part in self.world.parts.items():
            leader = part.replicas[part.leader or 1]
            leader.end = self.rng.randint(30, 100) if self.stale else self.rng.randint(100, 2000)
            part.written = [(0, self.world.at)]
            for group in ("a", "b"):
                if self.rng.random() < 0.9 or group == "a":
                    self.world.commit(group, key, self.rng.randint(0, leader.end))
        self.world.advance(20 if self.stale else 2)

    def _plan(self) -> Plan | None:
        names = sorted({key.topic for key in self.world.parts})
        now = self.world.now()
        self.alive = False
        wrong = clocks.problem(self.cluster, now)
        found = read_facts(
            self.cluster, names, cluster_name="sim", remembered=self.story.remembered, now=now
        )
        assert self.cluster.listed is not None
        self.story.plan_truth = self.cluster.listed.truth
        self.standards = OfModel.of(self.world, names, self.story.remembered, self.store)
        found = self.standards.applied(found, now)
        found = replace(found, wrong_clock=wrong.why if wrong else None)
        waives = self.rng.random() < 0.3 or self.situation.waives
        waivers = [Waiver("b", "gone", "ann", now, since=now)] if waives else []
        typed = "high-watermark" if self.situation.accepts else "committed"
        if self.situation.keeps:
            typed = f"keep:{self.situation.keeps}B"
        target = parse_target(typed)
        resolved = resolve(
            self.cluster, found, target, chosen_groups=(), waived={w.group_id for w in waivers},
            declarations=self.standards.declarations, now=now,
            history=self.standards.history(found),
        )  # fmt: skip
        overrides = [
            Override(name, None, "accepted", "ann", now)
            for name in ("unclean-election-enabled", "under-replicated")
            if self.world.unclean
        ]
        if self.situation.accepts:
            overrides += [Override("unread-by-group", g, "accepted", "ann", now) for g in "ab"]
        return build(
            found, resolved, target=typed, declarations=self.standards.declarations, estimates={},
            overrides=overrides, waivers=waivers, analysis_id=None,
            most_partitions=self.standards.purge.most_partitions, created_by="ann", now=now,
            expires_after=timedelta(hours=1),
        )  # fmt: skip

    # -- the run, its workers, their deaths

    def _run(self, plan: Plan) -> None:
        options = Options(
            timeout_ms=self.rng.choice((3_000, 10_000, 30_000)),
            partitions_per_request=1 if self.situation.restores else self.rng.choice((1, 2, 500)),
            requests_in_flight=self.rng.choice((1, 2)),
            watch_for_ms=int(WATCH_FOR * 1000),
            canary=self.rng.random() < 0.45 and not self.situation.restores,
            stop_at_least_answered=self.rng.choice((2, 20)),
        )
        if options.canary:  # its moment is short: more workers die in it
            self.crash_share = max(self.crash_share, 0.07)
        with self._opened() as journal:
            self.story.run_id, _ = journal.insert(
                plan, token=plan.sha256, mode=self.mode, who="ann", from_where="sim",
                typed=plan.confirmation, options=options, connection={}, now=self.world.now(),
            )  # fmt: skip
        if self.situation.restores:
            self._backup()
        fate = Random(self.seed + 5)
        eventful = bool(self.situation.kind)
        Misfortune(
            self.rng, self.world, self.faults, self, self.joining, fate, eventful=eventful
        ).come()
        self.situation.after_plan(self)
        waits = (60.0,) if self.stale else (0.0, 0.0, 0.0, 20.0, 60.0)
        waits = self.situation.waits or waits
        self.world.advance(self.rng.choice(waits))  # until a worker takes it
        while self.world.at < TOO_LONG and not self._worked():
            self.world.advance(self.rng.uniform(15, 40))  # until somebody respawns it
        self.world.advance(max(0.0, FAULTS_FOR * 2 - self.world.at))  # all that was set off is over
        with self._opened() as journal:
            self.story.run = journal.run(self.story.run_id)
            self.story.entries = journal.entries(self.story.run_id)
            self.story.chain_ok = journal.verify().ok
        if self.world.at >= TOO_LONG:
            self.story.problem = "the run never ended"
        elif self.copy is not None and self.story.cancelled_at is not None:
            self._restore(self.copy)

    def _backup(self) -> None:
        """A copy of the journal is taken; then somebody cancels, as soon as something is sent."""
        sent = restoring.half_sent(self.folder)
        if sent or self.copy is None:
            self.copy = self.folder / "copy"
            restoring.copied(self.folder, self.copy)
        if sent:
            self.copied = True
            self.world.later(0.0, lambda: self.wish("cancel"))

    def _restore(self, copy: Path) -> None:
        """The journal is put back; a worker finds an open run in it, and perhaps somebody resumes.

        Alone it is not as what lies beside it. With all of its folder only time tells: a person who
        goes on while the plan lives does so with open eyes.
        """
        rng, world, how = self.situation.rng, self.world, self.situation.restored
        seconds = {"alone": (60, 1200), "soon": (700, 2000), "late": (7_200, 3_000_000)}[how]
        world.advance(max(10.0, FAULTS_FOR * 3 - world.at))  # by then the world is calm
        self._look_at(copy)
        jump = rng.uniform(*seconds)
        world.tick = jump / 20
        world.advance(jump)
        world.tick = CALM_TICK
        world.say(f"the journal is put back from a copy that was taken before the cancel, {how}")
        restoring.put_back(self.folder, copy, alone=how == "alone")
        self.patience, self.until = 50.0, world.at + 2 * TOO_LONG
        earlier = self.story.entries
        if how == "late":
            world.later(60.0, self.resume)
        for _ in range(5):
            if self._worked():
                break
            world.advance(30.0)
        with suppress(JournalError), self._opened() as journal:
            now = journal.entries(self.story.run_id)
            self.story.entries = [*earlier, *(e for e in now if e not in earlier)]
            self.story.named = how != "alone" or not journal.verify().ok

    def _look_at(self, copy: Path) -> None:
        """Somebody looks at the copy, and so starts a worker there: the cancel is not in it."""
        self.folder, own = copy, self.folder
        try:
            self._worked()
        finally:
            self.folder = own

    def _worked(self) -> bool:
        """One worker's life; whether nothing is left to do."""
        self.alive = True
        try:
            with self._opened() as journal:
                journal.beat(self.story.run_id, self.world.now())
                run = carry_out(
                    self.cluster, journal, self.story.run_id, now=self.world.now,
                    sleep=self._sleep, read_only=lambda: None,
                    standards=lambda _: self.standards, steady=lambda: self.world.at,
                )  # fmt: skip
                plan = journal.plan(run.run_id)
                ReplicaWatch(
                    self.cluster, journal, run, plan, self.world.now, self.world.sleep
                ).watch()
                run = journal.head(run.run_id)
                late = run.watched_until is None or self.world.now() >= run.watched_until
                return not run.open and (run.state == "refused" or run.receipt_final or late)
        except Died as death:
            self.world.say(f"the worker dies at {death}")
        except JournalError:
            self.world.say("the worker ends: the journal cannot be written")
        except LowwaterError as error:
            self.story.problem = f"{error.code}: {error.message}"
            return True
        finally:
            self.alive = False
        return False

    def _sleep(self, seconds: float) -> None:
        if self.world.at > self.until:
            raise Died("the end of all patience")
        self.world.sleep(seconds * self.patience)

    @contextmanager
    def _opened(self) -> Iterator[Journal]:
        journal = Journal(self.folder / "journal.sqlite")
        journal.file.rows("PRAGMA synchronous=OFF")  # as above
        durable = journal.file.write

        @contextmanager
        def write(*, by_anybody: bool = False) -> Iterator[Any]:
            self._hook("before a write")
            if self.alive and self.world.at < self.disk_full_until:
                raise JournalError("disk full", "free it")
            with durable(by_anybody=by_anybody) as db:
                yield db
            self._hook("after a write")

        with mock.patch.object(journal.file, "write", write), suppress_closing(journal):
            yield journal

    def _hook(self, where: str) -> None:
        backs_up = self.situation.restores and not self.copied and where == "after a write"
        if backs_up and self.story.run_id:
            self._backup()
        may_die = self.alive and self.world.at < FAULTS_FOR + 30
        left = _MOST_CRASHES - self.story.crashes
        if may_die and left and self.rng.random() < self.crash_share:
            self.story.crashes += 1
            raise Died(where)

    # -- the host, and the people at it

    def wish(self, wish: str | None) -> None:
        """An operator asks for a pause, a cancel, or (None) to go on."""
        with self._by_hand() as journal:
            if journal.head(self.story.run_id).open:
                with suppress(RefusedError):  # a run that was cancelled stays so
                    journal.set_wish(self.story.run_id, wish, "ann", self.world.now())
                    self.world.say(f"an operator wishes: {wish or 'resume'}")
                    if wish == "cancel" and self.story.cancelled_at is None:
                        self.story.cancelled_at = self.world.at

    def fill_disk(self, seconds: float) -> None:
        """Nothing can be written to the journal for so long."""
        self.world.say(f"the journal's disk is full for {seconds:.0f} s")
        self.disk_full_until = self.world.at + seconds

    def resume(self) -> None:
        """Somebody remembers what was paused."""
        with suppress(JournalError), self._by_hand() as journal:
            run = journal.head(self.story.run_id)
            if run.open and run.wish == "pause":
                journal.set_wish(self.story.run_id, None, "ann", self.world.now())

    @contextmanager
    def _by_hand(self) -> Iterator[Journal]:
        was_alive, self.alive = self.alive, False
        with self._opened() as journal:
            yield journal
        self.alive = was_alive


@contextmanager
def suppress_closing(journal: Journal) -> Iterator[None]:
    """Close the connection whatever happened: the next worker opens its own."""
    try:
        yield
    finally:
        with suppress(JournalError):
            journal.close()


def play(seed: int, folder: Path) -> Story:
    """One seed, from the first read to the end of the watch."""
    return Scenario(seed, folder).play()
