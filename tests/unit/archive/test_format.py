"""A part is read back as it was, and whatever is not as it was is found."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.archive.format import (
    SCHEMA,
    Contents,
    PartWriter,
    batch_of,
    contents,
    read_batches,
    stored_sha256,
)
from dashboard.core.errors import ArchiveError

_BYTES = st.none() | st.binary(max_size=20)
_RECORDS = st.lists(
    st.tuples(
        st.integers(1, 5),  # offsets between two records
        st.none() | st.integers(0, 2**41),
        st.sampled_from(["create", "append", None]),
        _BYTES,
        _BYTES,
        st.lists(st.tuples(st.text(max_size=4), _BYTES), max_size=3),
    ),
    max_size=12,
)


def columns(records: list[tuple[Any, ...]], start: int = 7) -> dict[str, list[Any]]:
    at, rows = start, []
    for step, *rest in records:
        at += step
        rows.append((at, *rest))
    return {name: [row[i] for row in rows] for i, name in enumerate(SCHEMA.names)}


def part_of(*batches: pa.RecordBatch) -> tuple[bytes, Contents]:
    writer = PartWriter(1)
    for batch in batches:
        writer.add(batch)
    return writer.finish(), writer.contents


@settings(max_examples=60, deadline=None)
@given(_RECORDS, _RECORDS)
def test_a_part_comes_back_record_for_record(first: list[Any], more: list[Any]) -> None:
    one = columns(first)
    two = columns(more, start=one["offset"][-1] if first else 7)
    body, made = part_of(batch_of(one), batch_of(two))
    assert contents(body) == made
    assert made.records == len(first) + len(more)
    rows = [row for batch in read_batches(body) for row in batch.to_pylist()]
    expected = [
        dict(zip(SCHEMA.names, row, strict=True))
        for table in (one, two)
        for row in zip(*table.values(), strict=True)
    ]
    for row in expected:
        at = row["timestamp"]
        row["timestamp"] = at if at is None else pa.scalar(at, SCHEMA.field(1).type).as_py()
        row["headers"] = [{"name": n, "value": v} for n, v in row["headers"]]
    assert rows == expected


def test_null_and_empty_are_two_things() -> None:
    headers = [[("h", None), ("h", b""), ("", b"x")], []]
    body, made = part_of(batch_of({
        "offset": [0, 1], "timestamp": [None, 1_700_000_000_123],
        "timestamp_type": [None, "append"], "key": [None, b""], "value": [b"", None],
        "headers": headers,
    }))  # fmt: skip
    (rows,) = (batch.to_pylist() for batch in read_batches(body))
    assert [(row["key"], row["value"]) for row in rows] == [(None, b""), (b"", None)]
    assert [[tuple(h.values()) for h in row["headers"]] for row in rows] == headers
    assert rows[0]["timestamp"] is None
    assert rows[1]["timestamp"] == datetime(2023, 11, 14, 22, 13, 20, 123000, UTC)
    assert made.raw_bytes == len("hh") + 1


ROWS: dict[str, list[Any]] = {
    "offset": [3, 4], "timestamp": [1, 2], "timestamp_type": ["create", "create"],
    "key": [b"ab", b"c"], "value": [b"x", b"yz"], "headers": [[("n", b"v")], []],
}  # fmt: skip


@pytest.mark.parametrize(
    "other",
    [
        {"offset": [3, 5]},
        {"timestamp": [1, 3]},
        {"timestamp": [1, None]},
        {"timestamp_type": ["create", "append"]},
        {"key": [b"a", b"bc"]},
        {"value": [b"x", b"yy"]},
        {"value": [b"xyz", None]},
        {"headers": [[("n", b"w")], []]},
        {"headers": [[], [("n", b"v")]]},
        {"headers": [[("nv", None)], []]},
    ],
    ids=str,
)
def test_contents_that_differ_anywhere_have_another_fingerprint(other: dict[str, Any]) -> None:
    assert part_of(batch_of({**ROWS, **other}))[1] != part_of(batch_of(ROWS))[1]


def test_how_arrow_lays_them_out_makes_no_difference() -> None:
    batch = batch_of(ROWS)
    assert part_of(batch.slice(0, 1), batch.slice(1, 1))[1].raw_bytes == 8
    sliced = batch_of({name: [*v, *v] for name, v in {**ROWS, "offset": [1, 2]}.items()}
                      | {"offset": [1, 2, 3, 4]}).slice(2, 2)  # fmt: skip
    assert Contents().and_then(sliced) == Contents().and_then(batch)


def test_offsets_that_do_not_ascend_are_no_part() -> None:
    writer = PartWriter(1)
    with pytest.raises(ValueError, match="ascend"):
        writer.add(batch_of({**ROWS, "offset": [4, 4]}))
    writer.add(batch_of(ROWS))
    with pytest.raises(ValueError, match="ascend"):
        writer.add(batch_of(ROWS))


def test_any_byte_that_changed_is_found() -> None:
    body, made = part_of(batch_of(ROWS))
    sha = stored_sha256(body)
    for at in range(0, len(body), 37):
        changed = body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]
        assert stored_sha256(changed) != sha
        try:
            found = contents(changed)
        except ArchiveError as error:
            assert error.code == "ARCHIVE_PART_UNREADABLE"
        else:  # a byte of what is not read, as Parquet's statistics
            assert found == made or stored_sha256(changed) != sha


def test_another_parquet_file_is_no_part() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"offset": [1]}), sink)
    with pytest.raises(ArchiveError, match="no part of an archive"):
        contents(sink.getvalue().to_pybytes())
