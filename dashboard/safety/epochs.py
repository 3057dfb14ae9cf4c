"""Where the leader epochs that offsets were committed in end, in the log as it is now (KIP-320).

A log that lost its end and grew past an old commit again holds other records there. Its leader
tells by OffsetForLeaderEpoch where an epoch ends by now, and all older ones with it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.arrow import column, places

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
