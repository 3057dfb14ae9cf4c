"""Writes what a scan or a listing showed into one inventory file, and keeps the totals."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dashboard.core.canonical import written
from dashboard.core.errors import InventoryError
from dashboard.domain.acts import GAPS_NAMED
from dashboard.inventory.contents import Meta, Segment
from dashboard.inventory.loading import (
    CHECKPOINT,
    META_KEY,
    SCHEMA,
    SCHEMA_VERSION,
    SEGMENT,
    Gap,
    LogDirTotals,
    Summary,
)
from dashboard.inventory.names import Folder

# Reasons of gaps that a scan and a listing share.
LINK = "a link, never followed: not counted"
NO_PARTITION = "not a partition folder: not counted"
NESTED = "a folder inside a partition folder: not counted"
SPECIAL = "neither a file nor a folder: not counted"

_BATCH = 50_000


class Recorder:
    """One inventory file being written: rows in batches, so memory does not grow with them.

    Use it as a context manager: the file appears whole when `finish` was called, else not at all.
    """

    def __init__(
        self, path: str, broker_id: int, log_dirs: Sequence[str], *, newest_from: str
    ) -> None:
        self.path = path
        self.broker_id = broker_id
        self.newest_from = newest_from
        self.scanned_at: datetime | None = None
        self.cluster_id: str | None = None
        self.totals = {log_dir: LogDirTotals(log_dir) for log_dir in log_dirs}
        self.gaps: list[Gap] = []
        self.gaps_total = 0
        self._gaps_of = [0, 0]  # others, inside folders
        self._rows: dict[str, list[tuple[Any, ...]]] = {SEGMENT: [], CHECKPOINT: []}
        self._temporary = Path(f"{path}.{secrets.token_hex(4)}.tmp")
        try:
            self._file = self._temporary.open("xb")
        except OSError as error:
            raise self._unwritable(error) from error
        self._writer = pq.ParquetWriter(
            self._file, SCHEMA, compression="zstd", write_page_checksum=True
        )

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError, pa.ArrowException):
            self._writer.close()
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            self._temporary.unlink(missing_ok=True)

    def meta(self, log_dir: str, found: Meta) -> None:
        """The log dir's own identity. Raises InventoryError when it is another broker's."""
        self.totals[log_dir].directory_id = found.directory_id
        if found.node_id not in (None, self.broker_id):
            raise InventoryError(
                f"{log_dir} belongs to broker {found.node_id}, not to broker {self.broker_id}",
                f"Give --broker {found.node_id}, or the log dirs of broker {self.broker_id}.",
                code="BROKER_MISMATCH",
            )
        if found.cluster_id and self.cluster_id not in (None, found.cluster_id):
            raise InventoryError(
                f"{log_dir} belongs to cluster {found.cluster_id}, another log dir to "
                f"{self.cluster_id}",
                "Name the log dirs of one broker.",
                code="CLUSTER_MISMATCH",
            )
        self.cluster_id = found.cluster_id or self.cluster_id

    def folder(
        self, log_dir: str, folder: Folder, topic_id: str | None, rows: Iterable[Segment]
    ) -> None:
        """All rows of one partition folder."""
        totals = self.totals[log_dir]
        totals.folders += 1
        named = (folder.directory, folder.topic, folder.partition, topic_id, folder.kind)
        for row in rows:
            self._rows[SEGMENT].append((log_dir, *named, *row))
            totals.segments += row.base_offset is not None
            totals.log_bytes += row.log_bytes
            totals.index_bytes += row.index_bytes
            totals.allocated_bytes += row.allocated_bytes
        self._flush(SEGMENT, _BATCH)

    def checkpoint(self, log_dir: str, file: str, entry: tuple[str, int, int]) -> None:
        """One entry of a checkpoint file: topic, partition, offset."""
        self._rows[CHECKPOINT].append((log_dir, file, *entry))
        self.totals[log_dir].checkpoints += 1
        self._flush(CHECKPOINT, _BATCH)

    def gap(self, log_dir: str | None, path: str, reason: str) -> None:
        """Something that is there and was not counted. All are counted; kept are those of a log dir
        itself (no path), of which nothing may be concluded then, and the first hundred each of
        those inside folders, whose rows are here, and of others, which may be such folders.
        """
        self.gaps_total += 1
        inside = "/" in path
        self._gaps_of[inside] += 1
        if not path or self._gaps_of[inside] <= GAPS_NAMED:
            self.gaps.append(Gap(log_dir, _shown(path), reason))

    def finish(self) -> Summary:
        """Write the rest and the footer, and let the file appear. Returns what the footer says."""
        if self.cluster_id is None:
            raise InventoryError(
                f"no meta.properties of {', '.join(self.totals)} tells the cluster",
                "Check the paths: log.dirs of the broker's server.properties has them.",
                code="NOT_A_LOG_DIR",
            )
        for record in self._rows:
            self._flush(record, 1)
        summary = self.summary(self.cluster_id)
        try:
            self._writer.add_key_value_metadata({META_KEY: json.dumps(written(summary))})
            self._writer.close()
            self._file.close()
            self._temporary.replace(self.path)
        except OSError as error:
            raise self._unwritable(error) from error
        return summary

    def summary(self, cluster_id: str) -> Summary:
        """What the footer says."""
        totals = tuple(self.totals.values())
        return Summary(
            schema_version=SCHEMA_VERSION,
            broker_id=self.broker_id,
            cluster_id=cluster_id,
            scanned_at=self.scanned_at,
            newest_from=self.newest_from,
            segments=sum(found.segments for found in totals),
            checkpoints=sum(found.checkpoints for found in totals),
            log_dirs=totals,
            gaps=tuple(self.gaps),
            gaps_total=self.gaps_total,
        )

    def _flush(self, record: str, at_least: int) -> None:
        rows = self._rows[record]
        if len(rows) < at_least:
            return
        self._rows[record] = []
        columns = dict(zip(_COLUMNS[record], zip(*rows, strict=True), strict=True))
        constant: dict[str, Any] = {"record": record, "broker_id": self.broker_id}
        if record == SEGMENT:
            constant["scanned_at"] = self.scanned_at
        arrays = [_array(field, columns, constant, len(rows)) for field in SCHEMA]
        try:
            self._writer.write_table(pa.table(arrays, schema=SCHEMA))
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> InventoryError:
        return InventoryError(
            f"{self.path} cannot be written: {error.strerror or error}",
            "Name a file in a folder that exists and has room; write it outside the log dirs.",
            code="FILE_UNWRITABLE",
        )


def _shown(path: str) -> str:
    """A path that a terminal shows as it is: whatever is not printable is escaped."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in path)


_COLUMNS = {
    SEGMENT: (
        "log_dir", "directory", "topic", "partition", "topic_id", "kind", "base_offset",
        "log_bytes", "index_bytes", "allocated_bytes", "newest_at", "log_end_offset",
    ),
    CHECKPOINT: ("log_dir", "file", "topic", "partition", "offset"),
}  # fmt: skip


def _array(
    field: pa.Field, columns: dict[str, Any], constant: dict[str, Any], rows: int
) -> pa.Array:
    if field.name == "newest_at" and field.name in columns:
        return pa.array(columns[field.name], pa.int64()).cast(field.type)
    if field.name in columns:
        return pa.array(columns[field.name], field.type)
    if field.name in constant:
        return pa.repeat(pa.scalar(constant[field.name], field.type), rows)
    return pa.nulls(rows, field.type)
