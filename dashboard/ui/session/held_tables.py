"""Snapshot and findings tables as immutable Arrow, read once and shared by every session.

`cache_data` would copy a table at each rerun; Arrow is immutable, so sharing it is safe. Two of
each kind are kept: the newest, and the one that sessions are still looking at.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar

import pyarrow as pa
import streamlit as st

from dashboard.estimate import curve_tables
from dashboard.estimate.curve_tables import ReplicaCurves
from dashboard.store.snapshot_files import Kind
from dashboard.store.snapshots import ClusterStore

_T = TypeVar("_T")
KEPT = 2


class Tables:
    """The tables of one committed folder, each read when first asked for."""

    def __init__(self, cluster: ClusterStore, kind: Kind, item_id: str) -> None:
        self.id = item_id
        self.manifest = cluster.manifest(kind, item_id)
        self._cluster = cluster
        self._kind: Kind = kind
        self._held: dict[str, Any] = {}
        self._lock = Lock()

    def table(self, name: str) -> pa.Table:
        """One table in its declared schema. Raises StoreError."""
        return self.derived(name, lambda: self._cluster.read(self._kind, self.id, name))

    def curves(self) -> ReplicaCurves:
        """The replicas' curves of an analysis, as numbers. Raises StoreError."""
        return self.derived("curves", lambda: curve_tables.read(self._cluster, self.id))

    def read(self, *names: str) -> None:
        """Read these tables now: what is read stays, even when the files are pruned."""
        for name in names:
            if name == "curves":
                self.curves()
            else:
                self.table(name)

    def derived(self, name: str, make: Callable[[], _T]) -> _T:
        """What `make` computes from these tables, kept beside them. It must be immutable."""
        with self._lock:
            if name in self._held:
                held: _T = self._held[name]
                return held
        made = make()
        with self._lock:
            return self._held.setdefault(name, made)  # type: ignore[no-any-return]


def held_tables(cluster: ClusterStore, kind: Kind, item_id: str) -> Tables:
    """The shared tables of this folder, keyed by the cluster's path, kind and id."""
    return (_snapshots if kind == "snapshots" else _findings)(cluster, cluster.path, item_id)


@st.cache_resource(max_entries=KEPT, show_spinner=False)
def _snapshots(_cluster: ClusterStore, path: str, item_id: str) -> Tables:
    del path  # part of the key: two clusters may hold the same id
    return Tables(_cluster, "snapshots", item_id)


@st.cache_resource(max_entries=KEPT, show_spinner=False)
def _findings(_cluster: ClusterStore, path: str, item_id: str) -> Tables:
    del path
    return Tables(_cluster, "findings", item_id)
