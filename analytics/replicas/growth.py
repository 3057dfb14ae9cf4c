"""Bytes per hour in and out of each topic, log dir and both, and days until a disk is full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.replicas import panes
from analytics.replicas.panes import SECOND, Floats, Panes, Spread, Window
from analytics.replicas.trends import DISK, SIZE, Trends
from dashboard.core.arrow import column, shaped
from dashboard.estimate.curve_tables import integers
from dashboard.estimate.curves import Flags, Ints
from dashboard.store.tables import FINDING_TABLES

LEAST_SAMPLES = 3
LEAST_SECONDS = 600  # shorter windows follow single batches and segments
_HOUR, _DAY = 3600, 86400
_SCHEMA = FINDING_TABLES["growth"].unstamped.schema


@dataclass(frozen=True)
class _Rates:
    """Per replica: bytes per hour, and the window they were seen in; `enough` of it or not."""

    came: Floats
    left: Floats
    seconds: Floats
    n: Ints
    enough: Flags


def sums(trends: Trends, taken_at: int) -> pa.Table:
    """What some replicas add to each topic (broker_id and log_dir null), to each log dir (topic
    null), and to both: came and left (whole bytes per hour and the rest), replicas, seconds and
    samples, the most.
    Sums of parts may be summed again. What no log dir lists adds to its topic alone.
    """
    rates = _rates(trends.size, taken_at)
    columns = {name: column(trends.places, name) for name in _PLACE} | {
        **_exactly("came", np.where(rates.enough, rates.came, 0.0)),
        **_exactly("left", np.where(rates.enough, rates.left, 0.0)),
        "replicas": pa.array(rates.enough.astype(np.int64)),
        "seconds": pa.array(rates.seconds),
        "samples": pa.array(rates.n),
    }
    rows = pa.table(columns)
    listed = rows.filter(rows["log_dir"].is_valid())
    levels = ((rows, ["topic"]), (listed, _PLACE[1:]), (listed, _PLACE))
    return pa.concat_tables([_summed(of, by) for of, by in levels], promote_options="default")


def _exactly(name: str, values: Floats) -> dict[str, pa.Array]:
    """Whole bytes, and the rest: their sums do not depend on the order, or on the buckets."""
    whole = np.floor(values)
    return {name: pa.array(whole.astype(np.int64)), f"{name}_rest": pa.array(values - whole)}


def _rounded(found: pa.Table, name: str) -> Ints:
    """Whole bytes with their rest, to the nearest, halves to the even one."""
    whole, rest = integers(found[name], 0), pc.fill_null(found[f"{name}_rest"], 0.0).to_numpy()
    odd = whole % 2
    return np.asarray(whole - odd + np.rint(rest + odd).astype(np.int64), dtype=np.int64)


def summed(found: pa.Table) -> pa.Table:
    """One row per topic, log dir, and both."""
    return _summed(found, _PLACE)


def _summed(rows: pa.Table, by: Sequence[str]) -> pa.Table:
    found = rows.group_by(list(by)).aggregate(list(_SUMS.items()))
    return found.rename_columns([*by, *_SUMS])


_PLACE = ("topic", "broker_id", "log_dir")
_SUMS = {
    "came": "sum", "came_rest": "sum", "left": "sum", "left_rest": "sum", "replicas": "sum",
    "seconds": "max", "samples": "max",
}  # fmt: skip


def growth(found: pa.Table, disks: pa.Table) -> pa.Table:
    """The `growth` table: a row per topic, over its replicas, one per log dir, one per both, from
    `sums` and `disks`, which is `of_disks`.

    Rates are those of the running 12 h pane and the one before it, so of 12 to 24 hours once there
    is as much history: all bytes that came or left in the window, divided by its time. A replica
    counts with at least LEAST_SAMPLES snapshots over LEAST_SECONDS, and if the snapshot
    saw it; `replicas` counts them. growth_per_hour is in minus out.
    days_to_full is usable bytes over the slope of used bytes (total - usable, all that is on the
    disk, by least squares): null where that does not grow. Rates are null without enough history.
    used_bytes_per_hour_low and _high hold the true slope in 9 cases of 10 (`slopes`), and so do
    days_to_full_low and _high: the first is null where even the steepest slope does not fill the
    disk, the second where it is not sure that it grows; all are null where the error is not known.
    """
    of_disk = found["topic"].is_null()
    of_topics, there = found.filter(pc.invert(of_disk)), found.filter(of_disk)
    known = {name: of_topics[name] for name in _PLACE} | _per_hour_each(of_topics)
    at = pc.index_in(_dirs(disks), value_set=_dirs(there))
    own = _per_hour_each(there.take(at)) | {name: disks[name] for name in disks.column_names}
    return pa.concat_tables([_table(known), _table(own)])


def _per_hour_each(found: pa.Table) -> dict[str, pa.Array]:
    """The rates of each row of sums; a row of nulls is one of no replicas."""
    replicas, seconds, samples = (
        integers(pc.fill_null(found[name], 0).cast(pa.int64(), safe=False), 0)
        for name in ("replicas", "seconds", "samples")
    )
    came, left = (_rounded(found, name) for name in ("came", "left"))
    none = replicas == 0
    return {
        "bytes_in_per_hour": pa.array(came, mask=none),
        "bytes_out_per_hour": pa.array(left, mask=none),
        "growth_per_hour": pa.array(came - left, mask=none),
        "window_seconds": pa.array(seconds),
        "samples": pa.array(samples),
        "replicas": pa.array(replicas),
    }


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


def of_disks(trends: Trends, log_dirs: pa.Table, taken_at: int) -> pa.Table:
    """Per log dir what its disk says: its own window, not that of its replicas.

    `log_dirs` are those of the snapshot that was taken at `taken_at` (microseconds); those that
    `trends` knows beside them, of brokers that did not answer, are left out.
    """
    seen = panes.window(trends.disk, DISK)
    enough = _enough(seen.n, seen.seconds, trends.disk.now["last_at"], taken_at)
    away = _away(trends.disk, seen, taken_at)
    enough &= seen.seconds >= np.minimum(away, DISK.length / SECOND)
    slope = seen.slope["size"]
    at = pc.index_in(_dirs(trends.dirs), value_set=_dirs(log_dirs))
    usable = column(log_dirs, "usable_bytes").take(at)
    left = np.asarray(pc.fill_null(usable, 0).to_numpy(zero_copy_only=False), dtype=np.float64)
    off = half_width(seen.spread["size"], seen.n, seen.seconds)
    told, sure = pc.is_valid(usable).to_numpy(zero_copy_only=False), enough & ~np.isnan(off)
    wide = np.where(sure, off, 0.0)
    rates = {"": (slope, enough), "_low": (slope - wide, sure), "_high": (slope + wide, sure)}
    days = {"": rates[""], "_low": rates["_high"], "_high": rates["_low"]}  # the faster, the sooner
    found = pa.table(
        {name: trends.dirs[name] for name in _PLACE[1:]}
        | {f"used_bytes_per_hour{end}": _per_hour(*rate) for end, rate in rates.items()}
        | {f"days_to_full{end}": _days(left, told, *rate) for end, rate in days.items()}
        | {"window_seconds": pa.array(seen.seconds.astype(np.int64)), "samples": pa.array(seen.n)}
    )
    return found.filter(at.is_valid())


_LEAST_STEP = 0.5  # seconds: sums of steps have rounding noise


def _away(disk: Panes, seen: Window, taken_at: int) -> Floats:
    """For how many seconds each disk was away alone before the first sample of its window: what
    came meanwhile is caught up in minutes, and would be told as its pace. While nobody collected
    no broker has to catch up.
    """
    known = (disk.before["n"] > 0) & (disk.now["last_at"] == taken_at)
    # The steps of a window begin with the one to its first sample; of one over more than a pane, or
    # by an older release's sums, nothing is known.
    lead = seen.spread["size"].dx - seen.seconds
    lead = np.where(lead > _LEAST_STEP, lead, DISK.length / SECOND)
    skipped = (disk.now["first_at"] - disk.before["last_at"]) / SECOND
    gap = np.where(seen.whole, lead, skipped)
    least = gap[known].min(initial=np.inf)
    return np.asarray(np.where(known, gap - least, 0.0), dtype=np.float64)


def _per_hour(slope: Floats, known: Flags) -> pa.Array:
    return pa.array(np.rint(slope * _HOUR).astype(np.int64), mask=~known)


def _days(left: Floats, told: Flags, slope: Floats, known: Flags) -> pa.Array:
    grows = known & told & (slope > 0)
    return pa.array(left / np.where(grows, slope, 1.0) / _DAY, mask=~grows)


def _dirs(table: pa.Table) -> pa.Array:
    """One text per log dir."""
    brokers = column(table, "broker_id").cast(pa.string())
    return pc.binary_join_element_wise(brokers, column(table, "log_dir"), " ")


def _table(columns: Mapping[str, pa.Array]) -> pa.Table:
    return shaped(columns, len(next(iter(columns.values()))), _SCHEMA)


# How sure the slope of a straight line through samples is: the interval of a disk's growth.
#
# The standard error of a least-squares slope, s / sqrt(Sxx) with s² = RSS / (n - 2), holds where
# each sample is off by itself. A disk's used bytes are not like that: what came in a busy minute
# stays, so neighbours are off alike, and that formula claimed nine of ten and held in one of ten.
# Two things mend it, both from sums over the steps between neighbours, e being the residuals:
#
# - neighbours alike by r: the variance times (1 + r) / (1 - r), the share of samples that count
#   (Bartlett 1935); r from von Neumann's ratio (1941), 1 - Σ(Δe)² / (2 (n - 1) s²), raised by
#   (2 + 16 r²) / n, since a line through few samples takes a part of what they have in common;
# - never more than where each step adds to all before, a random walk: its slope has the variance
#   6/5 σ² / T over a window of T, with σ² = Σ(Δe)² / Σdx (Durlauf and Phillips 1988).
#
# With fewer than FEW samples r says nothing: then they count as a walk. Intervals are two-sided, 90
# %, by Student's t with n - 2 degrees of freedom. They say how sure the slope of this window is,
# not that the next day will be like it.

FEW = 30
_LEAST = 3  # a line through two samples has no error
# The 95th percentile of Student's t with 1 to 4 degrees of freedom; above it an expansion serves.
_T = np.array([6.3138, 2.9200, 2.3534, 2.1318])
_Z = 1.6448536
_WALK = 6 / 5


def half_width(spread: Spread, n: Ints, seconds: Floats) -> Floats:
    """By how much each slope (per second) may be off, either way, in 9 cases of 10.

    NaN where it is not known: fewer than 3 samples, or sums that an older release did not carry.
    """
    known = (n >= _LEAST) & (spread.sxx > 0) & (spread.dx > 0) & (seconds > 0)
    count = np.where(known, n, _LEAST).astype(np.float64)
    sxx = np.where(known, spread.sxx, 1.0)
    slope = spread.sxy / sxx
    variance = np.maximum(spread.syy - slope * spread.sxy, 0.0) / (count - 2)
    steps = spread.dydy - 2 * slope * spread.dxdy + slope * slope * spread.dxdx
    steps = np.maximum(steps, 0.0) / np.where(known, spread.dx, 1.0)  # σ² of a walk
    alone = variance / sxx
    walk = _WALK * steps / np.where(known, seconds, 1.0) * (count - 1) / (count - 2)
    per_step = steps * np.where(known, seconds, 0.0) / (count - 2)
    alike = _alike(count, variance, per_step)
    # What neighbours have in common hides in the line, so the spread about it is too small.
    whole = np.maximum(variance, per_step / 2 / (1 - alike)) / sxx
    found = np.minimum(whole * (1 + alike) / (1 - alike), walk)
    found = np.maximum(np.where(n < FEW, walk, found), alone)
    return np.where(known, _student(count - 2) * np.sqrt(found), np.nan)


def _alike(count: Floats, variance: Floats, per_step: Floats) -> Floats:
    """The correlation of neighbouring residuals, 0 to just below 1."""
    ratio = per_step / (2 * np.where(variance > 0, variance, 1.0))
    seen = np.clip(1 - ratio, 0.0, 1.0)
    return np.asarray(np.clip(seen + (2 + 16 * seen * seen) / count, 0.0, 1 - 1e-9))


def _student(df: Floats) -> Floats:
    """The 95th percentile of Student's t (Abramowitz and Stegun 26.7.5)."""
    z = _Z
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    found = z + sum(term / df ** (at + 1) for at, term in enumerate(terms))
    few = np.clip(df, 1, len(_T)).astype(np.int64) - 1
    return np.asarray(np.where(df <= len(_T), _T[few], found))
