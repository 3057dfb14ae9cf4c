"""What an operator asks at a full disk: so many bytes on that broker, within that time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from dashboard.core.errors import UsageError
from dashboard.purge.plan.asked import Lift, Waive


@dataclass(frozen=True, slots=True)
class Question:
    """`need_bytes` on one log dir of `broker_id` within a time; both are above 0.

    `log_dir` None asks for the broker's fullest. `accept_undeclared` is the reason why topics
    whose readers nobody declared may go too, `waive` names dead groups; without them
    neither is planned. `by` is recorded as who planned.
    """

    broker_id: int
    need_bytes: int
    within: timedelta
    log_dir: str | None = None
    accept_undeclared: str | None = None
    waive: tuple[Waive, ...] = ()
    by: str = "unknown"

    def __post_init__(self) -> None:
        if self.need_bytes <= 0 or self.within <= timedelta(0):
            raise UsageError(
                "a triage needs bytes and a time above 0",
                "Write for example --need 40GiB --within 30m.",
                code="TRIAGE_INVALID",
            )
        if self.accept_undeclared is not None and not self.accept_undeclared.strip():
            raise UsageError(
                "--accept-undeclared gives no reason",
                'Write --accept-undeclared "why nobody else reads these topics".',
                code="TRIAGE_INVALID",
            )

    @property
    def override(self) -> tuple[Lift, ...]:
        """The accepted loss as a plan lifts it."""
        why = self.accept_undeclared
        return () if why is None else (Lift("readers-undeclared", why.strip()),)

    @property
    def waived_groups(self) -> frozenset[str]:
        """The groups that `waive` names."""
        return frozenset(asked.group_id for asked in self.waive)
