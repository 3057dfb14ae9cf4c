"""What triggers and alerts are judged by: the newest analysis, and whether it tells of now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from dashboard.clock import CLOCKS_AGREE, format_time
from dashboard.errors import StoreError
from dashboard.snapshot_clocks import wrong_clock
from dashboard.snapshots import ClusterStore

Rows = list[dict[str, Any]]
_STALE_AFTER = 3  # times `every`: two snapshots may be late


@dataclass(frozen=True, slots=True)
class Newest:
    """Tables of the newest analysis; without any analysis all are empty.

    `clock`: by what clock the analysed snapshot was taken, where it may have been earlier than it
    says; "": it was not, the controller tells no time, or the snapshot is gone.
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
    return Newest(tables, _clock(store, analysis))


def unusable(
    rows: Sequence[Mapping[str, Any]],
    clock: str,
    now: datetime,
    every: timedelta,
) -> str:
    """Why rows of a findings table do not tell of now; "": they do. There must be one.

    `clock` as `Newest` has it.

    Snapshots are taken once in `every`. A moment that is still to come is no sign of freshness:
    some clock was wrong, so that nobody knows how old they are.
    """
    taken_at: datetime = rows[0]["taken_at"]  # that of the analysed snapshot, in every row
    named = f"the newest findings are of {format_time(taken_at)}"
    age = now - taken_at
    again = "set the clocks right, then collect and analyze again"
    if age < -CLOCKS_AGREE:
        return f"{named}, {_seconds(-age)} ahead of this host's clock: {again}"
    if clock:
        return f"{named}, {clock}: {again}"
    if age > _STALE_AFTER * every:
        return (
            f"{named}, more than {_STALE_AFTER} x {every.total_seconds():g} s ago: see whether "
            "`lowwater watch` runs"
        )
    return ""


def _clock(store: ClusterStore, analysis: str) -> str:
    snapshot = store.manifest("findings", analysis).details.get("snapshot_id")
    with suppress(StoreError):  # it was pruned: the analysis outlives it
        return wrong_clock(store.manifest("snapshots", str(snapshot)))
    return ""


def _seconds(span: timedelta) -> str:
    return f"{span.total_seconds():.0f} s"
