"""Whether a queued run may still begin, hours later, and whether its policy still stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from dashboard.core.errors import RefusedError, SettingsError
from dashboard.purge.jobs.queue_refusals import late
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.journal_gate import refuse_off
from dashboard.purge.journal.journal_rows import RunRow
from dashboard.purge.plan.plan import Plan
from dashboard.settings.policies.policy import Policy
from dashboard.settings.policies.windows import is_open, next_open

Policies = Callable[[], Sequence[Policy]]  # as the settings define them now; SettingsError


@dataclass
class Beginning:
    """Whether a run may begin; asked before each request until it has.

    The queue has asked all of it; but whoever was to send may have died before he did, and another
    takes the run over much later. A run whose request may have left has begun: `withdrawn` is
    asked of it before each further one. With a canary the rest begins when the rest is sent.
    """

    journal: Journal
    run: RunRow
    plan: Plan
    policies: Policies
    now: Callable[[], datetime]
    sent: int = 0  # partitions whose request may have left, as they were read last
    _begun: bool = False
    _for_good: bool = False

    def look(self) -> None:
        """Read what was sent, between two rounds: a request that was called off after its intent
        was written has begun nothing.
        """
        if self._for_good:
            return
        rows = self.journal.partitions(self.run.run_id)
        first = 1 if self.run.options.canary and len(rows) > 1 else 0
        sent = [row for row in rows if row.was_sent]
        self.sent, self._begun = len(sent), len(sent) > first
        self._for_good = sum(row.state != "sent" for row in sent) > first

    def ask(self, anew: bool = False) -> None:
        """While it has not begun, raises RefusedError POLICY_OFF, POLICY_CHANGED, SERVICE_SILENT,
        OUTSIDE_WINDOW or PLAN_EXPIRED. `anew` looks first.
        """
        if anew:
            self.look()
        if self._begun:
            return
        now = self.now()
        if self.run.policy is not None:
            _refuse_outside(self.run, _standing(self.journal, self.run, self.policies), now)
        if self.plan.expired(now):
            late(self.plan)


def withdrawn(journal: Journal, run: RunRow, policies: Policies) -> RefusedError | None:
    """Why a policy's run may send nothing more; None: its policy stands, or a person queued it.

    POLICY_OFF, POLICY_CHANGED, SERVICE_SILENT, or the settings' own code where nobody can tell
    what they define.
    """
    if run.policy is None:
        return None
    try:
        _standing(journal, run, policies)
    except RefusedError as error:
        return error
    return None


def _standing(journal: Journal, run: RunRow, policies: Policies) -> Policy:
    """The policy, switched on and defined as it was when the run was queued, else RefusedError."""
    name, definition = str(run.policy), journal.run_definition(run.run_id)
    state = journal.policy_states(run.cluster_id).get(name)
    refuse_off(state, name, definition, run.cluster_name)
    try:
        policy = next((p for p in policies() if p.definition_sha256 == definition), None)
    except SettingsError as error:
        raise RefusedError(
            f"whether policy {name} is still defined cannot be told: {error.message}",
            error.next_step,
            code=error.code,
        ) from error
    if policy is None:
        raise RefusedError(
            f"policy {name} is not defined here as it was when run {run.run_id} was queued",
            f"Read it again, then confirm it with: lowwater policies on {name}.",
            code="POLICY_CHANGED",
        )
    return policy


def _refuse_outside(run: RunRow, policy: Policy, now: datetime) -> None:
    if not is_open(policy, now):
        name = run.policy
        raise RefusedError(
            f"no window of policy {name} is open, and run {run.run_id} has not begun in the last",
            f"The service plans anew in the next: {next_open(policy, now):%Y-%m-%d %H:%M} UTC.",
            code="OUTSIDE_WINDOW",
        )
