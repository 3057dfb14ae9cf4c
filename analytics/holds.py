"""Which offset every group still holds on, and how many bytes lie below an offset.

A group that is gone today still counts at its last known offset: somebody may start it again.
"""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

_KEY = ("topic", "partition", "group_id")


def observed(group_offsets: DataFrame, topics: DataFrame) -> DataFrame:
    """Committed offsets of one or more snapshots, topics named by each snapshot's dictionary.

    Rows: topic, topic_id, partition, group_id, committed_offset, seen_at. Failed look-ups and
    partitions never committed are no observations.
    """
    names = topics.select("snapshot_id", "topic_no", "topic", "topic_id")
    return (
        group_offsets.where(F.col("committed_offset") >= 0)
        .join(F.broadcast(names), ["snapshot_id", "topic_no"], "inner")
        .select(
            "topic",
            "topic_id",
            "partition",
            "group_id",
            "committed_offset",
            F.col("taken_at").alias("seen_at"),
        )
    )


def fold(
    seen: DataFrame, remembered: DataFrame, topics: DataFrame, oldest_kept: datetime
) -> DataFrame:
    """The last known committed offset per topic, partition and group: the `holds` table.

    `seen` is `observed` of every snapshot that `remembered` (an earlier `holds` table, perhaps
    empty) does not know yet; `topics` are the present ones. `last_commit_at` is the time of the
    first snapshot that showed the present offset after another one, so the commit was made at
    that time or before; null until a move was seen. An offset that moved back counts as a move.

    Offsets of a topic that was deleted and recreated (another topic_id) are dropped. A topic
    that is absent today keeps its holds as long as a kept snapshot knew it: it may only be
    hidden from us.
    """
    earlier = remembered.select(
        "topic",
        "topic_id",
        "partition",
        "group_id",
        "committed_offset",
        F.col("last_seen_at").alias("seen_at"),
        F.col("last_commit_at").alias("moved_at"),
    )
    history = earlier.unionByName(seen.withColumn("moved_at", F.lit(None).cast("timestamp")))
    return (
        _of_present_topics(history, topics, oldest_kept)
        .select(*history.columns, _moved_at().alias("observed_move"))
        .groupBy(*_KEY)
        .agg(
            F.max_by("topic_id", "seen_at").alias("topic_id"),
            F.max_by("committed_offset", "seen_at").alias("committed_offset"),
            F.max("seen_at").alias("last_seen_at"),
            F.max("observed_move").alias("last_commit_at"),
        )
    )


def _of_present_topics(history: DataFrame, topics: DataFrame, oldest_kept: datetime) -> DataFrame:
    present = topics.select(
        "topic", F.col("topic_id").alias("present_id"), F.lit(True).alias("is_present")
    )
    # Brokers before 2.8 know no topic ids: then the name has to do.
    same = F.coalesce(F.col("topic_id") == F.col("present_id"), F.lit(True))
    still_known = F.col("seen_at") >= F.lit(oldest_kept)
    return (
        history.join(F.broadcast(present), "topic", "left")
        .where(F.when(F.col("is_present"), same).otherwise(still_known))
        .select(*history.columns)
    )


def _moved_at() -> Column:
    before = F.lag("committed_offset").over(Window.partitionBy(*_KEY).orderBy("seen_at"))
    return F.when(before != F.col("committed_offset"), F.col("seen_at")).otherwise(
        F.col("moved_at")
    )


def curves(replicas: DataFrame) -> DataFrame:
    """Per replica two knots, offset to bytes below it: the log start (0) and the log end (size).

    `replicas` as `estimate.measured` gives them. Reading between the knots in a straight line
    gives `bytes_likely` of the same replica. A replica without records has no curve.
    """
    knots = F.array(
        F.struct(F.col("start_offset").alias("offset"), F.lit(0).cast("long").alias("below")),
        F.struct(F.col("end_offset").alias("offset"), F.col("size_bytes").alias("below")),
    )
    return (
        replicas.where(
            F.col("size_bytes").isNotNull() & (F.col("end_offset") > F.col("start_offset"))
        )
        .select("topic", "partition", "broker_id", "log_dir", F.explode(knots).alias("knot"))
        .select(
            "topic",
            "partition",
            "broker_id",
            "log_dir",
            F.col("knot.offset").alias("offset"),
            F.col("knot.below").alias("bytes_below"),
        )
    )
