"""Whether this host's clock can be believed: the age of all that is judged is counted by it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from dashboard.core.clock import CLOCKS_AGREE, going_on
from dashboard.core.errors import ClusterError


class Timed(Protocol):
    """A cluster whose controller's clock can be asked for; None: nobody tells it."""

    def controller_time(self) -> datetime | None: ...


@dataclass(frozen=True, slots=True)
class Wrong:
    """Why nobody knows how old anything is, in words; `passes`: a later look may tell."""

    why: str
    passes: bool = False


def ahead(live: Timed, now: datetime) -> timedelta | None:
    """By how much this host's clock is ahead of the controller's in whole seconds, negative: behind
    it; zero where they agree. None: nobody tells.

    `now` is this very moment. The answer's way is no disagreement: it may be slow. Raises
    ClusterError CLOCK_UNREAD.
    """
    clock = going_on(now)
    at = live.controller_time()
    if at is None:
        return None
    by = max(now - at, timedelta(0)) or min(clock() - at, timedelta(0))
    return timedelta(seconds=round(by.total_seconds())) if abs(by) > CLOCKS_AGREE else timedelta(0)


def in_words(by: timedelta, now: datetime) -> str:
    """How far this host's clock stands from the controller's, and what both say."""
    seconds = by.total_seconds()
    where = "ahead of" if seconds > 0 else "behind"
    return (
        f"this host's clock is {abs(seconds):.0f} s {where} the cluster's controller "
        f"({now:%Y-%m-%d %H:%M:%S} UTC here, {now - by:%Y-%m-%d %H:%M:%S} there)"
    )


def problem(live: Timed, now: datetime) -> Wrong | None:
    """What is wrong with this host's clock, or with reading the cluster's; None: they agree.

    One that runs ahead takes records, and topics, for older than they are. By one that stands
    behind a memory of groups that is weeks old is fresh, and a plan never expires. Where no broker
    speaks of the controller's clock (with ZooKeeper, in some services) nobody can tell, and the
    host's is believed.
    """
    try:
        by = ahead(live, now)
    except ClusterError as error:
        return Wrong(f"{error.message}, so nobody knows whether this host's is right", passes=True)
    if not by:
        return None
    return Wrong(
        f"{in_words(by, now)}, so nobody knows how old records, groups and snapshots are; set this "
        "host's clock right (NTP), then plan again"
    )
