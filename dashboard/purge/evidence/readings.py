"""Reads from kept snapshots how many bytes left each topic, and how far its groups came.

Of long tables one file is read at a time, and rows of the topics asked about stay: what this holds
follows the plan and the size of a bucket, not the cluster.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.errors import StoreError
from dashboard.domain.metric_names import BYTES_OUT, increase, labels
from dashboard.purge.evidence.unseen_readers import WINDOW, Measure, TopicReading, Verdict
from dashboard.store.snapshot_clocks import clock_was_right, times
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore

# Enough to see restarts and resets between; a day of watch keeps some eighty snapshots.
_NEWEST, _SPREAD, _OLD_SPREAD = 4, 8, 2
_PARTITION = ["topic", "partition"]
_CLAIM = ["group_id", *_PARTITION]


@dataclass(frozen=True, slots=True)
class Sample:
    """What one snapshot tells of the topics asked about.

    `bytes_out` maps a broker to topic -> its counter since its start; a broker that tells any bytes
    out stands there even without a topic. `commits` has a row by group and partition with `offset`;
    `leaders` one by partition with `start` (log start offset) and `record_bytes` (bytes by offset
    held), null where unknown; `hosts` maps a topic to the brokers of its replicas.
    """

    taken_at: datetime
    bytes_out: Mapping[int, Mapping[str, float]]
    commits: pd.DataFrame
    leaders: pd.DataFrame
    hosts: Mapping[str, frozenset[int]]


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
    day = (*before, *_picked(ids[len(older) : end + 1], _SPREAD))
    by_day = groupby(reversed(older), key=lambda name: at[name].date())
    return [day, *(_picked([*names][::-1], _OLD_SPREAD) for _, names in by_day)]


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


def _picked(ids: list[str], spread: int) -> tuple[str, ...]:
    """The oldest of them, the newest, and some between."""
    chosen = {*ids[-_NEWEST:], *ids[:: max(1, len(ids) // spread)]}
    return tuple(name for name in ids if name in chosen)


def _day(
    store: ClusterStore, ids: Iterable[str], topics: tuple[str, ...], *, whole: bool = False
) -> tuple[tuple[Measure, ...], str | None]:
    """What these snapshots measure, newest first, and which of them has the oldest sample.

    Raises StoreError, when the `whole` day is asked for, where one cannot be read.
    """
    read = _read if whole else _sample
    samples = {name: s for name in ids if (s := read(store, name, list(topics))) is not None}
    return tuple(measures(list(samples.values()), topics)), next(iter(samples), None)


@lru_cache(maxsize=4096)  # where some brokers have no exporter each plan asks for all of them
def _whole_day(
    store: ClusterStore, ids: tuple[str, ...], topics: tuple[str, ...]
) -> tuple[tuple[Measure, ...], str | None]:
    return _day(store, ids, topics, whole=True)


def _older(
    store: ClusterStore, ids: tuple[str, ...], topics: tuple[str, ...]
) -> tuple[tuple[Measure, ...], str | None]:
    """The same of a day that is over, with the oldest sample after it as its last."""
    try:
        return _whole_day(store, ids, topics)
    except StoreError:
        return _day(store, ids, topics)


def measures(samples: list[Sample], topics: Iterable[str]) -> list[Measure]:
    """What samples, oldest first, measure of each topic; nothing where no broker has two of them.

    Bytes out is the sum of counter differences per broker; a counter that fell began anew at 0
    (a restart, or the leadership that went and came). Explained is an estimate: the progress of
    every group's committed offset on a partition x the leader's bytes by offset held there, the
    lowest of the span (after a purge the leader's size counts a segment that mostly went). A
    group's first commit counts from the log start.

    Both are of the same span: where brokers answered in fewer samples than others, those alone
    measure them all, and all samples measure the others.
    """
    if not samples:
        return []
    hosts, partitions = samples[-1].hosts, samples[-1].leaders.groupby("topic").size()
    explained: dict[tuple[int, ...], dict[str, int | None]] = {}
    found = []
    for topic in topics:
        for brokers, numbers in _spans(samples, hosts.get(topic, frozenset())):
            span = [samples[n] for n in numbers]
            if numbers not in explained:
                explained[numbers] = _explained(span)
            reading = TopicReading(
                topic,
                round(sum(_sent(span, broker, topic) for broker in brokers)),
                explained[numbers].get(topic, 0),
                _span_ms(span),
                int(partitions.get(topic, 1)),
                None,
            )
            found.append(_measure(reading, brokers, hosts[topic], span[-1].taken_at))
    return sorted(found, key=lambda m: (m.at, m.reading.suspected), reverse=True)


def _spans(
    samples: list[Sample], hosts: frozenset[int]
) -> Iterator[tuple[frozenset[int], tuple[int, ...]]]:
    """Which brokers are counted over which samples: those that answered most, then more."""
    answers = {b: sum(b in s.bytes_out for s in samples) for b in hosts}
    for least in sorted({n for n in answers.values() if n > 1}, reverse=True):
        brokers = frozenset(b for b, n in answers.items() if n >= least)
        joint = tuple(n for n, s in enumerate(samples) if brokers <= s.bytes_out.keys())
        if len(joint) > 1:
            yield brokers, joint


def _span_ms(span: list[Sample]) -> int:
    return max(1, round((span[-1].taken_at - span[0].taken_at).total_seconds() * 1000))


def _measure(
    reading: TopicReading, brokers: frozenset[int], hosts: frozenset[int], at: datetime
) -> Measure:
    """The measure, with what kept it from being a whole one."""
    silent = ", ".join(str(b) for b in sorted(hosts - brokers))
    if reading.explained_bytes is None:
        reading = replace(reading, why="the size of its records is unknown")
    elif silent:
        reading = replace(
            reading, why=f"broker {silent} has no two samples of metrics within a day"
        )
    return Measure(reading, not silent, at)


def _sent(samples: list[Sample], broker_id: int, topic: str) -> float:
    # A topic without a counter was not fetched since the broker's start: Kafka makes it then.
    seen = [s.bytes_out[broker_id].get(topic, 0.0) for s in samples if broker_id in s.bytes_out]
    told = np.array([count for count in seen if math.isfinite(count)])  # exporters may say NaN
    return float(increase(told[:-1], told[1:]).sum())


def _explained(samples: list[Sample]) -> dict[str, int | None]:
    """Topic -> bytes that its groups' progress explains; None where record sizes are unknown."""
    leaders = _numbered([s.leaders for s in samples])
    progress = _progress(_numbered([s.commits for s in samples]), leaders)
    sizes = leaders.groupby(_PARTITION, as_index=False)["record_bytes"].min()
    joined = progress[progress["records"] > 0].merge(sizes, on=_PARTITION, how="left")
    joined["bytes"] = joined["records"] * joined["record_bytes"]
    found: dict[str, int | None] = {
        str(topic): round(size) for topic, size in joined.groupby("topic")["bytes"].sum().items()
    }
    unknown = joined.loc[joined["record_bytes"].isna(), "topic"]
    return {**found, **dict.fromkeys(unknown)}


def _progress(commits: pd.DataFrame, leaders: pd.DataFrame) -> pd.DataFrame:
    """Offsets that all groups together committed their way forward, as `records` by partition."""
    starts = leaders[[*_PARTITION, "sample", "start"]].assign(sample=leaders["sample"] + 1)
    rows = commits.merge(starts, on=[*_PARTITION, "sample"], how="left")
    rows = rows.sort_values([*_CLAIM, "sample"])
    before = rows.groupby(_CLAIM)["offset"].shift().fillna(rows["start"]).fillna(rows["offset"])
    rows["records"] = (rows["offset"] - before).clip(lower=0).where(rows["sample"] > 0, 0)
    return rows.groupby(_PARTITION)[["records"]].sum().reset_index()


def _numbered(frames: list[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat([f.assign(sample=n) for n, f in enumerate(frames)], ignore_index=True)


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
    names = names.filter(pc.field("topic").isin(topics))
    wanted = ("is_leader", "broker_id", "log_start_offset", "log_end_offset", "size_bytes")
    replicas = _named(store, manifest, "replicas", names, *wanted)
    commits = _named(store, manifest, "group_offsets", names, "group_id", "committed_offset")
    commits = commits.filter(commits["committed_offset"].is_valid())
    return Sample(
        manifest.taken_at,
        _counters(store, manifest, topics),
        _pandas(commits).rename(columns={"committed_offset": "offset"}),
        _leaders(_pandas(replicas.filter(replicas["is_leader"]))),
        _hosts(replicas),
    )


def _leaders(rows: pd.DataFrame) -> pd.DataFrame:
    held = (rows["log_end_offset"] - rows["log_start_offset"]).astype("Float64")
    return rows[_PARTITION].assign(
        start=rows["log_start_offset"], record_bytes=rows["size_bytes"] / held.where(held > 0)
    )


def _hosts(replicas: pa.Table) -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for row in replicas.group_by(["topic", "broker_id"]).aggregate([]).to_pylist():
        found.setdefault(row["topic"], set()).add(row["broker_id"])
    return {topic: frozenset(brokers) for topic, brokers in found.items()}


def _named(
    store: ClusterStore, snapshot: Manifest, table: str, names: pa.Table, *columns: str
) -> pa.Table:
    """Rows of the chosen topics with `topic` and `partition`."""
    chosen = pc.field("topic_no").isin(names["topic_no"])
    files = _files(store, snapshot, table, ["topic_no", "partition", *columns])
    rows = pa.concat_tables(rows.filter(chosen) for rows in files)
    return rows.join(names, "topic_no", join_type="inner").drop_columns("topic_no")


def _files(
    store: ClusterStore, snapshot: Manifest, table: str, columns: list[str]
) -> Iterator[pa.Table]:
    """The files of a long table, one by one; an empty one where it was not written."""
    for some in [[part] for part in snapshot.files(table)] or [[]]:
        yield store.read_files("snapshots", snapshot, table, some, columns)


def _pandas(rows: pa.Table) -> pd.DataFrame:
    """Nullable types, so that numbers keep every digit."""
    found: pd.DataFrame = rows.to_pandas(types_mapper=_NULLABLE.get)
    return found


_NULLABLE: dict[Any, Any] = {
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.bool_(): pd.BooleanDtype(),
}


def _counters(
    store: ClusterStore, snapshot: Manifest, topics: list[str]
) -> dict[int, dict[str, float]]:
    found: dict[int, dict[str, float]] = {}
    topic_of = {labels(topic=t): t for t in topics}
    columns = ["name", "broker_id", "labels", "value"]
    for rows in _files(store, snapshot, "broker_metrics", columns):
        counts = rows.filter(pc.field("name") == BYTES_OUT)
        # Its sum over all topics is always there: an exporter that tells no bytes out measures
        # nothing.
        for broker_id in pc.unique(counts["broker_id"]).to_pylist():
            found.setdefault(broker_id, {})
        chosen = counts.filter(pc.field("labels").isin(list(topic_of))).select(columns[1:])
        for broker_id, label, value in zip(*chosen.to_pydict().values(), strict=True):
            found[broker_id][topic_of[label]] = math.nan if value is None else value
    return found
