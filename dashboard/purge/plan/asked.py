"""What an operator asks to leave out of account: groups to waive and guards to lift, by name.

Group and reason travel apart from the page or the command line to the plan: Kafka takes any text
for a group's id, so no character can part the two.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from dashboard.core.errors import UsageError
from dashboard.purge.plan.lifting import Override, Waiver
from dashboard.safety.guard_texts import NEVER_LIFTABLE, names


@dataclass(frozen=True, slots=True)
class Waive:
    """A group to waive, and why. Raises UsageError WAIVER_INVALID when one of them is blank.

    `gone`: only while no coordinator lists it, and no snapshot met it after the one that was seen
    at `since` (`clocks.newest_seen`); `by` says so, where it is not who asks for the plan.
    """

    group_id: str
    reason: str
    gone: bool = False
    by: str | None = None
    since: datetime | None = None

    def __post_init__(self) -> None:
        if not self.group_id or not self.reason.strip():
            raise UsageError(
                f"'{self.group_id}={self.reason}' waives no group with a reason",
                'Write --waive "GROUP=why its offsets no longer count".',
                code="WAIVER_INVALID",
            )

    def waiver(
        self, by: str, at: datetime, *, move: bool = False, since: datetime | None = None
    ) -> Waiver:
        """The waiver as a plan keeps it: who asked, when, and `since` when the group was gone."""
        return Waiver(
            self.group_id, self.reason.strip(), self.by or by, at, move,
            gone=self.gone, since=self.since or since,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Lift:
    """A guard to lift, and why; `group_id` None lifts it whichever group it speaks of.

    Raises UsageError OVERRIDE_INVALID when there is no such guard or no reason.
    """

    name: str
    reason: str
    group_id: str | None = None

    def __post_init__(self) -> None:
        if self.name not in names() or self.group_id == "" or not self.reason.strip():
            raise UsageError(
                f"'{self.name}={self.reason}' overrides no guard with a reason",
                f'Write --override "NAME=why" with one of: {", ".join(names())}.',
                code="OVERRIDE_INVALID",
            )

    @classmethod
    def named(cls, named: str, reason: str) -> Lift:
        """Of NAME or NAME:GROUP. Raises UsageError OVERRIDE_INVALID, also of an empty group:
        whoever names none there does not mean all.
        """
        name, colon, group_id = named.partition(":")
        return cls(name, reason, group_id if colon else None)

    def override(self, by: str, at: datetime, liftable: Collection[str]) -> Override:
        """The override as a plan keeps it. Raises UsageError NOT_LIFTABLE."""
        if self.name in NEVER_LIFTABLE or self.name not in liftable:
            raise UsageError(
                f"guard {self.name} cannot be lifted",
                f"These may be: {', '.join(liftable)}; the settings' liftable_guards decide.",
                code="NOT_LIFTABLE",
            )
        return Override(self.name, self.group_id, self.reason.strip(), by, at)
