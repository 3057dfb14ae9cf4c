"""A folder of the store while it is written: its tables, their parts, and the commit."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dashboard.core.clock import format_time
from dashboard.store.snapshot_files import (
    IN_BUCKETS,
    SCHEMA_VERSION,
    Kind,
    Manifest,
    Part,
    spec_of,
    unwritable,
    write_atomically,
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
