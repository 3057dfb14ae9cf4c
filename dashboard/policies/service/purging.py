"""The purges of applications: planned, queued under the service's lease, carried out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from dashboard.core.errors import LowwaterError, unexpected
from dashboard.core.sums import whole_sum
from dashboard.policies.service import cycle
from dashboard.policies.service.cycle import Application
from dashboard.policies.service.following import Following
from dashboard.policies.service.leading import Lead, Link
from dashboard.policies.service.outcome import Outcome, Statuses, of_error
from dashboard.policies.service.switching import standing
from dashboard.purge.evidence.estimates import most_freed
from dashboard.purge.evidence.standards import standards
from dashboard.purge.execute.archiving import Reading
from dashboard.purge.execute.carrying import carry_out, held, say
from dashboard.purge.jobs.queue import enqueue_policy
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.policies import PolicyClaim
from dashboard.purge.journal.rows import PartitionRow, RunRow, good
from dashboard.purge.plan.cluster_seam import Cluster
from dashboard.purge.plan.plan import Plan
from dashboard.settings.current import CurrentSettings, each_second
from dashboard.settings.policies.policy import Policy
from dashboard.settings.settings import Settings
from dashboard.store import own_reads
from dashboard.store.connections import client_of_run
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
    confirmed = state if state and standing(policy, state) in ("on", "held") else None
    return cycle.prepare(
        live, settings, site.store, policy, application,
        busy=site.journal.busy_topics(site.cluster_id),
        use=site.journal.policy_use(site.cluster_id, policy.name, site.now() - _BUDGET_OF),
        confirmed_by=confirmed.who if confirmed else "",
        confirmed_at=confirmed.waives_since if confirmed else None,
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
            reading=Reading(
                lambda: client_of_run(site.settings, site.store, site.connection),
                lambda: site.settings.archive,
                lambda name, now: own_reads.reading(site.store, name, say, now),
            ),
        )  # fmt: skip


def of_run(planned: Outcome, plan: Plan, run: RunRow, rows: Sequence[PartitionRow]) -> Outcome:
    """What a closed run, with its partitions, means for the application it was planned for."""
    error = run.error or _first_left(run.mode, rows)
    return replace(
        of_plan(planned, plan),
        state="refused" if run.state == "refused" else "ran",
        reason=f"{run.outcome}: {error.get('message', planned.reason)}",
        code=error.get("code", planned.code),
        run_id=run.run_id,
    )


def _first_left(mode: str, rows: Sequence[PartitionRow]) -> dict[str, str]:
    """Kafka's word for the first partition that is not done, such as a right that is missing."""
    left = [row for row in rows if row.error and row.state not in good(mode)]
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
    likely = whole_sum(p.estimate.bytes_at_once if p.estimate else None for p in free)
    most = whole_sum(most_freed(p) for p in free)
    return replace(planned, partitions=len(free), bytes_at_once=likely, bytes_at_once_high=most)


# Purges what is due of each application; one that fails stops no other, and waits ever longer.

Job = Callable[[], None]


def at_once(job: Job) -> None:
    """Do a job here and now; a service that runs for long has threads for them."""
    job()


class Applications:
    """Looks at applications one after another; what they purge goes on beside that.

    `start` begins the carrying out of a run; once `stopping` says so, no new run begins.
    """

    def __init__(
        self,
        site: Site,
        *,
        link: Link,
        lead: Lead,
        statuses: Statuses,
        following: Following,
        start: Callable[[Job], None],
        stopping: Callable[[], bool],
    ) -> None:
        self._site, self._link, self._lead = site, link, lead
        self._statuses, self._following = statuses, following
        self._start, self._stopping = start, stopping
        self._lock = threading.Lock()
        self._in_flight: dict[str, Key] = {}  # by run id: an application may have several
        self._patience = Patience()
        self._intervals = {p.name: p.min_purge_interval for p in site.settings.policies}

    @property
    def in_flight(self) -> frozenset[str]:
        """The runs that are being carried out now."""
        with self._lock:
            return frozenset(self._in_flight)

    def cycle(self, policy: Policy, seen: cycle.Seen) -> datetime:
        """One cycle of a policy that is on: when to look at it again. Raises JournalError."""
        site = self._site
        now = site.now()
        self._intervals[policy.name] = policy.min_purge_interval
        matched = [name for name in seen.topics if policy.matches(name)]
        starts = site.journal.last_starts(site.cluster_id, matched)
        found = cycle.applications(policy, seen, starts, now)
        if not found:
            nothing = Outcome("nothing", "no topic matches that we may describe")
            self._statuses.whole(policy.name, nothing, now)
            return now + cycle.pace(policy)
        again = [self._application(policy, application) for application in found]
        next_at = min([at for at in again if at is not None], default=now + cycle.pace(policy))
        self._statuses.looked(
            policy.name,
            [application.owner for application in found],
            topics=len(matched),
            partitions=sum(len(application.partitions) for application in found),
            next_at=next_at,
            now=site.now(),
        )
        return min(next_at, now + cycle.LONGEST_PACE)

    def take_over(self, run: RunRow) -> None:
        """Carry out an open run whose holder is gone. Raises JournalError, ClusterError."""
        plan = self._site.journal.plan(run.run_id)
        owner = plan.chosen_groups[0] if plan.chosen_groups else None
        planned = Outcome("ran", "taken over from a service that was gone", owner)
        self._begin((run.policy or "", owner), run.run_id, plan, planned, self._link.live())

    def _application(self, policy: Policy, application: Application) -> datetime | None:
        """Purge what is due, if anything is; when to look again."""
        key = (policy.name, application.owner)
        with self._lock:
            busy = key in self._in_flight.values()
        if busy or self._stopping():
            return self._site.now() + cycle.pace(policy)
        if not application.due:
            text = f"{len(application.partitions)} partitions wait for their interval"
            self._note(policy, Outcome("waiting", text, application.owner, application.next_at))
            return application.next_at
        if (left := self._patience.left_alone(key, self._site.now())) is not None:
            self._note(policy, left)
            return left.next_at
        try:
            return self._purge(policy, application)
        except LowwaterError as error:
            if error.exit_code == 70:  # the journal: it is the same for every application
                raise
            self._note(policy, of_error(error, application.owner))
        except Exception as error:
            self._note(policy, of_error(unexpected(error), application.owner))
        return self._site.now() + cycle.pace(policy)

    def _purge(self, policy: Policy, application: Application) -> datetime:
        live = self._link.live()
        settings = self._site.settings
        ready = prepared(self._site, live, policy, application, settings)
        again = self._site.now() + cycle.pace(policy)
        if policy not in settings.policies or self._site.settings != settings:
            # A window or a guard that somebody writes meanwhile must count for this plan, too.
            text = "the settings changed while this was planned: it is planned anew"
            self._note(policy, Outcome("waiting", text, application.owner, next_at=again))
            return again
        if ready.plan is None:
            self._note(policy, replace(ready.outcome, next_at=again))
            return again
        run_id = queued(self._site, settings, policy, ready.plan, self._lead.holder)
        next_at = self._site.journal.head(run_id).queued_at + policy.min_purge_interval
        planned = replace(ready.outcome, next_at=next_at)
        self._begin((policy.name, application.owner), run_id, ready.plan, planned, live)
        return min([next_at, *([application.next_at] if application.next_at else [])])

    def _begin(self, key: Key, run_id: str, plan: Plan, planned: Outcome, live: Cluster) -> None:
        with self._lock:
            self._in_flight[run_id] = key
        try:
            doing = replace(planned, state="busy", reason=f"run {run_id} is in flight")
            self._statuses.note(key[0], doing, self._site.now(), tell=False)  # its end is the line
            self._start(lambda: self._carry(key, run_id, plan, planned, live))
        except Exception:  # it has no thread: whoever sees it silent takes it over
            self._landed(run_id)
            raise

    def _landed(self, run_id: str) -> bool:
        """The run is in flight no more; whether none is."""
        with self._lock:
            self._in_flight.pop(run_id, None)
            return not self._in_flight

    def _carry(self, key: Key, run_id: str, plan: Plan, planned: Outcome, live: Cluster) -> None:
        outcome = planned
        try:
            run = carried_out(self._site, live, run_id)
            outcome = replace(planned, state="busy", reason=f"run {run_id} has another worker")
            if run is not None:
                self._following.add(run_id)
                rows = self._site.journal.partitions(run_id)
                outcome = of_run(planned, plan, run, rows)
                interval = self._intervals.get(key[0], timedelta(0))
                self._patience.learn(key, outcome, rows, interval, self._site.now())
        except LowwaterError as error:
            outcome = replace(of_error(error, key[1]), next_at=planned.next_at)
        except Exception as error:
            outcome = of_error(unexpected(error), key[1])
        finally:
            idle = self._landed(run_id)
        if idle:
            self._link.tidy()
        try:
            self._statuses.over(key[0], outcome, self._site.now())
        except LowwaterError as error:
            self._statuses.error(error, self._site.now(), beside=True)

    def _note(self, policy: Policy, outcome: Outcome) -> None:
        self._statuses.note(policy.name, outcome, self._site.now())


# How long an application is left alone whose purges come to nothing, run after run.

LONGEST = timedelta(hours=1)
_MOST_DOUBLED = 20

Key = tuple[str, str | None]  # policy, application


@dataclass(frozen=True, slots=True)
class _Failed:
    times: int
    at: datetime
    until: datetime
    outcome: Outcome


class Patience:
    """Doubles the interval after each run that purged no partition, up to an hour.

    The interval of a policy is a minimum (KIP-811), so waiting longer keeps it. Nothing is kept
    over a restart: a service that starts anew tries at once. Safe between threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._failed: dict[Key, _Failed] = {}

    def learn(
        self,
        key: Key,
        outcome: Outcome,
        rows: Collection[PartitionRow],
        interval: timedelta,
        now: datetime,
    ) -> None:
        """Take in how a run ended: `outcome` is what it is told as, `rows` are its partitions."""
        with self._lock:
            before = self._failed.pop(key, None)
            if not rows or any(row.state != "not_done" for row in rows):
                return
            times = min(before.times + 1 if before else 1, _MOST_DOUBLED)
            longest = max(interval, LONGEST)
            until = now + min(interval * 2 ** (times - 1), longest)
            self._failed[key] = _Failed(times, now, until, outcome)

    def left_alone(self, key: Key, now: datetime) -> Outcome | None:
        """What there is to say while it is left alone; None: it may be purged."""
        with self._lock:
            failed = self._failed.get(key)
        # Before the last failure: the clock has stepped back.
        if failed is None or failed.times < 2 or not failed.at <= now < failed.until:
            return None
        said = f"its last {failed.times} runs purged nothing, the next is later: "
        return replace(
            failed.outcome, state="refused", reason=said + failed.outcome.reason,
            next_at=failed.until,
        )  # fmt: skip
