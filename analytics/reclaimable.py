"""Per partition and target: what a purge would take, how many bytes, and what stands against it."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from analytics.estimate import METHOD
from analytics.guards import guards


def reclaimable(partitions: DataFrame, incomplete: Sequence[str]) -> DataFrame:
    """The `reclaimable` table: two rows per partition, targets `committed` and `high-watermark`.

    `partitions` are `moments.with_moments` rows with the sums of `estimate.per_partition`. Bytes
    are null where the target or every replica's size is unknown. `held_bytes` lie above the
    committed target and are held by `held_by`, the group that is furthest behind; the same on
    both rows.
    """
    targets = F.explode(
        F.array(_target("committed", "committed"), _target("high-watermark", "end"))
    )
    rows = partitions.select("*", targets.alias("t")).select(
        "*", F.col("t.target_offset").alias("target_offset")
    )
    return rows.select(
        "topic",
        "partition",
        F.col("t.target").alias("target"),
        "target_offset",
        "log_start_offset",
        "high_watermark",
        _records().alias("records"),
        *(F.col(f"t.{name}").alias(name) for name in _BYTES),
        "size_bytes",
        "held_bytes",
        _held_by().alias("held_by"),
        _method().alias("method"),
        F.coalesce("replicas", F.lit(0)).alias("replicas"),
        "readers_declared",
        "owner",
        guards(incomplete).alias("guards"),
    )


_BYTES = ("bytes_low", "bytes_likely", "bytes_high", "bytes_at_once")


def _target(name: str, prefix: str) -> Column:
    return F.struct(
        F.lit(name).alias("target"),
        F.col(f"{prefix}_target").alias("target_offset"),
        *(F.col(b.replace("bytes", prefix)).alias(b) for b in _BYTES),
    )


def _records() -> Column:
    span = F.col("target_offset") - F.col("log_start_offset")
    return F.when(span.isNotNull(), F.greatest(span, F.lit(0)))


def _held_by() -> Column:
    return F.when(F.col("held_bytes") > 0, F.col("first_group"))


def _method() -> Column:
    """How the bytes were found, or why they are unknown; names replicas that did not answer."""
    answered = F.coalesce("replicas", F.lit(0))
    expected = F.size("assigned_replicas")
    some = F.format_string(f"{METHOD}, %d of %d replicas", answered, expected)
    return (
        F.when(F.col("target_offset").isNull(), _why_no_target())
        .when(answered == 0, "not measurable")
        .when(answered < expected, some)
        .otherwise(METHOD)
    )


def _why_no_target() -> Column:
    return (
        F.when(F.col("high_watermark").isNull(), "unknown: the leader's offsets were not read")
        .when(F.size("positions") == 0, "unknown: no group committed")
        .otherwise("unknown: no kept snapshot is as old as the replay window")
    )
