"""Whether this host's clock can be believed: what is a day old is counted by it."""

from __future__ import annotations

from datetime import datetime

from dashboard.clock import CLOCKS_AGREE
from dashboard.purge.cluster_seam import Cluster


def problem(live: Cluster, now: datetime) -> str | None:
    """Why records cannot be told by their age, in words; None: the clocks agree.

    A host whose clock runs ahead takes records for older than they are, and would purge what
    was to stay. One that stands behind keeps more than was asked for, which costs nothing.
    """
    at = live.controller_time()
    if at is None or now - at <= CLOCKS_AGREE:
        return None
    ahead = round((now - at).total_seconds())
    return (
        f"this host's clock is {ahead} s ahead of the cluster's controller ({at:%Y-%m-%d %H:%M:%S} "
        "UTC there), so nobody knows how old records are; set it right, then plan again"
    )
