"""How far brokers' counters went lately: sums that go on from snapshot to snapshot.

Each analysis goes on from the `counters` of the newest one over every snapshot since then. A series
is one counter of a topic on a broker, or of a broker (topic null). What a snapshot does to it:

- told: it grew by the difference, or, after a reset, from 0 (`metric_names.increase`);
- not told of this topic, but of the broker or of others: it stands at 0, as nothing was counted;
- not told though the broker was asked: a scrape that missed it; what came counts when it is back;
- its topic or its broker is none of the cluster's any more: it is forgotten, and so is a topic that
  a broker tells nothing of and that counted nothing in its panes of 12 hours.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.metrics.scrapes import TOLD, Brokers
from analytics.replicas import panes
from analytics.replicas.panes import SECOND, Kind, Panes, Samples
from dashboard.core.arrow import column
from dashboard.domain.metric_names import COUNTERS, Floats, increase, whole
from dashboard.estimate.curve_tables import integers
from dashboard.estimate.curves import Flags, Ints

SERIES = ["topic", "broker_id", "counter"]
_FLOWS = ("amount", "resets", "missed")
# Not settings: sums that were carried in panes of one length cannot go on in panes of another.
HOUR = Kind(30 * 60 * SECOND, (), _FLOWS)
DAY = Kind(12 * 3600 * SECOND, (), _FLOWS)
_SERIES = pa.schema([("topic", pa.string()), ("broker_id", pa.int32()), ("counter", pa.string())])


@dataclass(frozen=True)
class Counters:
    """A row of `series` (SERIES) each. `value`: of the last sample (NaN: none yet); `told_at`: when
    its broker told that counter last, of whatever topic (microseconds, 0: never); `missing`: how
    many scrapes missed it since the last sample; panes whose flows are how far it went, resets, and
    scrapes that missed it before a sample.
    """

    series: pa.Table
    value: Floats
    told_at: Ints
    missing: Ints
    hour: Panes
    day: Panes

    def take(self, row: Ints) -> Counters:
        """These rows; of row -1 such as nothing is known of yet."""
        return Counters(
            self.series.take(pa.array(row, mask=row < 0)),
            np.append(self.value, np.nan)[row],
            np.append(self.told_at, 0)[row],
            np.append(self.missing, 0)[row],
            self.hour.take(row),
            self.day.take(row),
        )


@dataclass(frozen=True)
class Scrape:
    """What a snapshot that was taken `at` (microseconds) says beside its counters.

    `topics` and `brokers` are those of the cluster, `asked` brokers whose metrics were asked for.
    `told` are bits of TOLD by broker; `before` says when each was told last. `whole`: the series of
    brokers themselves belong to this bucket.
    """

    at: int
    topics: pa.Array
    brokers: pa.Array
    asked: Collection[int]
    told: Mapping[int, int]
    before: Brokers
    whole: bool = True


def nothing() -> Counters:
    """Before the first snapshot."""
    none = np.zeros(0, dtype=np.int64)
    empty = (panes.empty(HOUR, 0), panes.empty(DAY, 0))
    return Counters(_SERIES.empty_table(), np.zeros(0), none, none, *empty)


def stepped(before: Counters, rows: pa.Table, scrape: Scrape) -> Counters:
    """One snapshot more: SERIES and `value` of the counters in it."""
    series, row, at = _series(before.series, rows, scrape)
    of_topic = column(series, "topic").is_valid().to_numpy(zero_copy_only=False)
    known = _begun(before.take(row), scrape.before.at(series), (row < 0) & of_topic)
    given = np.append(_floats(rows["value"]), np.nan)[at]
    told = _tells(series, scrape.told)
    absent = told & of_topic & (at < 0)
    seen = np.isfinite(given) | absent
    value = np.where(absent, 0.0, np.nan_to_num(given))
    asked = np.isin(column(series, "broker_id").to_numpy(), sorted(scrape.asked))
    hour, day = _added(known, seen, value, scrape.at)
    found = Counters(
        series,
        np.where(seen, value, known.value),
        np.where(told, scrape.at, known.told_at),
        np.where(seen, 0, known.missing + (asked & ~seen)),
        hour,
        day,
    )
    idle = absent & (day.now["amount"] + day.before["amount"] == 0)
    return found.take(np.flatnonzero(~idle)) if idle.any() else found


def _series(before: pa.Table, rows: pa.Table, scrape: Scrape) -> tuple[pa.Table, Ints, Ints]:
    """Those that were known and those that are new, of topics and brokers of the cluster, with the
    row of each in `before` and in `rows`; -1: none.
    """
    found = [_at(before, "old"), _at(rows, "new")]
    if scrape.whole:
        found.append(_own(scrape.asked))
    every = pa.concat_tables(found, promote_options="default")
    every = every.group_by(SERIES, use_threads=False).aggregate([("old", "max"), ("new", "max")])
    of_topic = pc.or_(every["topic"].is_null(), pc.is_in(every["topic"], value_set=scrape.topics))
    every = every.filter(
        pc.and_(of_topic, pc.is_in(every["broker_id"], value_set=scrape.brokers))
    ).combine_chunks()
    old, new = (integers(every[f"{name}_max"], -1) for name in ("old", "new"))
    return every.select(SERIES), old, new


def _at(rows: pa.Table, name: str) -> pa.Table:
    """SERIES of these rows, and which row each is."""
    return rows.select(SERIES).cast(_SERIES).append_column(name, pa.array(np.arange(len(rows))))


def _own(brokers: Collection[int]) -> pa.Table:
    """A series for each counter of these brokers: where none is told, that is known too."""
    kinds, ids = list(COUNTERS), np.array(sorted(brokers), dtype=np.int32)
    topics = pa.nulls(len(ids) * len(kinds), pa.string())
    return pa.table([topics, np.repeat(ids, len(kinds)), kinds * len(ids)], schema=_SERIES)


def _begun(known: Counters, told_at: Ints, fresh: Flags) -> Counters:
    """A topic that is told of for the first time stood at 0 when its broker was asked before."""
    begins = fresh & (told_at > 0)
    if not begins.any():
        return known
    value = np.where(begins, 0.0, known.value)
    hour, day = (
        Panes(_with_sample(found.now, kind, begins, told_at), found.before)
        for found, kind in ((known.hour, HOUR), (known.day, DAY))
    )
    return Counters(known.series, value, known.told_at, known.missing, hour, day)


def _with_sample(now: panes.Pane, kind: Kind, begins: Flags, at: Ints) -> panes.Pane:
    fresh = dict.fromkeys(("first_at", "last_at", "since"), at)
    fresh |= {"from": at // kind.length * kind.length, "n": np.ones_like(at)}
    return now | {name: np.where(begins, values, now[name]) for name, values in fresh.items()}


def _added(known: Counters, seen: Flags, value: Floats, at: int) -> tuple[Panes, Panes]:
    grew = np.where(np.isnan(known.value), 0.0, increase(known.value, value))
    flows = {
        "amount": whole(np.maximum(grew, 0.0)),
        "resets": (value < known.value).astype(np.int64),
        "missed": known.missing,
    }
    times, never = np.full(len(seen), at), np.zeros(len(seen), dtype=bool)
    hour, day = (
        panes.added(found, Samples(seen, kind.start(at), times, {}, flows), never)
        for found, kind in ((known.hour, HOUR), (known.day, DAY))
    )
    return hour, day


def _tells(series: pa.Table, told: Mapping[int, int]) -> Flags:
    """Whose counter the broker told at all, of this topic or of another."""
    brokers = pa.array(sorted(told), pa.int32())
    bits = pa.array([told[broker] for broker in sorted(told)], pa.int64())
    mine = bits.take(pc.index_in(column(series, "broker_id"), value_set=brokers))
    kind = integers(pc.index_in(series["counter"], value_set=pa.array(TOLD)), 0)
    found = integers(pa.chunked_array([mine]), 0) >> kind & 1
    return np.asarray(found == 1, dtype=bool)


def _floats(values: pa.ChunkedArray) -> Floats:
    """Null as NaN."""
    return np.asarray(values.cast(pa.float64()).to_numpy(), dtype=np.float64)
