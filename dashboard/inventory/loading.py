"""Loads inventory files for a snapshot: whole, of the right cluster, one per broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dashboard.core.arrow import shaped
from dashboard.core.canonical import parse_json, read, written
from dashboard.core.errors import InventoryError
from dashboard.domain.model import LogDir
from dashboard.store.tables import SNAPSHOT_TABLES


@dataclass(slots=True)
class LogDirTotals:
    """What one log dir holds; bytes as in `Segment`."""

    log_dir: str
    directory_id: str | None = None
    folders: int = 0
    segments: int = 0
    log_bytes: int = 0
    index_bytes: int = 0
    allocated_bytes: int = 0
    checkpoints: int = 0


@dataclass(frozen=True, slots=True)
class Gap:
    """Something that is there and was not counted."""

    log_dir: str | None
    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Summary:
    """An inventory file's footer: whose disk, seen when and how, totals per log dir, gaps."""

    schema_version: tuple[int, int]
    broker_id: int
    cluster_id: str
    scanned_at: datetime | None
    newest_from: str
    segments: int
    checkpoints: int
    log_dirs: tuple[LogDirTotals, ...]
    gaps: tuple[Gap, ...]
    gaps_total: int

    def check(self) -> None:
        """Raises ValueError for what no scan writes: the file came from another machine."""
        gaps, total = len(self.gaps), self.gaps_total
        right = {
            "broker_id": 0 <= self.broker_id < 2**31,
            "cluster_id": bool(self.cluster_id),
            "scanned_at": self.scanned_at is not None and self.scanned_at.tzinfo is not None,
            "gaps_total": total >= gaps and (total == 0 or gaps > 0),
        }
        for name, is_right in right.items():
            if not is_right:
                raise ValueError(f"its {name} is {getattr(self, name)!r}")


@dataclass(frozen=True, slots=True)
class Inventory:
    """One broker's disk as a file told it; `tables` are the snapshot's, still without its id."""

    path: str
    broker_id: int
    cluster_id: str
    scanned_at: datetime
    summary: Summary
    tables: dict[str, pa.Table]

    def to_json(self, now: datetime) -> dict[str, object]:
        """What a snapshot says of it: whose, how old, what it holds and what it lacks."""
        kept = ("scanned_at", "newest_from", "segments", "checkpoints", "gaps_total", "gaps")
        return {
            "broker_id": self.broker_id,
            "file": self.path,
            "age_seconds": round((now - self.scanned_at).total_seconds(), 3),
            **{name: written(getattr(self.summary, name)) for name in kept},
            "log_dirs": [found.log_dir for found in self.summary.log_dirs],
        }


def load_all(paths: Sequence[str]) -> tuple[Inventory, ...]:
    """Every file. Raises InventoryError, also when two are of one broker."""
    found: list[Inventory] = []
    for path in paths:
        _add(found, load(path))
    return tuple(found)


def load_usable(
    paths: Sequence[str], cluster_id: str, refused: Callable[[InventoryError], None]
) -> tuple[Inventory, ...]:
    """The files that can be used for this cluster now; `refused` is told why another cannot."""
    found: list[Inventory] = []
    for path in paths:
        try:
            inventory = load(path)
            check_cluster((inventory,), cluster_id)
            _add(found, inventory)
        except InventoryError as error:
            refused(error)
    return tuple(found)


def _add(found: list[Inventory], inventory: Inventory) -> None:
    for first in found:
        if (first.cluster_id, first.broker_id) == (inventory.cluster_id, inventory.broker_id):
            raise InventoryError(
                f"{first.path} and {inventory.path} are both of broker {inventory.broker_id}",
                "Name one: scan all log dirs of a broker at once, with commas between them.",
                code="INVENTORY_TWICE",
            )
    found.append(inventory)


def load(path: str) -> Inventory:
    """One file. Raises InventoryError INVENTORY_UNREADABLE, or INVENTORY_TOO_NEW."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            footer = parse_json((file.metadata.metadata or {})[META_KEY])
            major, minor = footer["schema_version"]
            if major > SCHEMA_VERSION[0]:  # a newer major may have moved everything else
                raise _too_new(path, f"{major}.{minor}")
            rows = file.read()
        summary = read(footer, Summary)
        summary.check()
        tables = {table: _only(rows, table) for table in TABLES}
    except (OSError, pa.ArrowException, ValueError, KeyError, TypeError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise InventoryError(
            f"{path} is no inventory that can be read: {reason[:200]}",
            "Make it with: lowwater inventory scan (or read) --out FILE.",
            code="INVENTORY_UNREADABLE",
        ) from error
    seen_at = summary.scanned_at or datetime.min.replace(tzinfo=UTC)
    return Inventory(path, summary.broker_id, summary.cluster_id, seen_at, summary, tables)


def check_cluster(inventories: Sequence[Inventory], cluster_id: str) -> None:
    """Raise InventoryError INVENTORY_OF_OTHER_CLUSTER for the first that is not this cluster's."""
    for inventory in inventories:
        if inventory.cluster_id != cluster_id:
            raise InventoryError(
                f"{inventory.path} is of cluster {inventory.cluster_id} (its meta.properties), "
                f"not of {cluster_id}",
                "Leave it out, or collect the cluster that it belongs to.",
                code="INVENTORY_OF_OTHER_CLUSTER",
            )


def tables_of(
    inventories: Sequence[Inventory], snapshot_id: str, taken_at: datetime
) -> dict[str, pa.Table]:
    """`segments` and `checkpoints` of a snapshot, sorted by key; none without an inventory."""
    if not inventories:
        return {}
    found = {}
    for name in TABLES:
        spec = SNAPSHOT_TABLES[name]
        together = pa.concat_tables([inventory.tables[name] for inventory in inventories])
        for field, value in (("snapshot_id", snapshot_id), ("taken_at", taken_at)):
            declared = spec.schema.field(field)
            stamp = pa.repeat(pa.scalar(value, declared.type), together.num_rows)
            together = together.append_column(declared, stamp)
        ordered = together.select(spec.schema.names)
        found[name] = ordered.sort_by([(key, "ascending") for key in spec.key])
    return found


def shortfalls(
    inventories: Sequence[Inventory], log_dirs: Sequence[LogDir]
) -> Iterator[tuple[str, str]]:
    """What each inventory lacks, as object and reason; `log_dirs` are those the brokers told."""
    for inventory in inventories:
        summary, broker = inventory.summary, f"broker {inventory.broker_id}"
        if summary.gaps_total:
            first = summary.gaps[0]
            where = "/".join(part for part in (first.log_dir, first.path) if part)
            yield broker, f"gaps: {summary.gaps_total}; the first: {where}: {first.reason}"
        told = {found.log_dir for found in log_dirs if found.broker_id == inventory.broker_id}
        for found in summary.log_dirs if told else ():
            if found.log_dir not in told:
                yield broker, f"it has no log dir {found.log_dir}, but {', '.join(sorted(told))}"


def _only(rows: pa.Table, table: str) -> pa.Table:
    """One table's rows and columns; a column that an older minor lacks is null."""
    mine = rows.filter(pc.equal(rows.column("record"), TABLES[table]))
    columns = {name: mine.column(name) for name in mine.column_names}
    return shaped(columns, mine.num_rows, SNAPSHOT_TABLES[table].unstamped.schema)


def _too_new(path: str, version: str) -> InventoryError:
    return InventoryError(
        f"{path} has schema version {version}; this release reads {SCHEMA_VERSION[0]}.x",
        "Upgrade lowwater to the release that wrote it.",
        code="INVENTORY_TOO_NEW",
    )


# The inventory file: one Parquet whose rows are segments and checkpoint entries.

SCHEMA_VERSION = (1, 1)
META_KEY = b"lowwater.inventory"  # the footer's entry: JSON, see Recorder.summary

SEGMENT, CHECKPOINT = "segment", "checkpoint"
TABLES = {"segments": SEGMENT, "checkpoints": CHECKPOINT}


def _schema() -> pa.Schema:
    fields = {"record": pa.field("record", pa.string())}
    for table in TABLES:
        fields |= {field.name: field for field in SNAPSHOT_TABLES[table].unstamped.schema}
    return pa.schema(list(fields.values()))


# `record` says which of the two a row is; columns of the other one are null.
SCHEMA = _schema()
