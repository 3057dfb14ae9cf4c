"""Committed folders of the store: their ids, their manifests, and what goes wrong with them."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dashboard.core.canonical import parse_json
from dashboard.core.clock import parse_time
from dashboard.core.errors import StoreError, UsageError

if TYPE_CHECKING:  # slow to import; who asks only for JSON files stays quick
    from dashboard.store.tables import TableSpec

# Minor: columns were added (readers fill nulls). Major: readers must refuse.
SCHEMA_VERSION = (1, 8)
# Of a folder in several buckets: who looks for one file a table would find none. A folder with one
# bucket is written as before, so that older releases go on with the store of a smaller cluster.
IN_BUCKETS = (2, 2)
Kind = Literal["snapshots", "findings"]
Part = tuple[str, int]  # a file of a table, and its rows


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a committed folder holds. `details` is the writer's own: brokers, errors, reasons.

    `parts`: the files of each table that lies in `buckets` (more than one), in their order.
    """

    id: str
    taken_at: datetime
    tables: Mapping[str, int]  # table -> rows
    seconds: float
    details: Mapping[str, Any] = field(default_factory=dict)
    schema_version: tuple[int, int] = SCHEMA_VERSION
    buckets: int = 1
    parts: Mapping[str, tuple[Part, ...]] = field(default_factory=dict)

    def files(self, table: str) -> tuple[Part, ...]:
        """Where the rows of a table lie; () of one that was not written."""
        if table in self.parts:
            return self.parts[table]
        return ((f"{table}.parquet", self.tables[table]),) if table in self.tables else ()


def new_id(now: datetime, after: str | None = None) -> str:
    """A sortable, unique id: the UTC time to the millisecond and four random hex digits.

    It sorts behind `after`, where that is an id: its time is then a millisecond past that one's.
    """
    newest = time_of(after) if after else None
    if newest is not None and newest >= now.replace(microsecond=now.microsecond // 1000 * 1000):
        now = newest + timedelta(milliseconds=1)
    return f"{now:%Y%m%dT%H%M%S}{now.microsecond // 1000:03d}Z-{secrets.token_hex(2)}"


@lru_cache(maxsize=4096)  # each analysis asks for the times of all kept snapshots, in every bucket
def time_of(item_id: str) -> datetime | None:
    """The time in an id, to the millisecond; None for a folder that is not ours."""
    try:
        second = datetime.strptime(item_id[:15], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
        return second + timedelta(milliseconds=int(item_id[15:18] or 0))
    except ValueError:
        return None


def spec_of(kind: Kind, table: str) -> TableSpec:
    """The declared table of this name. Raises StoreError TABLE_UNKNOWN with the known names."""
    from dashboard.store.tables import FINDING_TABLES, SNAPSHOT_TABLES

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
        if major > IN_BUCKETS[0]:
            raise _too_new(path, f"{major}.{minor}")
        buckets, parts = _parts(body) if major == IN_BUCKETS[0] else (1, {})
        return Manifest(
            id=body["id"],
            taken_at=parse_time(str(body["taken_at"])),
            tables={str(table): _count(rows) for table, rows in dict(body["tables"]).items()},
            seconds=float(body["seconds"]),
            details=dict(body["details"]),
            schema_version=(major, minor),
            buckets=buckets,
            parts=parts,
        )
    except (ValueError, KeyError, TypeError, ArithmeticError, UsageError) as error:
        raise unreadable(path, error) from error


def _count(value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no number of rows")
    return value


def _parts(body: Mapping[str, Any]) -> tuple[int, dict[str, tuple[Part, ...]]]:
    """How many buckets there are, and the files of each long table, one for each of them."""
    buckets, parts = body["buckets"], {}
    if not isinstance(buckets, int) or buckets < 2 or buckets & (buckets - 1):
        raise ValueError(f"{buckets!r} is no number of buckets")
    for table, files in dict(body["parts"]).items():
        found = tuple((str(file), _count(rows)) for file, rows in files)
        if len(found) != buckets or not all(_FILE.fullmatch(file) for file, _ in found):
            raise ValueError(f"{table} has not a file for each of {buckets} buckets")
        if sum(rows for _, rows in found) != body["tables"][table]:
            raise ValueError(f"the parts of {table} are not its rows")
        parts[str(table)] = found
    return buckets, parts


_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\.parquet")  # never a path


def _too_new(path: str, version: str) -> StoreError:
    return StoreError(
        f"{path} has schema version {version}; this release reads {IN_BUCKETS[0]}.x",
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
