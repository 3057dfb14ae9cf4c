"""What a cycle of a policy came to: per application, and together as the policy's status."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from dashboard.core.canonical import written
from dashboard.core.clock import format_time
from dashboard.core.errors import LowwaterError
from dashboard.purge.journal.journal_policies import Blocked, PolicyError, PolicyStatus
from dashboard.purge.journal.journal_silence import HELD, TAKEN_OUT
from dashboard.purge.plan.plan import Plan, PlannedPartition

# What is told of a policy whose applications differ: what asks for an operator comes first.
STATES = (
    "held", "changed", "off", "refused", "ran", "busy", "budget", "not-triggered", "outside-window",
    "waiting", "nothing",
)  # fmt: skip
_MOST_BLOCKED = 100
_ELSEWHERE = {
    "TOPIC_BUSY": "busy", "TOO_SOON": "waiting", "LEADER_LOST": "waiting", "POLICY_OFF": "off",
    "POLICY_CHANGED": "changed", HELD: "held", TAKEN_OUT: "held",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """One application's last cycle, or that of the whole policy where it went no further.

    `application` is the owning group, None where all groups count. `code` names the error, if one
    kept it from running; `blocked` are partitions with guards that no policy lifts, `not_waived`
    groups of its `waive` that a coordinator lists: they count as ever.
    """

    state: str
    reason: str
    application: str | None = None
    next_at: datetime | None = None
    run_id: str | None = None
    code: str | None = None
    partitions: int = 0  # in its run
    bytes_at_once: int | None = None  # predicted of them; None: not measured
    bytes_at_once_high: int | None = None  # the most of them, as budgets count; None: no bound
    blocked: tuple[PlannedPartition, ...] = ()
    not_waived: tuple[str, ...] = ()

    @property
    def first_blocked(self) -> tuple[PlannedPartition, ...]:
        """As many as are told."""
        return self.blocked[:_MOST_BLOCKED]

    def to_json(self) -> dict[str, object]:
        """As a line of `policies run` has it."""
        return {
            "application": self.application,
            "state": self.state,
            "reason": self.reason,
            "next_at": format_time(self.next_at) if self.next_at else None,
            "run_id": self.run_id,
            "code": self.code,
            "partitions": self.partitions,
            "bytes_at_once": self.bytes_at_once,
            "bytes_at_once_high": self.bytes_at_once_high,
            "blocked": written(_first(self.blocked)),
            "not_waived": list(self.not_waived),
        }


def of_error(error: LowwaterError, application: str | None) -> Outcome:
    """What an error of planning or queueing means for an application."""
    state = _ELSEWHERE.get(error.code, "refused" if error.exit_code != 4 else "waiting")
    text = f"{error.message}. {error.next_step}"
    return Outcome(state, text, application, code=error.code)


def status(
    outcomes: Sequence[Outcome],
    *,
    topics: int,
    partitions: int,
    next_at: datetime | None,
    last_run: str | None,
) -> PolicyStatus:
    """The policy's status as the journal keeps it: the state that tells most, and every error."""
    first = min(outcomes, key=lambda o: STATES.index(o.state))
    alike = [o for o in outcomes if o.state == first.state]
    more = f" ({len(alike)} of {len(outcomes)} applications)" if len(outcomes) > 1 else ""
    moments = [o.next_at for o in outcomes if o.next_at] + ([next_at] if next_at else [])
    return PolicyStatus(
        state=first.state,
        reason=_named(first) + more,
        next_at=min(moments) if moments else None,
        last_run=last_run,
        topics=topics,
        partitions=partitions,
        blocked=_first(p for o in outcomes for p in o.blocked),
        errors=tuple(PolicyError(o.application, o.code, o.reason) for o in outcomes if o.code),
    )


def _first(partitions: Iterable[PlannedPartition]) -> tuple[Blocked, ...]:
    """The first hundred guarded partitions, each with its guards."""
    first = islice(partitions, _MOST_BLOCKED)
    return tuple(Blocked(p.topic, p.partition, p.guards) for p in first)


def guarded(plan: Plan) -> tuple[PlannedPartition, ...]:
    """The partitions of a plan that a guard keeps from being purged."""
    return tuple(p for p in plan.partitions if not p.free)


def _named(outcome: Outcome) -> str:
    return f"{outcome.application}: {outcome.reason}" if outcome.application else outcome.reason
