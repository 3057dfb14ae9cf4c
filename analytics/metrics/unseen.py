"""Which topics somebody reads whom no group shows: bytes out of the last day against what groups
explain, measured by the functions that plans are judged by (`safety/explained`).

What a topic's bytes and groups tell lies in as many buckets as it has partitions, and whether a
broker's source went on counting is told by all of its numbers: tasks read their buckets, and others
put the rows of some topics together again. A plan looks further back, and at what came since.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.arrow import distinct
from dashboard.core.clock import parse_time
from dashboard.core.errors import StoreError
from dashboard.history import readings
from dashboard.safety.explained import measures
from dashboard.safety.progress import Sample
from dashboard.safety.unseen_readers import Measure, Verdict, measure_of
from dashboard.store import own_reads
from dashboard.store.own_reads import Ours
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore
from dashboard.store.tables import FINDING_TABLES

_T = TypeVar("_T")

TABLE = "unseen_readers"
# A day is measured anew when it is so much older; a minute, as a new store has it, each time.
_ANEW = 16
_TEXT, _I32, _I64, _F64 = pa.string(), pa.int32(), pa.int64(), pa.float64()
_COMMITS = pa.schema(
    [("snapshot_id", _TEXT), ("topic", _TEXT), ("partition", _I32), ("group_id", _TEXT),
     ("offset", _I64)]
)  # fmt: skip
_LEADERS = pa.schema(
    [("snapshot_id", _TEXT), ("topic", _TEXT), ("partition", _I32), ("broker_id", _I32),
     ("size_bytes", _I64), ("start", _I64), ("end", _I64), ("segment_bytes", _I64)]
)  # fmt: skip
_SENT = pa.schema(
    [("snapshot_id", _TEXT), ("broker_id", _I32), ("kind", _TEXT), ("name", _TEXT),
     ("value", _F64), ("ends", _I64)]
)  # fmt: skip
_COUNTS = pa.schema(
    [("snapshot_id", _TEXT), ("topic", _TEXT), ("broker_id", _I32), ("kind", _TEXT),
     ("value", _F64)]
)  # fmt: skip
_HOSTS = pa.schema([("snapshot_id", _TEXT), ("topic", _TEXT), ("broker_id", _I32)])
_TORN = pa.schema([("snapshot_id", _TEXT)])
_ROWS = {"commits": _COMMITS, "leaders": _LEADERS, "hosts": _HOSTS, "counts": _COUNTS}
_FOUND = FINDING_TABLES[TABLE].unstamped.schema
_OUT, _IN = "out", "in"
_OVER_ALL, _BY_TOPIC, _TOTAL, _EVERY, _ENDS = "over all", "by topic", "total", "every", "ends"


@dataclass(frozen=True)
class Day:
    """What all topics are measured by: when snapshots were taken, oldest first, and which groups
    had members in them; `sent`: `broker_sums` of all buckets; `before`: of each topic the measure
    that the analysis before remembers, and whether that was a suspicion; `ours`: what of
    Lowwater's own readings they show.
    """

    taken: Mapping[str, datetime]
    joined: Mapping[str, frozenset[str]]
    sent: pa.Table
    before: Mapping[str, tuple[Measure, bool]]
    now: datetime
    ours: Mapping[str, Ours] = field(default_factory=dict)


def day(
    cluster: ClusterStore,
    ids: Sequence[str],
    sent: pa.Table,
    before: Mapping[str, tuple[Measure, bool]],
    now: datetime,
) -> Day:
    """Of these snapshots, as far as they can be read; `before` as `remembered` has it."""
    taken, joined = {}, {}
    for name in ids:
        with suppress(StoreError):  # tasks tell that it is torn
            manifest = cluster.manifest("snapshots", name)
            joined[name] = readings.joined(cluster, manifest)
            taken[name] = manifest.taken_at
    ours: dict[str, Ours] = {}
    with suppress(StoreError):
        ours = own_reads.kept(cluster).placed(taken)
    return Day(taken, joined, sent, before, now, ours)


# What a task tells of its bucket.


def broker_sums(store: ClusterStore, ids: Sequence[str]) -> dict[str, pa.Table]:
    """`sent`: what brokers told in all, as far as this store shows it, of each snapshot; `torn`:
    snapshots that cannot be read.
    """
    found, torn = _each(store, ids, lambda snapshot: readings.broker_sums(store, snapshot))
    rows = [
        {"snapshot_id": name, "broker_id": broker, "kind": kind, "name": of, "value": value,
         "ends": None}
        for name, (told, _) in found.items()
        for kind, broker, of, value in _sums(told)
    ] + [
        {"snapshot_id": name, "broker_id": broker, "kind": _ENDS, "name": "", "value": None,
         "ends": ends}
        for name, (_, led) in found.items()
        for broker, ends in led.items()
    ]  # fmt: skip
    return {"sent": pa.Table.from_pylist(rows, schema=_SENT), "torn": torn}


def _sums(told: readings.Counters) -> list[tuple[str, int, str, float]]:
    found = [(_OUT, broker, "", 0.0) for broker in told.bytes_out]
    found += [(_OVER_ALL, broker, "", value) for broker, value in told.over_all.items()]
    found += [(_BY_TOPIC, broker, "", value) for broker, value in told.by_topic.items()]
    for kind, by_broker in ((_TOTAL, told.totals), (_EVERY, told.every)):
        for broker, by_name in by_broker.items():
            found += [(kind, broker, name, value) for name, value in by_name.items()]
    return found


def sent_summed(parts: pa.Table) -> pa.Table:
    """One row for each, added up in the order of the buckets."""
    by = ["snapshot_id", "broker_id", "kind", "name"]
    sums = parts.group_by(by, use_threads=False).aggregate([("value", "sum"), ("ends", "sum")])
    return sums.rename_columns(_SENT.names).cast(_SENT)


def _all(parts: pa.Table) -> pa.Table:
    return parts  # each row is of one bucket alone


# How the sums of several buckets become one, by name.
SUMMED: Mapping[str, Callable[[pa.Table], pa.Table]] = {
    "sent": sent_summed, "torn": distinct, "hosts": distinct, "commits": _all, "leaders": _all,
    "counts": _all, "unseen": _all,
}  # fmt: skip


def rows(store: ClusterStore, ids: Sequence[str], topics: Sequence[str]) -> dict[str, pa.Table]:
    """commits, leaders, hosts and counts of the topics in each snapshot, as far as this store shows
    them; and `torn`.
    """
    found, torn = _each(store, ids, lambda snapshot: readings.part(store, snapshot, [*topics]))
    hosts = [
        (name, topic, broker)
        for name, part in found.items()
        for topic, brokers in part.hosts.items()
        for broker in sorted(brokers)
    ]
    counts = [
        (name, topic, broker, kind, value)
        for name, part in found.items()
        for kind, told in ((_OUT, part.counters.bytes_out), (_IN, part.counters.bytes_in))
        for broker, by_topic in told.items()
        for topic, value in by_topic.items()
    ]
    return {
        "commits": _joint(_COMMITS, {name: part.commits for name, part in found.items()}),
        "leaders": _joint(_LEADERS, {name: part.leaders for name, part in found.items()}),
        "hosts": _table(_HOSTS, hosts),
        "counts": _table(_COUNTS, counts),
        "torn": torn,
    }


def _each(
    store: ClusterStore, ids: Sequence[str], read: Callable[[Manifest], _T]
) -> tuple[dict[str, _T], pa.Table]:
    found, torn = {}, []
    for name in ids:
        try:
            found[name] = read(store.manifest("snapshots", name))
        except StoreError:  # damaged, or pruned meanwhile: the others tell
            torn.append((name,))
    return found, _table(_TORN, torn)


def _table(schema: pa.Schema, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema)


def _joint(schema: pa.Schema, by_snapshot: Mapping[str, pa.Table]) -> pa.Table:
    stamped = (
        rows.append_column("snapshot_id", pa.repeat(name, rows.num_rows))
        for name, rows in by_snapshot.items()
    )
    parts = [rows.select(schema.names).cast(schema) for rows in stamped]
    return pa.concat_tables([schema.empty_table(), *parts])


# What another task makes of all rows of some topics.


def measured(found: Mapping[str, pa.Table], day: Day) -> dict[str, pa.Table]:
    """`unseen`: the `unseen_readers` of the topics whose `rows` these are, without snapshot_id and
    taken_at; and `torn`.

    A suspicion that an earlier analysis found stands until later measures end it, as in a plan.
    """
    told = {name: found.get(name, schema.empty_table()) for name, schema in _ROWS.items()}
    samples = [_sample(name, told, day) for name in day.taken]
    topics = sorted(set(told["hosts"]["topic"].to_pylist()))
    verdicts = {topic: Verdict(topic) for topic in topics}
    for measure in measures(samples, topics):
        verdicts[measure.reading.topic].add(measure)
    for topic, (measure, suspected) in day.before.items():
        verdict = verdicts.get(topic)
        if verdict is not None and (suspected or verdict.measure is None):
            verdict.add(measure)
    torn = {name: rows for name, rows in found.items() if name == "torn"}
    return {"unseen": _written(verdicts.values(), day.now), **torn}


def _sample(name: str, found: Mapping[str, pa.Table], day: Day) -> Sample:
    own = {table: rows.filter(pc.equal(rows["snapshot_id"], name)) for table, rows in found.items()}
    sent = day.sent.filter(pc.equal(day.sent["snapshot_id"], name)).to_pylist()
    out: dict[int, dict[str, float]] = {r["broker_id"]: {} for r in sent if r["kind"] == _OUT}
    made: dict[int, dict[str, float]] = {}
    for row in own["counts"].to_pylist():
        into = out if row["kind"] == _OUT else made
        into.setdefault(row["broker_id"], {})[row["topic"]] = row["value"]
    hosts: dict[str, set[int]] = {}
    for row in own["hosts"].to_pylist():
        hosts.setdefault(row["topic"], set()).add(row["broker_id"])
    counters = readings.Counters(
        out,
        made,
        {r["broker_id"]: r["value"] for r in sent if r["kind"] == _OVER_ALL},
        {r["broker_id"]: r["value"] for r in sent if r["kind"] == _BY_TOPIC},
        _by_name(sent, _TOTAL),
        _by_name(sent, _EVERY),
    )
    ends = {r["broker_id"]: r["ends"] for r in sent if r["kind"] == _ENDS}
    part = readings.Part(
        own["commits"].drop_columns("snapshot_id"),
        own["leaders"].drop_columns("snapshot_id"),
        {topic: frozenset(brokers) for topic, brokers in hosts.items()},
        counters,
    )
    told = readings.sample(day.taken[name], part, day.joined[name], lambda: ends)
    return readings.with_ours(told, day.ours.get(name))


def _by_name(sent: Sequence[Mapping[str, Any]], kind: str) -> dict[int, dict[str, float]]:
    found: dict[int, dict[str, float]] = {}
    for row in sent:
        if row["kind"] == kind:
            found.setdefault(row["broker_id"], {})[row["name"]] = row["value"]
    return found


def _written(verdicts: Iterable[Verdict], now: datetime) -> pa.Table:
    """A row for each topic that anything was measured of."""
    rows = [_row(v, v.measure, now) for v in verdicts if v.measure is not None]
    return pa.Table.from_pylist(rows, schema=_FOUND)


def _row(verdict: Verdict, measure: Measure, now: datetime) -> dict[str, Any]:
    told = verdict.reading(now)
    return {
        "topic": told.topic,
        "measured": told.measured,
        "suspected": told.suspected,
        "window_ms": told.window_ms,
        "why": told.why,
        "until": parse_time(told.until) if told.until else None,
        "bytes_out": told.bytes_out,
        "explained_bytes": told.explained_bytes,
        "partitions": told.partitions,
        "bytes_out_per_hour": told.an_hour(told.bytes_out),
        "explained_bytes_per_hour": told.an_hour(told.explained_bytes),
        "measured_at": measure.at,
        "whole": measure.whole,
        "counted_ms": measure.counted_ms,
        "unbroken_ms": measure.unbroken_ms,
        "left_bytes": measure.left_bytes,
    }


# What an analysis remembers.


def is_due(before: pa.Table, newest: datetime) -> bool:
    """Whether what was measured before is old, of the time that it spans; `newest`: when the last
    snapshot with metrics was taken, since where these stay away there is nothing new to measure.
    """
    at = pc.max(before["measured_at"]).as_py()
    if at is None:
        return True
    span = timedelta(milliseconds=pc.max(before["window_ms"]).as_py() or 0)
    return bool(abs(newest - at) > span / _ANEW)


def remembered(before: pa.Table, since: datetime) -> dict[str, tuple[Measure, bool]]:
    """The measures of an earlier `unseen_readers` that are not older than snapshots are kept."""
    return {
        row["topic"]: (measure_of(row), row["suspected"])
        for row in before.to_pylist()
        if row["measured_at"] >= since
    }


def kept(
    before: Mapping[str, tuple[Measure, bool]], topics: Collection[str], now: datetime
) -> pa.Table:
    """`unseen_readers` of these topics where nothing new was measured."""
    verdicts = []
    for topic in sorted(before.keys() & {*topics}):
        verdicts.append(Verdict(topic))
        verdicts[-1].add(before[topic][0])
    return _written(verdicts, now)
