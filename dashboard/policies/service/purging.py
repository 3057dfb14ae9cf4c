"""The purge of one application: planned, queued under the service's lease, carried out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from dashboard.policies.service import cycle
from dashboard.policies.service.cycle import Application
from dashboard.policies.service.outcome import Outcome
from dashboard.policies.service.switching import standing
from dashboard.purge.evidence.estimates import most_freed
from dashboard.purge.evidence.standards import standards
from dashboard.purge.execute.carrying import carry_out, held
from dashboard.purge.jobs.queue import enqueue_policy
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.journal_policies import PolicyClaim
from dashboard.purge.journal.journal_rows import PartitionRow, RunRow
from dashboard.purge.plan.cluster_seam import Cluster
from dashboard.purge.plan.plan import Plan
from dashboard.settings.current import CurrentSettings
from dashboard.settings.policies.section import Policy
from dashboard.settings.read_only import each_second
from dashboard.settings.settings import Settings
from dashboard.store.snapshots import ClusterStore

_BUDGET_OF = timedelta(hours=1)


@dataclass(frozen=True)
class Site:
    """Where policies act: one cluster of a data folder, the journal, the settings, the clock.

    `current` reads the settings' file whenever `settings` is asked for. `connection` is as
    `queue.enqueue` takes it: a worker that takes a run over connects by it.
    """

    current: CurrentSettings
    store: ClusterStore
    journal: Journal
    now: Callable[[], datetime]
    sleep: Callable[[float], None]
    connection: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def cluster_id(self) -> str:
        return self.store.cluster_id

    @property
    def settings(self) -> Settings:
        """As their file says now. Raises SettingsError."""
        return self.current.get()


def prepared(
    site: Site, live: Cluster, policy: Policy, application: Application, settings: Settings
) -> cycle.Prepared:
    """What a purge of the application would be by these settings. Raises as `cycle.prepare`."""
    state = site.journal.policy_states(site.cluster_id).get(policy.name)
    return cycle.prepare(
        live, settings, site.store, policy, application,
        busy=site.journal.busy_topics(site.cluster_id),
        use=site.journal.policy_use(site.cluster_id, policy.name, site.now() - _BUDGET_OF),
        confirmed_by=state.who if state and standing(policy, state) in ("on", "held") else "",
        now=site.now(),
    )  # fmt: skip


def queued(site: Site, settings: Settings, policy: Policy, plan: Plan, holder: str) -> str:
    """Queue the plan, made by these settings, for the policy: the run's id.

    Raises as `enqueue_policy` does.
    """
    claim = PolicyClaim(policy.name, policy.definition_sha256, policy.min_purge_interval, holder)
    return enqueue_policy(
        settings, site.journal, plan, policy=policy, claim=claim,
        connection=site.connection, now=site.now(),
    )  # fmt: skip


def carried_out(site: Site, live: Cluster, run_id: str) -> RunRow | None:
    """Carry a queued run out in this process; None when another process does already.

    Raises JournalError: then its heartbeat ends, and whoever sees that goes on with it.
    """
    started = site.current.started
    with held(site.journal, started.state_dir, run_id, site.now) as first:
        if not first:
            return None
        return carry_out(
            live, site.journal, run_id, now=site.now, sleep=site.sleep,
            read_only=each_second(started), policies=lambda: site.settings.policies,
            standards=lambda plan: standards(site.settings, site.store, plan.topic_ids, site.now()),
        )  # fmt: skip


def of_run(planned: Outcome, plan: Plan, run: RunRow, rows: Sequence[PartitionRow]) -> Outcome:
    """What a closed run, with its partitions, means for the application it was planned for."""
    error = run.error or _first_left(rows)
    return replace(
        of_plan(planned, plan),
        state="refused" if run.state == "refused" else "ran",
        reason=f"{run.outcome}: {error.get('message', planned.reason)}",
        code=error.get("code", planned.code),
        run_id=run.run_id,
    )


def _first_left(rows: Sequence[PartitionRow]) -> dict[str, str]:
    """Kafka's word for the first partition that is not done, such as a right that is missing."""
    left = [row for row in rows if row.error and row.state not in ("done", "leader_done")]
    if not left:
        return {}
    first = left[0]
    count = f"{len(left)} of {len(rows)} partitions are not done"
    return {
        "message": f"{count}, {first.topic}-{first.partition}: {first.error}",
        "code": str(first.error),
    }


def of_plan(planned: Outcome, plan: Plan) -> Outcome:
    """The outcome with what the plan is about to purge."""
    free = plan.free_partitions
    likely = _sum([p.estimate.bytes_at_once if p.estimate else None for p in free])
    most = _sum([most_freed(p) for p in free])
    return replace(planned, partitions=len(free), bytes_at_once=likely, bytes_at_once_high=most)


def _sum(sizes: Sequence[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None
