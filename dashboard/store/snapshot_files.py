"""Committed folders of the store: their ids, their manifests, what goes wrong with them; and a
folder while it is written: its tables, their parts, and the commit.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dashboard.core.canonical import parse_json
from dashboard.core.clock import format_time, parse_time
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


if TYPE_CHECKING:  # slow to import; who asks only for JSON files stays quick
    import pyarrow as pa

    from dashboard.store.tables import TableSpec


class Writer:
    """One snapshot or analysis being written; `abandon` leaves nothing behind.

    `buckets`: how many its long tables lie in (`dashboard.store.buckets`).
    """

    def __init__(
        self,
        fs: Any,
        folder: str,
        kind: Kind,
        item_id: str,
        taken_at: datetime,
        *,
        buckets: int = 1,
    ) -> None:
        self.fs = fs
        self.kind: Kind = kind
        self.id = item_id
        self.taken_at = taken_at
        self.buckets = buckets
        self.path = f"{folder}/{kind}/{item_id}"
        self.rows: dict[str, int] = {}
        self._parts: dict[str, tuple[Part, ...]] = {}

    def write(self, table: str, data: pa.Table) -> None:
        """Write one table in its declared schema (zstd). Raises StoreError when it cannot."""
        file = f"{table}.parquet"
        self.rows[table] = write_part(self.fs, self.path, spec_of(self.kind, table), file, data)

    def split(self, table: str, data: pa.Table, topics: pa.Table | None = None) -> None:
        """Write one table, a long one in its buckets; `topics` as `Buckets.of` has them.

        Raises StoreError when it cannot.
        """
        from dashboard.store.buckets import LONG, Buckets

        if self.buckets == 1 or table not in LONG[self.kind]:
            self.write(table, data)
            return
        spec, bucket = spec_of(self.kind, table), Buckets(self.buckets).of(data, topics)
        parts = []
        for number in range(self.buckets):
            file = part_name(table, number, "0")
            rows = data.filter(bucket == number)
            parts.append((file, write_part(self.fs, self.path, spec, file, rows)))
        self._add(table, parts)

    def adopt(self, table: str, parts: Sequence[Part]) -> None:
        """Take in one table that others wrote into the folder, a file for each bucket in order.

        With one bucket it gets the table's name, by which older releases look for it.
        """
        if self.buckets > 1:
            self._add(table, parts)
            return
        ((file, rows),) = parts
        try:
            self.fs.mv(f"{self.path}/{file}", f"{self.path}/{table}.parquet")
        except OSError as error:
            raise unwritable(self.path, error) from error
        self.rows[table] = rows

    def sweep(self) -> None:
        """Remove files that no table needs: what a task wrote that ran twice, or was given up."""
        needed = {file.rsplit("/", 1)[-1] for file in self._files()}
        for entry in self.fs.ls(self.path, detail=True, refresh=True):
            if entry["name"].rstrip("/").rsplit("/", 1)[-1] not in needed:
                with suppress(OSError):  # the manifest names none of them: pruning takes the rest
                    self.fs.rm(entry["name"])

    def commit(self, seconds: float, details: Mapping[str, Any]) -> Manifest:
        """Write the manifest, which makes the folder visible to readers. Raises StoreError."""
        self._settle()
        version = SCHEMA_VERSION if self.buckets == 1 else IN_BUCKETS
        manifest = Manifest(
            self.id, self.taken_at, dict(self.rows), seconds, details, version, self.buckets,
            dict(self._parts),
        )  # fmt: skip
        body = {
            "schema_version": list(manifest.schema_version),
            "id": self.id,
            "taken_at": format_time(self.taken_at),
            "tables": self.rows,
            "seconds": round(seconds, 3),
            "details": details,
        }
        if self.buckets > 1:
            body |= {"buckets": self.buckets, "parts": self._parts}
        text = json.dumps(body, sort_keys=True, allow_nan=False, indent=1)
        write_atomically(self.fs, f"{self.path}/manifest.json", text.encode())
        return manifest

    def _add(self, table: str, parts: Sequence[Part]) -> None:
        self._parts[table] = tuple(parts)
        self.rows[table] = sum(rows for _, rows in parts)

    def _files(self) -> list[str]:
        whole = [f"{self.path}/{table}.parquet" for table in self.rows if table not in self._parts]
        return whole + [f"{self.path}/{f}" for parts in self._parts.values() for f, _ in parts]

    def _settle(self) -> None:
        """See every table on the disk: a power cut, or another's pruning, must not leave a part."""
        for path in self._files():
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


def part_name(table: str, bucket: int, attempt: str) -> str:
    """The file of one bucket: a task that runs twice writes two, and the manifest names one."""
    return f"{table}.{bucket}.{attempt}.parquet"


def write_part(fs: Any, folder: str, spec: TableSpec, file: str, data: pa.Table) -> int:
    """Write a file of a table of ours, in its declared schema; its rows. Raises StoreError."""
    import pyarrow.parquet as pq

    from dashboard.store.tables import FINDING_TABLES, conform

    conformed = conform(spec, data)
    # Findings' long tables are sums and offsets, which rarely repeat: a dictionary of those
    # takes longer than all the rest.
    texts = [f.name for f in conformed.schema if f.type == "string"]
    repeated = texts if FINDING_TABLES.get(spec.name) is spec else True
    try:
        fs.makedirs(folder, exist_ok=True)
        with fs.open(f"{folder}/{file}", "wb") as opened:
            # A bit that flips on a disk would else be read as another number.
            pq.write_table(
                conformed,
                opened,
                compression="zstd",
                use_dictionary=repeated,
                write_page_checksum=True,
            )
    except OSError as error:
        raise unwritable(folder, error) from error
    return int(conformed.num_rows)
