"""Brokers' counters (`Counters`), the findings table that keeps them, and the fold over the
snapshots since.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analytics.bucket_view import BucketView
from analytics.earlier import since
from analytics.metrics.scrapes import TOLD, Brokers, Scrapes
from analytics.replicas import panes
from analytics.replicas.panes import SECOND, Kind, Pane, Panes, Samples
from analytics.replicas.trends import microseconds
from dashboard.core.arrow import column
from dashboard.core.errors import StoreError
from dashboard.domain.metric_names import COUNTERS, Floats, increase, places, whole
from dashboard.domain.model import broker_id_of
from dashboard.estimate.curve_tables import integers
from dashboard.estimate.curves import Flags, Ints
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore
from dashboard.store.tables import FINDING_TABLES

_SCHEMA = FINDING_TABLES["counters"].unstamped.schema
_PARTS = ("from", "n", "last_at", "since", "amount", "resets", "missed")
_NAMES = pa.array(COUNTERS.values(), pa.string())


def carrying(base: Manifest | None) -> Manifest | None:
    """The analysis to go on from; None: an earlier version did not count, so all is folded once."""
    return base if base is not None and "counters" in base.tables else None


def new(cluster: ClusterStore, base: Manifest | None, snapshot: Manifest) -> list[str]:
    """The snapshots that `base` has not counted yet, up to and with this one."""
    counted = carrying(base)
    if counted is not None and counted.details["snapshot_id"] == snapshot.id:
        return []
    return since(cluster, counted, snapshot)


def carried(
    cluster: ClusterStore, base: Manifest | None, columns: Sequence[str] = _SCHEMA.names
) -> pa.Table:
    """`counters` of the analysis to go on from, or none."""
    counted = carrying(base)
    if counted is None:
        return _SCHEMA.empty_table().select(columns)
    return cluster.read("findings", counted.id, "counters", list(columns))


def fold(
    view: BucketView,
    snapshot: Manifest,
    base: Manifest | None,
    scrapes: Scrapes,
    newest: pa.Table,
) -> Counters:
    """The counters of this bucket up to this snapshot, whose `metrics` are `newest`. One that was
    pruned meanwhile is left out.
    """
    found, before = from_table(carried(view, base)), scrapes.snapshots()
    for snapshot_id in new(view, base, snapshot):
        try:
            scrape = _scrape(view, snapshot_id, scrapes.told.get(snapshot_id, {}), before)
            if scrape is None:
                continue
            rows = newest if snapshot_id == snapshot.id else metrics(view, snapshot_id)
        except StoreError as error:
            if snapshot_id == snapshot.id or error.code != "SNAPSHOT_NOT_FOUND":
                raise
            continue
        found = stepped(found, _counted(rows), scrape)
        before.add(scrape.told, scrape.at, scrape.brokers)
    return found


def _scrape(
    view: BucketView, snapshot_id: str, told: Mapping[int, int], before: Brokers
) -> Scrape | None:
    """What a snapshot says beside its counters; None where nobody was asked for any."""
    manifest = view.manifest("snapshots", snapshot_id)
    # An id that no broker can have was taken from settings once, and stands there for good.
    named = (str(b["broker_id"]) for b in manifest.details.get("metrics", ()))
    asked = told.keys() | {own for own in map(broker_id_of, named) if own is not None}
    if not asked:
        return None
    topics, brokers = (
        column(view.read("snapshots", snapshot_id, table, [name]), name)
        for table, name in (("topics", "topic"), ("brokers", "broker_id"))
    )
    at, whole = microseconds(manifest), view.bucket == 0
    return Scrape(at, topics, brokers, asked, told, before, whole=whole)


def metrics(cluster: ClusterStore, snapshot_id: str) -> pa.Table:
    """broker_metrics of a snapshot, with the `topic` and `partition` that labels name."""
    columns = ["broker_id", "name", "labels", "value"]
    rows = cluster.read("snapshots", snapshot_id, "broker_metrics", columns)
    topics, partitions = places(column(rows, "labels"))
    return rows.append_column("topic", topics).append_column("partition", partitions)


def _counted(rows: pa.Table) -> pa.Table:
    """SERIES and value of `metrics` that are counters."""
    kind = pc.index_in(column(rows, "name"), value_set=_NAMES)
    named = pa.array(COUNTERS, pa.string()).take(kind)
    return rows.append_column("counter", named).filter(kind.is_valid()).select([*SERIES, "value"])


def from_table(table: pa.Table) -> Counters:
    """The counters in a table as it was written."""
    value = np.asarray(table["value"].to_numpy(), dtype=np.float64)
    told_at, missing = (_whole(table, name) for name in ("told_at", "missing"))
    hour, day = _panes(table, HOUR, "hour"), _panes(table, DAY, "day")
    return Counters(table.select(SERIES).combine_chunks(), value, told_at, missing, hour, day)


def to_table(found: Counters) -> pa.Table:
    """The columns of the findings table, without snapshot_id and taken_at."""
    columns = {name: found.series[name] for name in SERIES} | {
        "value": pa.array(found.value, from_pandas=True),
        "told_at": pa.array(found.told_at, mask=found.told_at == 0),
        "missing": pa.array(found.missing),
    }
    for name, both in (("hour", found.hour), ("day", found.day)):
        columns |= _columns(name, both.now) | _columns(f"{name}_before", both.before)
    return pa.table({field.name: columns[field.name].cast(field.type) for field in _SCHEMA})


def _columns(prefix: str, pane: Pane) -> dict[str, pa.Array]:
    none = pane["n"] == 0
    return {
        f"{prefix}_{part}": pa.array(pane[part], mask=None if part == "n" else none)
        for part in _PARTS
    }


def _panes(table: pa.Table, kind: Kind, name: str) -> Panes:
    def one(prefix: str) -> Pane:
        told = {part: _whole(table, f"{prefix}_{part}") for part in _PARTS}
        # Nobody asks when a pane's first sample was, or for the slope of nothing.
        rest = {part: np.zeros(table.num_rows, dtype=np.int64) for part in kind.whole()}
        return rest | told | {part: np.zeros(table.num_rows) for part in kind.sums()}

    return Panes(now=one(name), before=one(f"{name}_before"))


def _whole(table: pa.Table, name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return integers(table[name].cast(pa.int64()), 0)


# How far brokers' counters went lately: sums that go on from snapshot to snapshot.
#
# Each analysis goes on from the `counters` of the newest one over every snapshot since then. A
# series is one counter of a topic on a broker, or of a broker (topic null). What a snapshot does to
# it:
#
# - told: it grew by the difference, or, after a reset, from 0 (`metric_names.increase`);
# - not told of this topic, but of the broker or of others: it stands at 0, as nothing was counted;
# - not told though the broker was asked: a scrape that missed it; what came counts when it is back;
# - its topic or its broker is none of the cluster's any more: it is forgotten, and so is a topic
#   that a broker tells nothing of and that counted nothing in its panes of 12 hours;
# - its topic is not named, but its broker tells it, or tells nothing: it is hidden (rights were
#   taken away), or may be. It goes on, as its whole life would be one step when it is shown again.

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
    """Those that were known and those that are new, but of no broker that is none of the cluster's,
    nor of a topic of which neither the snapshot nor its broker tells, with the row of each in
    `before` and in `rows`; -1: none.
    """
    found = [_at(before, "old"), _at(rows, "new")]
    if scrape.whole:
        found.append(_own(scrape.asked))
    every = pa.concat_tables(found, promote_options="default")
    every = every.group_by(SERIES, use_threads=False).aggregate([("old", "max"), ("new", "max")])
    named = pc.or_(every["topic"].is_null(), pc.is_in(every["topic"], value_set=scrape.topics))
    gone = pc.and_(pa.array(_tells(every, scrape.told)), every["new_max"].is_null())
    there = pc.is_in(every["broker_id"], value_set=scrape.brokers)
    every = every.filter(pc.and_(pc.or_(named, pc.invert(gone)), there)).combine_chunks()
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
