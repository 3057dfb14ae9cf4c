"""Bytes per hour in and out of each topic, log dir and both, and days until a disk is full."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics import panes, slopes
from analytics.panes import SECOND, Floats, Panes
from analytics.trends import DISK, SIZE, Trends
from dashboard.curves import Flags, Ints
from dashboard.safety.arrow import column
from dashboard.tables import FINDING_TABLES

LEAST_SAMPLES = 3
LEAST_SECONDS = 600  # shorter windows follow single batches and segments
_HOUR, _DAY = 3600, 86400
_SCHEMA = pa.schema(
    [f for f in FINDING_TABLES["growth"].schema if f.name not in ("snapshot_id", "taken_at")]
)


@dataclass(frozen=True)
class _Rates:
    """Per replica: bytes per hour, and the window they were seen in; `enough` of it or not."""

    came: Floats
    left: Floats
    seconds: Floats
    n: Ints
    enough: Flags


def growth(trends: Trends, log_dirs: pa.Table, taken_at: int) -> pa.Table:
    """The `growth` table: a row per topic, over its replicas, one per log dir, one per both.

    Rates are those of the running 12 h pane and the one before it, so of 12 to 24 hours once there
    is as much history: all bytes that came or left in the window, divided by its time. A replica
    counts with at least LEAST_SAMPLES snapshots over LEAST_SECONDS, and if this snapshot
    (`taken_at`, microseconds) saw it; `replicas` counts them. growth_per_hour is in minus out.
    days_to_full is usable bytes over the slope of used bytes (total - usable, all that is on the
    disk, by least squares): null where that does not grow. Rates are null without enough history.
    used_bytes_per_hour_low and _high hold the true slope in 9 cases of 10 (`slopes`), and so do
    days_to_full_low and _high: the first is null where even the steepest slope does not fill the
    disk, the second where it is not sure that it grows; all are null where the error is not known.
    """
    rates = _rates(trends.size, taken_at)
    places = trends.places
    topics = column(places, "topic").dictionary_encode()
    names = ["broker_id", "log_dir"]
    by_topic = _summed(topics.indices, len(topics.dictionary), rates)
    where = pc.index_in(_dirs(places), value_set=_dirs(trends.dirs))
    by_dir = _summed(where, trends.dirs.num_rows, rates)
    disks = {name: trends.dirs[name] for name in names} | by_dir | _full(trends, log_dirs, taken_at)
    both = _of_both(places, topics, rates)
    return pa.concat_tables([_table({"topic": topics.dictionary} | by_topic), _table(disks), both])


def _of_both(places: pa.Table, topics: pa.DictionaryArray, rates: _Rates) -> pa.Table:
    """A row per topic and log dir, over its replicas there; what no log dir lists is in none."""
    dirs = _dirs(places).dictionary_encode()
    if isinstance(dirs, pa.ChunkedArray):
        dirs = dirs.combine_chunks()
    key = pc.add(pc.multiply(topics.indices.cast(pa.int64()), len(dirs.dictionary)), dirs.indices)
    found = key.dictionary_encode()
    codes = np.asarray(pc.fill_null(found.indices, -1).to_numpy(zero_copy_only=False))
    known = np.flatnonzero(codes >= 0)[::-1]
    first = np.zeros(len(found.dictionary), dtype=np.int64)
    first[codes[known]] = known
    heads = places.select(["topic", "broker_id", "log_dir"]).take(pa.array(first))
    of = {name: column(heads, name) for name in heads.column_names}
    return _table(of | _summed(found.indices, len(first), rates))


def _rates(size: Panes, taken_at: int) -> _Rates:
    seen = panes.window(size, SIZE)
    now, before = size.now, size.before
    since = np.where(seen.whole, before["since"], now["since"])
    seconds = np.maximum((now["last_at"] - since) / SECOND, 0.0)
    hours = np.maximum(seconds, 1.0) / _HOUR
    came, left = (
        (now[name] + np.where(seen.whole, before[name], 0)) / hours
        for name in ("bytes_in", "bytes_out")
    )
    return _Rates(came, left, seconds, seen.n, _enough(seen.n, seconds, now["last_at"], taken_at))


def _enough(n: Ints, seconds: Floats, last_at: Ints, taken_at: int) -> Flags:
    long = np.asarray(seconds >= LEAST_SECONDS)
    return np.asarray(long & (n >= LEAST_SAMPLES) & (last_at == taken_at), dtype=bool)


def _summed(group: pa.Array, groups: int, rates: _Rates) -> dict[str, pa.Array]:
    """Sums over the replicas of each group that have enough history; its longest window."""
    at = np.asarray(pc.fill_null(group, groups).to_numpy(zero_copy_only=False), dtype=np.int64)
    some = rates.enough

    def sums(values: Floats | None) -> Floats:
        weights = np.ones(len(at)) if values is None else values
        found = np.bincount(at[some], weights=weights[some], minlength=groups + 1)
        return found[:groups].astype(np.float64)

    replicas = sums(None)
    came, left = (np.rint(sums(values)).astype(np.int64) for values in (rates.came, rates.left))
    longest, most = np.zeros(groups + 1), np.zeros(groups + 1, dtype=np.int64)
    np.maximum.at(longest, at, rates.seconds)
    np.maximum.at(most, at, rates.n)
    none = replicas == 0
    return {
        "bytes_in_per_hour": pa.array(came, mask=none),
        "bytes_out_per_hour": pa.array(left, mask=none),
        "growth_per_hour": pa.array(came - left, mask=none),
        "window_seconds": pa.array(longest[:groups].astype(np.int64)),
        "samples": pa.array(most[:groups]),
        "replicas": pa.array(replicas.astype(np.int64)),
    }


def _full(trends: Trends, log_dirs: pa.Table, taken_at: int) -> dict[str, pa.Array]:
    """What the disk of each log dir says: its own window, not that of its replicas."""
    seen = panes.window(trends.disk, DISK)
    enough = _enough(seen.n, seen.seconds, trends.disk.now["last_at"], taken_at)
    slope = seen.slope["size"]
    at = pc.index_in(_dirs(trends.dirs), value_set=_dirs(log_dirs))
    usable = column(log_dirs, "usable_bytes").take(at)
    left = np.asarray(pc.fill_null(usable, 0).to_numpy(zero_copy_only=False), dtype=np.float64)
    off = slopes.half_width(seen.spread["size"], seen.n, seen.seconds)
    told, sure = pc.is_valid(usable).to_numpy(zero_copy_only=False), enough & ~np.isnan(off)
    wide = np.where(sure, off, 0.0)
    rates = {"": (slope, enough), "_low": (slope - wide, sure), "_high": (slope + wide, sure)}
    days = {"": rates[""], "_low": rates["_high"], "_high": rates["_low"]}  # the faster, the sooner
    return {
        **{f"used_bytes_per_hour{end}": _per_hour(*rate) for end, rate in rates.items()},
        **{f"days_to_full{end}": _days(left, told, *rate) for end, rate in days.items()},
        "window_seconds": pa.array(seen.seconds.astype(np.int64)),
        "samples": pa.array(seen.n),
    }


def _per_hour(slope: Floats, known: Flags) -> pa.Array:
    return pa.array(np.rint(slope * _HOUR).astype(np.int64), mask=~known)


def _days(left: Floats, told: Flags, slope: Floats, known: Flags) -> pa.Array:
    grows = known & told & (slope > 0)
    return pa.array(left / np.where(grows, slope, 1.0) / _DAY, mask=~grows)


def _dirs(table: pa.Table) -> pa.Array:
    """One text per log dir."""
    brokers = column(table, "broker_id").cast(pa.string())
    return pc.binary_join_element_wise(brokers, column(table, "log_dir"), " ")


def _table(columns: dict[str, pa.Array]) -> pa.Table:
    rows = len(next(iter(columns.values())))
    return pa.table(
        [
            columns[f.name].cast(f.type) if f.name in columns else pa.nulls(rows, f.type)
            for f in _SCHEMA
        ],
        schema=_SCHEMA,
    )
