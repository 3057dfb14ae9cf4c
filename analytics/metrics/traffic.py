"""How fast bytes, records and requests went lately, per topic and broker: rates of `counters`.

A rate is null where nobody measured it, and 0 where the broker told its counters and nothing came.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.metrics.counters import DAY, HOUR, Counters
from analytics.replicas.panes import SECOND, Kind, Panes
from analytics.replicas.points import matched
from dashboard.core.arrow import column, looked_up
from dashboard.domain.metric_names import (
    CONSUMER_LAG,
    COUNTERS,
    PURGATORY_SIZE,
    REQUEST_TIME,
    Floats,
    whole,
)
from dashboard.estimate.curve_tables import integers
from dashboard.estimate.curves import Flags, Ints

_PLACE = ["topic", "broker_id"]
_SECONDS = {"hour": 3600, "day": 86400}
# Of a broker, by the finding's column.
_GAUGES = {
    "delete_requests_waiting": PURGATORY_SIZE,
    "delete_ms_mean": f"{REQUEST_TIME}_mean",
    "delete_ms_p99": f"{REQUEST_TIME}_99thpercentile",
    "fetcher_lag": CONSUMER_LAG,
}
_WHOLE = ("delete_requests_waiting", "fetcher_lag")


def traffic(counted: Counters, metrics: pa.Table, topics: pa.Array, taken_at: int) -> pa.Table:
    """The `traffic` table of counters up to a snapshot that was taken then (microseconds), its
    `counters.metrics`, and the topics that it names: no others have rows.

    A window is the running pane and the one before it: of half an hour to an hour, of 12 to 24
    hours once there is as much history. A rate is all that came in it over its time, which begins
    with the last sample before it; null where no sample is as new as the window is long, where
    there is but one, or where they lie more than two windows apart. `samples`, `seconds` and
    `resets` are those of the row's best measured counter in the window (resets: of the day's),
    `missed` is how many scrapes gave none of them.
    """
    topic = column(counted.series, "topic")
    named = pc.or_(topic.is_null(), pc.is_in(topic, value_set=topics))
    found = counted.take(np.flatnonzero(named.to_numpy(zero_copy_only=False)))
    places = found.series.select(_PLACE).group_by(_PLACE, use_threads=False).aggregate([])
    row = matched(found.series, places, _PLACE)
    columns: dict[str, pa.Array | pa.ChunkedArray] = {n: places[n] for n in _PLACE}
    most = _Most(row, places.num_rows)
    kinds = integers(pc.index_in(found.series["counter"], value_set=pa.array(COUNTERS)), -1)
    seen = {
        "hour": _seen(found.hour, HOUR, taken_at),
        "day": _seen(found.day, DAY, taken_at),
    }
    for window, measured in seen.items():
        rate = whole(measured.amount / np.maximum(measured.seconds, 1.0) * _SECONDS[window])
        for kind, counter in enumerate(COUNTERS):
            some = (kinds == kind) & measured.known
            columns[f"{counter}_per_{window}"] = most.of(rate, some)
        columns[f"{window}_samples"] = most.of(measured.n)
        columns[f"{window}_seconds"] = most.of(whole(measured.seconds))
    day, last_at = seen["day"], found.day.now["last_at"]
    columns["resets"] = most.of(day.resets, day.n > 0)
    columns["missed"] = pc.negate(most.of(-(day.missed + found.missing)))
    columns["measured_at"] = most.of(last_at, last_at > 0).cast(pa.timestamp("us", "UTC"))
    return pa.table(columns | _gauges(places, metrics))


def fetched(rates: pa.Table) -> pa.Table:
    """topic and bytes_out_per_hour of those topics of which clients fetched anything, as far as it
    was measured; `rates`: `traffic`. Sums of parts may be summed again.
    """
    of_day = pc.divide(pc.add(rates["bytes_out_per_day"], 23), 24)
    most = pc.max_element_wise(rates["bytes_out_per_hour"], of_day)
    some = pc.and_(pc.greater(most, 0), rates["topic"].is_valid())
    return all_fetched(pa.table({"topic": rates["topic"], "bytes_out_per_hour": most}).filter(some))


def all_fetched(parts: pa.Table) -> pa.Table:
    """One row per topic."""
    found = parts.group_by("topic", use_threads=False).aggregate([("bytes_out_per_hour", "sum")])
    return found.rename_columns(["topic", "bytes_out_per_hour"])


@dataclass(frozen=True)
class _Seen:
    """What a window says of each series; all 0 where its last sample is too old for it."""

    amount: Ints
    resets: Ints
    missed: Ints
    n: Ints
    seconds: Floats
    known: Flags


def _seen(panes: Panes, kind: Kind, taken_at: int) -> _Seen:
    now, before = panes.now, panes.before
    new = (now["n"] > 0) & (now["last_at"] > taken_at - 2 * kind.length)
    both = new & (before["n"] > 0) & (before["from"] == now["from"] - kind.length)
    sums = {
        name: np.where(new, now[name], 0) + np.where(both, before[name], 0)
        for name in ("amount", "resets", "missed", "n")
    }
    since = np.where(both, before["since"], now["since"])
    seconds = np.where(new, np.maximum(now["last_at"] - since, 0), 0) / SECOND
    known = (seconds > 0) & (seconds * SECOND <= 4 * kind.length)
    return _Seen(**sums, seconds=seconds, known=known)


@dataclass(frozen=True)
class _Most:
    """The greatest of what the series of each row of the table say; null where none does."""

    row: Ints
    rows: int

    def of(self, values: Ints, told: Flags | None = None) -> pa.Array:
        some = np.ones(len(self.row), dtype=bool) if told is None else told
        found = np.full(self.rows, np.iinfo(np.int64).min)
        np.maximum.at(found, self.row[some], values[some])
        return pa.array(found, mask=found == np.iinfo(np.int64).min)


def _gauges(places: pa.Table, metrics: pa.Table) -> dict[str, pa.Array]:
    """What brokers told of themselves in this snapshot, beside the rows that are no topic's."""
    own = pc.if_else(column(places, "topic").is_null(), column(places, "broker_id"), None)
    found = {}
    for name, kept in _GAUGES.items():
        rows = metrics.filter(pc.equal(metrics["name"], kept))
        # The largest lag of a broker has no label; others name their fetcher.
        rows = rows.filter(pc.equal(rows["labels"], "{}")) if kept == CONSUMER_LAG else rows
        known = rows.filter(rows["broker_id"].is_valid())
        value = looked_up(own, column(known, "broker_id"), column(known, "value"))
        if name in _WHOLE:
            told = whole(pc.fill_null(value, 0.0).to_numpy(zero_copy_only=False))
            value = pa.array(told, mask=value.is_null().to_numpy(zero_copy_only=False))
        found[name] = value
    return found


# The lag that brokers' fetchers see, beside the one that offsets show (FetcherLagMetrics).
#
# A fetcher counts up to the high watermark that its leader told in the last answer
# (AbstractFetcherThread), offsets up to the leader's log end. A replica that no fetcher copies is
# far behind by its offsets, and none tells of it.

_REPLICA = ["topic", "partition", "broker_id"]


def fetcher_lags(followers: pa.Table, metrics: pa.Table, telling: frozenset[int]) -> pa.Array:
    """Records behind, by the fetchers of each of `followers` (topic, partition, broker_id).

    `metrics`: `counters.metrics` of the snapshot; `telling`: brokers that told of their
    fetchers. 0: none of them tells more than 0; null: the broker told of no fetcher.
    """
    lags = metrics.filter(
        pc.and_(pc.equal(metrics["name"], CONSUMER_LAG), metrics["partition"].is_valid())
    )
    most = lags.group_by(_REPLICA).aggregate([("value", "max")])
    row = matched(followers, most, _REPLICA)
    value = np.append(most["value_max"].to_numpy(), 0.0)[row]
    told = np.isin(column(followers, "broker_id").to_numpy(), sorted(telling))
    return pa.array(whole(np.nan_to_num(value)), mask=~told)
