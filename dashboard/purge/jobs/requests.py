"""A request: a purge that somebody asked for and a second person approves or rejects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from dashboard.core.clock import format_time
from dashboard.core.errors import RefusedError
from dashboard.purge.journal.rows import Options


@dataclass(frozen=True, slots=True)
class Asked:
    """How a purge was asked for. `how` is oidc or local; `role_values` made the role, if any did.

    `typed` is the confirmation as the requester typed it; `token` identifies their one click.
    """

    token: str
    mode: str
    requester: str
    how: str
    role_values: tuple[str, ...]
    from_where: str
    typed: str
    options: Options
    connection: Mapping[str, str | None]
    expires_at: datetime

    @property
    def reached(self) -> dict[str, str | None]:
        """The flags that say over which connection to purge; without one, as the cluster's store
        and settings say.
        """
        return {name: self.connection.get(name) for name in ("bootstrap_servers", "client_config")}

    @property
    def described(self) -> str:
        """Mode, options and connection: what whoever approves lets through beside the plan."""
        canary = ", a canary first" if self.options.canary else ""
        flags = [
            f"{name.replace('_', ' ')} {value}" for name, value in self.reached.items() if value
        ]
        over = ", ".join(flags) or "the connection that the store knows"
        return f"mode {self.mode}{canary}, time-out {self.options.timeout_ms} ms, over {over}"


@dataclass(frozen=True, slots=True)
class PurgeRequest:
    """A request as it is kept. `state`: asked, approved or rejected; the last two are closed."""

    request_id: str
    plan_id: str
    plan_sha256: str
    cluster_id: str
    cluster_name: str
    asked: Asked
    asked_at: datetime
    state: str
    decided_by: str | None
    decided_at: datetime | None
    run_id: str | None

    def state_at(self, now: datetime) -> str:
        """`state`, or expired: nobody decided in time."""
        late = self.state == "asked" and now >= self.asked.expires_at
        return "expired" if late else self.state

    def to_json(self, now: datetime) -> dict[str, object]:
        """The contract's object of `approvals`."""
        decided = self.decided_at
        return {
            "request_id": self.request_id,
            "state": self.state_at(now),
            "plan_id": self.plan_id,
            "plan_sha256": self.plan_sha256,
            "cluster_id": self.cluster_id,
            "cluster_name": self.cluster_name,
            "mode": self.asked.mode,
            "canary": self.asked.options.canary,
            "timeout_ms": self.asked.options.timeout_ms,
            **self.asked.reached,
            "requester": self.asked.requester,
            "how": self.asked.how,
            "from": self.asked.from_where,
            "asked_at": format_time(self.asked_at),
            "expires_at": format_time(self.asked.expires_at),
            "decided_by": self.decided_by,
            "decided_at": format_time(decided) if decided else None,
            "run_id": self.run_id,
        }


@dataclass(frozen=True, slots=True)
class Approval:
    """Who approves which request, how they were known, and what they typed."""

    request_id: str
    approver: str
    how: str
    typed: str
    from_where: str


def refuse_closed(request: PurgeRequest, now: datetime) -> None:
    """REQUEST_CLOSED, or REQUEST_EXPIRED: nothing is left to decide."""
    state = request.state_at(now)
    if state == "expired":
        raise RefusedError(
            f"request {request.request_id} expired at {format_time(request.asked.expires_at)}",
            "Plan and ask again: what the plan saw may have changed.",
            code="REQUEST_EXPIRED",
        )
    if state != "asked":
        as_run = f", as run {request.run_id}" if request.run_id else ""
        raise RefusedError(
            f"request {request.request_id} was {state} by {request.decided_by}{as_run}",
            "Nothing is left to decide.",
            code="REQUEST_CLOSED",
        )
