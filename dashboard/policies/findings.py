"""What triggers and alerts are judged by: tables of the newest analysis, and by what clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dashboard.history.findings_age import clock_of
from dashboard.store.snapshots import ClusterStore

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Newest:
    """Tables of the newest analysis; without any analysis all are empty.

    `clock` as `clock_of` has it. Rows tell when the snapshot was taken.
    """

    tables: Mapping[str, Rows] = field(default_factory=dict)
    clock: str = ""

    def rows(self, name: str) -> Rows:
        """The rows of a table that was read."""
        return self.tables.get(name, [])


def newest(store: ClusterStore) -> Newest:
    """Its `disks` and `growth`. Raises StoreError."""
    analysis = store.latest("findings")
    return Newest() if analysis is None else read(store, analysis, ("disks", "growth"))


def read(store: ClusterStore, analysis: str, names: Sequence[str]) -> Newest:
    """These tables of an analysis. Raises StoreError."""
    tables = {name: store.read("findings", analysis, name).to_pylist() for name in names}
    return Newest(tables, clock_of(store, store.manifest("findings", analysis)))
