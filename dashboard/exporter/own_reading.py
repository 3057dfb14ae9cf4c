"""What our own metrics are told from: the newest snapshot, the newest findings, the journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from dashboard.core.errors import LowwaterError, StoreError
from dashboard.purge.receipt.alerts import reverted

if TYPE_CHECKING:
    import pyarrow as pa

    from dashboard.purge.journal.reads import JournalReads
    from dashboard.purge.journal.rows import RunRow
    from dashboard.settings.sections import Price
    from dashboard.store.snapshot_files import Manifest
    from dashboard.store.snapshots import ClusterStore

_T = TypeVar("_T")
_COLUMNS: Mapping[str, list[str] | None] = {
    "reclaimable": ["topic", "target", "target_offset", "records", "bytes_likely",
                    "readers_declared", "guards"],
    "blockers": ["group_id", "bytes_held_alone"],
    "disks": None,
    "growth": ["topic", "broker_id", "log_dir", "used_bytes_per_hour", "used_bytes_per_hour_low",
               "used_bytes_per_hour_high", "days_to_full", "days_to_full_low",
               "days_to_full_high"],
    "quality": ["taken_at", "table", "broker_id", "complete"],
    "orphans": None,
    "slow_followers": None,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Purges:
    """The runs of one cluster, and how many of their partitions have records back."""

    runs: Sequence[RunRow] = ()
    reverted_partitions: int = 0


@dataclass(frozen=True, slots=True)
class Own:
    """One look. `tables` holds only what the newest analysis wrote; None: there is none.

    `name` is the one last read, at first the id.
    `inventoried` are the brokers whose disks were all listed for that analysis. `unreadable`
    names parts (`snapshot`, `findings`, `journal`) that could not be read.
    """

    cluster_id: str
    name: str
    snapshot: Manifest | None
    tables: Mapping[str, pa.Table]
    purges: Purges | None
    inventoried: frozenset[int] = frozenset()
    unreadable: tuple[str, ...] = ()
    price: Price | None = None


@dataclass
class Reader:
    """Reads again what has changed since the last look; not safe between threads by itself."""

    cluster: ClusterStore
    journal: Callable[[], JournalReads | None]
    price: Price | None = None
    _name: str | None = None
    _findings_id: str | None = None
    _tables: Mapping[str, pa.Table] = field(default_factory=dict)
    _inventoried: frozenset[int] = frozenset()

    def read(self) -> Own:
        """Never raises for one part: what cannot be read is named, the rest is there."""
        failed: list[str] = []
        snapshot = self._part("snapshot", self._snapshot, failed)
        self._name = self._part("snapshot", lambda: self.cluster.name, failed) or self._name
        if self._part("findings", self._refresh, failed) is None:
            self._findings_id, self._tables, self._inventoried = None, {}, frozenset()
        return Own(
            self.cluster.cluster_id,
            self._name or self.cluster.cluster_id,
            snapshot,
            self._tables,
            self._part("journal", self._purges, failed),
            self._inventoried,
            tuple(dict.fromkeys(failed)),
            self.price,
        )

    def _part(self, name: str, read: Callable[[], _T | None], failed: list[str]) -> _T | None:
        try:
            return read()
        except LowwaterError:
            failed.append(name)
            return None

    def _snapshot(self) -> Manifest | None:
        newest = self.cluster.latest("snapshots")
        return None if newest is None else self.cluster.manifest("snapshots", newest)

    def _refresh(self) -> str | None:
        """The newest analysis' id; its tables are read once."""
        newest = self.cluster.latest("findings")
        if newest is not None and newest != self._findings_id:
            try:
                self._tables = self._findings(newest)
            except StoreError:  # it was pruned between two reads: the next one is there by now
                newest = self.cluster.latest("findings")
                self._tables = self._findings(newest) if newest else {}
            self._findings_id = newest
        return newest

    def _findings(self, analysis_id: str) -> dict[str, pa.Table]:
        manifest = self.cluster.manifest("findings", analysis_id)
        self._inventoried = self._listed(str(manifest.details.get("snapshot_id", "")))
        return {
            name: self.cluster.read("findings", analysis_id, name, columns)
            for name, columns in _COLUMNS.items()
            if name in manifest.tables
        }

    def _listed(self, snapshot_id: str) -> frozenset[int]:
        try:
            details = self.cluster.manifest("snapshots", snapshot_id).details
        except StoreError:  # thinned out since: whose disks were listed is not known any more
            return frozenset()
        return frozenset(
            listed["broker_id"]
            for listed in details.get("inventories", ())
            if all(gap["path"] for gap in listed["gaps"])  # else a log dir could not be opened
        )

    def _purges(self) -> Purges:
        journal = self.journal()
        if journal is None:  # nothing was ever purged from this state folder
            return Purges()
        undone = reverted(journal, self.cluster.cluster_id)
        return Purges(journal.runs(self.cluster.cluster_id), sum(r.partitions for r in undone))
