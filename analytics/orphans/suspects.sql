-- Suspects of orphans: folders and checkpoint entries of inventories, and what DescribeLogDirs lists,
-- that no assignment explains. Frames: segments, checkpoints, partitions, reassignments, replicas of
-- the snapshots; snaps, names and scans as `suspects.py` makes them. How many folders of a name a
-- broker has (`copies`) it puts in.
--
-- `snap` numbers the snapshots: integers are joined instead of their ids. Topics are numbered by name
-- (`name_no`) and, where the folder's partition.metadata tells it, by id: a topic that was deleted and
-- recreated has the name of today's and another id. 200: Kafka cuts longer topics in the names of
-- -delete and -stray folders.
with folders as (
    select snap, broker_id, log_dir, directory, topic, partition, topic_id, kind as folder,
        sum(log_bytes) as size_bytes, sum(index_bytes) as index_bytes,
        sum(allocated_bytes) as allocated_bytes, max(newest_at) as newest_at,
        max(scanned_at) as scanned_at, max(log_end_offset) as log_end_offset
    from {segments} join {snaps} using (snapshot_id)
    group by snap, broker_id, log_dir, directory, topic, partition, topic_id, kind
),
placed as (
    select snap, topic_no, partition, replicas,
        concat(coalesce(adding, array()), coalesce(removing, array())) as moving
    from {partitions} join {snaps} using (snapshot_id) left join (
        select snap, topic_no, partition, adding, removing
        from {reassignments} join {snaps} using (snapshot_id)
    ) using (snap, topic_no, partition)
),
known as (
    select folders.*, names.topic_no as name_no, coalesce(names.listed, false) as name_listed,
        names.topic_id as name_id, ids.topic_no as id_no,
        coalesce(ids.topic, folders.topic) as real_topic, COPIES as copies
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
        size_bytes, index_bytes, allocated_bytes, newest_at, scanned_at, log_end_offset,
        assigned, topic_no is null and name_listed as recreated, topic_no is not null as has_topic,
        name_no, name_id, topic_no as lives_no
    from judged where folder <> 'live' or not assigned or copies > 1
    union all
    select snap, broker_id, log_dir, concat(lost.topic, '-', partition), lost.topic, partition,
        null, 'checkpoint', 0, 0, 0, null, scanned_at, null, false, false, false, topic_no,
        topic_id, null
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
        partition, null, if(is_future, 'future', 'live'), size_bytes, null, null, null, null, null,
        false, false, listed, topic_no, names.topic_id, if(listed, topic_no, null)
    from (
        select snap, broker_id, log_dir, topic_no, partition, size_bytes, is_future
        from {replicas} join {snaps} using (snapshot_id)
        where error = :unassigned and log_dir is not null
    ) join {names} as names using (snap, topic_no)
        left join placed using (snap, topic_no, partition)
    where not doubtful and not coalesce(array_contains(moving, broker_id), false)
)
select * from suspected
