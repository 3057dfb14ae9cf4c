"""Folders and checkpoint entries that the cluster's assignments do not explain.

Three sources joined in Spark: DescribeLogDirs, inventories, checkpoints. A suspect is not an orphan
yet: what was seen once may be a topic or a move that came between two reads (`sightings`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from analytics.arrow import column
from analytics.tables import Tables
from dashboard.clock import parse_time
from dashboard.snapshot_files import Manifest

UNASSIGNED = "NOT_IN_METADATA"  # collect's mark on a replica that no assignment names

# `snap` numbers the snapshots: integers are joined instead of their ids. Topics are numbered by
# name (`name_no`) and, where the folder's partition.metadata tells it, by id: a topic that was
# deleted and recreated has the name of today's and another id. 200: Kafka cuts longer topics in the
# names of -delete and -stray folders. `told`: what DescribeLogDirs lists.
_STATEMENT = """
with folders as (
    select snap, broker_id, log_dir, directory, any_value(topic) as topic,
        any_value(partition) as partition, any_value(topic_id) as topic_id,
        any_value(kind) as folder, sum(log_bytes) as size_bytes, sum(index_bytes) as index_bytes,
        sum(allocated_bytes) as allocated_bytes, max(newest_at) as newest_at,
        max(scanned_at) as scanned_at
    from {segments} join {snaps} using (snapshot_id)
    group by snap, broker_id, log_dir, directory
),
placed as (
    select snap, topic_no, partition, leader_id, replicas, isr, adding, removing,
        concat(coalesce(adding, array()), coalesce(removing, array())) as moving
    from {partitions} join {snaps} using (snapshot_id) left join (
        select snap, topic_no, partition, adding, removing
        from {reassignments} join {snaps} using (snapshot_id)
    ) using (snap, topic_no, partition)
),
known as (
    select folders.*, names.topic_no as name_no, coalesce(names.listed, false) as name_listed,
        names.topic_id as name_id, ids.topic_no as id_no,
        coalesce(ids.topic, folders.topic) as real_topic, if(folder = 'live',
            count(*) over (partition by folders.snap, broker_id, directory), 1) as copies
    from folders
        left join {names} as names on folders.snap = names.snap and folders.topic = names.topic
        left join {names} as ids on folders.snap = ids.snap and folders.topic_id = ids.topic_id
    where not coalesce(names.doubtful, false)
),
numbered as (
    select *, if(topic_id is null or (name_listed and name_id is null),
        if(name_listed, name_no, null), id_no) as topic_no
    from known
),
judged as (
    select numbered.*, placed.topic_no is not null and (replicas is null
        or array_contains(replicas, broker_id) or array_contains(moving, broker_id)) as assigned
    from numbered left join placed using (snap, topic_no, partition)
),
suspected as (
    select snap, broker_id, log_dir, directory, real_topic as topic, partition, topic_id, folder,
        size_bytes, index_bytes, allocated_bytes, newest_at, scanned_at, assigned,
        topic_no is null and name_listed as recreated, topic_no is not null as has_topic, name_no,
        name_id
    from judged where folder <> 'live' or not assigned or copies > 1
    union all
    select snap, broker_id, log_dir, concat(lost.topic, '-', partition), lost.topic, partition,
        null, 'checkpoint', 0, 0, 0, null, scanned_at, false, false, false, topic_no, topic_id
    from (
        select * from (
            select snap, broker_id, log_dir, topic, partition,
                xxhash64(broker_id, log_dir, left(topic, 200), partition) as place
            from {checkpoints} join {snaps} using (snapshot_id)
        ) left anti join (
            select snap, xxhash64(broker_id, log_dir, left(topic, 200), partition) as place
            from {segments} join {snaps} using (snapshot_id)
        ) using (snap, place)
    ) as lost
        join {scans} using (snap, broker_id, log_dir)
        left join {names} as names using (snap, topic)
    where not coalesce(names.doubtful, false)
    union all
    select snap, broker_id, log_dir, if(is_future, null, concat(topic, '-', partition)), topic,
        partition, null, if(is_future, 'future', 'live'), size_bytes, null, null, null, null,
        false, false, listed, topic_no, names.topic_id
    from (
        select snap, broker_id, log_dir, topic_no, partition, size_bytes, is_future
        from {replicas} join {snaps} using (snapshot_id)
        where error = :unassigned and log_dir is not null
    ) join {names} as names using (snap, topic_no)
        left join placed using (snap, topic_no, partition)
    where not doubtful and not coalesce(array_contains(moving, broker_id), false)
),
told as (
    select snap, broker_id, log_dir, topic_no as name_no, partition, is_future,
        any_value(size_bytes) as told_bytes
    from {replicas} join {snaps} using (snapshot_id)
    where size_bytes is not null and log_dir is not null
    group by snap, broker_id, log_dir, topic_no, partition, is_future
),
compared as (
    select suspected.*, told_bytes, told_bytes is not null as listed,
        coalesce(answered.answered, false) as answered, leader_id, replicas, isr, adding, removing
    from suspected
        left join told on suspected.snap = told.snap and suspected.name_no = told.name_no
            and suspected.partition = told.partition and suspected.broker_id = told.broker_id
            and suspected.log_dir = told.log_dir and told.is_future = (folder = 'future')
            and folder in ('live', 'future', 'checkpoint')
        left join {answered} as answered on suspected.snap = answered.snap
            and suspected.broker_id = answered.broker_id and suspected.log_dir = answered.log_dir
        left join placed on suspected.snap = placed.snap and suspected.name_no = placed.topic_no
            and suspected.partition = placed.partition
)
select *, case
        when folder = 'checkpoint' then 'checkpoint-entry'
        when folder = 'delete' then 'late-delete'
        when folder = 'future' then 'abandoned-future'
        when recreated then 'recreated-topic'
        when folder = 'stray' then 'stray'
        when assigned then 'two-log-dirs'
        when has_topic then 'moved-away'
        else 'deleted-topic' end as kind
from compared
where case
    when folder = 'checkpoint' then not listed
    when folder = 'future' then not assigned or (answered and not listed)
    when folder = 'live' and assigned then not listed
    else true end
"""


def suspects(tables: Tables, snapshots: Sequence[Manifest]) -> list[list[dict[str, Any]]]:
    """Per snapshot its suspects, sorted: folders of inventories, checkpoint entries without a
    folder, and what DescribeLogDirs lists without an assignment.

    Columns: broker_id, log_dir, directory (null: a future copy that no inventory named), topic,
    partition, topic_id (of partition.metadata), folder (live, future, stray, delete, checkpoint),
    kind, size_bytes, index_bytes, allocated_bytes, newest_at, scanned_at (null: only listed),
    listed and told_bytes (DescribeLogDirs has it there), answered (it answered for that log dir),
    assigned (by topic id where there is one, to this broker; a reassignment's brokers count),
    name_id (today's id of that name) and the same-named partition's leader_id, replicas, isr,
    adding, removing. Topics that the cluster may be hiding from us are left out.
    """
    ids = [snapshot.id for snapshot in snapshots]
    numbers = pa.array(range(len(ids)), pa.int32())
    found = tables.sql(
        _STATEMENT,
        args={"unassigned": UNASSIGNED},
        snaps=tables.from_arrow(pa.table({"snapshot_id": ids, "snap": numbers})),
        names=tables.from_arrow(_names(tables, snapshots)),
        scans=tables.from_arrow(_scans(snapshots)),
        answered=tables.from_arrow(_answered(tables, ids)),
        **{name: tables.read("snapshots", name, ids) for name in _LONG},
    ).toArrow()
    per_snapshot: list[list[dict[str, Any]]] = [[] for _ in ids]
    for row in found.sort_by([(name, "ascending") for name in _ORDER]).to_pylist():
        per_snapshot[row.pop("snap")].append(row)
    return [_without_gaps(_once(rows), s) for rows, s in zip(per_snapshot, snapshots, strict=True)]


_LONG = ("segments", "checkpoints", "partitions", "reassignments", "replicas")
_ORDER = ("snap", "broker_id", "log_dir", "topic", "partition", "directory", "folder")


def _names(tables: Tables, snapshots: Sequence[Manifest]) -> pa.Table:
    """snap, topic_no, topic, topic_id, listed (by the metadata), doubtful (maybe hidden)."""
    parts = []
    for number, snapshot in enumerate(snapshots):
        wanted = ["topic_no", "topic", "topic_id", "is_internal"]
        topics = tables.cluster.read("snapshots", snapshot.id, "topics", wanted)
        doubtful = pa.array(snapshot.details.get("doubtful_topics", ()), pa.string())
        unnamed = doubtful.filter(pc.invert(pc.is_in(doubtful, column(topics, "topic"))))
        rows, more = topics.num_rows, len(unnamed)
        names = pa.concat_arrays([column(topics, "topic"), unnamed])
        parts.append(pa.table({
            "snap": pa.array([number] * (rows + more), pa.int32()),
            "topic_no": pa.concat_arrays([column(topics, "topic_no"), pa.nulls(more, pa.int32())]),
            "topic": names,
            "topic_id": pa.concat_arrays([column(topics, "topic_id"), pa.nulls(more, pa.string())]),
            "listed": pa.concat_arrays(
                [column(topics, "is_internal").is_valid(), pa.array([False] * more, pa.bool_())]),
            "doubtful": pc.is_in(names, doubtful),
        }))  # fmt: skip
    return pa.concat_tables(parts)


def _scans(snapshots: Sequence[Manifest]) -> pa.Table:
    """snap, broker_id, log_dir, scanned_at of every log dir that an inventory covers."""
    rows = [
        {"snap": number, "broker_id": broker, "log_dir": log_dir, "scanned_at": scanned_at}
        for number, snapshot in enumerate(snapshots)
        for (broker, log_dir), scanned_at in scans(snapshot).items()
    ]
    return pa.Table.from_pylist(rows, schema=_SCAN)


_SCAN = pa.schema(
    [
        ("snap", pa.int32()),
        ("broker_id", pa.int32()),
        ("log_dir", pa.string()),
        ("scanned_at", pa.timestamp("us", tz="UTC")),
    ]
)


def scans(snapshot: Manifest) -> dict[tuple[int, str], Any]:
    """Broker and log dir -> when it was scanned, of the inventories that the snapshot took in."""
    return {
        (found["broker_id"], log_dir): parse_time(found["scanned_at"])
        for found in snapshot.details.get("inventories", ())
        for log_dir in found["log_dirs"]
    }


def _answered(tables: Tables, ids: Sequence[str]) -> pa.Table:
    """snap, broker_id, log_dir, answered: every log dir that DescribeLogDirs could read."""
    parts = []
    for number, snapshot_id in enumerate(ids):
        rows = tables.cluster.read(
            "snapshots", snapshot_id, "log_dirs", ["broker_id", "log_dir", "error"]
        )
        good = rows.filter(pc.and_(rows["error"].is_null(), rows["log_dir"].is_valid()))
        flags = pa.array([True] * good.num_rows, pa.bool_())
        snap = pa.array([number] * good.num_rows, pa.int32())
        parts.append(
            good.select(["broker_id", "log_dir"])
            .append_column("snap", snap)
            .append_column("answered", flags)
        )
    return pa.concat_tables(parts)


def _once(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A folder that both an inventory and DescribeLogDirs show, once: as the inventory has it."""
    on_disk = {_place(row) for row in rows if row["scanned_at"] is not None}
    return [row for row in rows if row["scanned_at"] is not None or _place(row) not in on_disk]


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    named = ("broker_id", "log_dir", "topic", "partition")
    return (*(row[name] for name in named), row["folder"])


def _without_gaps(rows: list[dict[str, Any]], snapshot: Manifest) -> list[dict[str, Any]]:
    """Without checkpoint entries whose folder may be one that could not be read."""
    unread: set[tuple[int, str, str]] = set()
    uncertain: set[int] = set()
    for found in snapshot.details.get("inventories", ()):
        broker = found["broker_id"]
        for gap in found["gaps"]:
            unread.add((broker, str(gap["log_dir"]), gap["path"].split("/")[0]))
            if not gap["path"]:  # the log dir itself
                uncertain.add(broker)
        if found["gaps_total"] > len(found["gaps"]):
            uncertain.add(broker)
    return [
        row
        for row in rows
        if row["folder"] != "checkpoint"
        or (
            row["broker_id"] not in uncertain
            and (row["broker_id"], row["log_dir"], row["directory"]) not in unread
        )
    ]
