"""Whether an offset can have been committed on the log as it is now: by the topic's id (KIP-516),
the log's end, and where the leader epoch in which it was committed ends by now (KIP-320);
and who reads a topic by the offsets that it committed there.

A log that lost its end and grew past an old commit again holds other records there. Its leader
tells by OffsetForLeaderEpoch where an epoch ends by now, and all older ones with it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.arrow import column, looked_up, places

Ints = npt.NDArray[np.int64]

COMMITS = pa.schema(
    [
        ("topic_no", pa.int32()),
        ("partition", pa.int32()),
        ("group_id", pa.string()),
        ("topic_id", pa.string()),
        ("committed_offset", pa.int64()),
        ("remembered", pa.bool_()),
        ("leader_epoch", pa.int32()),
        ("epoch_end", pa.int64()),
        ("seen_at", pa.int64()),  # microseconds, of a remembered one; null: not known
    ]
)
BY_OFFSET = pa.schema(
    [
        ("topic_no", pa.int32()),
        ("group_id", pa.string()),
        ("reads", pa.bool_()),
        ("seen_at", pa.int64()),
    ]
)
EPOCH_ENDS = pa.schema(
    [
        ("topic_no", pa.int32()),
        ("partition", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("end_offset", pa.int64()),
        ("of_this_log", pa.bool_()),
        ("floor_epoch", pa.int32()),
    ]
)


def tells(
    committed: pa.Array, same_topic: pa.Array, high_watermark: pa.Array, epoch_end: pa.Array
) -> pa.Array:
    """Whether an offset can have been committed on the log as it is now: the rule of every reader.

    Nobody has read past the end of a log: an offset above the high watermark was committed on
    records that are gone (a lost disk, an unclean election, a topic made anew), or set by hand.
    Brokers accept such offsets and list them for ever. `same_topic`: by the rule below. The high
    watermark must have been read after the offset. null: the end of the log is not known, and then
    nothing is purged.

    A log that has grown past such an offset again holds other records there. `epoch_end`: where
    the leader epoch of the offset ends by now, as a consumer finds out (KIP-320). null: nothing
    says that it ends below the offset (`ends`), or nobody knows the epoch.
    """
    end = pc.min_element_wise(high_watermark, epoch_end)
    below = pc.fill_null(pc.less_equal(committed, end), True)
    return pc.and_(pc.and_(committed.is_valid(), same_topic), below)


def same_topic(then: pa.Array, now: pa.Array) -> pa.Array:
    """Whether offsets are of the topic as it is now (KIP-516), by the ids that it had `then` and
    has `now`. Where brokers tell none (before 2.8), the name has to do. An offset that was seen
    without an id is not of a topic that has one: it may have been made anew since.
    """
    return pc.or_kleene(now.is_null(), pc.fill_null(pc.equal(then, now), False))


def ends(topic_no: pa.Array, partition: pa.Array, epoch: pa.Array, known: pa.Table) -> pa.Array:
    """Per row the end of the first known epoch of its partition that is not older than its own.

    `known`: EPOCH_ENDS, no end below that of an older epoch of its partition. null: the row's
    epoch is not known, or none of its partition is known to have lost records since.

    An epoch of which the log has nothing speaks for itself, and for those between it and the older
    one that its leader answered (`floor_epoch`): LeaderEpochFileCache.endOffsetFor answers the
    newest that the log has up to the one asked for.
    """
    known = known.filter(known["end_offset"].is_valid())
    if not known.num_rows:
        return pa.nulls(len(epoch), pa.int64())
    own = pc.fill_null(known["of_this_log"], True)
    mine, foreign = known.filter(own), known.filter(pc.invert(own))
    found = column(mine, "end_offset").take(_first(topic_no, partition, epoch, mine))
    if not foreign.num_rows:
        return found
    at = _first(topic_no, partition, epoch, foreign)
    of, floor, end = (column(foreign, n).take(at) for n in ("leader_epoch", *_OF_FOREIGN))
    lacks = pc.or_kleene(pc.equal(of, epoch), pc.greater(epoch, floor))
    return pc.if_else(pc.fill_null(lacks, False), end, found)


_OF_FOREIGN = ("floor_epoch", "end_offset")


def unasked(
    topic_no: pa.Array, partition: pa.Array, epoch: pa.Array, known: pa.Table
) -> pa.BooleanArray:
    """Per row whether an epoch of its partition that is not older has no known end."""
    endless = known.filter(known["end_offset"].is_null())
    return _first(topic_no, partition, epoch, endless).is_valid()


def _first(topic_no: pa.Array, partition: pa.Array, epoch: pa.Array, known: pa.Table) -> pa.Array:
    """Per row the index of the first of `known` that is not older; null where there is none."""
    if not known.num_rows:
        return pa.nulls(len(epoch), pa.int64())
    there = places(column(known, "topic_no"), column(known, "partition"))
    among = pc.unique(there)
    rank = np.asarray(pc.index_in(there, value_set=among), dtype=np.int64)
    keys = rank << 32 | np.asarray(column(known, "leader_epoch"), dtype=np.int64)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    own = pc.index_in(places(topic_no, partition), value_set=among).cast(pa.int64())
    asked = pc.bit_wise_or(pc.shift_left(own, 32), epoch.cast(pa.int64()))
    wanted = np.asarray(pc.fill_null(asked, -1).to_numpy(zero_copy_only=False), dtype=np.int64)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    found = (wanted >= 0) & (keys[at] >= wanted) & (keys[at] >> 32 == wanted >> 32)
    return pa.array(order[at], mask=~found)


def by_offset(partitions: pa.Table, commits: pa.Table, topics: pa.Table) -> pa.Table:
    """BY_OFFSET: each topic and group with a commit, whether any shows that it reads the topic as
    it is now, and when one was seen last (NOW: it is live). Arguments as for
    `standing.standing`; of parts of the partitions it may be `summed`.

    A live offset past the end belongs to a group that reads the topic; a remembered one may be of
    records that are gone.
    """
    where = places(column(partitions, "topic_no"), column(partitions, "partition"))
    at = places(column(commits, "topic_no"), column(commits, "partition"))
    row = pc.index_in(at, value_set=where)
    ends = column(partitions, "high_watermark").take(row)
    live = pc.invert(pc.fill_null(column(commits, "remembered"), False))
    reads = pc.or_(telling(commits, ends, topics), live)
    seen = pa.array(seen_last(commits))
    found = [column(commits, "topic_no"), column(commits, "group_id"), reads, seen]
    return summed(pa.table(found, schema=BY_OFFSET))


def summed(found: pa.Table) -> pa.Table:
    """One row per topic and group."""
    sums = found.group_by(BY_OFFSET.names[:2]).aggregate([("reads", "max"), ("seen_at", "max")])
    return sums.rename_columns(BY_OFFSET.names)


def seen_last(commits: pa.Table) -> Ints:
    """When each offset was seen last, in microseconds."""
    live = pc.invert(pc.fill_null(column(commits, "remembered"), False))
    found = pc.if_else(live, NOW, pc.fill_null(column(commits, "seen_at"), ONCE))
    return np.asarray(found.to_numpy(zero_copy_only=False), np.int64)


NOW, ONCE = np.iinfo(np.int64).max, np.iinfo(np.int64).min


def telling(commits: pa.Table, ends: pa.Array, topics: pa.Table) -> pa.Array:
    """Whether each offset `tells`; `ends` are the high watermarks of its partition."""
    now = looked_up(
        column(commits, "topic_no"), column(topics, "topic_no"), column(topics, "topic_id")
    )
    return tells(
        column(commits, "committed_offset"),
        same_topic(column(commits, "topic_id"), now),
        ends,
        column(commits, "epoch_end"),
    )
