"""Which group holds back how much: per group and topic, and what waiving it would free."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def blockers(holds: DataFrame, groups: DataFrame, partitions: DataFrame) -> DataFrame:
    """The `blockers` table: one row per group and topic that it holds an offset on.

    bytes_held_alone: bytes between the committed target and the target if only this group did not
    count (as far as the last stable offset and the replay window allow where it is the only
    group). bytes_freed_if_waived: whole segments of them, which would go at once. Both are 0
    where another group is further behind, and on topics whose records no purge may delete; null
    where they cannot be measured. A group that is gone has the state `Gone`.
    `partitions` are `moments.with_moments` rows with the sums of `estimate.per_partition`.
    """
    # Compacted and system topics hold nothing back that a purge could give.
    deletable = F.coalesce(F.contains(F.col("cleanup_policy"), F.lit("delete")), F.lit(True))
    first = (
        partitions.where(F.col("first_group").isNotNull() & deletable & ~F.col("is_system"))
        .groupBy("topic", F.col("first_group").alias("group_id"))
        .agg(
            F.sum(F.col("without_likely") - F.col("committed_likely")).alias("held_alone"),
            F.sum(F.col("without_at_once") - F.col("committed_at_once")).alias("freed"),
        )
        .select("topic", "group_id", "held_alone", "freed", F.lit(True).alias("is_first"))
    )
    members = groups.select("group_id", F.col("state").alias("group_state"), "members")
    present = partitions.select("topic").distinct()
    return (
        holds.groupBy("group_id", "topic")
        .agg(F.max("last_commit_at").alias("last_commit_at"))
        .join(F.broadcast(present), "topic", "left_semi")
        .join(F.broadcast(first), ["group_id", "topic"], "left")
        .join(F.broadcast(members), "group_id", "left")
        .select(
            "group_id",
            "topic",
            F.when(F.col("is_first"), F.col("held_alone"))
            .otherwise(F.lit(0))
            .alias("bytes_held_alone"),
            F.when(F.col("is_first"), F.col("freed"))
            .otherwise(F.lit(0))
            .alias("bytes_freed_if_waived"),
            "last_commit_at",
            F.coalesce("group_state", F.lit("Gone")).alias("group_state"),
            F.coalesce("members", F.lit(0)).alias("members"),
        )
    )
