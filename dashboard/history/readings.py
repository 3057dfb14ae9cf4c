"""Reads from kept snapshots how many bytes left each topic, and how far its groups came.

A plan asks of its topics (`topic_readings`): of long tables one file is read at a time, and rows of
the topics asked about stay, so that what this holds follows the plan and the size of a bucket, not
the cluster. An analysis asks of each bucket (`part`, `broker_sums`) and puts its tasks' answers
together to the same samples.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
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
from dashboard.store import own_reads
from dashboard.store.clocks import clock_was_right, times
from dashboard.store.own_reads import Ours, OwnReads
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
    own = _own_reads(store)
    last, *older = _days(store, own, now)
    found, newer = _day(store, own, last, tuple(verdicts))
    for ids in (*older, None):
        for measure in found:
            verdicts[measure.reading.topic].add(measure)
        rest = tuple(topic for topic, verdict in verdicts.items() if not verdict.settled)
        if ids is None or not rest:
            break
        found, newer = _older(store, own, (*ids, newer) if newer else ids, rest)
    return {t: verdict.reading(now) for t, verdict in verdicts.items()} if last else {}


def last_day(store: ClusterStore, snapshot: Manifest) -> tuple[str, ...]:
    """Kept snapshots, up to and with this one, by whose metrics a plan of that moment would measure
    the last day.
    """
    up_to = [name for name in store.ids("snapshots") if name <= snapshot.id]
    return tuple(
        name
        for name in _days(store, _own_reads(store), snapshot.taken_at, up_to)[0]
        if _with_metrics(store, [name]) is not None
    )


def _own_reads(store: ClusterStore) -> OwnReads | None:
    """None: nobody can tell now, and what we read counts as somebody's."""
    with suppress(StoreError):
        return own_reads.kept(store)
    return None


def _days(
    store: ClusterStore, own: OwnReads | None, now: datetime, kept: list[str] | None = None
) -> list[tuple[str, ...]]:
    """Snapshots by days, the newest first: 24 hours at least up to the last one with metrics, so
    that what is measured does not shrink when they stay away; then days of UTC. `kept`: of these
    alone (None: all).
    """
    # Ids that follow one of a clock that ran ahead bear its time: a day of them would be months.
    at = times(store, store.ids("snapshots") if kept is None else kept, now)
    ids = sorted(at, key=lambda name: (at[name], name))
    end = _with_metrics(store, ids)
    if end is None:
        return [()]
    since = at[ids[end]] - WINDOW
    older = [name for name in ids[:end] if at[name] < since]
    quiet = _quiet(own, older)
    begin = _with_metrics(store, quiet)
    before = quiet[begin : begin + 1] if begin is not None else []
    day = (*before, *_picked(ids[len(older) : end + 1], at))
    by_day = groupby(reversed(older), key=lambda name: at[name].date())
    return [day, *(_picked([*names][::-1], at) for _, names in by_day)]


def _quiet(own: OwnReads | None, ids: list[str]) -> list[str]:
    """Those of the snapshots in which no reading of ours goes on, all where one does in each: what
    left meanwhile is of a span only with one that was taken before.
    """
    ours = (own or OwnReads()).placed(dict.fromkeys(ids))
    return [name for name in ids if not ours.get(name, Ours()).going_on] or ids


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
    store: ClusterStore,
    own: OwnReads | None,
    ids: Iterable[str],
    topics: tuple[str, ...],
    *,
    whole: bool = False,
) -> tuple[tuple[Measure, ...], str | None]:
    """What these snapshots measure, newest first, and which of them has the oldest sample.

    Raises StoreError, when the `whole` day is asked for, where one cannot be read.
    """
    read = _read if whole else _sample
    samples = {name: s for name in ids if (s := read(store, name, list(topics))) is not None}
    taken: dict[str, datetime | None] = {name: one.taken_at for name, one in samples.items()}
    ours = (own or OwnReads()).placed(taken)
    told = [with_ours(one, ours.get(name)) for name, one in samples.items()]
    return tuple(measures(told, topics)), next(iter(samples), None)


def with_ours(one: Sample, ours: Ours | None) -> Sample:
    """The sample with what of our own readings its snapshot shows."""
    return one if ours is None else replace(one, ours=ours.fetched, going_on=ours.going_on)


@dataclass(frozen=True, slots=True)
class _Kept:
    """A store by where it lies: each plan of a page opens it anew. What was read of a day that is
    over is noted by then.
    """

    place: str
    store: ClusterStore = field(compare=False)
    own: OwnReads = field(compare=False)


# Where some brokers have no exporter each plan asks for all days that are kept, 90 as it comes; the
# last of them is another one with each snapshot.
@lru_cache(maxsize=128)
def _whole_day(
    kept: _Kept, ids: tuple[str, ...], topics: tuple[str, ...]
) -> tuple[tuple[Measure, ...], str | None]:
    return _day(kept.store, kept.own, ids, topics, whole=True)


def _older(
    store: ClusterStore, own: OwnReads | None, ids: tuple[str, ...], topics: tuple[str, ...]
) -> tuple[tuple[Measure, ...], str | None]:
    """The same of a day that is over, with the oldest sample after it as its last."""
    if own is not None:
        with suppress(StoreError):
            return _whole_day(_Kept(store.uri, store, own), ids, topics)
    return _day(store, own, ids, topics)


def _sample(store: ClusterStore, snapshot: str, topics: list[str]) -> Sample | None:
    try:
        return _read(store, snapshot, topics)
    except StoreError:
        return None


def _read(store: ClusterStore, snapshot: str, topics: list[str]) -> Sample | None:
    manifest = store.manifest("snapshots", snapshot)
    if not _counts(manifest):
        return None
    ends = cache(partial(_ends, store, manifest))
    return sample(manifest.taken_at, part(store, manifest, topics), joined(store, manifest), ends)


class Part(NamedTuple):
    """What a snapshot tells of some topics, as a `Sample` has it, or one bucket of it tells."""

    commits: pa.Table
    leaders: pa.Table
    hosts: dict[str, frozenset[int]]
    counters: Counters


def sample(
    taken_at: datetime,
    found: Part,
    has_members: frozenset[str],
    ends: Callable[[], Mapping[int, int] | None],
) -> Sample:
    """Of a snapshot; `ends` reads the log ends that brokers led, by broker: it is of all replicas,
    and asked only where a source may stand still.
    """
    return Sample(
        taken_at,
        found.counters.bytes_out,
        found.commits,
        found.leaders,
        found.hosts,
        found.counters.sums,
        found.counters.bytes_in,
        has_members,
        _told_in_all(found.counters, ends),
    )


def part(store: ClusterStore, snapshot: Manifest, topics: list[str]) -> Part:
    """The topics' rows of a snapshot, as far as this store shows them. Raises StoreError."""
    names = store.read("snapshots", snapshot.id, "topics", ["topic_no", "topic"])
    names = names.filter(_among(names["topic"], topics))
    wanted = ("is_leader", "broker_id", "log_start_offset", "log_end_offset", "size_bytes")
    replicas = _named(store, snapshot, "replicas", names, *wanted)
    commits = _named(store, snapshot, "group_offsets", names, "group_id", "committed_offset")
    commits = commits.filter(commits["committed_offset"].is_valid())
    return Part(
        commits.rename_columns({"committed_offset": "offset"}),
        _leaders(replicas.filter(replicas["is_leader"]), _segments(store, snapshot, topics)),
        _hosts(replicas),
        _counters(store, snapshot, topics),
    )


def broker_sums(store: ClusterStore, snapshot: Manifest) -> tuple[Counters, dict[int, int]]:
    """What brokers told in all, and the log ends that they led, as far as this store shows them.

    Raises StoreError.
    """
    return _counters(store, snapshot, []), led_ends(store, snapshot)


def joined(store: ClusterStore, snapshot: Manifest) -> frozenset[str]:
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
    asked = ["topic_no", "partition", *columns]
    for rows in store.parts("snapshots", snapshot.id, table, asked):
        at = pc.index_in(rows["topic_no"], value_set=numbers)
        of = names["topic"].take(at.filter(at.is_valid()))
        found.append(rows.filter(at.is_valid()).drop_columns("topic_no").append_column("topic", of))
    return pa.concat_tables(found)


class Counters(NamedTuple):
    """Of a `Sample`, by broker: those of topics, the count over all topics, the sum of those by
    topic, and of `Told` the totals and sums. What buckets tell adds up.
    """

    bytes_out: dict[int, dict[str, float]]
    bytes_in: dict[int, dict[str, float]]
    over_all: dict[int, float]
    by_topic: dict[int, float]
    totals: dict[int, dict[str, float]]
    every: dict[int, dict[str, float]]

    @property
    def sums(self) -> dict[int, tuple[float, float]]:
        """Of each broker that tells its count over all topics, that beside the sum by topic."""
        return {b: (told, self.by_topic.get(b, 0.0)) for b, told in self.over_all.items()}


def _counters(store: ClusterStore, snapshot: Manifest, topics: list[str]) -> Counters:
    """Each broker's counters of the topics; its count over all topics, beside the sum by topic."""
    found: dict[int, dict[str, float]] = {}
    made: dict[int, dict[str, float]] = defaultdict(dict)
    over_all: dict[int, float] = {}
    totals: dict[int, dict[str, float]] = defaultdict(dict)
    said: dict[int, dict[str, float]] = defaultdict(dict)
    by_topic: dict[int, float] = defaultdict(float)
    topic_of = {labels(topic=t): t for t in topics}
    columns = ["name", "broker_id", "labels", "value"]
    for rows in store.parts("snapshots", snapshot.id, "broker_metrics", columns):
        sent = rows.filter(pc.equal(rows["name"], BYTES_OUT))
        # Its sum over all topics is always there: an exporter that tells no bytes out measures
        # nothing.
        for broker_id in pc.unique(sent["broker_id"]).to_pylist():
            found.setdefault(broker_id, {})
        chosen = rows.filter(_among(rows["labels"], topic_of))
        for into, name in ((found, BYTES_OUT), (made, BYTES_IN)):
            of = chosen.filter(pc.equal(chosen["name"], name)).select(columns[1:])
            for broker_id, label, value in zip(*of.to_pydict().values(), strict=True):
                into[broker_id][topic_of[label]] = math.nan if value is None else value
        for broker_id, name, value in _summed(rows):
            said[broker_id][name] = said[broker_id].get(name, 0.0) + value
        # Of brokers' own counters those over all topics: only a restart sets them back.
        own = pc.equal(rows["labels"], labels())
        own = pc.and_(own, _among(rows["name"], COUNTERS.values()))
        each = rows.filter(own).select(["broker_id", "name", "value"]).to_pydict()
        for broker_id, name, value in zip(*each.values(), strict=True):
            totals[broker_id][name] = value or 0.0
        is_whole = pc.equal(sent["labels"], labels())
        whole = sent.filter(is_whole)
        over_all.update(zip(whole["broker_id"].to_pylist(), _told(whole), strict=True))
        parts = sent.filter(pc.invert(is_whole)).group_by("broker_id")
        for broker_id, told in zip(
            *parts.aggregate([("value", "sum")]).to_pydict().values(), strict=True
        ):
            by_topic[broker_id] += told or 0.0
    return Counters(found, made, over_all, by_topic, totals, said)


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
    """None: they were pruned."""
    try:
        return led_ends(store, snapshot)
    except StoreError:
        return None


def led_ends(store: ClusterStore, snapshot: Manifest) -> dict[int, int]:
    """By broker the sum of the log ends of all partitions that it leads. Raises StoreError."""
    found: dict[int, int] = defaultdict(int)
    columns = ["broker_id", "is_leader", "log_end_offset"]
    for rows in store.parts("snapshots", snapshot.id, "replicas", columns):
        led = rows.filter(rows["is_leader"]).group_by("broker_id")
        summed = led.aggregate([("log_end_offset", "sum")]).to_pydict()
        for broker_id, ends in zip(*summed.values(), strict=True):
            found[broker_id] += ends or 0
    return found


def _told_in_all(
    counters: Counters, ends: Callable[[], Mapping[int, int] | None]
) -> dict[int, Told]:
    def of(broker: int) -> int | None:
        found = ends()
        return None if found is None else found.get(broker, 0)

    return {
        broker: Told(counters.totals.get(broker, {}), sums, partial(of, broker), sums.get(STARTED))
        for broker, sums in counters.every.items()
    }


def _told(counts: pa.Table) -> list[float]:
    return [math.nan if value is None else value for value in counts["value"].to_pylist()]
