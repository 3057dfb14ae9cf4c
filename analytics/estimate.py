"""How many bytes of a replica lie below an offset, and how many of them go at once.

Estimator `proportional`, used when only a replica's size, log start and log end are known:

- likely: size times the share of offsets below the target; right when records keep their size.
- low, high: record sizes change over a topic's life, so the true share may be far off. The
  interval allows the bytes per offset below the target to be up to SKEW times smaller or larger
  than those above it: with p the share of offsets, low = p / (p + SKEW (1 - p)) and
  high = SKEW p / (SKEW p + 1 - p) of the size. Both are 0 at the log start and the whole size at
  the log end, where nothing is left to guess. SKEW 16 covers a topic that went from records of
  100 bytes to records of 1,500.
- at once: Kafka deletes whole segments, and one goes only when its successor's base offset is at
  or below the log start (UnifiedLog.deleteLogStartOffsetBreachedSegments), so the active segment
  stays. Segments are taken to be full (`segment.bytes`), which is the rule for topics that roll
  by size; where they roll by time this says too little, never too much of a small log.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

SKEW = 16.0
METHOD = "proportional"


def measured(replicas: DataFrame, partitions: DataFrame) -> DataFrame:
    """Each present replica (no future one) with the offsets and targets of its partition.

    `partitions` as `readers.with_targets` gives them. Adds start_offset and end_offset: the
    replica's own where it told them, else the leader's.
    """
    own = replicas.where(~F.coalesce("is_future", F.lit(False))).select(
        "topic_no",
        "partition",
        "broker_id",
        "log_dir",
        "size_bytes",
        F.col("log_start_offset").alias("own_start"),
        F.col("log_end_offset").alias("own_end"),
    )
    return own.join(partitions, ["topic_no", "partition"], "inner").select(
        "topic_no",
        "partition",
        "topic",
        "broker_id",
        "log_dir",
        "size_bytes",
        F.coalesce("own_start", "log_start_offset").alias("start_offset"),
        F.coalesce("own_end", "high_watermark").alias("end_offset"),
        "segment_bytes",
        "committed_target",
        "end_target",
        "target_without_first",
    )


def with_bytes(replicas: DataFrame) -> DataFrame:
    """`measured` replicas with their bytes below each of the three targets; null: unknown.

    For `committed` and `end` (the high watermark): NAME_low, NAME_likely, NAME_high,
    NAME_at_once; for `without` (the committed target if its lowest group did not count) likely
    and at_once. `held_bytes` lie at or above the committed target.
    """
    shares = replicas.select(
        "*",
        _share("committed_target").alias("committed_share"),
        _share("end_target").alias("end_share"),
        _share("target_without_first").alias("without_share"),
    )
    likely = shares.select(
        *replicas.columns,
        *_interval("committed"),
        *_interval("end"),
        _bytes(F.col("without_share")).alias("without_likely"),
    )
    return likely.select(
        *likely.columns,
        *(_at_once(name) for name in ("committed", "end", "without")),
        (F.col("size_bytes") - F.col("committed_likely")).alias("held_bytes"),
    )


def _share(target: str) -> Column:
    """The share of a replica's offsets below the target, 0 to 1; 0 for a log without records."""
    start, end = F.col("start_offset"), F.col("end_offset")
    inside = F.greatest(F.least(F.col(target), end), start) - start
    share = F.coalesce(inside / F.nullif(end - start, F.lit(0)), F.lit(0.0))
    return F.when(F.col(target).isNotNull() & start.isNotNull() & end.isNotNull(), share)


def _interval(name: str) -> tuple[Column, Column, Column]:
    p = F.col(f"{name}_share")
    return (
        _bytes(p / (p + SKEW * (1 - p))).alias(f"{name}_low"),
        _bytes(p).alias(f"{name}_likely"),
        _bytes(SKEW * p / (SKEW * p + 1 - p)).alias(f"{name}_high"),
    )


def _bytes(share: Column) -> Column:
    return F.round(F.col("size_bytes") * share).cast("long")


def _at_once(name: str) -> Column:
    """Whole segments below the target; of S bytes at least one segment, the active one, stays."""
    segment = F.greatest(F.col("segment_bytes"), F.lit(1))
    whole = F.floor(F.col(f"{name}_likely") / segment)
    closed = F.greatest(F.ceil(F.col("size_bytes") / segment) - 1, F.lit(0))
    at_once = F.when(whole.isNotNull(), F.least(whole, closed)) * segment
    return at_once.cast("long").alias(f"{name}_at_once")


def per_partition(replicas: DataFrame) -> DataFrame:
    """Bytes summed over the replicas of each partition that were measured, and their number."""
    sums = [
        column
        for column in replicas.columns
        if column.endswith(("_low", "_likely", "_high", "_at_once"))
    ]
    return replicas.groupBy("topic_no", "partition").agg(
        *(F.sum(name).alias(name) for name in (*sums, "size_bytes", "held_bytes")),
        F.count("size_bytes").cast("int").alias("replicas"),
    )
