"""The service's one connection to its cluster, opened again when the cluster stops answering."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from dashboard.core.errors import ClusterError
from dashboard.purge.plan.cluster_seam import Cluster


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

    def renew(self) -> None:
        """Begin again at the bootstrap addresses: the brokers may have come back elsewhere."""
        with suppress(ClusterError):
            fresh = self._open()
            with self._lock:
                if self._live is not None:
                    self._old.append(self._live)
                self._live = fresh

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
