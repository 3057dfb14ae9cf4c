"""Whether this host's clock can be believed: what is a day old is counted by it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from dashboard.clock import CLOCKS_AGREE
from dashboard.errors import ClusterError


class Timed(Protocol):
    """A cluster whose controller's clock can be asked for; None: nobody tells it."""

    def controller_time(self) -> datetime | None: ...


@dataclass(frozen=True, slots=True)
class Wrong:
    """Why records cannot be told by their age, in words; `passes`: a later look may tell."""

    why: str
    passes: bool = False


def ahead(live: Timed, now: datetime) -> timedelta | None:
    """By how much this host's clock is ahead of the controller's; None: it is not, or nobody tells.

    Raises ClusterError CLOCK_UNREAD.
    """
    at = live.controller_time()
    return None if at is None or now - at <= CLOCKS_AGREE else now - at


def problem(live: Timed, now: datetime) -> Wrong | None:
    """What is wrong with this host's clock, or with reading the cluster's; None: they agree.

    A host whose clock runs ahead takes records for older than they are, and would purge what
    was to stay. One that stands behind keeps more than was asked for, which costs nothing. Where
    no broker speaks of the controller's clock (with ZooKeeper, in some services) nobody can tell,
    and the host's is believed.
    """
    try:
        by = ahead(live, now)
    except ClusterError as error:
        return Wrong(f"{error.message}, so nobody knows whether this host's is right", passes=True)
    if by is None:
        return None
    return Wrong(
        f"this host's clock is {by.total_seconds():.0f} s ahead of the cluster's controller "
        f"({now - by:%Y-%m-%d %H:%M:%S} "
        "UTC there), so nobody knows how old records are; set it right, then plan again"
    )
