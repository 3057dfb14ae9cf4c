"""The tables that SQL can compute from a raw history, by DuckDB and by Polars.

Curves of 16 chosen knots, bytes read from them, guard texts and what stands on them are not among
them: no peer has those without our own code.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa

PANE = "12 hours"  # of analytics.replicas.trends.SIZE
# What is compared of each table, in its own words.
COLUMNS = {
    "holds": ["topic", "partition", "group_id", "topic_id", "committed_offset", "last_seen_at",
              "last_commit_at"],
    "reclaimable": ["topic", "partition", "target", "target_offset", "log_start_offset",
                    "high_watermark", "records", "size_bytes", "replicas"],
    "trends": ["topic", "partition", "broker_id", "size_n", "size_first", "size_last", "size_min",
               "size_max", "size_y"],
}  # fmt: skip

_HOLDS = """
create or replace temp table holds as
with history as (
    select topic, topic_id, partition, group_id, committed_offset, o.taken_at
    from read_parquet($offsets) o join read_parquet($topics) t using (snapshot_id, topic_no)
    where committed_offset >= 0
),
told as (  -- an id that was told once stands where none is told later
    select * replace (last_value(topic_id ignore nulls) over each_group as topic_id) from history
    window each_group as (partition by topic, partition, group_id order by taken_at)
),
counting as (  -- on a topic made anew the first offset is a commit, whatever its number
    select *, coalesce(committed_offset <> lag(committed_offset) over each_group, false)
        or coalesce(topic_id <> lag(topic_id) over each_group, false) as moved
    from told
    window each_group as (partition by topic, partition, group_id order by taken_at)
),
newest as (
    select topic, partition, group_id, max_by(topic_id, taken_at) as topic_id,
        max_by(committed_offset, taken_at) as committed_offset, max(taken_at) as last_seen_at,
        max(case when moved then taken_at end) as last_commit_at
    from counting group by all
)
select n.* from newest n left join read_parquet($topic) now using (topic)
-- one that was seen without an id is of no topic that has one
where now.topic_id is null or coalesce(n.topic_id = now.topic_id, false)
"""
_RECLAIMABLE = """
with sizes as (
    select topic_no, partition, sum(size_bytes) as size_bytes, count(size_bytes) as measured
    from read_parquet($replica) where not coalesce(is_future, false) group by all
),
lowest as (  -- past the end of a log an offset is of records that are gone
    select topic, partition, min(committed_offset) as lowest
    from holds join read_parquet($topic) using (topic)
        join read_parquet($partition) using (topic_no, partition)
    where coalesce(committed_offset <= high_watermark, true) group by all
),
known as (  -- below the log start nothing is left; of an empty log nobody wants anything
    select topic, partition, log_start_offset, high_watermark, size_bytes, measured as replicas,
        case when lowest is not null and high_watermark is not null
            then greatest(least(lowest, high_watermark, last_stable_offset), log_start_offset)
            when log_start_offset = high_watermark then log_start_offset end as committed
    from read_parquet($partition) p join read_parquet($topic) t using (topic_no)
        left join sizes using (topic_no, partition) left join lowest using (topic, partition)
),
both_targets as (
    select *, 'committed' as target, committed as target_offset from known
    union all select *, 'high-watermark', high_watermark from known
)
select topic, partition, target, target_offset, log_start_offset, high_watermark,
    case when target_offset is not null
        then greatest(target_offset - log_start_offset, 0) end as records, size_bytes, replicas
from both_targets
"""
_TRENDS = f"""
with history as (
    select now.topic, r.partition, r.broker_id, r.taken_at, size_bytes,
        time_bucket(interval '{PANE}', r.taken_at) as pane
    from read_parquet($replicas) r join read_parquet($topics) t using (snapshot_id, topic_no)
        join read_parquet($topic) now on now.topic = t.topic
            and coalesce(now.topic_id = t.topic_id, true)
    where not coalesce(is_future, false) and size_bytes is not null
),
running as (
    select topic, partition, broker_id, count(*) as size_n,
        min_by(size_bytes, taken_at) as size_first, max_by(size_bytes, taken_at) as size_last,
        min(size_bytes) as size_min, max(size_bytes) as size_max, sum(size_bytes) as total, pane
    from history group by all
)
select topic, partition, broker_id, size_n, size_first, size_last, size_min, size_max,
    cast(total - size_n * size_first as double) as size_y
from running qualify pane = max(pane) over (partition by topic, partition, broker_id)
"""


def paths(folder: str, ids: Sequence[str]) -> dict[str, Any]:
    """Every snapshot's Parquet by table name in the plural, the newest one's in the singular."""

    def of(table: str, some: Sequence[str]) -> list[str]:
        found = (sorted(Path(folder, "snapshots", i).glob(f"{table}.*parquet")) for i in some)
        return [str(file) for files in found for file in files]

    return {
        "offsets": of("group_offsets", ids),
        "topics": of("topics", ids),
        "replicas": of("replicas", ids),
        "topic": of("topics", ids[-1:]),
        "replica": of("replicas", ids[-1:]),
        "partition": of("partitions", ids[-1:]),
    }


def by_duckdb(files: dict[str, Any]) -> dict[str, pa.Table]:
    """The tables by SQL, all cores."""
    with duckdb.connect() as db:
        db.execute("set timezone = 'UTC'")

        def used(query: str) -> dict[str, Any]:
            return {name: value for name, value in files.items() if f"${name})" in query}

        def found(query: str) -> pa.Table:
            return db.sql(query, params=used(query)).to_arrow_table()

        db.execute(_HOLDS, used(_HOLDS))
        return {
            "holds": found("from holds"),
            "reclaimable": found(_RECLAIMABLE),
            "trends": found(_TRENDS),
        }


def by_polars(files: dict[str, Any]) -> dict[str, pa.Table]:
    """The tables by lazy frames, streamed, all cores."""
    holds = _polars_holds(files).collect(engine="streaming")
    found = {
        "holds": holds,
        "reclaimable": _polars_reclaimable(files, holds.lazy()).collect(engine="streaming"),
        "trends": _polars_trends(files).collect(engine="streaming"),
    }
    return {name: frame.select(COLUMNS[name]).to_arrow() for name, frame in found.items()}


def _named(files: dict[str, Any], table: str) -> pl.LazyFrame:
    """A history with each row's topic and topic_id, and today's id of that topic."""
    topics = pl.scan_parquet(files["topics"]).select("snapshot_id", "topic_no", "topic", "topic_id")
    today = pl.scan_parquet(files["topic"]).select("topic", now_id="topic_id", is_there=True)
    rows = pl.scan_parquet(files[table]).drop("topic_id", strict=False)
    rows = rows.join(topics, on=["snapshot_id", "topic_no"])
    return rows.join(today, on="topic", how="left")


def _polars_holds(files: dict[str, Any]) -> pl.LazyFrame:
    key = ["topic", "partition", "group_id"]
    rows = _named(files, "offsets").filter(pl.col("committed_offset") >= 0)
    told = pl.col("topic_id").forward_fill().over(key, order_by="taken_at")
    rows = rows.with_columns(topic_id=told)
    moved = pl.any_horizontal(
        (pl.col(name) != pl.col(name).shift(1).over(key, order_by="taken_at")).fill_null(False)
        for name in ("committed_offset", "topic_id")
    )
    rows = rows.with_columns(moved=moved).sort("taken_at")
    newest = rows.group_by(key).agg(
        pl.col("topic_id", "now_id", "committed_offset").last(),
        last_seen_at=pl.col("taken_at").last(),
        last_commit_at=pl.col("taken_at").filter("moved").last(),
    )
    # One that was seen without an id is of no topic that has one.
    same = (pl.col("topic_id") == pl.col("now_id")).fill_null(False)
    return newest.filter(pl.col("now_id").is_null() | same)


def _polars_reclaimable(files: dict[str, Any], holds: pl.LazyFrame) -> pl.LazyFrame:
    place, named = ["topic_no", "partition"], ["topic", "partition"]
    live = ~pl.col("is_future").fill_null(False)
    sizes = pl.scan_parquet(files["replica"]).filter(live).group_by(place).agg(
        pl.col("size_bytes").sum(), replicas=pl.col("size_bytes").count()
    )  # fmt: skip
    known = (
        pl.scan_parquet(files["partition"])
        .drop("replicas")
        .join(pl.scan_parquet(files["topic"]).select("topic_no", "topic"), on="topic_no")
        .join(sizes, on=place, how="left")
    )
    ends = known.select(*named, "high_watermark")
    within = (pl.col("committed_offset") <= pl.col("high_watermark")).fill_null(True)
    telling = holds.join(ends, on=named).filter(within)
    lowest = telling.group_by(named).agg(lowest=pl.col("committed_offset").min())
    known = known.join(lowest, on=named, how="left")
    least = pl.min_horizontal("lowest", "high_watermark", "last_stable_offset")
    least = pl.max_horizontal(least, "log_start_offset")
    targets = {
        "committed": pl.when(pl.col("lowest").is_not_null())
        .then(least)
        .when(pl.col("log_start_offset") == pl.col("high_watermark"))
        .then("log_start_offset"),
        "high-watermark": pl.col("high_watermark"),
    }
    parts = [
        known.with_columns(target=pl.lit(name), target_offset=offset)
        for name, offset in targets.items()
    ]
    records = (pl.col("target_offset") - pl.col("log_start_offset")).clip(lower_bound=0)
    return pl.concat(parts).with_columns(records=records)


def _polars_trends(files: dict[str, Any]) -> pl.LazyFrame:
    key = ["topic", "partition", "broker_id"]
    live = ~pl.col("is_future").fill_null(False) & pl.col("size_bytes").is_not_null()
    size, at = pl.col("size_bytes"), pl.col("taken_at")
    # Of a topic that is missed nothing is drawn; where an id is not told the name has to do.
    there = pl.col("is_there") & (pl.col("topic_id") == pl.col("now_id")).fill_null(True)
    panes = _named(files, "replicas").filter(live, there).group_by(
        *key, pane=at.dt.truncate("12h")
    ).agg(
        size_n=size.count(), size_first=size.sort_by(at).first(), size_last=size.sort_by(at).last(),
        size_min=size.min(), size_max=size.max(), total=size.sum(),
    )  # fmt: skip
    rest = (pl.col("total") - pl.col("size_n") * pl.col("size_first")).cast(pl.Float64)
    newest = panes.group_by(key).agg(pane=pl.col("pane").max())
    return panes.join(newest, on=[*key, "pane"]).with_columns(size_y=rest)


def ours(found: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """The compared columns of findings: of trends the running panes of replicas with a sample."""
    trends = found["trends"]
    keep = pa.compute.and_(pa.compute.equal(trends["pane"], "running"), trends["topic"].is_valid())
    keep = pa.compute.and_(keep, pa.compute.greater(trends["size_n"], 0))
    return {name: (found[name] if name != "trends" else trends.filter(keep)).select(columns)
            for name, columns in COLUMNS.items()}  # fmt: skip


def different(table: str, one: pa.Table, other: pa.Table) -> int:
    """How many rows of either are not in the other."""
    columns = ", ".join(COLUMNS[table])
    with duckdb.connect() as db:
        db.execute("set timezone = 'UTC'")
        db.register("one", one.select(COLUMNS[table]))
        db.register("other", other.select(COLUMNS[table]))
        query = f"""select count(*) from (
            (select {columns} from one except all select {columns} from other)
            union all (select {columns} from other except all select {columns} from one))"""
        return int(db.execute(query).fetchone()[0])  # type: ignore[index]
