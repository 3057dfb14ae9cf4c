"""A fake cluster, a journal in a file and one run, for tests of what a run decides."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from dashboard.domain.model import TopicPartition
from dashboard.purge.evidence.standards import Standards
from dashboard.purge.execute.execute import Execution
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.rows import Options, RunView
from dashboard.purge.plan.claims import RememberedOffset
from dashboard.purge.plan.facts import read_facts
from dashboard.purge.plan.guards import Override, Waiver
from dashboard.purge.plan.plan import Estimate, Plan, build
from dashboard.purge.plan.resolve import resolve
from dashboard.purge.plan.targets import parse_target
from dashboard.purge.receipt.replica_watch import ReplicaWatch
from dashboard.settings.settings import PurgeSettings
from tests.support.cluster import FakeCluster
from tests.unit.purge.facts_of import NOW, TOPIC, declared

# How long a run is watched: every segment has left in half of it, and an hour's looks, the
# product's default, took two thirds of the time of all tests that watch.
WATCHED, MS = timedelta(minutes=15), timedelta(milliseconds=1)
# A sleep lasts so many times as long as was asked for, as on a host that stalls: fewer looks of
# which none sees more, and these took half the time of all tests that watch.
STALLED = 3


class Clock:
    """Time that passes only while somebody sleeps; `now` may be set, `steady` may not."""

    def __init__(self) -> None:
        self.now = NOW
        self._slept = 0.0

    def __call__(self) -> datetime:
        return self.now

    def steady(self) -> float:
        return self._slept

    def sleep(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self._slept += seconds


class Room:
    """A fake cluster, a journal in a file, and one run."""

    def __init__(self, folder: Path, partitions: int = 1) -> None:
        self.live = FakeCluster(partitions)
        self.journal = Journal(folder / "journal.sqlite")
        self.clock = Clock()
        self.read_only = False
        self.remembered: tuple[RememberedOffset, ...] = ()
        self.streams: frozenset[str] = frozenset()  # as plans know them
        self.estimates: dict[TopicPartition, Estimate] = {}
        most = PurgeSettings(most_partitions=max(100, partitions))
        self.standards = Standards({TOPIC: declared()}, most)

    def plan(
        self,
        to: str = "committed",
        overrides: tuple[Override, ...] = (),
        waivers: tuple[Waiver, ...] = (),
    ) -> Plan:
        found = read_facts(
            self.live, [TOPIC], cluster_name="prod", remembered=self.remembered, now=NOW
        )
        found = replace(found, streams=self.streams)
        declarations = {TOPIC: declared()}
        resolved = resolve(
            self.live, found, parse_target(to), chosen_groups=(),
            waived={w.group_id for w in waivers},
            declarations=declarations, now=NOW,
        )  # fmt: skip
        return build(
            found, resolved, target=to, declarations=declarations, estimates=self.estimates,
            overrides=overrides, waivers=waivers, analysis_id=None,
            most_partitions=self.standards.purge.most_partitions, created_by="ann", now=NOW,
            expires_after=timedelta(hours=1),
        )  # fmt: skip

    def queue(self, plan: Plan, **change: Any) -> str:
        mode = change.pop("mode", "wait-all")
        options = {"timeout_ms": 10_000, "partitions_per_request": 2, "requests_in_flight": 1,
                   "watch_for_ms": WATCHED // MS, **change}  # fmt: skip
        run_id, _ = self.journal.insert(
            plan, token=plan.sha256, mode=mode, who="ann", from_where="here",
            typed=plan.confirmation, options=Options(**options), connection={}, now=NOW,
        )  # fmt: skip
        return run_id

    def execution(self, run_id: str, **more: Any) -> Execution:
        return Execution(
            live=self.live,
            journal=self.journal,
            run=self.journal.run(run_id).run,
            plan=self.journal.plan(run_id),
            now=self.clock,
            sleep=self.clock.sleep,
            read_only=lambda: "read_only is on" if self.read_only else None,
            standards=lambda: self.standards,
            steady=self.clock.steady,
            **more,
        )

    def carry_out(self, plan: Plan | None = None, **change: Any) -> RunView:
        run_id = self.queue(plan or self.plan(), **change)
        self.execution(run_id).execute()
        return self.journal.run(run_id)

    def watching(self, view: RunView) -> ReplicaWatch:
        run = self.journal.run(view.run.run_id).run
        plan = self.journal.plan(run.run_id)
        return ReplicaWatch(self.live, self.journal, run, plan, self.clock, self.clock.sleep)

    def watch(self, view: RunView) -> RunView:
        """To the end, by a host that stalls."""
        watching = self.watching(view)
        while (wait := watching.step()) is not None and not watching.silent:
            self.clock.sleep(STALLED * wait)
        return self.journal.run(view.run.run_id)


@contextmanager
def with_a_dead_group(folder: Path) -> Iterator[Room]:
    """A room in which group `a` has read on and `dead` has not; its journal verifies in the end."""
    made = Room(folder)
    made.live.offsets_of = {"a": {0: 60}, "dead": {0: 10}}
    yield made
    assert made.journal.verify().ok
    made.journal.close()
