"""The operators' switch: a policy runs only as somebody has seen it defined, and said so; and
whether a service is there that would carry it out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from dashboard.core.errors import RefusedError, UsageError
from dashboard.people import people
from dashboard.people.people import Who
from dashboard.purge.jobs import queue_refusals
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.policies import Lease, PolicyState
from dashboard.settings.policies.policy import Policy
from dashboard.settings.settings import Settings
from dashboard.store.clocks import newest_seen
from dashboard.store.snapshots import ClusterStore

Standing = Literal["on", "off", "changed", "held"]


def standing(policy: Policy, state: PolicyState | None) -> Standing:
    """Whether it may run; `changed`: it was switched on, and is defined otherwise since; `held`:
    its service was silent for long after that, or settings did not define it.
    """
    if state is None or not state.enabled:
        return "off"
    if state.definition_sha256 != policy.definition_sha256:
        return "changed"
    return "on" if state.hold is None else "held"


def is_for(policy: Policy, cluster: ClusterStore) -> bool:
    """Whether the policy may run on this cluster, by its name or id."""
    return policy.cluster is None or policy.cluster in (cluster.name, cluster.cluster_id)


def switch_on(
    settings: Settings,
    journal: Journal,
    cluster: ClusterStore,
    policy: Policy,
    *,
    typed: str,
    who: Who,
    from_where: str,
    now: datetime,
) -> None:
    """Let the policy run as it is defined now. Raises RefusedError READ_ONLY, OTHER_CLUSTER,
    CONFIRMATION_MISMATCH, ROLE_TOO_LOW; UsageError WHO_MISSING; StoreError.

    One that is on is confirmed anew: its service may have been silent for long, and hold it at its
    next start unless somebody did so.
    """
    role = people.deciding_role(settings)
    name = people.require(settings, who, role, f"switch on policy {policy.name}")
    queue_refusals.read_only(settings, journal)
    _refuse_other(cluster, policy, typed)
    named = _named(name, policy.name)
    journal.policy_states(cluster.cluster_id)  # one that cannot be read is not written to
    journal.switch_policy(
        cluster.cluster_id, policy.name, policy.definition_sha256, enabled=True, who=named,
        typed=typed, from_where=from_where, now=now, seen_at=newest_seen(cluster),
    )  # fmt: skip


def _refuse_other(cluster: ClusterStore, policy: Policy, typed: str) -> None:
    """OTHER_CLUSTER or CONFIRMATION_MISMATCH."""
    if not is_for(policy, cluster):
        raise RefusedError(
            f"policy {policy.name} is for cluster {policy.cluster}, not for {cluster.name}",
            "Switch it on there, or correct 'cluster' in its settings.",
            code="OTHER_CLUSTER",
        )
    sentence = policy.confirmation(cluster.called)
    if typed != sentence:
        raise RefusedError(
            f"'{typed}' is not the confirmation of policy {policy.name} as it is defined now",
            f"Look at its definition (lowwater policies check); then repeat exactly: {sentence}",
            code="CONFIRMATION_MISMATCH",
        )


def switch_off(
    settings: Settings,
    journal: Journal,
    cluster: ClusterStore,
    name: str,
    *,
    who: Who,
    from_where: str,
    now: datetime,
) -> None:
    """No run of the policy begins any more; what one in flight has not sent is not sent.

    The settings need not define it: the journal knows what is on. One that was switched off here
    stays so, and nothing is written. Raises RefusedError ROLE_TOO_LOW, POLICY_NOT_ON; UsageError
    WHO_MISSING.
    """
    named = _named(people.require(settings, who, "operator", f"switch off policy {name}"), name)
    state = journal.policy_states(cluster.cluster_id).get(name)
    if state is None:
        raise _never_on(journal, cluster, name)
    if not state.enabled:
        return
    journal.switch_policy(
        cluster.cluster_id, name, state.definition_sha256, enabled=False, who=named,
        typed="", from_where=from_where, now=now,
    )  # fmt: skip


def _never_on(journal: Journal, cluster: ClusterStore, name: str) -> RefusedError:
    """A service of another `state_dir` may purge by it on: "it is off" would be a guess."""
    path = journal.file.path.absolute()
    return RefusedError(
        f"policy {name} was never on for {cluster.name} in the journal {path}: nothing changed",
        "Where its service has another state_dir, name that one (LOWWATER_STATE_DIR=FOLDER, or "
        "state_dir of the settings), and switch it off there.",
        code="POLICY_NOT_ON",
    )


def on_and_undefined(
    states: Iterable[PolicyState], policies: Iterable[Policy], cluster: ClusterStore
) -> tuple[PolicyState, ...]:
    """Policies that the journal has as on in this cluster, held or not, and that none of `policies`
    defines for it: one that is for another cluster by now purges nothing here, until it is back.
    """
    defined = {policy.name for policy in policies if is_for(policy, cluster)}
    return tuple(state for state in states if state.enabled and state.name not in defined)


def _named(who: str, name: str) -> str:
    if not who.strip():
        raise UsageError(
            f"nobody is named who switches policy {name}",
            "Say who you are: the journal keeps it.",
            code="WHO_MISSING",
        )
    return who.strip()


# What the journal tells of a cluster's service: who leads, and when one gave its last sign.
#
# No lease is not no purge: a timer may run the service for a cycle at a time, and a worker
# carries on what one has begun.


@dataclass(frozen=True, slots=True)
class Serving:
    """`lease` is of whom it was last, `last_sign` of any service; `open_runs` counts policies' runs
    that are not over.
    """

    lease: Lease | None
    last_sign: datetime | None
    open_runs: int
    most_silence: timedelta

    def leads(self, now: datetime) -> bool:
        """Whether a service holds the lease."""
        return self.lease is not None and self.lease.alive(now)

    def silent(self, now: datetime) -> bool:
        """Whether none gave a sign within `most_service_silence`: then policies are held."""
        return self.last_sign is None or abs(now - self.last_sign) > self.most_silence

    def idle(self, now: datetime) -> bool:
        """Whether nothing is purged: no service gives signs, and no run is open."""
        return not self.leads(now) and self.silent(now) and not self.open_runs


def serving(journal: Journal, cluster_id: str, most_silence: timedelta) -> Serving:
    """What the journal tells now. Raises JournalError."""
    return Serving(
        journal.lease(cluster_id),
        journal.last_sign(cluster_id),
        journal.open_policy_runs(cluster_id),
        most_silence,
    )
