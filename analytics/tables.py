"""Snapshots in as DataFrames, findings out as Parquet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from dashboard.core.arrow import in_order
from dashboard.store.buckets import WrongTable, check
from dashboard.store.snapshot_files import Kind, Manifest, Part, spec_of
from dashboard.store.snapshots import ClusterStore
from dashboard.store.tables import FINDING_TABLES


class Tables:
    """The tables of one cluster's store as DataFrames in their declared schemas."""

    def __init__(self, spark: SparkSession, cluster: ClusterStore) -> None:
        self.spark = spark
        self.cluster = cluster

    def read(self, kind: Kind, table: str, ids: Sequence[str]) -> DataFrame:
        """One table of the given snapshots or analyses, each read by its path.

        Columns that an older minor lacks read as null. Raises StoreError when a manifest is
        missing or newer, or when a file is gone, cut or another table than its manifest says.
        """
        manifests = [self.cluster.manifest(kind, item_id) for item_id in ids]
        paths = [self._checked(kind, table, m, part) for m in manifests for part in m.files(table)]
        declared = spec_of(kind, table).schema
        if not paths:
            return self.from_arrow(declared.empty_table())
        return self.spark.read.schema(from_arrow_schema(declared)).parquet(*paths)

    def named(self, kind: Kind, table: str, ids: Sequence[str]) -> DataFrame:
        """The same as people ask for it: `topic` stands where the store has `topic_no`.

        Each snapshot numbers its topics anew, so the number says nothing outside of it. A number
        without a name, as damage would leave it, keeps its rows with a null topic.
        """
        found = self.read(kind, table, ids)
        columns = spec_of(kind, table).schema.names
        if table == "topics" or "topic_no" not in columns:
            return found
        key = ["snapshot_id", "topic_no"]
        names = self.read("snapshots", "topics", ids).select(*key, "topic")
        return found.join(names, on=key, how="left").select(
            *("topic" if name == "topic_no" else name for name in columns)
        )

    def from_arrow(self, table: pa.Table) -> DataFrame:
        """A short table made on the driver as a DataFrame."""
        # A filter that keeps nothing leaves columns without a chunk, which pyspark cannot take,
        # and Spark Connect does not look at the schema of an empty table.
        rows = table if table.num_rows else table.schema.empty_table()
        return self.spark.createDataFrame(rows, from_arrow_schema(table.schema))

    def sql(
        self, statement: str, args: Mapping[str, Any] | None = None, **frames: DataFrame
    ) -> DataFrame:
        """A statement over `{name}`d frames and `:name`d values."""
        return self.spark.sql(statement, args=dict(args) if args else None, **frames)

    def _checked(self, kind: Kind, table: str, manifest: Manifest, part: Part) -> str:
        """Spark's address of a file whose footer was read: a cut one fails here, by name."""
        file, rows = part
        path = f"{self.cluster.path}/{kind}/{manifest.id}/{file}"
        try:
            with self.cluster.fs.open(path, "rb") as opened, pq.ParquetFile(opened) as parquet:
                check(parquet, spec_of(kind, table), rows)
        except (OSError, pa.ArrowException, WrongTable) as error:
            raise self.cluster.lost(kind, manifest.id, path, error) from error
        address = str(self.cluster.fs.unstrip_protocol(path))
        return address.replace("s3://", "s3a://", 1)  # Hadoop's name for it


def stamped(table: str, data: pa.Table, snapshot: Manifest) -> pa.Table:
    """Findings with the snapshot's id and time in every row, sorted by the table's key."""
    rows = data.num_rows
    spec = FINDING_TABLES[table]
    taken_at = pa.scalar(snapshot.taken_at, pa.timestamp("us", tz="UTC"))
    found = data.append_column(
        "snapshot_id", pa.repeat(pa.scalar(snapshot.id), rows)
    ).append_column("taken_at", pa.repeat(taken_at, rows))
    # The long ones are made in their order: to look at them again would only take time.
    return found if table in {"curves", "trends"} else in_order(found, spec.key)
