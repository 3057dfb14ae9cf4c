"""What makes a moment bad for a purge, per partition: members, replicas behind, moves.

These facts come from the snapshot's groups, reassignments and replicas; the guards read them.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def assigned_groups(groups: DataFrame) -> DataFrame:
    """topic, partition, group_id: what the members of every group but share groups read now."""
    return (
        groups.where(F.coalesce("type", F.lit("")) != "share")
        .select("group_id", F.explode("assigned").alias("at"))
        .select(
            F.col("at.topic").alias("topic"), F.col("at.partition").alias("partition"), "group_id"
        )
    )


def share_groups(groups: DataFrame) -> DataFrame:
    """group_id, topic: the topics that share groups read; topic null when that is not known.

    A share group keeps no committed offset, and records past its start offset are still wanted.
    """
    return (
        groups.where(F.col("type") == "share")
        .select("group_id", F.explode_outer("assigned").alias("at"))
        .select("group_id", F.col("at.topic").alias("topic"))
        .distinct()
    )


def with_moments(
    targets: DataFrame,
    groups: DataFrame,
    reassignments: DataFrame,
    replicas: DataFrame,
) -> DataFrame:
    """`readers.with_targets` rows with what the guards ask beside offsets.

    Adds silent_members (groups whose members read the partition but never committed there),
    silent_groups (other groups of the topic without a commit there), share_groups, adding,
    removing, leader_moves_to, behind_brokers, changelog_why.
    """
    assigned = assigned_groups(groups)
    members = assigned.groupBy("topic", "partition").agg(
        F.array_sort(F.collect_set("group_id")).alias("members_here")
    )
    member_groups = assigned.groupBy("topic").agg(F.collect_set("group_id").alias("members_of"))
    moves = reassignments.select("topic_no", "partition", "adding", "removing")
    joined = (
        targets.join(F.broadcast(members), ["topic", "partition"], "left")
        .join(F.broadcast(member_groups), "topic", "left")
        .join(F.broadcast(_share_groups_by_topic(groups)), "topic", "left")
        .crossJoin(F.broadcast(_share_groups_anywhere(groups)))
        .join(F.broadcast(moves), ["topic_no", "partition"], "left")
        .join(F.broadcast(_leader_moves(replicas)), ["topic_no", "partition", "leader_id"], "left")
    )
    return joined.select(
        *targets.columns,
        *_silent(),
        F.concat(F.coalesce("shares_here", _no_shares()), "shares_anywhere").alias("share_groups"),
        "adding",
        "removing",
        "leader_moves_to",
        F.array_sort(F.array_except("assigned_replicas", "isr")).alias("behind_brokers"),
        _changelog_why().alias("changelog_why"),
    )


def _silent() -> tuple[Column, Column]:
    committed = F.transform("positions", lambda p: p["group_id"])
    here = F.array_except(F.coalesce("members_here", _no_names()), committed)
    known = F.array_union("topic_groups", F.coalesce("members_of", _no_names()))
    elsewhere = F.array_except(F.array_except(known, committed), here)
    return here.alias("silent_members"), F.array_sort(elsewhere).alias("silent_groups")


def _share_groups_by_topic(groups: DataFrame) -> DataFrame:
    known = share_groups(groups).where(F.col("topic").isNotNull())
    share = F.struct("group_id", F.lit(True).alias("knows_topic"))
    return known.groupBy("topic").agg(F.array_sort(F.collect_set(share)).alias("shares_here"))


def _share_groups_anywhere(groups: DataFrame) -> DataFrame:
    unknown = share_groups(groups).where(F.col("topic").isNull())
    share = F.struct("group_id", F.lit(False).alias("knows_topic"))
    return unknown.agg(F.array_sort(F.collect_set(share)).alias("shares_anywhere"))


def _leader_moves(replicas: DataFrame) -> DataFrame:
    return (
        replicas.where(F.col("is_future"))
        .groupBy("topic_no", "partition", F.col("broker_id").alias("leader_id"))
        .agg(F.max("log_dir").alias("leader_moves_to"))
    )


def _changelog_why() -> Column:
    # The source topic of a Streams table may be its own changelog (reuse.ktable.source.topics).
    policy = F.col("cleanup_policy")
    both = F.contains(policy, F.lit("compact")) & F.contains(policy, F.lit("delete"))
    return F.when(
        F.endswith(F.col("topic"), F.lit("-changelog")),
        F.lit("its name ends with -changelog"),
    ).when(both, F.lit("it is compacted, as the source of a table is"))


def _no_names() -> Column:
    return F.array().cast("array<string>")


def _no_shares() -> Column:
    return F.array().cast("array<struct<group_id:string,knows_topic:boolean>>")
