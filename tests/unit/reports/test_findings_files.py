"""Findings as CSV and Parquet: they read back equal, and no cell is a formula."""

from __future__ import annotations

import io
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from dashboard.core import csv_cells
from dashboard.reports import source
from dashboard.store.snapshots import ClusterStore
from dashboard.store.tables import FINDING_TABLES
from tests.support import odd_store, sample_store


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> ClusterStore:
    with pytest.MonkeyPatch.context() as patch:
        return odd_store.write(tmp_path_factory.mktemp("data"), patch)


def back(body: bytes, schema: pa.Schema) -> pa.Table:
    """A CSV file as a careful reader takes it: quoted texts are never null, marks go."""
    flat = {f.name: pa.string() if pa.types.is_nested(f.type) else f.type for f in schema}
    table = pa_csv.read_csv(
        io.BytesIO(body),
        parse_options=pa_csv.ParseOptions(newlines_in_values=True),
        convert_options=pa_csv.ConvertOptions(
            column_types=flat, strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    )
    columns = [
        pc.replace_substring_regex(c, "(^|[;\\t\\r\\n])'", r"\1")
        if pa.types.is_string(c.type)
        else c
        for c in table.columns
    ]
    return pa.table(columns, names=table.column_names)


def flat(table: pa.Table) -> pa.Table:
    """The table with its lists as the JSON texts that CSV has."""
    columns = [
        pa.array([None if v is None else csv_cells.list_text(v) for v in c.to_pylist()], "string")
        if pa.types.is_nested(c.type)
        else c
        for c in table.columns
    ]
    return pa.table(columns, names=table.column_names)


@pytest.mark.parametrize("name", sorted(FINDING_TABLES))
def test_each_table_reads_back_equal(cluster: ClusterStore, name: str) -> None:
    table = cluster.read("findings", cluster.latest_analysis(), name)
    assert table.num_rows

    parquet = pq.read_table(io.BytesIO(source.as_parquet(table)))
    csv = back(csv_cells.table_as_csv(table), table.schema)

    assert parquet.schema.equals(table.schema)
    assert parquet.equals(table)
    assert csv.to_pylist() == flat(table).to_pylist()


def test_unknown_is_an_empty_cell_and_no_zero() -> None:
    times = pa.array([None, datetime(2026, 3, 1, 4, 0, 0, 5, UTC)], pa.timestamp("us", "UTC"))
    table = pa.table({"bytes": pa.array([None, 2**53 + 1]), "text": [None, ""], "at": times})

    lines = csv_cells.table_as_csv(table).decode().splitlines()

    assert lines[1:] == [",,", '9007199254740993,"","2026-03-01T04:00:00.000005Z"']


def test_a_zip_holds_every_table_and_says_whose_they_are(tmp_path: Path) -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    cluster = sample_store.write(tmp_path, now=now + timedelta(hours=1))
    analysis = cluster.latest_analysis()
    about = {"cluster_id": cluster.cluster_id, "analysis_id": analysis}

    def made() -> bytes:
        read = lambda name: cluster.read("findings", analysis, name)  # noqa: E731
        return source.as_zip(source.files("parquet", read, about))

    archive = zipfile.ZipFile(io.BytesIO(made()))

    assert set(archive.namelist()) == source.names("parquet")
    assert made() == made()
    said = archive.read("report.json").decode()
    assert f'"analysis_id": "{analysis}"' in said
    assert '"format": "parquet"' in said
