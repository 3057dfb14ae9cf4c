"""What the journal knows of each policy right now, read in one go for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dashboard.core.clock import parse_time
from dashboard.policies.service.switching import Standing, is_for, standing
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.journal_policies import PolicyState, Use
from dashboard.purge.journal.journal_rows import RunRow
from dashboard.settings.policies.policy import Policy
from dashboard.settings.settings import Settings
from dashboard.store.snapshots import ClusterStore

_WEEK, _HOUR = timedelta(days=7), timedelta(hours=1)
LAST_RUNS = 5


@dataclass(frozen=True, slots=True)
class PolicyView:
    """One policy: its switch, what the service said last and when, its runs of the past week."""

    policy: Policy
    standing: Standing
    switched: PolicyState | None
    told_at: datetime | None
    told: Mapping[str, Any]
    runs: tuple[str, ...]

    @property
    def next_at(self) -> datetime | None:
        """When the service wants to look at it again, as it said."""
        text = self.told.get("next_at")
        return parse_time(text) if text else None

    @property
    def blocked(self) -> Sequence[Mapping[str, Any]]:
        """`{topic, partition, guards}` of partitions that it may not purge, as the service said."""
        return self.told.get("blocked") or ()


def for_cluster(
    settings: Settings, cluster: ClusterStore
) -> tuple[tuple[Policy, ...], tuple[Policy, ...]]:
    """The policies of the settings that are for this cluster, and the others."""
    own = tuple(policy for policy in settings.policies if is_for(policy, cluster))
    return own, tuple(policy for policy in settings.policies if policy not in own)


def views(
    journal: Journal, cluster: ClusterStore, policies: Sequence[Policy], now: datetime
) -> tuple[PolicyView, ...]:
    """Each policy as the journal has it. Raises JournalError."""
    states = journal.policy_states(cluster.cluster_id)
    statuses = journal.policy_statuses(cluster.cluster_id)
    runs = journal.policy_runs(cluster.cluster_id, now - _WEEK)
    found = []
    for policy in policies:
        switched = states.get(policy.name)
        told_at, told = statuses.get(policy.name, (None, {}))
        own = tuple(run for run, name in runs.items() if name == policy.name)
        found.append(PolicyView(policy, standing(policy, switched), switched, told_at, told, own))
    return tuple(found)


def last_runs(journal: Journal, view: PolicyView) -> list[RunRow]:
    """The newest runs of the past week, without their partitions."""
    return [journal.head(run) for run in view.runs[:LAST_RUNS]]


def used(journal: Journal, cluster: ClusterStore, view: PolicyView, now: datetime) -> Use:
    """What it started within the last hour: what its budgets are measured by."""
    return journal.policy_use(cluster.cluster_id, view.policy.name, now - _HOUR)
