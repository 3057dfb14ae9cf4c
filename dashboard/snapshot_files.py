"""Committed folders of the store: write tables, commit by the manifest, read it back."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dashboard.canonical import parse_json
from dashboard.clock import format_time, parse_time
from dashboard.errors import StoreError, UsageError

if TYPE_CHECKING:  # slow to import; who asks only for JSON files stays quick
    import pyarrow as pa

    from dashboard.tables import TableSpec

# Minor: columns were added (readers fill nulls). Major: readers must refuse.
SCHEMA_VERSION = (1, 6)
Kind = Literal["snapshots", "findings"]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a committed folder holds. `details` is the writer's own: brokers, errors, reasons."""

    id: str
    taken_at: datetime
    tables: Mapping[str, int]  # table -> rows
    seconds: float
    details: Mapping[str, Any] = field(default_factory=dict)
    schema_version: tuple[int, int] = SCHEMA_VERSION


def new_id(now: datetime, after: str | None = None) -> str:
    """A sortable, unique id: the UTC time to the millisecond and four random hex digits.

    It sorts behind `after`, where that is an id: its time is then a millisecond past that one's.
    """
    newest = time_of(after) if after else None
    if newest is not None and newest >= now.replace(microsecond=now.microsecond // 1000 * 1000):
        now = newest + timedelta(milliseconds=1)
    return f"{now:%Y%m%dT%H%M%S}{now.microsecond // 1000:03d}Z-{secrets.token_hex(2)}"


def time_of(item_id: str) -> datetime | None:
    """The time in an id, to the millisecond; None for a folder that is not ours."""
    try:
        second = datetime.strptime(item_id[:15], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
        return second + timedelta(milliseconds=int(item_id[15:18] or 0))
    except ValueError:
        return None


class Writer:
    """One snapshot or analysis being written; `abandon` leaves nothing behind."""

    def __init__(self, fs: Any, folder: str, kind: Kind, item_id: str, taken_at: datetime) -> None:
        self.fs = fs
        self.kind: Kind = kind
        self.id = item_id
        self.taken_at = taken_at
        self.path = f"{folder}/{kind}/{item_id}"
        self.rows: dict[str, int] = {}

    def write(self, table: str, data: pa.Table) -> None:
        """Write one table in its declared schema (zstd). Raises StoreError when it cannot."""
        import pyarrow.parquet as pq

        from dashboard.tables import conform

        conformed = conform(spec_of(self.kind, table), data)
        # Findings' long tables are sums and offsets, which rarely repeat: a dictionary of those
        # takes longer than all the rest.
        texts = [f.name for f in conformed.schema if f.type == "string"]
        repeated = texts if self.kind == "findings" else True
        try:
            self.fs.makedirs(self.path, exist_ok=True)
            with self.fs.open(f"{self.path}/{table}.parquet", "wb") as file:
                # A bit that flips on a disk would else be read as another number.
                pq.write_table(
                    conformed,
                    file,
                    compression="zstd",
                    use_dictionary=repeated,
                    write_page_checksum=True,
                )
        except OSError as error:
            raise unwritable(self.path, error) from error
        self.rows[table] = conformed.num_rows

    def commit(self, seconds: float, details: Mapping[str, Any]) -> Manifest:
        """Write the manifest, which makes the folder visible to readers. Raises StoreError."""
        self._settle()
        manifest = Manifest(self.id, self.taken_at, dict(self.rows), seconds, details)
        body = {
            "schema_version": list(manifest.schema_version),
            "id": self.id,
            "taken_at": format_time(self.taken_at),
            "tables": self.rows,
            "seconds": round(seconds, 3),
            "details": details,
        }
        text = json.dumps(body, sort_keys=True, allow_nan=False, indent=1)
        write_atomically(self.fs, f"{self.path}/manifest.json", text.encode())
        return manifest

    def _settle(self) -> None:
        """See every table on the disk: a power cut, or another's pruning, must not leave a part."""
        for table in self.rows:
            path = f"{self.path}/{table}.parquet"
            try:
                if "file" not in self.fs.protocol:  # an object store has it, or has not
                    self.fs.info(path)
                    continue
                with Path(path).open("rb") as file:
                    os.fsync(file.fileno())
            except OSError as error:
                raise unwritable(path, error) from error

    def abandon(self) -> None:
        """Remove what was written so far; safe to call after a failed or interrupted write."""
        if self.fs.exists(self.path):
            self.fs.rm(self.path, recursive=True)


def spec_of(kind: Kind, table: str) -> TableSpec:
    """The declared table of this name. Raises StoreError TABLE_UNKNOWN with the known names."""
    from dashboard.tables import FINDING_TABLES, SNAPSHOT_TABLES

    known = SNAPSHOT_TABLES if kind == "snapshots" else FINDING_TABLES
    if table not in known:
        raise StoreError(
            f"there is no {kind} table '{table}'",
            f"Known tables: {', '.join(sorted(known))}.",
            code="TABLE_UNKNOWN",
        )
    return known[table]


def write_atomically(fs: Any, path: str, body: bytes) -> None:
    """Replace a file so that a reader sees the old or the new content, never a part."""
    try:
        fs.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
        if "file" not in fs.protocol:  # an object store's put is atomic in itself
            fs.pipe_file(path, body)
            return
        temporary = Path(f"{path}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
        try:
            with temporary.open("wb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)  # there only if the disk was full
    except OSError as error:
        raise unwritable(path, error) from error


def parse_manifest(raw: bytes, path: str) -> Manifest:
    """The manifest in `raw`, read from `path`. Raises StoreError, also for a newer major."""
    try:
        body = parse_json(raw)
        major, minor = body["schema_version"]
        # Checked before the rest: a newer major may have moved every other key.
        if major > SCHEMA_VERSION[0]:
            raise _too_new(path, f"{major}.{minor}")
        return Manifest(
            id=body["id"],
            taken_at=parse_time(str(body["taken_at"])),
            tables={str(table): _count(rows) for table, rows in dict(body["tables"]).items()},
            seconds=float(body["seconds"]),
            details=dict(body["details"]),
            schema_version=(major, minor),
        )
    except (ValueError, KeyError, TypeError, ArithmeticError, UsageError) as error:
        raise unreadable(path, error) from error


def _count(value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no number of rows")
    return value


def _too_new(path: str, version: str) -> StoreError:
    return StoreError(
        f"{path} has schema version {version}; this release reads {SCHEMA_VERSION[0]}.x",
        "Upgrade lowwater to the release that wrote it.",
        code="SCHEMA_TOO_NEW",
    )


def not_kept(kind: Kind, item_id: str) -> StoreError:
    """The error for a folder that is not committed: unfinished, or pruned, maybe just now."""
    return StoreError(
        f"{_NOUNS[kind]} {item_id} is not there: it was never finished, or is no longer kept",
        "Take the newest one, which is always kept; [snapshots] of the settings says how long "
        "others are.",
        code="SNAPSHOT_NOT_FOUND",
        retriable=True,
    )


_NOUNS: dict[Kind, str] = {"snapshots": "snapshot", "findings": "analysis"}


def unreadable(path: str, error: Exception) -> StoreError:
    """The error for a file that exists but cannot be read."""
    return StoreError(
        f"{path} cannot be read: {error}",
        "Remove that folder or file, then collect and analyze again; others are not affected.",
        code="STORE_UNREADABLE",
    )


def unwritable(path: str, error: OSError) -> StoreError:
    """The error for a full disk or missing rights."""
    return StoreError(
        f"{path} cannot be written: {error.strerror or error}",
        "Free disk space or correct its rights (or choose another --data), then run it again; "
        "finished snapshots are not affected.",
        code="STORE_UNWRITABLE",
    )
