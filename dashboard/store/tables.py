"""The declared schema of every snapshot and findings table: names, types, keys, sort order.

Every row carries `snapshot_id` and `taken_at`. Snapshot tables name a topic by `topic_no`, whose
dictionary is the `topics` table of the same snapshot; findings carry the topic's name. Unknown is
null. Sizes are bytes, times are aware UTC (microseconds).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.domain.metric_names import COUNTERS

_I32, _I64, _TEXT, _FLAG = pa.int32(), pa.int64(), pa.string(), pa.bool_()
_TIME = pa.timestamp("us", tz="UTC")
_IDS = pa.list_(_I32)
_GUARDS = pa.list_(pa.struct([("name", _TEXT), ("reason", _TEXT), ("lift", _TEXT)]))

_WANTED = pa.list_(
    pa.struct([("name", _TEXT), ("group_id", _TEXT), ("partitions", _I64), ("records", _I64),
               ("reason", _TEXT)])
)  # fmt: skip


STAMPS = ("snapshot_id", "taken_at")  # of every row; put on as a table is written


@dataclass(frozen=True, slots=True)
class TableSpec:
    """One table: its key columns (also the sort order) and its Arrow schema."""

    name: str
    key: tuple[str, ...]
    schema: pa.Schema

    def only(self, columns: Sequence[str] | None) -> TableSpec:
        """This table with the chosen columns alone (None: all of them), in the order given."""
        if columns is None:
            return self
        return TableSpec(self.name, self.key, pa.schema([self.schema.field(c) for c in columns]))

    @property
    def unstamped(self) -> TableSpec:
        """This table as whoever makes its rows does, before they are stamped."""
        return self.only([name for name in self.schema.names if name not in STAMPS])


def _spec(name: str, key: str, /, **columns: pa.DataType) -> TableSpec:
    fields = {"snapshot_id": _TEXT, "taken_at": _TIME, **columns}
    return TableSpec(name, tuple(key.split()), pa.schema(list(fields.items())))


def _sums(window: str, *values: str) -> dict[str, pa.DataType]:
    """A pane's samples: n and Σx of the window, and per y its extremes, Σy and Σxy."""
    times = dict.fromkeys(("from", "first_at", "last_at"), _TIME)
    whole = {f"{window}_{name}": kind for name, kind in (times | {"n": _I32}).items()}
    of_x = dict.fromkeys((f"{window}_x", f"{window}_xx"), pa.float64())
    return whole | of_x | {
        f"{y}_{part}": pa.float64() if part in {"y", "xy"} else _I64
        for y in values for part in ("first", "last", "min", "max", "y", "xy")
    }  # fmt: skip


def _spread(y: str) -> dict[str, pa.DataType]:
    """What the error of y's slope is told from: Σy², and sums over the steps between samples."""
    return {f"{y}_{part}": pa.float64() for part in ("yy", "dx", "dxdx", "dxdy", "dydy")}


def _pane(name: str) -> dict[str, pa.DataType]:
    """How far a counter went in a pane, in how many samples, resets and scrapes that missed it."""
    times = {f"{name}_{part}": _TIME for part in ("from", "last_at", "since")}
    return times | {
        f"{name}_{part}": _I64 if part == "amount" else _I32
        for part in ("n", "amount", "resets", "missed")
    }


_PARTITION = {"topic_no": _I32, "partition": _I32}
_NAMED_PARTITION = {"topic": _TEXT, "partition": _I32}

SNAPSHOT_TABLES: dict[str, TableSpec] = {
    spec.name: spec
    for spec in (
        _spec(
            "brokers", "broker_id", broker_id=_I32, host=_TEXT, port=_I32, rack=_TEXT,
            reachable=_FLAG, error=_TEXT, api_versions=pa.map_(_TEXT, _I32),
        ),
        _spec(
            "configs", "scope name key", scope=_TEXT, name=_TEXT, key=_TEXT, value=_TEXT,
            source=_TEXT,
        ),
        _spec("topics", "topic_no", topic_no=_I32, topic=_TEXT, topic_id=_TEXT, is_internal=_FLAG),
        _spec(
            "partitions", "topic_no partition", **_PARTITION, leader_id=_I32, leader_epoch=_I32,
            replicas=_IDS, isr=_IDS, log_start_offset=_I64, last_stable_offset=_I64,
            high_watermark=_I64, error=_TEXT,
        ),
        _spec("reassignments", "topic_no partition", **_PARTITION, adding=_IDS, removing=_IDS),
        _spec(
            "replicas", "broker_id log_dir topic_no partition", broker_id=_I32, log_dir=_TEXT,
            **_PARTITION, topic_id=_TEXT, size_bytes=_I64, is_future=_FLAG, log_start_offset=_I64,
            log_end_offset=_I64, is_leader=_FLAG, in_sync=_FLAG, observed_at=_TIME, error=_TEXT,
        ),
        _spec(
            "log_dirs", "broker_id log_dir", broker_id=_I32, log_dir=_TEXT, total_bytes=_I64,
            usable_bytes=_I64, error=_TEXT,
        ),
        _spec(
            "groups", "group_id", group_id=_TEXT, type=_TEXT, state=_TEXT, members=_I32,
            assigned=pa.list_(pa.struct([("topic", _TEXT), ("partition", _I32)])),
            coordinator_answered=_FLAG, error=_TEXT, subscribed=pa.list_(_TEXT),
            patterns=pa.list_(_TEXT), is_streams=_FLAG,
        ),
        _spec(
            "group_offsets", "group_id topic_no partition", group_id=_TEXT, **_PARTITION,
            committed_offset=_I64, error=_TEXT, leader_epoch=_I32,
        ),
        # Leader epochs of which a group or an older snapshot knew more than the log has by now: up
        # to known_offset. What it has of them and of older ones ends at end_offset; null: it could
        # not be asked yet, or is led to this day. Of an epoch that its leader does not know
        # (of_this_log false) it has nothing, nor of those between it and the older one that was
        # answered, floor_epoch (null: none was, or an earlier version asked).
        _spec(
            "epoch_ends", "topic_no partition leader_epoch", **_PARTITION, leader_epoch=_I32,
            known_offset=_I64, end_offset=_I64, of_this_log=_FLAG, floor_epoch=_I32,
        ),
        _spec(
            "segments", "broker_id log_dir directory base_offset", broker_id=_I32, log_dir=_TEXT,
            directory=_TEXT, base_offset=_I64, topic=_TEXT, partition=_I32, topic_id=_TEXT,
            kind=_TEXT, log_bytes=_I64, index_bytes=_I64, allocated_bytes=_I64, newest_at=_TIME,
            scanned_at=_TIME, log_end_offset=_I64,
        ),
        _spec(
            "checkpoints", "broker_id log_dir file topic partition", broker_id=_I32,
            log_dir=_TEXT, file=_TEXT, topic=_TEXT, partition=_I32, offset=_I64,
        ),
        _spec(
            "broker_metrics", "broker_id name labels", broker_id=_I32, name=_TEXT, labels=_TEXT,
            value=pa.float64(),
        ),
    )
}  # fmt: skip

FINDING_TABLES: dict[str, TableSpec] = {
    spec.name: spec
    for spec in (
        # One row per partition and target; bytes are summed over all replicas.
        _spec(
            "reclaimable", "topic partition target", **_NAMED_PARTITION, target=_TEXT,
            target_offset=_I64, log_start_offset=_I64, high_watermark=_I64, records=_I64,
            bytes_low=_I64, bytes_likely=_I64, bytes_high=_I64, bytes_at_once=_I64,
            bytes_at_once_low=_I64, bytes_at_once_high=_I64, size_bytes=_I64, held_bytes=_I64,
            held_by=_TEXT, method=_TEXT, replicas=_I32,
            readers_declared=_FLAG, owner=_TEXT, guards=_GUARDS, limit_offset=_I64,
        ),
        # Every group's last known committed offset, from this snapshot or an earlier one.
        _spec(
            "holds", "topic partition group_id", **_NAMED_PARTITION, topic_id=_TEXT, group_id=_TEXT,
            committed_offset=_I64, last_seen_at=_TIME, last_commit_at=_TIME, leader_epoch=_I32,
            epoch_end=_I64,
        ),
        # Last known offsets on an earlier topic of a name: their groups read it, and may read this.
        _spec(
            "former_readers", "topic partition group_id", **_NAMED_PARTITION, topic_id=_TEXT,
            group_id=_TEXT, committed_offset=_I64, last_seen_at=_TIME, last_commit_at=_TIME,
            leader_epoch=_I32,
        ),
        # Per replica: bytes of log below an offset, how they were measured, and known segments.
        # bytes_above: as many surely lie at or above it. sure_since: since when every snapshot saw
        # the replica's own log end, its topic without compaction, and the same leader epoch; null:
        # the newest did not. leader_epoch: of that snapshot; null: it, or the analysis, is older.
        _spec(
            "curves", "topic partition broker_id log_dir offset", **_NAMED_PARTITION,
            broker_id=_I32, log_dir=_TEXT, offset=_I64, bytes_below=_I64, topic_id=_TEXT,
            is_base=_FLAG, method=_TEXT, segment_bytes=_I64, rolled_bytes=_I64,
            bytes_above=_I64, sure_since=_TIME, leader_epoch=_I32,
        ),
        _spec(
            "blockers", "group_id topic", group_id=_TEXT, topic=_TEXT, bytes_held_alone=_I64,
            bytes_freed_if_waived=_I64, last_commit_at=_TIME, group_state=_TEXT, members=_I32,
            unmeasured=_I64,
        ),
        # Per log dir: live = needed by someone or unknown; held = above the committed minimum.
        # inventory_at null: stray, delete and indexes are not known, and lie in unexplained.
        _spec(
            "disks", "broker_id log_dir", broker_id=_I32, log_dir=_TEXT, total_bytes=_I64,
            usable_bytes=_I64, reclaimable_bytes=_I64, held_bytes=_I64, live_bytes=_I64,
            future_bytes=_I64, unexplained_bytes=_I64, measured=_FLAG, error=_TEXT,
            stray_bytes=_I64, orphan_bytes=_I64, delete_bytes=_I64, index_bytes=_I64,
            inventory_at=_TIME, inferred=pa.list_(_TEXT), guarded_bytes=_I64,
        ),
        # One row per table and broker that should be there: was it, and if not, why.
        _spec(
            "quality", "table broker_id", table=_TEXT, broker_id=_I32, rows=_I64,
            expected_rows=_I64, complete=_FLAG, reason=_TEXT,
        ),
        # Per replica, and per log dir (topic null: size is what its disk has in use), two panes of
        # carried sums: 12 h of sizes, 15 min of lags and log ends (analytics/replicas/trends.py).
        _spec(
            "trends", "pane topic partition broker_id log_dir", pane=_TEXT, **_NAMED_PARTITION,
            broker_id=_I32, log_dir=_TEXT, topic_id=_TEXT, **_sums("size", "size"),
            size_since=_TIME, bytes_in=_I64, bytes_out=_I64, **_spread("size"),
            **_sums("lag", "lag", "end"), lag_before=_I64, end_before=_I64, before_at=_TIME,
            behind_n=_I32, behind_since=_TIME,
        ),
        # Per partition: its log end, since when that has not moved (null: not since known_since),
        # and when it was last read; null where it never was, or only by a clock that was wrong.
        _spec(
            "last_writes", "topic partition", **_NAMED_PARTITION, topic_id=_TEXT,
            log_end_offset=_I64, moved_at=_TIME, known_since=_TIME, seen_at=_TIME,
        ),
        # Per partition of topics whose readers are declared: when its log ended where, where the
        # reader furthest behind stood, and the longest lags of two panes of 14 days; since: when
        # all of them are known. groups have an offset, and no other one came after groups_since.
        # Null: not known.
        _spec(
            "reader_lags", "topic partition", **_NAMED_PARTITION, topic_id=_TEXT,
            knot_times=pa.list_(_TIME), knot_ends=pa.list_(_I64), position=_I64, pane_from=_TIME,
            lag_low_ms=_I64, lag_high_ms=_I64, before_low_ms=_I64, before_high_ms=_I64,
            since=_TIME, seen_at=_TIME, groups=pa.list_(_TEXT), groups_since=_TIME,
        ),
        # Per topic whose readers are declared: the longest lag seen, its retention, a shorter one
        # that fits, and what that would free on all replicas; null: not known.
        _spec(
            "retention_fit", "topic", topic=_TEXT, topic_id=_TEXT, owner=_TEXT, partitions=_I32,
            unknown_partitions=_I32, lag_since=_TIME, lag_low_ms=_I64, lag_high_ms=_I64,
            margin=pa.float64(), replay_window_ms=_I64, retention_ms=_I64, fits_ms=_I64,
            size_bytes=_I64, freed_low_bytes=_I64, freed_likely_bytes=_I64,
            freed_high_bytes=_I64, guards=pa.list_(_TEXT), gone_groups=pa.list_(_TEXT),
            verdict=_TEXT, reason=_TEXT, groups_since=_TIME,
        ),
        # Per topic without a known write in the last day: since when, who reads it, what it holds.
        # A partition of it that was not read is in unread_partitions, and nothing is sure then.
        # guards: who may want its records (analytics/readers/topics.py); null: nobody asked.
        _spec(
            "idle_topics", "topic", topic=_TEXT, topic_id=_TEXT, kind=_TEXT, tool=_TEXT,
            owner=_TEXT, partitions=_I32, unread_partitions=_I32, quiet_since=_TIME,
            known_since=_TIME, last_moved_at=_TIME, groups=_I32, reading_groups=pa.list_(_TEXT),
            last_commit_at=_TIME, bytes_out_per_hour=_I64, records=_I64, size_bytes=_I64,
            evidence=pa.list_(_TEXT), readers_unknown=_TEXT, idle_days=_I32, verdict=_TEXT,
            reason=_TEXT, retention_ms=_I64, replay_window_ms=_I64, guards=_WANTED,
            share_groups=pa.list_(_TEXT),
        ),
        # Per topic over its replicas (broker_id and log_dir null), per log dir (topic null), and
        # per both; null: not enough history yet. Low to high holds in 9 cases of 10.
        _spec(
            "growth", "topic broker_id log_dir", topic=_TEXT, broker_id=_I32, log_dir=_TEXT,
            bytes_in_per_hour=_I64, bytes_out_per_hour=_I64, growth_per_hour=_I64,
            used_bytes_per_hour=_I64, days_to_full=pa.float64(), window_seconds=_I64,
            samples=_I32, replicas=_I32, used_bytes_per_hour_low=_I64,
            used_bytes_per_hour_high=_I64, days_to_full_low=pa.float64(),
            days_to_full_high=pa.float64(),
        ),
        # Per replica that does not lead, slow or not; lags against the leader at the same instant.
        _spec(
            "slow_followers", "topic partition broker_id", **_NAMED_PARTITION, broker_id=_I32,
            log_dir=_TEXT, rack=_TEXT, leader_id=_I32, lag_records=_I64, lag_bytes=_I64,
            lag_seconds=pa.float64(), log_start_lag=_I64, trend=_TEXT,
            catch_up_seconds=pa.float64(), in_sync=_FLAG, alive=_FLAG, slow=_FLAG, cause=_TEXT,
            reason=_TEXT, holds_low_watermark=_FLAG, append_per_second=pa.float64(),
            lag_per_second=pa.float64(), samples=_I32, observed_at=_TIME, behind_since=_TIME,
            fetcher_lag=_I64, log_start_offset=_I64,
        ),
        # Per topic and broker, and per broker (topic null), how fast its counters went lately;
        # null: not measured. Gauges of a broker as it told them last, if in this snapshot.
        _spec(
            "traffic", "topic broker_id", topic=_TEXT, broker_id=_I32,
            **{f"{name}_per_hour": _I64 for name in COUNTERS},
            **{f"{name}_per_day": _I64 for name in COUNTERS}, measured_at=_TIME,
            hour_samples=_I32, hour_seconds=_I64, day_samples=_I32, day_seconds=_I64, resets=_I32,
            missed=_I32, delete_requests_waiting=_I64, delete_ms_mean=pa.float64(),
            delete_ms_p99=pa.float64(), fetcher_lag=_I64,
        ),
        # The memory behind it: each counter's last value, when its broker told of it last, scrapes
        # missed since then, two panes each of 30 min and of 12 h (analytics/metrics/counters.py).
        _spec(
            "counters", "topic broker_id counter", topic=_TEXT, broker_id=_I32, counter=_TEXT,
            value=pa.float64(), told_at=_TIME, missing=_I32, **_pane("hour"),
            **_pane("hour_before"), **_pane("day"), **_pane("day_before"),
        ),
        # Per topic of which bytes out were measured: those of the last day, or of an earlier one
        # whose suspicion stands (until), beside what groups explain of them, and how well it was
        # measured (dashboard/safety/unseen_readers.py).
        _spec(
            "unseen_readers", "topic", topic=_TEXT, measured=_TEXT, suspected=_FLAG,
            bytes_out_per_hour=_I64, explained_bytes_per_hour=_I64, bytes_out=_I64,
            explained_bytes=_I64, window_ms=_I64, partitions=_I32, why=_TEXT, until=_TIME,
            measured_at=_TIME, whole=_FLAG, counted_ms=_I64, unbroken_ms=_I64, left_bytes=_I64,
        ),
        # Per folder or checkpoint entry that no assignment explains, with what may be done with it.
        _spec(
            "orphans", "broker_id log_dir directory topic partition", broker_id=_I32, log_dir=_TEXT,
            directory=_TEXT, **_NAMED_PARTITION, topic_id=_TEXT, kind=_TEXT, size_bytes=_I64,
            verdict=_TEXT, reason=_TEXT, index_bytes=_I64, allocated_bytes=_I64, newest_at=_TIME,
            current_topic_id=_TEXT, first_seen_at=_TIME, last_seen_at=_TIME, snapshots_seen=_I32,
            check_at=_TIME, evidence=_TEXT, log_end_offset=_I64, scanned_at=_TIME,
        ),
        # The memory behind it: since when each suspect is seen, also those seen only once.
        _spec(
            "sightings", "broker_id log_dir directory topic partition", broker_id=_I32,
            log_dir=_TEXT, directory=_TEXT, **_NAMED_PARTITION, topic_id=_TEXT, folder=_TEXT,
            kind=_TEXT, size_bytes=_I64, index_bytes=_I64, allocated_bytes=_I64, newest_at=_TIME,
            scanned_at=_TIME, first_seen_at=_TIME, last_seen_at=_TIME, snapshots_seen=_I32,
            looked_at=_TIME, log_end_offset=_I64,
        ),
    )
}  # fmt: skip


def build(spec: TableSpec, columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    """A table in the spec's schema, sorted by its key. Columns that are missing become null."""
    length = len(next(iter(columns.values()))) if columns else 0
    arrays = [
        pa.array(columns[name], type=field.type)
        if (name := field.name) in columns
        else pa.nulls(length, field.type)
        for field in spec.schema
    ]
    table = pa.table(arrays, schema=spec.schema)
    return table.sort_by([(k, "ascending") for k in spec.key]) if length > 1 else table


def conform(spec: TableSpec, table: pa.Table) -> pa.Table:
    """`table` with exactly the spec's columns: an older minor's missing ones read as null."""
    if table.schema.equals(spec.schema):
        return table.replace_schema_metadata(spec.schema.metadata)
    from dashboard.core.arrow import shaped  # it takes 50 ms, and few files are of an older minor

    columns = {name: table.column(name) for name in table.column_names}
    return shaped(columns, table.num_rows, spec.schema)


UNASSIGNED = "NOT_IN_METADATA"  # error of a replica that a broker lists and no assignment names


def replicas_proper(replicas: pa.Table) -> pa.ChunkedArray:
    """Which of a snapshot's `replicas` (is_future, error) are their partition's: neither a copy for
    another log dir, nor what lies on a broker that was down while its partitions were reassigned.
    """
    future = pc.fill_null(replicas["is_future"], False)
    return pc.invert(pc.or_(future, pc.fill_null(pc.equal(replicas["error"], UNASSIGNED), False)))
