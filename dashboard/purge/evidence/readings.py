"""Reads from kept snapshots how many bytes left each topic, and how far its groups came.

Apart from `standards`, since it loads pyarrow, which a purge without metrics does without.
Of long tables one file is read at a time, and rows of the topics asked about stay: what this holds
follows the plan and the size of a bucket, not the cluster.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, lru_cache, partial
from itertools import groupby, pairwise
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.errors import StoreError
from dashboard.domain.metric_names import (
    BYTES_IN,
    BYTES_OUT,
    COUNTERS,
    MOST_BETWEEN,
    STARTED,
    labels,
)
from dashboard.domain.model import DEFAULT_SEGMENT_BYTES
from dashboard.safety.explained import measures
from dashboard.safety.progress import Sample, Told
from dashboard.safety.unseen_readers import WINDOW, Measure, TopicReading, Verdict
from dashboard.store.clocks import clock_was_right, times
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore

_NEWEST = 4  # to see restarts and resets between
_PARTITION = ["topic", "partition"]


def topic_readings(
    store: ClusterStore, topics: Iterable[str], now: datetime
) -> dict[str, TopicReading]:
    """The reading of each topic: of the last day that kept snapshots measure, and of older ones as
    far back as it takes to know that no suspicion stands.

    Older snapshots are read by days of UTC, which stay the same days at the next call. {} where no
    snapshot has metrics. A snapshot that is damaged, or pruned meanwhile, is left out: the others
    tell, with less resolution.
    """
    verdicts = {topic: Verdict(topic) for topic in sorted(set(topics))}
    last, *older = _days(store, now)
    found, newer = _day(store, last, tuple(verdicts))
    for ids in (*older, None):
        for measure in found:
            verdicts[measure.reading.topic].add(measure)
        rest = tuple(topic for topic, verdict in verdicts.items() if not verdict.settled)
        if ids is None or not rest:
            break
        found, newer = _older(store, (*ids, newer) if newer else ids, rest)
    return {t: verdict.reading(now) for t, verdict in verdicts.items()} if last else {}


def _days(store: ClusterStore, now: datetime) -> list[tuple[str, ...]]:
    """Snapshots by days, the newest first: 24 hours at least up to the last one with metrics, so
    that what is measured does not shrink when they stay away; then days of UTC.
    """
    # Ids that follow one of a clock that ran ahead bear its time: a day of them would be months.
    at = times(store, store.ids("snapshots"), now)
    ids = sorted(at, key=lambda name: (at[name], name))
    end = _with_metrics(store, ids)
    if end is None:
        return [()]
    since = at[ids[end]] - WINDOW
    older = [name for name in ids[:end] if at[name] < since]
    begin = _with_metrics(store, older)
    before = older[begin : begin + 1] if begin is not None else []
    day = (*before, *_picked(ids[len(older) : end + 1], at))
    by_day = groupby(reversed(older), key=lambda name: at[name].date())
    return [day, *(_picked([*names][::-1], at) for _, names in by_day)]


def _with_metrics(store: ClusterStore, ids: list[str]) -> int | None:
    """Which is the newest of these snapshots that has metrics that count."""
    for number in reversed(range(len(ids))):
        with suppress(StoreError):  # damaged or pruned meanwhile: others tell
            if _counts(store.manifest("snapshots", ids[number])):
                return number
    return None


def _counts(snapshot: Manifest) -> bool:
    """Whether it has metrics, and a clock that was right: over a span by another one that is
    longer than it was, few bytes look like what readers explain.
    """
    return bool(snapshot.tables.get("broker_metrics")) and clock_was_right(snapshot)


def _picked(ids: list[str], at: Mapping[str, datetime]) -> tuple[str, ...]:
    """The newest of them, and as few of the others as are close to one another (`MOST_BETWEEN`), in
    their order; a day of watch keeps some eighty.
    """
    chosen = ids[:1]
    for name, after in pairwise(ids):
        if at[after] - at[chosen[-1]] > MOST_BETWEEN:
            chosen.append(name)
    wanted = {*chosen, *ids[-_NEWEST:]}
    return tuple(name for name in ids if name in wanted)


def _day(
    store: ClusterStore, ids: Iterable[str], topics: tuple[str, ...], *, whole: bool = False
) -> tuple[tuple[Measure, ...], str | None]:
    """What these snapshots measure, newest first, and which of them has the oldest sample.

    Raises StoreError, when the `whole` day is asked for, where one cannot be read.
    """
    read = _read if whole else _sample
    samples = {name: s for name in ids if (s := read(store, name, list(topics))) is not None}
    return tuple(measures(list(samples.values()), topics)), next(iter(samples), None)


@dataclass(frozen=True, slots=True)
class _Kept:
    """A store by where it lies: each plan of a page opens it anew."""

    place: str
    store: ClusterStore = field(compare=False)


# Where some brokers have no exporter each plan asks for all days that are kept, 90 as it comes; the
# last of them is another one with each snapshot.
@lru_cache(maxsize=128)
def _whole_day(
    kept: _Kept, ids: tuple[str, ...], topics: tuple[str, ...]
) -> tuple[tuple[Measure, ...], str | None]:
    return _day(kept.store, ids, topics, whole=True)


def _older(
    store: ClusterStore, ids: tuple[str, ...], topics: tuple[str, ...]
) -> tuple[tuple[Measure, ...], str | None]:
    """The same of a day that is over, with the oldest sample after it as its last."""
    try:
        return _whole_day(_Kept(store.fs.unstrip_protocol(store.path), store), ids, topics)
    except StoreError:
        return _day(store, ids, topics)


def _sample(store: ClusterStore, snapshot: str, topics: list[str]) -> Sample | None:
    try:
        return _read(store, snapshot, topics)
    except StoreError:
        return None


def _read(store: ClusterStore, snapshot: str, topics: list[str]) -> Sample | None:
    manifest = store.manifest("snapshots", snapshot)
    if not _counts(manifest):
        return None
    names = store.read("snapshots", snapshot, "topics", ["topic_no", "topic"])
    names = names.filter(_among(names["topic"], topics))
    wanted = ("is_leader", "broker_id", "log_start_offset", "log_end_offset", "size_bytes")
    replicas = _named(store, manifest, "replicas", names, *wanted)
    commits = _named(store, manifest, "group_offsets", names, "group_id", "committed_offset")
    commits = commits.filter(commits["committed_offset"].is_valid())
    counts = _counters(store, manifest, topics)
    return Sample(
        manifest.taken_at,
        counts.bytes_out,
        commits.rename_columns({"committed_offset": "offset"}),
        _leaders(replicas.filter(replicas["is_leader"]), _segments(store, manifest, topics)),
        _hosts(replicas),
        counts.sums,
        counts.bytes_in,
        _joined(store, manifest),
        _told_in_all(counts, cache(partial(_ends, store, manifest))),
    )


def _joined(store: ClusterStore, snapshot: Manifest) -> frozenset[str]:
    """The groups that had members; how many there are is null where nobody told."""
    rows = store.read("snapshots", snapshot.id, "groups", ["group_id", "members"])
    return frozenset(rows["group_id"].filter(pc.greater(rows["members"], 0)).to_pylist())


def _leaders(rows: pa.Table, segments: Mapping[str, int]) -> pa.Table:
    each = [segments.get(topic, DEFAULT_SEGMENT_BYTES) for topic in rows["topic"].to_pylist()]
    named = {"start": "log_start_offset", "end": "log_end_offset"}
    same = (*_PARTITION, "broker_id", "size_bytes")
    columns = {n: rows[n] for n in same} | {n: rows[of] for n, of in named.items()}
    return pa.table({**columns, "segment_bytes": pa.array(each, pa.int64())})


def _segments(store: ClusterStore, snapshot: Manifest, topics: list[str]) -> dict[str, int]:
    """`segment.bytes` of those topics whose settings were read."""
    columns = ["scope", "name", "key", "value"]
    rows = store.read("snapshots", snapshot.id, "configs", columns)
    rows = rows.filter(pc.equal(rows["key"], "segment.bytes"))
    rows = rows.filter(pc.and_(pc.equal(rows["scope"], "topic"), _among(rows["name"], topics)))
    return {
        row["name"]: int(row["value"]) for row in rows.to_pylist() if str(row["value"]).isdigit()
    }


def _among(column: pa.ChunkedArray, values: Iterable[str]) -> pa.ChunkedArray:
    """A mask of the rows. An expression in its place, or a join, starts a plan of Arrow's engine:
    five times as long for a small table, and a week has two thousand of each.
    """
    return pc.is_in(column, value_set=pa.array(values, pa.string()))


def _hosts(replicas: pa.Table) -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for row in replicas.group_by(["topic", "broker_id"]).aggregate([]).to_pylist():
        found.setdefault(row["topic"], set()).add(row["broker_id"])
    return {topic: frozenset(brokers) for topic, brokers in found.items()}


def _named(
    store: ClusterStore, snapshot: Manifest, table: str, names: pa.Table, *columns: str
) -> pa.Table:
    """Rows of the chosen topics with `topic` and `partition`."""
    numbers, found = names["topic_no"].combine_chunks(), []
    for rows in _files(store, snapshot, table, ["topic_no", "partition", *columns]):
        at = pc.index_in(rows["topic_no"], value_set=numbers)
        of = names["topic"].take(at.filter(at.is_valid()))
        found.append(rows.filter(at.is_valid()).drop_columns("topic_no").append_column("topic", of))
    return pa.concat_tables(found)


def _files(
    store: ClusterStore, snapshot: Manifest, table: str, columns: list[str]
) -> Iterator[pa.Table]:
    """The files of a long table, one by one; an empty one where it was not written."""
    for some in [[part] for part in snapshot.files(table)] or [[]]:
        yield store.read_files("snapshots", snapshot, table, some, columns)


class _Counters(NamedTuple):
    """Of a `Sample`."""

    bytes_out: dict[int, dict[str, float]]
    bytes_in: dict[int, dict[str, float]]
    sums: dict[int, tuple[float, float]]
    totals: dict[int, dict[str, float]]
    every: dict[int, dict[str, float]]


def _counters(store: ClusterStore, snapshot: Manifest, topics: list[str]) -> _Counters:
    """Each broker's counters of the topics; its count over all topics, beside the sum by topic."""
    found: dict[int, dict[str, float]] = {}
    made: dict[int, dict[str, float]] = defaultdict(dict)
    every: dict[int, float] = {}
    totals: dict[int, dict[str, float]] = defaultdict(dict)
    said: dict[int, dict[str, float]] = defaultdict(dict)
    by_topic: dict[int, float] = defaultdict(float)
    topic_of = {labels(topic=t): t for t in topics}
    columns = ["name", "broker_id", "labels", "value"]
    for rows in _files(store, snapshot, "broker_metrics", columns):
        counts = rows.filter(pc.equal(rows["name"], BYTES_OUT))
        # Its sum over all topics is always there: an exporter that tells no bytes out measures
        # nothing.
        for broker_id in pc.unique(counts["broker_id"]).to_pylist():
            found.setdefault(broker_id, {})
        chosen = rows.filter(_among(rows["labels"], topic_of))
        for into, name in ((found, BYTES_OUT), (made, BYTES_IN)):
            of = chosen.filter(pc.equal(chosen["name"], name)).select(columns[1:])
            for broker_id, label, value in zip(*of.to_pydict().values(), strict=True):
                into[broker_id][topic_of[label]] = math.nan if value is None else value
        for broker_id, name, value in _summed(rows):
            said[broker_id][name] = said[broker_id].get(name, 0.0) + value
        # Of brokers' own counters those over all topics: only a restart sets them back.
        over_all = pc.equal(rows["labels"], labels())
        over_all = pc.and_(over_all, _among(rows["name"], COUNTERS.values()))
        each = rows.filter(over_all).select(["broker_id", "name", "value"]).to_pydict()
        for broker_id, name, value in zip(*each.values(), strict=True):
            totals[broker_id][name] = value or 0.0
        is_whole = pc.equal(counts["labels"], labels())
        whole = counts.filter(is_whole)
        every.update(zip(whole["broker_id"].to_pylist(), _told(whole), strict=True))
        parts = counts.filter(pc.invert(is_whole)).group_by("broker_id")
        for broker_id, told in zip(
            *parts.aggregate([("value", "sum")]).to_pydict().values(), strict=True
        ):
            by_topic[broker_id] += told or 0.0
    sums = {b: (told, by_topic[b]) for b, told in every.items()}
    return _Counters(found, made, sums, totals, said)


def _summed(rows: pa.Table) -> Iterator[tuple[int, str, float]]:
    """Broker, name and the sum of the values, added up in the order of the rows: equal rows give
    equal sums.
    """
    by = rows.group_by(["broker_id", "name"], use_threads=False)
    columns = by.aggregate([("value", "sum")]).to_pydict()
    for broker_id, name, value in zip(
        columns["broker_id"], columns["name"], columns["value_sum"], strict=True
    ):
        yield broker_id, name, value or 0.0


def _ends(store: ClusterStore, snapshot: Manifest) -> dict[int, int] | None:
    """By broker the sum of the log ends of all partitions that it leads; None: they were pruned."""
    found: dict[int, int] = defaultdict(int)
    try:
        for rows in _files(
            store, snapshot, "replicas", ["broker_id", "is_leader", "log_end_offset"]
        ):
            led = rows.filter(rows["is_leader"]).group_by("broker_id")
            columns = led.aggregate([("log_end_offset", "sum")]).to_pydict()
            for broker_id, ends in zip(*columns.values(), strict=True):
                found[broker_id] += ends or 0
    except StoreError:
        return None
    return found


def _told_in_all(
    counts: _Counters, ends: Callable[[], Mapping[int, int] | None]
) -> dict[int, Told]:
    """`ends` is of all replicas: it is read only where a source may stand still."""

    def of(broker: int) -> int | None:
        found = ends()
        return None if found is None else found.get(broker, 0)

    return {
        broker: Told(counts.totals.get(broker, {}), sums, partial(of, broker), sums.get(STARTED))
        for broker, sums in counts.every.items()
    }


def _told(counts: pa.Table) -> list[float]:
    return [math.nan if value is None else value for value in counts["value"].to_pylist()]
