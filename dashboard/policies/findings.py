"""What triggers and alerts are judged by: rows of the newest analysis, and by what clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from dashboard.core.arrow import records
from dashboard.history.findings_age import clock_of
from dashboard.store.finding_rows import DiskRow, GrowthRow, OrphanRow
from dashboard.store.snapshots import ClusterStore

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Newest:
    """Tables of the newest analysis; without any analysis all are empty.

    `clock` as `clock_of` has it. Rows tell when the snapshot was taken.
    """

    disks: Sequence[DiskRow] = ()
    growth: Sequence[GrowthRow] = ()
    orphans: Sequence[OrphanRow] = ()
    clock: str = ""


def newest(store: ClusterStore) -> Newest:
    """`disks` and `growth` of the newest analysis. Raises StoreError."""
    analysis = store.latest("findings")
    return Newest() if analysis is None else read(store, analysis, ("disks", "growth"))


def read(store: ClusterStore, analysis: str, names: Sequence[str]) -> Newest:
    """These tables of an analysis. Raises StoreError."""

    def table(name: str, kind: type[_T]) -> list[_T]:
        return records(store.read("findings", analysis, name), kind) if name in names else []

    return Newest(
        table("disks", DiskRow),
        table("growth", GrowthRow),
        table("orphans", OrphanRow),
        clock_of(store, store.manifest("findings", analysis)),
    )
