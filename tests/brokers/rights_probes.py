"""What a principal can do on a real cluster, feature by feature, in the words of the product."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path

from dashboard.cluster.live import LiveCluster, connect
from dashboard.collect.collect import collect
from dashboard.core.clock import utc_now
from dashboard.core.errors import RefusedError
from dashboard.domain.model import Guard, TopicPartition
from dashboard.inventory.names import folder_of
from dashboard.orphans.sweep.live import LiveCheck
from dashboard.orphans.sweep.report import Refusal
from dashboard.orphans.verdicts import Verdict
from dashboard.purge.evidence.look import LookRequest, look
from dashboard.purge.evidence.standards import standards
from dashboard.purge.execute import carrying
from dashboard.purge.journal.rows import RunView
from dashboard.purge.plan.plan import Plan
from dashboard.safety.last_copy import Records
from tests.brokers import principals
from tests.brokers.purge_bench import Bench
from tests.brokers.secured import SecuredCluster
from tests.support.collected import collected

DEAD = "rights-dead"
WORKS = ""
PATIENCE = timedelta(seconds=20)


class Probes:
    """One principal's look at one topic: each probe is "" where the feature works, else why not."""

    def __init__(self, cluster: SecuredCluster, user: str, topic: str, folder: Path) -> None:
        folder.mkdir()
        self.topic = topic
        self.client = principals.client(cluster, user)
        local = cluster.local
        self.bench = Bench(
            local.bootstrap, local.cluster_id, folder, as_user=self.client, replicas=1
        )
        collected(self.bench.store, utc_now(), topic)  # by somebody who may see all
        self.broker_id, self.log_dir = 1, str(local.log_dir(1))
        self.cluster_id = local.cluster_id

    def __enter__(self) -> Probes:
        return self

    def __exit__(self, *_: object) -> None:
        self.bench.close()

    def look(self) -> dict[str, str]:
        """Every feature that only reads."""
        with connect(self.client, PATIENCE) as live:
            return {
                **self._collected(live),
                "epochs": live.epoch_ends({TopicPartition(self.topic, 0): 0})[
                    TopicPartition(self.topic, 0)
                ].error
                or WORKS,
                "plan": self.plan(),
                "orphan check": self._orphan(live),
            }

    def plan(self, to: str = "committed") -> str:
        return _refusal(lambda: _guards(self.bench.plan(self.topic, to=to)))

    def sampling(self) -> str:
        def method() -> str:
            (row,) = self.bench.plan(self.topic, to="high-watermark", sample=True).partitions
            found = row.estimate.method if row.estimate else "no estimate"
            return WORKS if found == "sampled" else f"{_names(row.guards)} {found}"

        return _refusal(method)

    def records(self) -> str:
        def looked() -> str:
            (found,) = look(
                self.bench.settings, self.bench.settings.data, None,
                LookRequest({TopicPartition(self.topic, 0): 100}, {}, 3), "test",
            )  # fmt: skip
            return WORKS if found.error is None else f"{found.error}: {found.why}"

        return _refusal(looked)

    def purge(self, offset: int) -> str:
        def purged() -> str:
            plan = self.bench.plan(self.topic, to=f"offset:{offset}")
            if guards := _guards(plan):
                return guards
            (row,) = self._carry_out(plan).partitions
            return WORKS if row.state == "done" else f"{row.state} {row.error}"

        return _refusal(purged)

    def move(self, offset: int) -> str:
        """What became of the waived group; the purge itself is another matter."""
        self.bench.commit(DEAD, self.topic, {0: 0})

        def moved() -> str:
            plan = self.bench.plan(
                self.topic, to=f"offset:{offset}", waive=(f"{DEAD}=gone",), move_waived=True
            )
            if guards := _guards(plan):
                return guards
            (move,) = self._carry_out(plan).moves
            return WORKS if move.state == "moved" else f"{move.state} {move.error}"

        try:
            return _refusal(moved)
        finally:
            self.bench.commit(DEAD, self.topic, {0: 100})

    def _carry_out(self, plan: Plan) -> RunView:
        """As the service of policies does it: without a process of its own."""
        run_id, settings = self.bench.enqueue(plan, start=False), self.bench.settings
        with (
            connect(self.client, PATIENCE) as live,
            carrying.held(self.bench.journal, settings.state_dir, run_id, utc_now) as first,
        ):
            assert first
            carrying.carry_out(
                live, self.bench.journal, run_id,
                now=utc_now, sleep=time.sleep, read_only=lambda: None,
                standards=lambda plan: standards(
                    settings, self.bench.store, plan.topic_ids, utc_now()
                ),
            )  # fmt: skip
        return self.bench.journal.run(run_id)

    def _collected(self, live: LiveCluster) -> dict[str, str]:
        store = self.bench.store
        got = collect(live, store, now=utc_now, progress=lambda _: None)
        rows = {
            name: store.read("snapshots", got.snapshot_id, name).to_pylist()
            for name in ("topics", "partitions", "replicas", "group_offsets")
        }
        numbers = {row["topic_no"] for row in rows["topics"] if row["topic"] == self.topic}
        mine = {
            name: [r for r in found if r["topic_no"] in numbers] for name, found in rows.items()
        }
        parts = {(e["part"], e["object"]): e["error"] for e in got.errors}
        if "log_dirs" in {part for part, _ in parts}:  # never 0 for what is not known
            assert {row["size_bytes"] for row in rows["replicas"]} <= {None}
        known = [r for r in mine["partitions"] if r["high_watermark"] is not None]
        commits = [r for r in mine["group_offsets"] if r["committed_offset"] is not None]
        hidden = f"{self.topic} is not there"
        return {
            "collect": WORKS if known else hidden,
            "groups": "; ".join(got.groups_incomplete) or (WORKS if commits else hidden),
            "log dirs": parts.get(("log_dirs", "broker 1"), WORKS),
            "topic configs": parts.get(("configs", f"topic {self.topic}"), WORKS)
            if known
            else hidden,
            "broker configs": parts.get(("configs", "broker 1"), WORKS),
            "reassignments": parts.get(("reassignments", "cluster"), WORKS),
        }

    def _orphan(self, live: LiveCluster) -> str:
        """A stray folder of a topic that was never there: it may go when all can be read."""
        gone = f"gone-{uuid.uuid4().hex[:6]}"
        folder = folder_of(f"{gone}-0.{'a' * 32}-stray")
        assert folder is not None
        row = Verdict(
            self.broker_id, self.log_dir, folder.directory, gone, 0, "A" * 21 + "Q", "stray",
            1, 1, utc_now(), "removable", "", None,
        )  # fmt: skip
        check = LiveCheck(live, self.broker_id, self.cluster_id)
        now = utc_now()
        try:
            check.may_go(row, folder, lambda: (), records=Records(1, 1, now), now=now)
        except Refusal as refused:
            return f"{refused}"
        return WORKS


def _guards(plan: Plan) -> str:
    return _names(guard for p in plan.partitions for guard in p.guards)


def _names(guards: Iterable[Guard]) -> str:
    return " ".join(sorted({guard.name for guard in guards}))


def _refusal(tried: Callable[[], str]) -> str:
    try:
        return tried()
    except RefusedError as refused:
        return f"{refused.code}: {refused.message}"
