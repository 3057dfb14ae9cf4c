"""Per follower: how far it is behind its leader, whether that is slow, and how it goes on.

From snapshots alone: each replica's own log start and log end with the instant it was observed.
How slow is decided, and the words, are in docs/followers.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.metrics import causes
from analytics.replicas import panes
from analytics.replicas.panes import SECOND, Floats
from analytics.replicas.points import matched
from analytics.replicas.trends import FETCH_SECONDS, LAG, Trends, leaders
from dashboard.core.arrow import column, looked_up
from dashboard.estimate.curve_tables import ReplicaCurves, integers
from dashboard.estimate.curves import Flags, Ints
from dashboard.store.tables import FINDING_TABLES

# Of an in-sync follower that answers: one sample may fall into a burst, three in a row do not.
SLOW_AFTER = 3
# An in-sync replica that stopped answering is given what Kafka gives it: replica.lag.time.max.ms.
SILENT_SECONDS = 30.0
TRENDS = ("steady", "catching up", "falling behind", "stuck")
_STEADY, _CATCHING_UP, _FALLING, _STUCK = range(len(TRENDS))

_SCHEMA = FINDING_TABLES["slow_followers"].unstamped.schema
_COLUMNS = _SCHEMA.names


@dataclass(frozen=True)
class Lags:
    """What is known of each replica, in the order of `points.told`; NaN: unknown.

    `append` and `falls` are records per second: what the leader writes, and by how much the lag
    grows (negative: shrinks). `answers`: this snapshot read its own log end.
    """

    leads: Flags
    answers: Flags
    in_sync: Flags
    records: Floats
    append: Floats
    falls: Floats
    trend: Ints  # into TRENDS; -1: unknown
    slow: Flags


def lags(trends: Trends, replicas: pa.Table, taken_at: int, reading: float) -> Lags:
    """Lags of `points.told` by the trends that its snapshot was added to (time: microseconds);
    `reading`: seconds between the first and the last log end that it read.
    """
    now, last = trends.lag.now, trends.last
    told = replicas["log_end_offset"].is_valid().to_numpy()
    end = integers(replicas["log_end_offset"], 0)
    leader, led = leaders(replicas, told)
    answers, known = told & led, led & (now["n"] > 0)
    # A replica that does not answer is measured from its last answer to the leader's present end.
    silent = np.maximum(end[leader] - now["end_last"], 0)
    records = np.where(answers, now["lag_last"], np.where(known & ~told, silent, np.nan))
    recent = _recent(now["end_last"] - last["end_before"], now["last_at"] - last["before_at"], last)
    append = _appended(trends, recent)[leader]
    append = np.where(led, append, np.nan)
    pace = np.where(led, recent[leader], np.nan)
    before = now["last_at"] - last["before_at"]
    falls = np.where(answers, _recent(now["lag_last"] - last["lag_before"], before, last), pace)
    noise = np.nan_to_num(pace) * (FETCH_SECONDS + reading)
    stands = answers & (last["before_at"] > 0) & (now["end_last"] == last["end_before"])
    in_sync = pc.fill_null(replicas["in_sync"], True).to_numpy()
    # One snapshot may fall between two fetches: what differs from the next one is no trend.
    far = (last["behind_n"] > 1) | ~in_sync
    moves = np.where(far, falls * (before / SECOND), 0.0)
    stuck = ~told | (stands & far & (records > noise))
    trend = _trend(records, moves, noise, stuck)
    quiet = (taken_at - now["last_at"]) / SECOND > SILENT_SECONDS
    behind = np.nan_to_num(records) > noise
    # By its last answer too: a broker whose disk is slow answers now and then only.
    lasting = last["behind_n"] >= SLOW_AFTER
    slow = np.where(
        told,
        led & ((behind & ~in_sync) | lasting),
        ~in_sync | lasting | (behind & quiet & known),
    )
    leads = pc.fill_null(replicas["is_leader"], False).to_numpy()
    return Lags(leads, answers, in_sync, records, append, falls, trend, slow & ~leads)


def _recent(change: Ints, time: Ints, last: panes.Pane) -> Floats:
    """Change per second between a replica's last two samples; NaN with fewer."""
    there = (last["before_at"] > 0) & (time > 0)
    return np.where(there, change / np.where(there, time / SECOND, 1.0), np.nan)


def _appended(trends: Trends, recent: Floats) -> Floats:
    """Records per second that a replica's log end moves: over its window, else lately."""
    seen = panes.window(trends.lag, LAG)
    return np.where(seen.n > 1, np.maximum(seen.slope["end"], 0), recent)


def _trend(records: Floats, change: Floats, noise: Floats, stuck: Flags) -> Ints:
    """By the change of the lag between the last two samples; within the noise it is steady."""
    found = np.full(len(records), _STEADY)
    found[change > noise] = _FALLING
    found[change < -noise] = _CATCHING_UP
    found[stuck & (records > 0)] = _STUCK
    found[np.isnan(records)] = -1
    return found


def slow_followers(
    trends: Trends,
    replicas: pa.Table,
    curves: ReplicaCurves,
    brokers: pa.Table,
    *,
    taken_at: int,
    reading: float,
) -> pa.Table:
    """The `slow_followers` table, but for causes: every replica that does not lead, slow or not.
    What its fetcher sees is not known here (`fetchers`).

    `replicas`: `points.told` of the snapshot that `trends` were added to last; `brokers`: its
    table; `taken_at` and `reading` as for `lags`.
    """
    found = lags(trends, replicas, taken_at, reading)
    columns = _described(found, trends, replicas, brokers)
    columns |= _numbers(found, replicas, curves)
    columns["fetcher_lag"] = pa.nulls(replicas.num_rows, pa.int64())
    return pa.table(columns).filter(pa.array(~found.leads))


def with_causes(followers: pa.Table, units: pa.Table, read: Mapping[str, pa.Table]) -> pa.Table:
    """`slow_followers` with causes; `units`: `causes.units` of all of the cluster, `read`:
    `causes.asked` of the snapshot.
    """
    topics = read["topics"]
    names = dict(zip(topics["topic_no"].to_pylist(), topics["topic"].to_pylist(), strict=True))
    return causes.causes(followers, units, read, names).select(_COLUMNS).cast(_SCHEMA)


def _numbers(found: Lags, replicas: pa.Table, curves: ReplicaCurves) -> dict[str, pa.Array]:
    """The columns of `slow_followers` that are measured; a row per replica of `replicas`."""
    records, append = found.records, found.append
    known = ~np.isnan(records)
    level = known & (records == 0)
    writes = known & (append > 0)
    seconds = np.where(level, 0.0, records / np.where(writes, append, 1.0))
    catching = (found.trend == _CATCHING_UP) & (found.falls < 0)
    left = np.where(level, 0.0, records / np.where(catching, -found.falls, 1.0))
    size, sized = _bytes(records, replicas, curves)
    behind, holds = _log_starts(found, replicas)
    return {
        "lag_records": _whole(records, known),
        "lag_bytes": _whole(size, known & (sized | level)),
        "lag_seconds": pa.array(seconds, mask=~(level | writes)),
        "log_start_offset": replicas["log_start_offset"],
        "log_start_lag": behind,
        "trend": pa.array(TRENDS).take(pa.array(found.trend, mask=found.trend < 0)),
        "catch_up_seconds": pa.array(left, mask=~(level | catching)),
        "append_per_second": _real(append),
        "lag_per_second": _real(found.falls),
        "holds_low_watermark": pa.array(holds),
    }


def _bytes(records: Floats, replicas: pa.Table, curves: ReplicaCurves) -> tuple[Floats, Flags]:
    """Bytes of the newest records of each leader's log, and where those are known.

    By the bytes per offset of the newest interval of its curve, as far as that reaches; by those of
    the whole log beyond it.
    """
    told = replicas["log_end_offset"].is_valid().to_numpy()
    leader, led = leaders(replicas, told)
    row = matched(replicas, curves.places)[leader]
    sized = led & (row >= 0)
    if not len(curves.curves.first):
        return np.zeros(len(row)), sized & False
    at = np.maximum(row, 0)
    knots, last = curves.curves, curves.curves.last[at]
    before = np.maximum(last - 1, knots.first[at])
    offsets = knots.offset[last] - knots.offset[before]
    near = (knots.below[last] - knots.below[before]) / np.maximum(offsets, 1)
    reach = knots.offset[last] - knots.offset[knots.first[at]]
    whole = knots.below[last] / np.maximum(reach, 1)
    return np.nan_to_num(records) * np.where(records <= offsets, near, whole), sized


def _log_starts(found: Lags, replicas: pa.Table) -> tuple[pa.Array, Flags]:
    """How far each log start is behind its leader's, and which of those holds the low watermark.

    The low watermark is the least log start of replicas on live brokers (Partition.lowWatermark).
    """
    start = integers(replicas["log_start_offset"], 0)
    told = replicas["log_start_offset"].is_valid().to_numpy()
    leader, led = leaders(replicas, told)
    lag = np.maximum(start[leader] - start, 0)
    counts = led & told & ~found.leads
    most = np.zeros(len(start), dtype=np.int64)
    np.maximum.at(most, leader[counts], lag[counts])
    return pa.array(lag, mask=~counts), counts & (lag > 0) & (lag == most[leader])


def _described(
    found: Lags, trends: Trends, replicas: pa.Table, brokers: pa.Table
) -> dict[str, pa.Array]:
    """Where each replica is, and whether it is alive, in sync, slow."""
    places = trends.places
    mine = column(places, "broker_id")
    known = column(brokers, "broker_id")
    reachable = looked_up(mine, known, pc.fill_null(column(brokers, "reachable"), False))
    at = np.where(trends.lag.now["n"] > 0, trends.lag.now["last_at"], 0)
    times = pa.array(at, mask=at == 0).cast(pa.timestamp("us", "UTC"))
    since = trends.last["behind_since"]
    behind = pa.array(since, mask=since == 0).cast(pa.timestamp("us", "UTC"))
    return {
        **{name: column(places, name) for name in ("topic", "partition", "broker_id", "log_dir")},
        "rack": looked_up(mine, known, column(brokers, "rack")),
        "leader_id": _leader_ids(replicas),
        "in_sync": column(replicas, "in_sync"),
        "alive": pc.fill_null(reachable, False),
        "slow": pa.array(found.slow),
        "observed_at": times,
        "behind_since": behind,
        "samples": pa.array(panes.window(trends.lag, LAG).n),
    }


def _leader_ids(replicas: pa.Table) -> pa.Array:
    """The broker that leads each replica's partition, whether it answered or not."""
    leader, led = leaders(replicas, np.ones(replicas.num_rows, dtype=bool))
    return column(replicas, "broker_id").take(pa.array(leader, mask=~led))


def _whole(values: Floats, known: Flags) -> pa.Array:
    return pa.array(np.rint(np.where(known, values, 0)).astype(np.int64), mask=~known)


def _real(values: Floats) -> pa.Array:
    return pa.array(values, mask=np.isnan(values))
