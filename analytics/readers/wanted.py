"""Who may still want the records of a topic: what a purge of all of them would be guarded by."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from analytics.readers.reader_lags import UNKNOWN_READERS
from dashboard.core.arrow import column, field, known_true, unfolded
from dashboard.safety.guard_texts import NEVER_LIFTABLE
from dashboard.safety.targets import REPLAY_WINDOW

_KEY = ["topic", "name", "group_id"]
# Of groups more is known than this guard tells: what they have not read, inside a window too.
_UNREAD = "unread-by-group"
_GUARDS = (*UNKNOWN_READERS, *NEVER_LIFTABLE, "readers-undeclared")


def sums(rows: pa.Table, partitions: pa.Table) -> pa.Table:
    """topic, name, group_id, and what some partitions add: partitions, records, reason (of one of
    them). The name is a guard's; or REPLAY_WINDOW, for records that the declared window covers.
    Records are null where a guard counts none. Sums of parts may be summed again.

    `rows`: those of `reclaimable` up to the high watermark, of `reclaimable.described` partitions.
    """
    parts = [_guards(rows), _windowed(rows), _unread(partitions)]
    return summed(pa.concat_tables(parts, promote_options="default"))


def summed(found: pa.Table) -> pa.Table:
    """One row per topic, name and group."""
    rows = found.group_by(_KEY).aggregate(list(_SUMS.items()))
    return rows.rename_columns([*_KEY, *_SUMS])


_SUMS = {"partitions": "sum", "records": "sum", "reason": "min"}


def _guards(rows: pa.Table) -> pa.Table:
    at, guards = unfolded(column(rows, "guards"))
    found = _table(column(rows, "topic").take(at), field(guards, "name"))
    found = found.append_column("reason", field(guards, "reason"))
    return found.filter(pc.is_in(found["name"], value_set=pa.array(_GUARDS)))


def _windowed(rows: pa.Table) -> pa.Table:
    """Up to the high watermark nothing but a replay window lowers a target."""
    rows = rows.filter(known_true(pc.less(rows["target_offset"], rows["high_watermark"])))
    found = _table(column(rows, "topic"), pa.repeat(REPLAY_WINDOW, rows.num_rows))
    records = pc.subtract(column(rows, "high_watermark"), column(rows, "target_offset"))
    return found.append_column("records", records)


def _unread(partitions: pa.Table) -> pa.Table:
    """What each group that counts, the gone ones too, has not read of the whole log."""
    at, positions = unfolded(column(partitions, "positions"))
    topic, start, end = (
        column(partitions, name).take(at)
        for name in ("topic", "log_start_offset", "high_watermark")
    )
    begin = pc.max_element_wise(field(positions, "committed_offset"), start)
    found = _table(topic, pa.repeat(_UNREAD, len(at)))
    found = found.append_column("group_id", field(positions, "group_id"))
    found = found.append_column("records", pc.subtract(end, begin))
    return found.filter(known_true(pc.greater(found["records"], 0)))


def _table(topic: pa.Array, name: pa.Array) -> pa.Table:
    ones = pa.repeat(pa.scalar(1, pa.int64()), len(topic))
    return pa.table({"topic": topic, "name": name, "partitions": ones})
