"""What DuckDB computes of followers from a raw history: lag, its trend, and who is slow.

The words and rules are those of docs/followers.md for replicas that answer; bytes, causes, reasons
and how long a wait would be are not among them.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pyarrow as pa

from analytics.metrics.followers import SLOW_AFTER, TRENDS
from analytics.replicas.trends import FETCH_SECONDS

COLUMNS = ["topic", "partition", "broker_id", "lag_records", "trend", "slow", "log_start_lag"]

_STATEMENT = f"""
with ends as (
    select snapshot_id, topic_no, partition, broker_id, taken_at, is_leader, in_sync,
        log_start_offset, log_end_offset as log_end, epoch_us(observed_at) as moment,
        lag(log_end_offset) over own as end_before,
        lag(epoch_us(observed_at)) over own as moment_before
    from read_parquet($replicas) where not is_future
    window own as (partition by topic_no, partition, broker_id order by taken_at)
),
spread as (select snapshot_id, (max(moment) - min(moment)) / 1e6 as reading from ends group by all),
paced as (
    select *, coalesce((log_end - end_before) / ((moment - moment_before) / 1e6), 0) as pace,
        end_before is not null as moving
    from ends
),
beside as (
    select f.*, reading, l.pace as leader_pace, l.moving as leader_moves,
        l.log_start_offset as leader_start,
        greatest(cast(round_even(l.log_end + l.pace * ((f.moment - l.moment) / 1e6), 0) as bigint)
            - f.log_end, 0) as behind
    from paced f join paced l using (snapshot_id, topic_no, partition) join spread
        using (snapshot_id)
    where l.is_leader and not f.is_leader
),
judged as (
    select *, leader_moves and behind > leader_pace * ({FETCH_SECONDS} + reading) as far,
        lag(behind) over own as behind_before
    from beside window own as (partition by topic_no, partition, broker_id order by taken_at)
),
counted as (
    select *, row_number() over own - coalesce(max(case when not far then n end) over own, 0)
        as in_a_row
    from (select *, row_number() over own as n from judged
        window own as (partition by topic_no, partition, broker_id order by taken_at))
    window own as (partition by topic_no, partition, broker_id order by taken_at)
),
newest as (
    select *, in_a_row > 1 or not in_sync as lasts,
        leader_pace * ({FETCH_SECONDS} + reading) as noise
    from counted where snapshot_id = $newest
),
moved as (
    select *, case when lasts then behind - behind_before else 0 end as moves,
        log_end = end_before and lasts and behind > noise as stands
    from newest
)
select topic, partition, broker_id, behind as lag_records,
    case when stands and behind > 0 then '{TRENDS[3]}'
        when moves < -noise then '{TRENDS[1]}'
        when moves > noise then '{TRENDS[2]}'
        else '{TRENDS[0]}' end as trend,
    (behind > noise and not in_sync) or in_a_row >= {SLOW_AFTER} as slow,
    greatest(leader_start - log_start_offset, 0) as log_start_lag
from moved join read_parquet($topic) using (topic_no)
"""


def by_duckdb(folder: str, ids: Sequence[str]) -> pa.Table:
    """COLUMNS of every follower in the newest of these snapshots, from all of them."""
    replicas = [f"{folder}/snapshots/{snapshot}/replicas.parquet" for snapshot in ids]
    topic = f"{folder}/snapshots/{ids[-1]}/topics.parquet"
    with duckdb.connect() as db:
        db.execute("set timezone = 'UTC'")
        found = db.sql(
            _STATEMENT, params={"replicas": replicas, "topic": topic, "newest": ids[-1]}
        ).to_arrow_table()
    return found.select(COLUMNS)


def different(ours: pa.Table, theirs: pa.Table) -> int:
    """How many rows of either are not in the other."""
    columns = ", ".join(COLUMNS)
    with duckdb.connect() as db:
        db.register("ours", ours)
        db.register("theirs", theirs)
        return sum(
            db.sql(
                f"select count(*) from (select {columns} from {a} except select {columns} from {b})"
            ).fetchall()[0][0]
            for a, b in (("ours", "theirs"), ("theirs", "ours"))
        )
