"""Whether a queued run of which nothing was sent may still begin: hours may have passed since."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from dashboard.errors import RefusedError
from dashboard.policy import Policy
from dashboard.policy_windows import is_open, next_open
from dashboard.purge.journal import Journal
from dashboard.purge.journal_gate import refuse_off
from dashboard.purge.journal_rows import RunRow
from dashboard.purge.plan import Plan
from dashboard.purge.queue_refusals import late


def refuse(
    journal: Journal, run: RunRow, plan: Plan, policies: Sequence[Policy], now: datetime
) -> None:
    """Raises RefusedError POLICY_OFF, POLICY_CHANGED, OUTSIDE_WINDOW or PLAN_EXPIRED.

    The queue has asked all of it; but whoever was to send may have died before he did, and another
    takes the run over much later. A run whose request may have left is followed to its end.
    """
    if any(row.was_sent for row in journal.partitions(run.run_id)):
        return
    if run.policy is not None:
        _refuse_policy(journal, run, policies, now)
    if plan.expired(now):
        late(plan)


def _refuse_policy(
    journal: Journal, run: RunRow, policies: Sequence[Policy], now: datetime
) -> None:
    name, definition = str(run.policy), journal.run_definition(run.run_id)
    state = journal.policy_states(run.cluster_id).get(name)
    refuse_off(state, name, definition, run.cluster_name)
    policy = next((p for p in policies if p.definition_sha256 == definition), None)
    if policy is None:
        raise RefusedError(
            f"policy {name} is not defined here as it was when run {run.run_id} was queued",
            f"Read it again, then confirm it with: lowwater policies on {name}.",
            code="POLICY_CHANGED",
        )
    if not is_open(policy, now):
        raise RefusedError(
            f"no window of policy {name} is open, and run {run.run_id} sent nothing in the last",
            f"The service plans anew in the next: {next_open(policy, now):%Y-%m-%d %H:%M} UTC.",
            code="OUTSIDE_WINDOW",
        )
