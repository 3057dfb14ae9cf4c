"""Tables are built and read in their declared schema; what is unknown is null."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dashboard.store.tables import FINDING_TABLES, SNAPSHOT_TABLES, TableSpec, build, conform

_ALL = [*SNAPSHOT_TABLES.values(), *FINDING_TABLES.values()]


@pytest.mark.parametrize("spec", _ALL, ids=lambda spec: spec.name)
def test_each_table_has_its_key_and_names_its_snapshot(spec: TableSpec) -> None:
    assert set(spec.key) <= set(spec.schema.names)
    assert {"snapshot_id", "taken_at"} <= set(spec.schema.names)
    assert str(spec.schema.field("taken_at").type) == "timestamp[us, tz=UTC]"


def test_a_built_table_is_sorted_by_key_and_missing_columns_are_null() -> None:
    spec = SNAPSHOT_TABLES["partitions"]
    table = build(spec, {"topic_no": [2, 1, 1], "partition": [0, 5, 3]})
    assert table.schema == spec.schema
    assert table.column("partition").to_pylist() == [3, 5, 0]
    assert table.column("high_watermark").to_pylist() == [None, None, None]


def test_no_rows_still_have_the_schema() -> None:
    spec = SNAPSHOT_TABLES["groups"]
    assert build(spec, {}).schema == spec.schema
    assert build(spec, {}).num_rows == 0


def test_large_offsets_keep_every_digit() -> None:
    spec = FINDING_TABLES["holds"]
    table = build(spec, {"topic": ["t"], "partition": [0], "committed_offset": [2**62 + 1]})
    assert table.column("committed_offset").to_pylist() == [2**62 + 1]


def test_a_value_of_another_kind_is_not_bent_into_the_schema() -> None:
    with pytest.raises(pa.ArrowException):
        build(SNAPSHOT_TABLES["log_dirs"], {"broker_id": [1], "total_bytes": ["many"]})


def test_columns_that_an_older_minor_lacks_read_as_null_and_newer_ones_are_left_out() -> None:
    spec = SNAPSHOT_TABLES["log_dirs"]
    other = pa.table({"log_dir": ["/d"], "broker_id": pa.array([1], pa.int64()), "later": [1]})
    found = conform(spec, other)
    assert found.schema == spec.schema
    assert found.to_pylist()[0]["broker_id"] == 1
    assert found.to_pylist()[0]["total_bytes"] is None
