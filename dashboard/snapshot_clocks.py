"""Whether the clock by which a snapshot was taken agreed with the cluster's controller."""

from __future__ import annotations

from datetime import datetime, timedelta

from dashboard.clock import CLOCKS_AGREE
from dashboard.snapshot_files import Manifest


def clock_was_right(snapshot: Manifest) -> bool:
    """Whether the clock of the host that took it agreed with the cluster's controller then.

    Snapshots of controllers that tell no time, and of earlier versions, are believed; one that
    could not read it is not.
    """
    return not wrong_clock(snapshot)


def wrong_clock(snapshot: Manifest) -> str:
    """By what clock it was taken, where it may have been at another time than it says; "": it was
    not.

    By one that ran ahead, what it shows looks older than it is when it is seen last; by one behind,
    when it is seen first.
    """
    if (error := snapshot.details.get("clock_error")) is not None:
        return f"by a clock that could not be compared with the cluster's controller ({error})"
    ahead = clock_ahead(snapshot).total_seconds()
    if not ahead:
        return ""
    where = "ahead of" if ahead > 0 else "behind"
    return f"by a clock that was {abs(ahead):.0f} s {where} the cluster's controller"


def seen_at(snapshot: Manifest) -> datetime:
    """When what it shows was seen, by the cluster's own clock where that was told.

    So what was seen by a clock that was wrong stands among what others saw where it belongs.
    """
    return snapshot.taken_at - clock_ahead(snapshot)


def clock_ahead(snapshot: Manifest) -> timedelta:
    """How far the clock that took it was ahead of the controller's; 0 where they agreed, or where
    nobody knows.
    """
    ahead = timedelta(seconds=float(snapshot.details.get("clock_ahead_seconds") or 0))
    return ahead if abs(ahead) > CLOCKS_AGREE else timedelta(0)
