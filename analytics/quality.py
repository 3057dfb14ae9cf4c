"""How complete a snapshot is: per table, and per broker where a broker answers for itself."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_COLUMNS = ("table", "broker_id", "rows", "expected_rows", "complete", "reason")


def of_replicas(partitions: DataFrame, replicas: DataFrame, brokers: DataFrame) -> DataFrame:
    """Per broker: replicas whose size and whose own offsets are known, of those assigned to it.

    Tables `replicas` (sizes, from DescribeLogDirs) and `replica_offsets` (ListOffsets with
    replica id -2; both lie in the snapshot's `replicas`).
    """
    assigned = (
        partitions.select(F.explode("replicas").alias("broker_id"))
        .groupBy("broker_id")
        .agg(F.count("*").alias("expected_rows"))
    )
    present = (
        replicas.where(~F.coalesce("is_future", F.lit(False)))
        .groupBy("broker_id")
        .agg(
            F.count("size_bytes").alias("sizes"),
            F.count("log_end_offset").alias("offsets"),
            F.min("error").alias("an_error"),
        )
    )
    both = (
        brokers.select("broker_id", "reachable", F.col("error").alias("broker_error"))
        .join(F.broadcast(assigned), "broker_id", "full_outer")
        .join(F.broadcast(present), "broker_id", "left")
    )
    tables = F.explode(F.array(_count("replicas", "sizes"), _count("replica_offsets", "offsets")))
    return (
        both.select("*", tables.alias("t"))
        .select(
            F.col("t.table").alias("table"),
            "broker_id",
            F.col("t.rows").alias("rows"),
            F.coalesce("expected_rows", F.lit(0)).alias("expected_rows"),
            (F.col("t.rows") >= F.coalesce("expected_rows", F.lit(0))).alias("complete"),
            F.coalesce("broker_error", "an_error").alias("known_reason"),
        )
        .select(*_COLUMNS[:5], _missing(F.col("known_reason")).alias("reason"))
    )


def of_log_dirs(log_dirs: DataFrame, brokers: DataFrame) -> DataFrame:
    """Per broker: log dirs that answered, of those that it listed."""
    listed = log_dirs.groupBy("broker_id").agg(
        F.count(F.when(F.col("error").isNull(), 1)).alias("answered"),
        F.count("*").alias("listed"),
        F.min("error").alias("an_error"),
    )
    rows = F.coalesce("answered", F.lit(0))
    expected = F.coalesce("listed", F.lit(1))
    return (
        brokers.select("broker_id", F.col("error").alias("broker_error"))
        .join(F.broadcast(listed), "broker_id", "left")
        .select(
            F.lit("log_dirs").alias("table"),
            "broker_id",
            rows.alias("rows"),
            expected.alias("expected_rows"),
            (rows >= expected).alias("complete"),
            F.coalesce("an_error", "broker_error").alias("known_reason"),
        )
        .select(*_COLUMNS[:5], _missing(F.col("known_reason")).alias("reason"))
    )


def of_cluster(
    partitions: DataFrame, group_offsets: DataFrame, groups: DataFrame, incomplete: Sequence[str]
) -> DataFrame:
    """Tables that the cluster answers as a whole (broker_id null): rows without an error of all.

    Groups are complete only if nothing in `incomplete` casts doubt on the list.
    """
    reason = F.lit("; ".join(incomplete) or None).cast("string")
    rows = [
        _whole("partitions", partitions, F.lit(None).cast("string")),
        _whole("group_offsets", group_offsets, F.lit(None).cast("string")),
        _whole("groups", groups, reason),
    ]
    return rows[0].unionByName(rows[1]).unionByName(rows[2])


def _whole(table: str, rows: DataFrame, doubt: Column) -> DataFrame:
    counted = rows.agg(
        F.count(F.when(F.col("error").isNull(), 1)).alias("rows"),
        F.count("*").alias("expected_rows"),
        F.min("error").alias("an_error"),
    )
    return counted.select(
        F.lit(table).alias("table"),
        F.lit(None).cast("int").alias("broker_id"),
        "rows",
        "expected_rows",
        ((F.col("rows") == F.col("expected_rows")) & doubt.isNull()).alias("complete"),
        F.coalesce(doubt, "an_error").alias("reason"),
    )


def _count(table: str, column: str) -> Column:
    return F.struct(F.lit(table).alias("table"), F.coalesce(column, F.lit(0)).alias("rows"))


def _missing(known: Column) -> Column:
    unexplained = F.format_string(
        "%d of %d missing, no error was given",
        F.col("expected_rows") - F.col("rows"),
        F.col("expected_rows"),
    )
    return F.when(~F.col("complete"), F.coalesce(known, unexplained))
