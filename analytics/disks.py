"""Per log dir: what its used bytes are made of, as far as the Kafka protocol shows it."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_LOG_DIR = ("broker_id", "log_dir")
# These bytes are consumed by every known group; whether others read them is shown beside it.
_ONLY_UNDECLARED = ("readers-undeclared",)


def free_partitions(reclaimable: DataFrame) -> DataFrame:
    """topic, partition of those that every known group has consumed up to the committed target."""
    names = F.transform("guards", lambda g: g["name"])
    free = F.size(F.array_except(names, F.array(*(F.lit(n) for n in _ONLY_UNDECLARED)))) == 0
    return reclaimable.where((F.col("target") == "committed") & free).select("topic", "partition")


def disks(
    log_dirs: DataFrame, replicas: DataFrame, measured: DataFrame, free: DataFrame
) -> DataFrame:
    """The `disks` table: one row per log dir.

    reclaimable_bytes: whole segments below the committed target of `free_partitions`; held_bytes:
    above it; live_bytes: every other replica byte, needed or unknown. unexplained_bytes = total -
    usable - replicas - future copies: indexes, stray and deleted folders, other programs' files
    (all that shares the disk). Where that is negative (read at different moments) it is 0,
    `measured` is false and `error` says by how much; without DescribeLogDirs v4 it is null.
    """
    sizes = replicas.groupBy(*_LOG_DIR).agg(
        F.sum("size_bytes").alias("all_bytes"),
        F.sum(F.when(F.col("is_future"), F.col("size_bytes")).otherwise(0)).alias("future"),
    )
    of_free = (
        measured.join(F.broadcast(free), ["topic", "partition"], "inner")
        .groupBy(*_LOG_DIR)
        .agg(F.sum("committed_at_once").alias("reclaimable"), F.sum("held_bytes").alias("held"))
    )
    known = (
        log_dirs.join(F.broadcast(sizes), list(_LOG_DIR), "left")
        .join(F.broadcast(of_free), list(_LOG_DIR), "left")
        .select(*_LOG_DIR, "total_bytes", "usable_bytes", "error", *_amounts())
    )
    rest = F.col("total_bytes") - F.col("usable_bytes") - F.col("all_bytes")
    return known.select(
        *_LOG_DIR,
        "total_bytes",
        "usable_bytes",
        "reclaimable_bytes",
        "held_bytes",
        (
            F.col("all_bytes") - F.col("future") - F.col("reclaimable_bytes") - F.col("held_bytes")
        ).alias("live_bytes"),
        F.col("future").alias("future_bytes"),
        F.greatest(rest, F.when(rest.isNotNull(), F.lit(0))).alias("unexplained_bytes"),
        F.coalesce(rest >= 0, F.lit(False)).alias("measured"),
        F.coalesce("error", _too_much(rest)).alias("error"),
    )


def _amounts() -> list[Column]:
    # A log dir that answered and lists no replica holds 0 bytes of them; one that did not answer
    # holds an unknown amount.
    answered = F.col("error").isNull()
    names = {"all_bytes": "all_bytes", "future": "future", "reclaimable": "reclaimable_bytes",
             "held": "held_bytes"}  # fmt: skip
    return [
        F.when(answered | F.col("all_bytes").isNotNull(), F.coalesce(old, F.lit(0))).alias(new)
        for old, new in names.items()
    ]


def _too_much(rest: Column) -> Column:
    text = F.format_string("replicas add up to %d bytes more than the disk's used bytes", -rest)
    return F.when(rest < 0, text)
