"""What a sweep did, or would do, folder by folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.core.errors import LowwaterError
from dashboard.core.words import binary
from dashboard.domain.acts import TOO_MANY

_DONE = ("would_move", "moved", "would_delete", "deleted", "restored", "quarantined", "gone")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One folder. `code` is the stable name of a refusal; `bytes` is what the disk gave for it.

    State: would_move, moved, quarantined (it lies there), would_delete, deleted, restored, refused,
    gone (somebody else took it out of quarantine: nothing that a sweep freed, so `bytes` is None).
    """

    broker_id: int
    log_dir: str
    directory: str | None
    action: str  # move, delete, restore, none
    state: str
    quarantined_as: str | None = None
    bytes: int | None = None
    reason: str | None = None
    code: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The contract's row, with `code` beside `reason`."""
        return {
            "broker_id": self.broker_id,
            "log_dir": self.log_dir,
            "directory": self.directory,
            "action": self.action,
            "state": self.state,
            "quarantined_as": self.quarantined_as,
            "bytes": self.bytes,
            "reason": self.reason,
            "code": self.code,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """All folders of one call; `notes` are for people; `error` is what ended it early."""

    cluster_id: str
    broker_id: int
    applied: bool
    rows: tuple[Outcome, ...]
    notes: tuple[str, ...] = ()
    error: LowwaterError | None = None

    @property
    def exit_code(self) -> int:
        """3: everything was refused; 2: a folder that might go was not dealt with; else 0."""
        if self.error is not None:
            return self.error.exit_code
        refused = [row for row in self.rows if row.state == "refused"]
        if refused and not any(row.state in _DONE for row in self.rows):
            return 3
        return 2 if self.applied and any(row.code != "verdict" for row in refused) else 0

    def to_json(self) -> dict[str, Any]:
        """The contract's object."""
        states = sorted({row.state for row in self.rows})
        return {
            "cluster_id": self.cluster_id,
            "broker_id": self.broker_id,
            "applied": self.applied,
            "rows": [row.to_json() for row in self.rows],
            "totals": {state: _sum(self.rows, state) for state in states},
            "notes": list(self.notes),
            **(self.error.to_json() if self.error is not None else {}),
        }


def _sum(rows: Sequence[Outcome], state: str) -> dict[str, int]:
    found = [row for row in rows if row.state == state]
    return {"folders": len(found), "bytes": sum(row.bytes or 0 for row in found)}


# Why a sweep leaves one folder where it is.


class Refusal(Exception):
    """A stable `code`, and the `reason` in words; it never stops the other folders."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


@dataclass(frozen=True, slots=True)
class DayLimit:
    """How much a service sets aside of a broker within any 24 hours, and how much it deletes."""

    folders: int
    bytes: int  # of disk

    def refuse_over(self, done: Sequence[int], more: int) -> None:
        """Raises Refusal `day-limit`. `done` are the sizes of what was done within the day."""
        if len(done) < self.folders and sum(done) + more <= self.bytes:
            return
        if more > self.bytes:
            raise Refusal(
                "day-limit",
                f"it alone has {binary(more)}, a day {binary(self.bytes)}: sweep it by hand, or "
                "raise --most-bytes",
            )
        raise Refusal(
            "day-limit",
            f"{len(done)} folders with {binary(sum(done))} within 24 h, and {binary(more)} more: "
            f"allowed are {self.folders} folders and {binary(self.bytes)} a day",
        )


# How much of a broker may leave at once: more may mean lost metadata.


def over_share(
    folders: tuple[int, int], log_bytes: tuple[int, int], most_share: float
) -> Refusal | None:
    """The refusal of everything, or None. Each pair is what would leave, and the whole."""
    leaving, every = folders
    gone, whole = log_bytes
    if leaving <= most_share * every and gone <= most_share * whole:
        return None
    return Refusal(
        "share",
        f"{leaving} of {every} folders and {binary(gone)} of {binary(whole)} would be set aside "
        f"at once, more than {most_share * 100:.3g} %: {TOO_MANY}",
    )
