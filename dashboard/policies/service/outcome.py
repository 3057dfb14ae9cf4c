"""What a cycle of a policy came to: per application, together as the policy's status, and how that
is told, in the journal for everyone and as events for the service's caller.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import Any

from dashboard.core.canonical import written
from dashboard.core.clock import format_time
from dashboard.core.errors import LowwaterError
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.policies import Blocked, PolicyError, PolicyStatus
from dashboard.purge.journal.wishes import HELD, TAKEN_OUT
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


def unanswered(codes: Collection[str | None]) -> bool:
    """Whether one of these codes of outcomes that are `waiting` is an error of the cluster's."""
    return any(code not in (None, "READ_ONLY", *_ELSEWHERE) for code in codes)


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


# What a service says of each policy: in the journal for everyone, and as events for its caller.

_CYCLES = ("ran", "nothing", "refused", "budget", "busy")  # what a cycle that was due comes to

Emit = Callable[[dict[str, Any]], None]


@dataclass
class _Told:
    """The newest of one policy: what it matched, and each application's outcome."""

    topics: int = 0
    partitions: int = 0
    next_at: datetime | None = None
    last_run: str | None = None
    outcomes: dict[str | None, Outcome] = field(default_factory=dict)


class Statuses:
    """Every policy's newest outcomes; writes and tells what changed. Safe between threads."""

    def __init__(self, journal: Journal, cluster_id: str, cluster_name: str, emit: Emit) -> None:
        self._journal = journal
        self._cluster_id, self._cluster_name = cluster_id, cluster_name
        self._emit = emit
        self._lock = threading.RLock()
        self._said: dict[tuple[str, str | None], tuple[str, str]] = {}
        self._told = {
            name: _Told(last_run=known.last_run)
            for name, (_, known) in journal.policy_statuses(cluster_id).items()
        }

    def whole(self, policy: str, outcome: Outcome, now: datetime) -> None:
        """The policy went no further than this; written when it changes."""
        with self._lock:
            told = self._told.setdefault(policy, _Told())
            if told.outcomes != {None: outcome}:
                told.outcomes, told.next_at = {None: outcome}, None
                self._tell(policy, outcome, now)
                self._write(policy, now)

    def note(self, policy: str, outcome: Outcome, now: datetime, *, tell: bool = True) -> None:
        """What one application of the policy came to; `looked` writes it.

        One that only waits for its time keeps what its last cycle came to; where the cluster gave
        no answer, or another leads by now, that is what the cycle came to.
        """
        with self._lock:
            told = self._told.setdefault(policy, _Told())
            before = told.outcomes.get(outcome.application)
            waits = outcome.state == "waiting" and outcome.code in (None, "TOO_SOON")
            if waits and before is not None and before.state in _CYCLES:
                outcome = replace(before, next_at=outcome.next_at)
            elif tell:
                self._tell(policy, outcome, now)
            told.outcomes[outcome.application] = outcome

    def looked(
        self,
        policy: str,
        owners: Collection[str | None],
        *,
        topics: int,
        partitions: int,
        next_at: datetime | None,
        now: datetime,
    ) -> None:
        """A look at the policy is over: `owners` are all the applications that it has now."""
        with self._lock:
            told = self._told.setdefault(policy, _Told())
            told.topics, told.partitions, told.next_at = topics, partitions, next_at
            told.outcomes = {o: found for o, found in told.outcomes.items() if o in owners}
            self._write(policy, now)

    def over(self, policy: str, outcome: Outcome, now: datetime) -> None:
        """The purge of one application is over."""
        with self._lock:
            told = self._told.setdefault(policy, _Told())
            told.last_run = outcome.run_id or told.last_run
            told.outcomes[outcome.application] = outcome
            self._tell(policy, outcome, now)
            self._write(policy, now)

    def error(self, error: LowwaterError, now: datetime, *, beside: bool = False) -> None:
        """What went wrong in the loop, or `beside` it; the same again is told once."""
        with self._lock:
            key, said = ("", "beside" if beside else None), (error.code, error.message)
            if self._said.get(key) != said:
                self._said[key] = said
                self._emit({"event": "error", "at": format_time(now), **error.to_json()})

    def well(self) -> None:
        """The loop had a good turn: its next error is told again."""
        with self._lock:
            self._said.pop(("", None), None)

    def event(self, name: str, now: datetime, **details: Any) -> None:
        """One event of the service itself."""
        with self._lock:
            self._emit({"event": name, "at": format_time(now), **self._cluster(), **details})

    def _write(self, policy: str, now: datetime) -> None:
        told = self._told[policy]
        if told.outcomes:
            found = status(
                list(told.outcomes.values()), topics=told.topics, partitions=told.partitions,
                next_at=told.next_at, last_run=told.last_run,
            )  # fmt: skip
            self._journal.write_policy_status(self._cluster_id, policy, found, now)

    def _tell(self, policy: str, outcome: Outcome, now: datetime) -> None:
        """One line for each purge, and for anything else once until it changes."""
        key, said = (policy, outcome.application), (outcome.state, outcome.code or "")
        if outcome.run_id is None and self._said.get(key) == said:
            return
        self._said[key] = said
        self._emit(
            {"event": "cycle", "at": format_time(now), **self._cluster(), "policy": policy,
             **outcome.to_json()}
        )  # fmt: skip

    def _cluster(self) -> dict[str, str]:
        return {"cluster": self._cluster_name, "cluster_id": self._cluster_id}
