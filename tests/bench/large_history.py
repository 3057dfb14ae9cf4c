"""A history of snapshots of a large cluster, made from arithmetic: `--snapshots` of the same size.

Logs grow at different rates, some stand still; retention moves log starts; followers lag; a broker
does not tell every size; groups commit, some go and leave their offsets behind; some topics are
recreated half-way, with another id and empty logs.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dashboard.core.clock import format_time
from dashboard.store.buckets import count_for
from dashboard.store.snapshot_files import new_id
from dashboard.store.snapshots import ClusterStore
from dashboard.store.tables import SNAPSHOT_TABLES, TableSpec

BROKERS = 3
PARTITIONS_PER_TOPIC = 25
GROUPS_PER_TOPIC = 4
EVERY = timedelta(minutes=5)
Ints = npt.NDArray[np.int64]
_TEXT = pa.string()


@dataclass(frozen=True)
class Shape:
    """How large the cluster is, and how many snapshots were taken of it."""

    partitions: int
    groups: int
    snapshots: int
    name_width: int = 0  # of a topic, at least
    segments: int = 0  # an inventory's, of each replica; 0: no inventory

    @property
    def topics(self) -> int:
        return -(-self.partitions // PARTITIONS_PER_TOPIC)

    def places(self, number: Ints) -> tuple[Ints, Ints]:
        """The topic_no and the partition of each partition's number."""
        return number // PARTITIONS_PER_TOPIC, number % PARTITIONS_PER_TOPIC


def write(
    cluster: ClusterStore, began: datetime, shape: Shape, steps: range, at_once: int = 2
) -> list[str]:
    """Write and commit the snapshots of these steps, one every five minutes; their ids."""
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(lambda step: _write(cluster, began, shape, step), steps))


def lengthen(cluster: ClusterStore, snapshots: int) -> None:
    """Put so many older snapshots before the oldest one: its tables, linked under earlier ids."""
    oldest = cluster.manifest("snapshots", cluster.ids("snapshots")[0])
    folder = Path(cluster.path, "snapshots")
    body = json.loads((folder / oldest.id / "manifest.json").read_text())
    for number in range(1, snapshots + 1):
        taken_at = oldest.taken_at - EVERY * number
        body |= {"id": new_id(taken_at), "taken_at": format_time(taken_at)}
        earlier = folder / body["id"]
        earlier.mkdir()
        for file in (file for table in oldest.tables for file, _ in oldest.files(table)):
            os.link(folder / oldest.id / file, earlier / file)
        (earlier / "manifest.json").write_text(json.dumps(body))


def _write(cluster: ClusterStore, began: datetime, shape: Shape, step: int) -> str:
    replicas = shape.partitions * BROKERS
    buckets = count_for(replicas, replicas * shape.segments)
    writer = cluster.begin("snapshots", began + EVERY * step, buckets)
    tables = {
        name: stamped(SNAPSHOT_TABLES[name], columns, writer.id, writer.taken_at)
        for name, columns in tables_of(shape, step).items()
    }
    for name, rows in tables.items():
        writer.split(name, rows, tables["topics"])
    if shape.segments:
        from tests.bench.large_inventory import write_segments

        write_segments(writer, shape, step)
    brokers = [{"broker_id": b, "reachable": True, "error": None} for b in range(BROKERS)]
    writer.commit(1.0, {"brokers": brokers, "groups_incomplete": [], "errors": []})
    return writer.id


def stamped(
    spec: TableSpec, columns: dict[str, Any], snapshot_id: str, taken_at: datetime
) -> pa.Table:
    """A table of a snapshot from some of its columns; the others are null."""
    length = len(next(iter(columns.values())))
    stamp = {
        "snapshot_id": pa.repeat(pa.scalar(snapshot_id), length),
        "taken_at": pa.repeat(pa.scalar(taken_at, pa.timestamp("us", tz="UTC")), length),
    }
    found = stamp | columns
    arrays = [
        pa.array(found[field.name]).cast(field.type)
        if field.name in found
        else pa.nulls(length, field.type)
        for field in spec.schema
    ]
    return pa.table(arrays, schema=spec.schema)


def tables_of(shape: Shape, step: int) -> dict[str, dict[str, Any]]:
    """The columns of each table of one step's snapshot."""
    number = np.arange(shape.partitions, dtype=np.int64)
    topic_no, partition = shape.places(number)
    place = {"topic_no": topic_no, "partition": partition}
    start, end, size = logs_of(shape, step, number)
    everywhere = _lists(shape.partitions)
    topics = topics_of(shape, step)
    return {
        "brokers": {"broker_id": range(BROKERS), "host": ["127.0.0.1"] * BROKERS,
                    "reachable": [True] * BROKERS},
        "topics": topics,
        "configs": _configs(topics["topic"].to_pylist()),
        "partitions": {**place, "leader_id": number % BROKERS, "leader_epoch": number * 0,
                       "replicas": everywhere, "isr": everywhere, "log_start_offset": start,
                       "last_stable_offset": end - (number % 40 == 7), "high_watermark": end},
        "replicas": _replicas(number, place, start, end, size),
        "log_dirs": {"broker_id": range(BROKERS), "log_dir": ["/d1"] * BROKERS,
                     "total_bytes": [1 << 46] * BROKERS, "usable_bytes": [1 << 44] * BROKERS},
        "groups": {"group_id": [f"group-{g:04d}" for g in range(shape.groups)],
                   "type": ["consumer"] * shape.groups, "state": ["Stable"] * shape.groups,
                   "members": [1] * shape.groups,
                   "assigned": pa.array([[]] * shape.groups, _ASSIGNED),
                   "coordinator_answered": [True] * shape.groups},
        "group_offsets": _offsets(shape, step, place, start, end),
        "reassignments": {"topic_no": pa.array([], pa.int32())},
    }  # fmt: skip


_ASSIGNED = SNAPSHOT_TABLES["groups"].schema.field("assigned").type


def topics_of(shape: Shape, step: int) -> dict[str, pa.Array]:
    """The columns of the table `topics`."""
    topics = np.arange(shape.topics)
    again = _recreated(shape, step, topics)
    ids = [f"id-{n:018d}{'b' if new else 'a'}" for n, new in zip(topics, again, strict=True)]
    return {
        "topic_no": pa.array(topics),
        "topic": pa.array([f"topic-{n:05d}".ljust(shape.name_width, "x") for n in topics], _TEXT),
        "topic_id": pa.array(ids, _TEXT),
        "is_internal": pa.array(np.zeros(len(topics), dtype=bool)),
    }


def logs_of(shape: Shape, step: int, number: Ints) -> tuple[Ints, Ints, Ints]:
    """Log start, log end and bytes of partitions, by their numbers."""
    start, end = _logs(shape, step, number, _recreated(shape, step, shape.places(number)[0]))
    per_record = 300 + number % 11 * 90 + step * (number % 3)
    return start, end, (end - start) * per_record + _scattered(number + step)


def _recreated(shape: Shape, step: int, topic_no: Ints) -> npt.NDArray[np.bool_]:
    return (topic_no % 40 == 3) & (step >= shape.snapshots // 2)


def _logs(shape: Shape, step: int, number: Ints, recreated: Any) -> tuple[Ints, Ints]:
    """Log start and log end of every partition."""
    first = number % 97 * 1000
    rate = number % 7 * 130
    age = np.where(recreated, step - shape.snapshots // 2, step)
    length = np.where(recreated, 10, 50_000 + number % 13 * 10_000)
    first = np.where(recreated, 0, first)
    kept = np.where(number % 5 == 0, age // 8 * 8 * rate, 0)
    return first + kept, first + length + _scattered(number) % 1000 + rate * age


def _scattered(number: Ints) -> Ints:
    """Numbers without a pattern that Parquet could shorten."""
    return number * 2654435761 % (1 << 32) >> 8


def _replicas(
    number: Ints, place: dict[str, Ints], start: Ints, end: Ints, size: Ints
) -> dict[str, Any]:
    parts = []
    for broker in range(BROKERS):
        behind = np.where((number % 50 == broker) & (number % BROKERS != broker), 9, 0)
        untold = (number % 1000 == 5) & (broker == 2)
        parts.append(
            {
                "broker_id": np.full(len(number), broker),
                **place,
                "size_bytes": pa.array(np.maximum(size - behind * 300, 0), mask=untold),
                "log_start_offset": start,
                "log_end_offset": np.maximum(end - behind, start),
            }
        )
    every = {name: pa.concat_arrays([pa.array(part[name]) for part in parts]) for name in parts[0]}
    rows = len(number) * BROKERS
    return every | {"log_dir": pa.repeat("/d1", rows), "is_future": np.zeros(rows, dtype=bool)}


def _offsets(
    shape: Shape, step: int, place: dict[str, Ints], start: Ints, end: Ints
) -> dict[str, Any]:
    """Sorted by group. A group commits at every second, third … step, or never again."""
    slot = np.repeat(np.arange(GROUPS_PER_TOPIC), shape.partitions)
    topic_no = np.tile(place["topic_no"], GROUPS_PER_TOPIC)
    group = (topic_no * GROUPS_PER_TOPIC + slot) % shape.groups
    pause = 1 + group % 5
    reached = np.tile(end - start, GROUPS_PER_TOPIC) * (slot + 1) // (GROUPS_PER_TOPIC + 1)
    committed = np.tile(start, GROUPS_PER_TOPIC) + reached * (60 + step // pause) // 200
    gone = (group % 50 == 7) & (step > shape.snapshots // 3)
    row = np.flatnonzero(~gone)
    row = row[np.argsort(group[row], kind="stable")]
    names = pa.array([f"group-{g:04d}" for g in range(shape.groups)])
    return {
        "group_id": names.take(pa.array(group[row])),
        "topic_no": topic_no[row],
        "partition": np.tile(place["partition"], GROUPS_PER_TOPIC)[row],
        "committed_offset": pa.array(committed[row], mask=row % 911 == 0),
    }


def _lists(partitions: int) -> pa.Array:
    brokers = np.tile(np.arange(BROKERS, dtype=np.int32), partitions)
    ends = np.arange(partitions + 1, dtype=np.int32) * BROKERS
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(brokers))


def _configs(names: list[str]) -> dict[str, Any]:
    settings = {"cleanup.policy": "delete", "segment.bytes": str(16 << 20)} | {
        f"other.setting.{n}": str(n) for n in range(14)
    }
    return {
        "scope": pa.repeat("topic", len(names) * len(settings)),
        "name": [name for name in names for _ in settings],
        "key": list(settings) * len(names),
        "value": list(settings.values()) * len(names),
    }
