"""Reads from kept snapshots how many bytes left each topic, and how far its groups came."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.errors import StoreError
from dashboard.metrics.topic_bytes import BYTES_OUT
from dashboard.purge.unseen_readers import TopicReading
from dashboard.snapshots import ClusterStore

WINDOW = timedelta(hours=24)
# Enough to see restarts and resets between; a day of watch keeps some eighty snapshots.
_NEWEST, _SPREAD = 4, 8
_PARTITION = ["topic", "partition"]
_CLAIM = ["group_id", *_PARTITION]


@dataclass(frozen=True, slots=True)
class Sample:
    """What one snapshot tells of the topics asked about.

    `bytes_out` maps a broker to topic -> its counter since its start; a broker that answered
    stands there even without a topic. `commits` has a row by group and partition with `offset`;
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
    """The reading of each topic over the kept snapshots of the last day that hold metrics.

    A topic that is missing has no metrics at all. A snapshot that is damaged, or pruned
    meanwhile, is left out: the others tell, with less resolution.
    """
    wanted = sorted(set(topics))
    oldest = f"{now - WINDOW:%Y%m%dT%H%M%S}"
    ids = [name for name in store.ids("snapshots") if name >= oldest]
    picked = sorted({*ids[-_NEWEST:], *ids[:: max(1, len(ids) // _SPREAD)]})
    samples = [s for name in picked if (s := _sample(store, name, wanted)) is not None]
    return readings(samples, wanted) if samples else {}


def readings(samples: list[Sample], topics: Iterable[str]) -> dict[str, TopicReading]:
    """Each topic's reading from samples, oldest first.

    Bytes out is the sum of counter differences per broker; a counter that fell began anew at 0
    (a restart, or the leadership that went and came). Explained is an estimate: the progress of
    every group's committed offset on a partition x the leader's bytes by offset held there, the
    lowest of the window (after a purge the leader's size counts a segment that mostly went). A
    group's first commit counts from the log start.
    """
    newest = samples[-1]
    partitions = newest.leaders.groupby("topic").size()
    explained = _explained(samples)
    window = samples[-1].taken_at - samples[0].taken_at
    answered = {b for s in samples for b in s.bytes_out}
    counted = {b for b in answered if sum(b in s.bytes_out for s in samples) > 1}
    return {
        topic: _reading(
            TopicReading(
                topic,
                round(sum(_sent(samples, broker, topic) for broker in counted)),
                explained.get(topic, 0),
                max(1, round(window.total_seconds() * 1000)),
                int(partitions.get(topic, 1)),
                None,
            ),
            newest.hosts.get(topic, frozenset()),
            counted,
        )
        for topic in topics
    }


def _reading(found: TopicReading, hosts: frozenset[int], counted: set[int]) -> TopicReading:
    """The reading, or what kept it from being one."""
    if not hosts & counted:
        why = "no broker of it has two samples of metrics within a day"
        return TopicReading(found.topic, partitions=found.partitions, why=why)
    if found.explained_bytes is None:
        return replace(found, why="the size of its records is unknown")
    silent = ", ".join(str(b) for b in sorted(hosts - counted))
    if silent:
        return replace(found, why=f"broker {silent} has no two samples of metrics within a day")
    return found


def _sent(samples: list[Sample], broker_id: int, topic: str) -> float:
    # A topic without a counter was not fetched since the broker's start: Kafka makes it then.
    seen = [s.bytes_out[broker_id].get(topic, 0.0) for s in samples if broker_id in s.bytes_out]
    told = [count for count in seen if math.isfinite(count)]  # exporters may say NaN
    return sum(after - before if after >= before else after for before, after in pairwise(told))


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
    if not manifest.tables.get("broker_metrics"):
        return None
    names = store.read("snapshots", snapshot, "topics", ["topic_no", "topic"])
    names = names.filter(pc.field("topic").isin(topics))
    wanted = ("is_leader", "broker_id", "log_start_offset", "log_end_offset", "size_bytes")
    replicas = _named(store, snapshot, "replicas", names, *wanted)
    commits = _named(store, snapshot, "group_offsets", names, "group_id", "committed_offset")
    commits = commits.filter(commits["committed_offset"].is_valid())
    return Sample(
        manifest.taken_at,
        _counters(store, snapshot, topics),
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
    store: ClusterStore, snapshot: str, table: str, names: pa.Table, *columns: str
) -> pa.Table:
    """Rows of the chosen topics with `topic` and `partition`."""
    rows = store.read("snapshots", snapshot, table, ["topic_no", "partition", *columns])
    return rows.join(names, "topic_no", join_type="inner").drop_columns("topic_no")


def _pandas(rows: pa.Table) -> pd.DataFrame:
    """Nullable types, so that numbers keep every digit."""
    found: pd.DataFrame = rows.to_pandas(types_mapper=_NULLABLE.get)
    return found


_NULLABLE: dict[Any, Any] = {
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.bool_(): pd.BooleanDtype(),
}


def _counters(store: ClusterStore, snapshot: str, topics: list[str]) -> dict[int, dict[str, float]]:
    rows = store.read("snapshots", snapshot, "broker_metrics")
    counts = rows.filter(pc.field("name") == BYTES_OUT)
    found: dict[int, dict[str, float]] = {b: {} for b in pc.unique(rows["broker_id"]).to_pylist()}
    topic_of = {json.dumps({"topic": t}, separators=(",", ":")): t for t in topics}
    chosen = counts.filter(pc.field("labels").isin(list(topic_of)))
    for broker_id, labels, value in zip(
        *(chosen[name].to_pylist() for name in ("broker_id", "labels", "value")), strict=True
    ):
        found[broker_id][topic_of[labels]] = math.nan if value is None else value
    return found
