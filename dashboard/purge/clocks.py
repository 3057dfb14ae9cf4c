"""Whether this host's clock can be believed: what is a day old is counted by it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dashboard.clock import CLOCKS_AGREE
from dashboard.errors import ClusterError
from dashboard.purge.cluster_seam import Cluster


@dataclass(frozen=True, slots=True)
class Wrong:
    """Why records cannot be told by their age, in words; `passes`: a later look may tell."""

    why: str
    passes: bool = False


def problem(live: Cluster, now: datetime) -> Wrong | None:
    """What is wrong with this host's clock, or with reading the cluster's; None: they agree.

    A host whose clock runs ahead takes records for older than they are, and would purge what
    was to stay. One that stands behind keeps more than was asked for, which costs nothing. Where
    no broker speaks of the controller's clock (with ZooKeeper, in some services) nobody can tell,
    and the host's is believed.
    """
    try:
        at = live.controller_time()
    except ClusterError as error:
        return Wrong(f"{error.message}, so nobody knows whether this host's is right", passes=True)
    if at is None or now - at <= CLOCKS_AGREE:
        return None
    ahead = round((now - at).total_seconds())
    return Wrong(
        f"this host's clock is {ahead} s ahead of the cluster's controller ({at:%Y-%m-%d %H:%M:%S} "
        "UTC there), so nobody knows how old records are; set it right, then plan again"
    )
