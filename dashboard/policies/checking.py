"""What policies would do now: read from the cluster as a cycle reads it, and nothing is queued."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from dashboard.core.canonical import canonical, parse_json, written
from dashboard.core.clock import format_time
from dashboard.core.errors import LowwaterError
from dashboard.policies.matching import newest, triggered
from dashboard.policies.service import cycle, purging
from dashboard.policies.service.cycle import Application, Seen
from dashboard.policies.service.outcome import Outcome, of_error
from dashboard.policies.service.purging import Site
from dashboard.policies.service.switching import standing
from dashboard.purge.jobs.queue_refusals import stopped
from dashboard.purge.journal.policies import PolicyState, PolicyStatus
from dashboard.purge.plan.cluster_seam import Cluster
from dashboard.settings.policies.policy import Policy, is_open, next_open


@dataclass(frozen=True, slots=True)
class Checked:
    """One policy as it stands, and what a cycle of it would be now.

    `outcomes` has one for each application; a state `ran` stands for "would run". They are found
    as if the policy were on, in a window and triggered: whether it is stands beside them.
    """

    policy: Policy
    standing: str
    applications: tuple[Application, ...]
    outcomes: tuple[Outcome, ...]
    # Why no purge begins now: off, changed, the code of a hold, window, trigger, read-only.
    held_by: str | None
    told: tuple[datetime, PolicyStatus] | None  # what the service said last, and when

    @property
    def all_refused(self) -> bool:
        """Whether something is to be purged and none of it may be."""
        states = {outcome.state for outcome in self.outcomes}
        return "refused" in states and "ran" not in states

    @property
    def topics(self) -> int:
        """How many it is for."""
        return len({topic for a in self.applications for topic in a.topics})

    @property
    def partitions(self) -> int:
        """How many it is for."""
        return sum(len(a.partitions) for a in self.applications)

    def to_json(self, called: str) -> dict[str, object]:
        """As `policies check --json` has it."""
        policy = self.policy
        return {
            "name": policy.name,
            "standing": self.standing,
            "confirmation": policy.confirmation(called),
            "definition_sha256": policy.definition_sha256,
            "target": policy.target,
            "committed_by": policy.committed_by,
            "waive": dict(policy.waive),
            "mode": policy.mode,
            "min_purge_interval_ms": round(policy.min_purge_interval.total_seconds() * 1000),
            "caution": policy.caution,
            "held_by": self.held_by,
            "topics": self.topics,
            "partitions": self.partitions,
            "applications": [
                {
                    **outcome.to_json(),
                    "state": "would-run" if outcome.state == "ran" else outcome.state,
                    "topics": list(application.topics),
                    "due": len(application.due),
                }
                for application, outcome in zip(self.applications, self.outcomes, strict=True)
            ],
            "status": self.told and _status_json(*self.told),
        }


def check(site: Site, live: Cluster, policies: Sequence[Policy]) -> tuple[Checked, ...]:
    """Each policy now, in the order given. Raises ClusterError, JournalError, StoreError."""
    seen = cycle.look(live)
    states = site.journal.policy_states(site.cluster_id)
    statuses = site.journal.policy_statuses(site.cluster_id)
    found = []
    for policy in policies:
        stands = standing(policy, states.get(policy.name))
        applications = _applications(site, policy, seen)
        found.append(
            Checked(
                policy=policy,
                standing=stands,
                applications=applications,
                outcomes=tuple(_outcome(site, live, policy, a) for a in applications),
                held_by=_held_by(site, policy, states.get(policy.name)),
                told=statuses.get(policy.name),
            )
        )
    return tuple(found)


def _status_json(at: datetime, status: PolicyStatus) -> dict[str, object]:
    """With `at`, and its keys in the order in which the journal keeps them: sorted."""
    return {"at": format_time(at), **parse_json(canonical(written(status)))}


def _applications(site: Site, policy: Policy, seen: Seen) -> tuple[Application, ...]:
    matched = [name for name in seen.topics if policy.matches(name)]
    starts = site.journal.last_starts(site.cluster_id, matched)
    return cycle.applications(replace(policy, windows=()), seen, starts, site.now())


def _outcome(site: Site, live: Cluster, policy: Policy, application: Application) -> Outcome:
    if not application.due:
        text = f"{len(application.partitions)} partitions wait for their interval"
        return Outcome("waiting", text, application.owner, application.next_at)
    try:
        prepared = purging.prepared(site, live, policy, application, site.settings)
    except LowwaterError as error:
        return of_error(error, application.owner)
    if prepared.plan is None:
        return prepared.outcome
    return purging.of_plan(prepared.outcome, prepared.plan)


def _held_by(site: Site, policy: Policy, state: PolicyState | None) -> str | None:
    """In the order in which a service asks."""
    now, stands = site.now(), standing(policy, state)
    if stands == "held" and state is not None and state.hold is not None:
        return f"{state.hold.code}: {state.hold.why}"
    if stands != "on":
        return "its definition changed since it was confirmed" if stands == "changed" else "off"
    if not is_open(policy, now):
        return f"no window is open before {format_time(next_open(policy, now))}"
    if stopped(site.settings, site.journal) is not None:
        return "read_only"
    if policy.trigger.kind == "always":
        return None
    found = triggered(policy, newest(site.store), now=now, every=site.settings.every)
    return None if found.now else f"not triggered: {found.reason}"
