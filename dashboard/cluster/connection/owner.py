"""Whose cluster a connection speaks with: every wire of it is held against the same id."""

from __future__ import annotations

import threading


class Owner:
    """One cluster's id: the one that was known before, else the first that a broker tells.

    Addresses prove nothing: a load balancer or DNS leads to a mirror one day, a port is used
    again, a list of bootstrap addresses names two clusters. Thread-safe.
    """

    def __init__(self, cluster_id: str | None = None) -> None:
        self._cluster_id = cluster_id or None
        self._lock = threading.Lock()

    def is_named(self, cluster_id: str | None) -> bool:
        """Whether a broker that tells this id is of the cluster. One that tells none (a proxy, a
        broker before 0.10.1) contradicts nobody.
        """
        if not cluster_id:
            return True
        with self._lock:
            self._cluster_id = self._cluster_id or cluster_id
            return self._cluster_id == cluster_id
