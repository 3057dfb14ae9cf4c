"""What the journal tells of a cluster's service: who leads, and when one gave its last sign.

No lease is not no purge: a timer may run the service for a cycle at a time, and a worker carries on
what one has begun.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.journal_policies import Lease


@dataclass(frozen=True, slots=True)
class Serving:
    """`lease` is of whom it was last, `last_sign` of any service; `open_runs` counts policies' runs
    that are not over.
    """

    lease: Lease | None
    last_sign: datetime | None
    open_runs: int
    most_silence: timedelta

    def leads(self, now: datetime) -> bool:
        """Whether a service holds the lease."""
        return self.lease is not None and self.lease.alive(now)

    def silent(self, now: datetime) -> bool:
        """Whether none gave a sign within `most_service_silence`: then policies are held."""
        return self.last_sign is None or abs(now - self.last_sign) > self.most_silence

    def idle(self, now: datetime) -> bool:
        """Whether nothing is purged: no service gives signs, and no run is open."""
        return not self.leads(now) and self.silent(now) and not self.open_runs


def serving(journal: Journal, cluster_id: str, most_silence: timedelta) -> Serving:
    """What the journal tells now. Raises JournalError."""
    return Serving(
        journal.lease(cluster_id),
        journal.last_sign(cluster_id),
        journal.open_policy_runs(cluster_id),
        most_silence,
    )
