"""The records of an archive as a DataFrame: tasks read its parts, nothing passes the driver.

Not Spark's own reader: any URL that fsspec knows is read so, and sealed parts are opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.archive.manifest import Part
from dashboard.archive.opened import Archive, open_archive
from dashboard.core.errors import ArchiveError
from dashboard.domain.model import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TASK_BYTES = 64 << 20  # before compression: many small partitions are one task
_LAST_MS = 2**63 // 1000  # Spark counts microseconds; some write those for milliseconds
_SPARK = (
    "topic string, partition int, offset long, timestamp timestamp, timestamp_type string, "
    "key binary, value binary, headers array<struct<name: string, value: binary>>"
)
Piece = tuple[TopicPartition, Part]


def archived_records(where: str, *, topic: str | None, settings: str | None) -> DataFrame:
    """What `analytics.archive` says."""
    # Of the driver alone: workers have what reads Arrow, and no settings.
    from analytics.opened import Session
    from dashboard.settings import settings as settings_files

    chosen = settings_files.load(settings)
    archive = open_archive(where, chosen.archive.key_file)
    groups = grouped(pieces(archive, topic))
    spark = Session(chosen).get()
    if not groups:
        return spark.createDataFrame([], _SPARK)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for at in batch.column(0).to_pylist():
                for key, part in groups[at]:
                    yield from (_row(key, found) for found in archive.batches(key, part))

    return spark.range(0, len(groups), 1, len(groups)).mapInArrow(read, _SPARK)


def pieces(archive: Archive, topic: str | None) -> list[Piece]:
    """Every part that a partition's commit names, by topic, partition and offset.

    Raises ArchiveError ARCHIVE_NOT_WHOLE where a partition has none as yet, ARCHIVE_PART_MISSING
    where it is gone: rows would be missing.
    """
    known = None if topic is None else archive.topic(topic).topic
    found = {key: one for key, one in archive.partitions().items() if known in (None, key.topic)}
    for key in archive.lost(found):
        raise archive.commit_lost(key)
    missing = [key for key, one in found.items() if one is None]
    if missing and archive.run.state != "incomplete":
        raise ArchiveError(
            f"nothing commits {missing[0].topic}-{missing[0].partition} in the archive "
            f"{archive.url}",
            "Wait until its run is closed, or see: lowwater archives verify.",
            code="ARCHIVE_NOT_WHOLE",
        )
    return [(key, part) for key, one in found.items() if one is not None for part in one.parts]


def grouped(parts: Sequence[Piece]) -> list[list[Piece]]:
    """The parts that each task reads."""
    groups: list[list[Piece]] = []
    room = 0
    for key, part in parts:
        if room <= 0:
            groups.append([])
            room = _TASK_BYTES
        groups[-1].append((key, part))
        room -= part.raw_bytes
    return groups


def _row(key: TopicPartition, batch: pa.RecordBatch) -> pa.RecordBatch:
    count = batch.num_rows
    names = [*batch.schema.names]
    at = pc.cast(batch.column("timestamp"), pa.int64())
    fits = pc.and_(pc.greater(at, -_LAST_MS), pc.less(at, _LAST_MS))
    batch = batch.set_column(
        names.index("timestamp"), "timestamp", pc.if_else(fits, batch.column("timestamp"), None)
    )
    kinds = {
        "timestamp": pa.timestamp("us", tz="UTC"), "timestamp_type": pa.string(),
        "value": pa.binary(),
    }  # fmt: skip
    columns = {name: pc.cast(batch.column(name), kinds[name]) if name in kinds
               else batch.column(name) for name in names}  # fmt: skip
    return pa.record_batch(
        {
            "topic": pa.array([key.topic] * count, pa.string()),
            "partition": pa.array([key.partition] * count, pa.int32()),
            **columns,
        }
    )
