"""Whether the clock by which a snapshot was taken agreed with the cluster's controller."""

from __future__ import annotations

from dashboard.clock import CLOCKS_AGREE
from dashboard.snapshot_files import Manifest


def clock_was_right(snapshot: Manifest) -> bool:
    """Whether the clock of the host that took it agreed with the cluster's controller then.

    Snapshots of controllers that tell no time, and of earlier versions, are believed; one that
    could not read it is not.
    """
    ahead = snapshot.details.get("clock_ahead_seconds")
    behind = ahead is not None and float(ahead) < -CLOCKS_AGREE.total_seconds()
    return not behind and not may_be_ahead(snapshot)


def may_be_ahead(snapshot: Manifest) -> str:
    """By what clock it was taken, where it may have been earlier than it says; "": it was not.

    What it shows is younger then than it looks. A clock behind makes it look older, as nothing does
    harm.
    """
    if (error := snapshot.details.get("clock_error")) is not None:
        return f"by a clock that could not be compared with the cluster's controller ({error})"
    ahead = float(snapshot.details.get("clock_ahead_seconds") or 0)
    if ahead <= CLOCKS_AGREE.total_seconds():
        return ""
    return f"by a clock that was {ahead:.0f} s ahead of the cluster's controller"
