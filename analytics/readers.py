"""Per partition: who reads it, how far every group got, and the targets that follow from it."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_PARTITION = ("topic_no", "partition")


def group_positions(holds: DataFrame, topics: DataFrame) -> DataFrame:
    """Per partition `positions`: [{committed_offset, group_id}], lowest first.

    And `topic_groups`: every group with an offset anywhere on the topic, so that a group which
    skipped this partition can be named.
    """
    numbered = holds.join(F.broadcast(topics.select("topic", "topic_no")), "topic", "inner")
    per_partition = numbered.groupBy(*_PARTITION).agg(
        F.array_sort(F.collect_list(F.struct("committed_offset", "group_id"))).alias("positions")
    )
    return per_partition.select(*_PARTITION, "positions")


def topic_groups(holds: DataFrame, topics: DataFrame) -> DataFrame:
    """Per topic_no the sorted ids of all groups that have an offset on any of its partitions."""
    numbered = holds.join(F.broadcast(topics.select("topic", "topic_no")), "topic", "inner")
    return numbered.groupBy("topic_no").agg(
        F.array_sort(F.collect_set("group_id")).alias("topic_groups")
    )


def with_targets(
    partitions: DataFrame,
    topics: DataFrame,
    positions: DataFrame,
    groups_of_topics: DataFrame,
    window_starts: DataFrame,
) -> DataFrame:
    """Every partition of the snapshot with its topic's facts and resolved target offsets.

    committed_target: the lowest offset over all groups, at most the last stable offset and, with
    a replay window, `window_offset` (rows topic, topic_id, partition, window_offset: the log end
    at a time at least the window ago; later records lie inside the window). Null: unknown.
    target_without_first: the same if the group that is furthest behind did not count; where it is
    the only one, as far as the last stable offset and the window allow. end_target: the high
    watermark.
    """
    facts = (
        partitions.join(F.broadcast(topics), "topic_no", "inner")
        .join(window_starts, ["topic", "topic_id", "partition"], "left")
        .join(positions, list(_PARTITION), "left")
        .join(F.broadcast(groups_of_topics), "topic_no", "left")
    )
    named = facts.select(
        *_PARTITION,
        "topic",
        "leader_id",
        "log_start_offset",
        "last_stable_offset",
        "high_watermark",
        F.col("replicas").alias("assigned_replicas"),
        "isr",
        "is_system",
        "readers_declared",
        "owner",
        "replay_window_ms",
        "cleanup_policy",
        "segment_bytes",
        "remote_storage",
        "unclean_election",
        F.coalesce("positions", _no_positions()).alias("positions"),
        F.coalesce("topic_groups", F.array().cast("array<string>")).alias("topic_groups"),
        _limit().alias("limit_offset"),
    )
    first, second = (F.get("positions", F.lit(i)) for i in (0, 1))
    without_first = F.coalesce(second["committed_offset"], F.col("limit_offset"))
    return named.select(
        *[name for name in named.columns if name != "limit_offset"],
        first["group_id"].alias("first_group"),
        _lower(first["committed_offset"], F.col("limit_offset")).alias("committed_target"),
        F.when(first.isNotNull(), _lower(without_first, F.col("limit_offset"))).alias(
            "target_without_first"
        ),
        F.col("high_watermark").alias("end_target"),
    )


def _limit() -> Column:
    """How far the committed target may go at most; null when that is not known."""
    stable = F.least("high_watermark", F.coalesce("last_stable_offset", "high_watermark"))
    return F.when(F.col("replay_window_ms") == 0, stable).otherwise(
        _lower(stable, F.col("window_offset"))
    )


def _lower(one: Column, other: Column) -> Column:
    # least() skips nulls; here either one being unknown makes the result unknown.
    return F.when(one.isNotNull() & other.isNotNull(), F.least(one, other))


def _no_positions() -> Column:
    return F.array().cast("array<struct<committed_offset:bigint,group_id:string>>")
