"""Per partition: who reads it, how far every group got, the targets, and its replicas' size."""

from __future__ import annotations

import pyarrow as pa

from analytics.arrow import column, looked_up
from analytics.tables import Tables
from dashboard.snapshot_files import Manifest

# One statement, because planning one costs less than planning its parts. Joins with tables that
# turn out empty cost nothing. least() skips nulls: hence conditions where unknown is the answer.
_STATEMENT = """
with positions as (
    select topic_no, partition,
        sort_array(collect_list(struct(committed_offset, group_id))) as positions
    from {holds} group by topic_no, partition
),
known as (
    select topic_no, partition, leader_id, log_start_offset, last_stable_offset, high_watermark,
        coalesce(size(replicas), 0) as assigned,
        sort_array(array_except(replicas, isr)) as behind_brokers,
        segment_bytes, topic_groups,
        coalesce(members_here, array()) as members_here,
        coalesce(positions, array()) as positions,
        case when high_watermark is not null
            and (replay_window_ms = 0 or window_offset is not null)
            then least(high_watermark, last_stable_offset, window_offset) end as limit_offset
    from {partitions} join {topics} using (topic_no)
        left join positions using (topic_no, partition)
        left join {members} using (topic_no, partition)
        left join {windows} using (topic_no, partition)
),
held as (
    select *, transform(positions, p -> p.group_id) as committed_groups,
        get(positions, 0).group_id as first_group,
        get(positions, 0).committed_offset as first_offset,
        get(positions, 1).committed_offset as second_offset
    from known
),
targets as (
    select *, high_watermark as end_target,
        if(first_offset is null or limit_offset is null, null,
            least(first_offset, limit_offset)) as committed_target,
        if(first_offset is null or limit_offset is null, null,
            least(second_offset, limit_offset)) as without_target
    from held
),
spread as (
    select targets.*, broker_id, log_dir, coalesce(is_future, false) as is_future,
        if(is_future, null, size_bytes) as replica_bytes
    from targets left join (
        select topic_no, partition, broker_id, log_dir, is_future, size_bytes from {replicas}
    ) using (topic_no, partition)
),
summed as (
    select topic_no, partition,
        any_value(struct(
            leader_id, log_start_offset, last_stable_offset, high_watermark, assigned,
            behind_brokers, positions, first_group, committed_target, end_target, without_target,
            sort_array(array_except(members_here, committed_groups)) as silent_members,
            sort_array(array_except(array_except(topic_groups, committed_groups), members_here))
                as silent_groups)) as partition_facts,
        sum(replica_bytes) as size_bytes,
        cast(count(replica_bytes) as int) as replicas,
        max(if(is_future and broker_id = leader_id, log_dir, null)) as leader_moves_to
    from spread group by topic_no, partition
)
select partition_facts.*, summed.* except (partition_facts) from summed
"""


def partitions(
    tables: Tables,
    snapshot: Manifest,
    *,
    topics: pa.Table,
    holds: pa.Table,
    members: pa.Table,
    windows: pa.Table,
) -> pa.Table:
    """Every partition of the snapshot with its facts, targets and size over its replicas.

    `topics`: `topics.known`; `holds`: the findings table; `members`: topic_no, partition,
    members_here; `windows`: topic_no, partition, window_offset, the log end at a time at least
    the replay window ago (later records lie inside the window).

    Columns: topic_no, partition, leader_id, log_start_offset, last_stable_offset,
    high_watermark, assigned (number of replicas), behind_brokers (not in sync); positions
    [{committed_offset, group_id}] lowest first, first_group; silent_members (groups whose members
    read the partition but never committed there), silent_groups (other groups of the topic
    without a commit there), leader_moves_to (a log dir). Targets are null where unknown:
    committed_target is the lowest offset over all groups, at most the last stable offset and
    window_offset; end_target the high watermark; without_target the committed target if the group
    furthest behind did not count (where it is the only one, as far as the last stable offset and
    the window allow). size_bytes is summed over the `replicas` that were measured.
    """
    numbers = looked_up(column(holds, "topic"), column(topics, "topic"), column(topics, "topic_no"))
    numbered = holds.select(["partition", "group_id", "committed_offset"]).append_column(
        "topic_no", numbers
    )
    return tables.sql(
        _STATEMENT,
        holds=tables.from_arrow(numbered.filter(numbers.is_valid())),
        topics=tables.from_arrow(topics.select(_TOPIC_COLUMNS)),
        partitions=tables.read("snapshots", "partitions", [snapshot.id]),
        replicas=tables.read("snapshots", "replicas", [snapshot.id]),
        members=tables.from_arrow(members),
        windows=tables.from_arrow(windows),
    ).toArrow()


_TOPIC_COLUMNS = ["topic_no", "segment_bytes", "replay_window_ms", "topic_groups"]
