"""Which of several services carries out a cluster's policies: the one that holds the lease."""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Protocol

from dashboard.core.errors import LowwaterError
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.policies import Lease
from dashboard.purge.plan.cluster_seam import Cluster

TTL = timedelta(seconds=15)
RENEW_EVERY = timedelta(seconds=3)


class Lead:
    """One service's claim to the lease of a cluster; `holder` is its own token.

    The lease only spares the others their work: what keeps two services from purging the same is
    the journal's check when a run is queued. `most_silence` is asked at each renewal. Safe between
    threads.
    """

    def __init__(
        self, journal: Journal, cluster_id: str, most_silence: Callable[[], timedelta]
    ) -> None:
        self.holder = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(8)}"
        self._journal = journal
        self._cluster_id = cluster_id
        self._most_silence = most_silence
        self._lock = threading.Lock()
        self._seen: Lease | None = None
        self._released = False

    def leader(self, now: datetime) -> Lease | None:
        """Whose the lease is, ours renewed if that is due; None once we released it.

        Raises JournalError.
        """
        with self._lock:
            if self._released:
                return None
            if self._seen is None or not self.is_ours(self._seen) or not _fresh(self._seen, now):
                self._seen = self._journal.take_lease(
                    self._cluster_id, self.holder, host=socket.gethostname(), pid=os.getpid(),
                    ttl=TTL, most_silence=self._most_silence(), now=now,
                )  # fmt: skip
            return self._seen

    def is_ours(self, lease: Lease | None) -> bool:
        """Whether a lease is this service's."""
        return lease is not None and lease.holder == self.holder

    def release(self, now: datetime) -> None:
        """Let the next one lead at once. Raises JournalError."""
        with self._lock:
            self._released = True
            self._journal.release_lease(self._cluster_id, self.holder, now)


def _fresh(lease: Lease, now: datetime) -> bool:
    return lease.renewed_at <= now < lease.renewed_at + RENEW_EVERY


# The service's one connection to its cluster, opened again when the cluster stops answering.


class OpenCluster(Cluster, Protocol):
    """A cluster that can be closed."""

    def close(self) -> None: ...


class Link:
    """Runs in flight keep the connection they began with until `tidy`. Safe between threads."""

    def __init__(self, open_live: Callable[[], OpenCluster]) -> None:
        self._open = open_live
        self._lock = threading.Lock()
        self._live: OpenCluster | None = None
        self._old: list[OpenCluster] = []

    def live(self) -> OpenCluster:
        """The open cluster. Raises ClusterError when it cannot be opened."""
        with self._lock:
            if self._live is None:
                self._live = self._open()
            return self._live

    def renew(self) -> LowwaterError | None:
        """Begin again at the bootstrap addresses: the brokers may have come back elsewhere.

        Gives why that failed, also by what settings, store or certificate say now: what is open
        stays then.
        """
        try:
            fresh = self._open()
        except LowwaterError as error:
            return error
        with self._lock:
            if self._live is not None:
                self._old.append(self._live)
            self._live = fresh
        return None

    def tidy(self) -> None:
        """Close what was replaced, once nothing is in flight on it."""
        with self._lock:
            old, self._old = self._old, []
        for live in old:
            live.close()

    def close(self) -> None:
        """Close everything."""
        self.tidy()
        with self._lock:
            live, self._live = self._live, None
        if live is not None:
            live.close()
