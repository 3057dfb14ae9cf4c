"""A part of an archive: the records of a range of one partition as Parquet, and what proves it.

A part is written a row group at a time, so that what is held is the part and not the records
besides. A fingerprint of all contents goes along; whoever reads the part back must find the same.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dashboard.core.errors import ArchiveError

# A header may be there twice, and in an order that means something: a list, never a map.
_HEADER = pa.struct([pa.field("name", pa.string(), nullable=False), ("value", pa.binary())])
SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        # null: the record has none (-1 in Kafka).
        pa.field("timestamp", pa.timestamp("ms", tz="UTC")),
        # "create" or "append" (LogAppendTime); null where Kafka tells no type.
        pa.field("timestamp_type", pa.dictionary(pa.int32(), pa.string())),
        pa.field("key", pa.binary()),  # null is no key; empty is a key of no bytes
        pa.field("value", pa.large_binary()),  # null is a tombstone
        pa.field("headers", pa.list_(_HEADER), nullable=False),
    ]
)
_RAW = ("key", "value", "headers")
_FORMAT_KEY = b"lowwater.archive"
_FORMAT = b"1"


class Sealing(Protocol):
    """Whole parts made unreadable for who lacks a key; `name` is the part's below its run, and
    what was sealed under one name does not open under another.
    """

    @property
    def key_id(self) -> str: ...

    def seal(self, body: bytes, name: str) -> bytes: ...

    def unseal(self, body: bytes, name: str) -> bytes:
        """Raises ArchiveError where the key or the name is another, or a byte was changed."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What is in a part: how many records, of which offsets, and a fingerprint of every value.

    `raw_bytes`: of keys, values and headers, as they were. Offsets are None of a part without any
    record. `fingerprint` is a CRC-32 of what the columns hold: it finds a fault of an encoder or
    of memory, no forger, against whom the journal's chain holds a sha256 of all commits.
    """

    records: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    raw_bytes: int = 0
    fingerprint: int = 0

    def and_then(self, batch: pa.RecordBatch) -> Contents:
        """With the records of `batch` behind. Raises ValueError unless offsets ascend."""
        if batch.num_rows == 0:
            return self
        offsets = batch.column("offset").to_numpy()
        if np.any(np.diff(offsets) <= 0):
            raise ValueError("offsets do not ascend")
        first, last = int(offsets[0]), int(offsets[-1])
        if self.last_offset is not None and first <= self.last_offset:
            raise ValueError("offsets do not ascend")
        crc, size = self.fingerprint, 0
        for name in SCHEMA.names:
            crc, more = _checked(batch.column(name), crc)
            size += more if name in _RAW else 0
        return Contents(
            self.records + batch.num_rows,
            first if self.first_offset is None else self.first_offset,
            last,
            self.raw_bytes + size,
            crc,
        )


def _checked(column: pa.Array, crc: int) -> tuple[int, int]:
    """The checksum with a column's values behind it, and the bytes of those of variable length.

    Independent of how Arrow happens to lay them out: lengths with -1 for null, then the bytes.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _checked(column.cast(kind.value_type), crc)
    if pa.types.is_struct(kind):  # a header is never null itself
        crc, size = _checked(column.field(0), crc)
        crc, more = _checked(column.field(1), crc)
        return crc, size + more
    if pa.types.is_list(kind):
        crc = zlib.crc32(_numbers(pc.list_value_length(column)), crc)
        return _checked(column.flatten(), crc)
    if pa.types.is_integer(kind) or pa.types.is_timestamp(kind):
        return zlib.crc32(_numbers(column.cast(pa.int64())), crc), 0
    crc = zlib.crc32(_numbers(pc.binary_length(column)), crc)
    found = _bytes(column)
    return zlib.crc32(found, crc), len(found)


def _numbers(column: pa.Array) -> bytes:
    # No length is as low, and no time that a broker takes.
    filled = pc.fill_null(column.cast(pa.int64()), -(2**63) + 1)
    return bytes(filled.to_numpy().tobytes())


def _bytes(column: pa.Array) -> memoryview:
    """The bytes of all values one after another; a null has none between."""
    large = pa.types.is_large_binary(column.type)
    _, offsets, data = column.buffers()
    if data is None or len(column) == 0:
        return memoryview(b"")
    ends = np.frombuffer(offsets, np.int64 if large else np.int32)
    start, end = int(ends[column.offset]), int(ends[column.offset + len(column)])
    return memoryview(data)[start:end]


class PartWriter:
    """Makes the bytes of one part, a row group for each batch that it is given."""

    def __init__(self, level: int) -> None:
        self._sink = pa.BufferOutputStream()
        # Statistics of keys and values would hold some of them in the clear twice, for nobody.
        self._writer = pq.ParquetWriter(
            self._sink,
            SCHEMA.with_metadata({_FORMAT_KEY: _FORMAT}),
            compression="zstd",
            compression_level=level,
            use_dictionary=["timestamp_type"],
            write_statistics=["offset", "timestamp"],
            write_page_checksum=True,
        )
        self.contents = Contents()

    def add(self, batch: pa.RecordBatch) -> None:
        """Records behind those before. Raises ValueError unless offsets ascend."""
        self.contents = self.contents.and_then(batch)
        self._writer.write_batch(batch, row_group_size=max(1, batch.num_rows))

    def finish(self) -> bytes:
        """The whole part."""
        self._writer.close()
        return bytes(self._sink.getvalue().to_pybytes())


def read_batches(body: bytes) -> Iterator[pa.RecordBatch]:
    """The records of a part's bytes (unsealed), a row group at a time, page checksums checked.

    Raises ArchiveError where that is no part.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(body), page_checksum_verification=True)
        if (file.schema_arrow.metadata or {}).get(_FORMAT_KEY) != _FORMAT:
            raise ValueError("it is no part of an archive that this release knows")
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, use_threads=False)
            yield from table.cast(SCHEMA).combine_chunks().to_batches()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _not_a_part(str(error)) from error


def contents(body: bytes) -> Contents:
    """What the bytes of a part (unsealed) hold. Raises ArchiveError where they cannot be read."""
    found = Contents()
    for batch in read_batches(body):
        try:
            found = found.and_then(batch)
        except ValueError as error:
            raise _not_a_part(str(error)) from error
    return found


def stored_sha256(body: bytes) -> str:
    """Hex sha256 of a part's bytes as they lie in the store."""
    return hashlib.sha256(body).hexdigest()


def batch_of(columns: dict[str, list[Any]]) -> pa.RecordBatch:
    """A batch of lists, one for each column of `SCHEMA`; times in ms since 1970, headers as pairs
    (name, bytes or None).
    """
    kinds = {**{f.name: f.type for f in SCHEMA}, "timestamp_type": pa.string()}
    headers = columns["headers"]
    made = [
        _headers(headers) if name == "headers" else pa.array(columns[name], kinds[name])
        for name in SCHEMA.names
    ]
    made[2] = made[2].dictionary_encode()
    return pa.record_batch(made, schema=SCHEMA)


def _headers(rows: list[Any]) -> pa.Array:
    if not any(rows):  # most topics have none
        empty = pa.array([], _HEADER)
        return pa.ListArray.from_arrays(pa.array(np.zeros(len(rows) + 1, np.int32)), empty)
    named = [[{"name": name, "value": value} for name, value in row] for row in rows]
    return pa.array(named, pa.list_(_HEADER))


def _not_a_part(why: str) -> ArchiveError:
    return ArchiveError(
        f"a part of the archive cannot be read: {why}",
        "Verify the archive (lowwater archives verify); what is damaged is named there.",
        code="ARCHIVE_PART_UNREADABLE",
    )
