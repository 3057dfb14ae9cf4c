"""Kept snapshots of a topic or two, made of a few numbers, for what a policy would have done."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dashboard.domain.metric_names import BYTES_OUT
from dashboard.store.buckets import LONG
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import FINDING_TABLES, SNAPSHOT_TABLES, UNASSIGNED
from tests.support.sample_partitions import table_of

CLUSTER = "c1"
BYTES = 10  # of each record, on each of two replicas


@dataclass(frozen=True)
class Log:
    """A partition in one snapshot; `commits` maps groups to offsets."""

    end: int
    commits: Mapping[str, int | None] = field(default_factory=dict)
    start: int = 0
    topic: str = "t"
    partition: int = 0
    stable: int | None = None
    size_bytes: int | None = -1  # of each replica; -1: BYTES a record
    topic_id: str = ""
    besides: bool = False  # a copy for another log dir, and an old folder on a broker without it

    @property
    def replica_bytes(self) -> int | None:
        return self.size_bytes if self.size_bytes != -1 else (self.end - self.start) * BYTES


def store(root: Path) -> ClusterStore:
    """An empty store of one cluster."""
    found = ClusterStore(Store(str(root)), CLUSTER)
    found.write_connection("127.0.0.1:9", None, "prod-eu")
    return found


def snapshot(
    cluster: ClusterStore,
    at: datetime,
    logs: Sequence[Log],
    *,
    used: float = 0.5,
    configs: Mapping[str, str] | None = None,
    incomplete: Sequence[str] = (),
    groups: Sequence[str] | None = None,
    bytes_out: Mapping[str, float] | None = None,
    streams: Collection[str] = (),
) -> str:
    """Write and commit a snapshot; `used` is the share of its one log dir, `bytes_out` what its
    two brokers have each sent of topics, `streams` which groups are Kafka Streams applications.
    """
    numbers = {topic: n for n, topic in enumerate(sorted({(g.topic, g.topic_id) for g in logs}))}
    known = groups if groups is not None else sorted({g for log in logs for g in log.commits})
    tables: dict[str, list[dict[str, Any]]] = {
        "topics": [
            {"topic_no": n, "topic": topic, "topic_id": topic_id or topic}
            for (topic, topic_id), n in numbers.items()
        ],
        "partitions": [], "replicas": [], "group_offsets": [],
        "groups": [{"group_id": group, "is_streams": group in streams} for group in known],
        "log_dirs": [{"broker_id": 1, "log_dir": "/d", "total_bytes": 1000,
                      "usable_bytes": round(1000 * (1 - used))}],
        "configs": [
            {"scope": "topic", "name": topic, "key": key, "value": value}
            for topic, _ in numbers for key, value in (configs or {}).items()
        ],
    }  # fmt: skip
    for log in logs:
        place = {"topic_no": numbers[log.topic, log.topic_id], "partition": log.partition}
        stable = log.end if log.stable is None else log.stable
        tables["partitions"].append(
            {**place, "log_start_offset": log.start, "last_stable_offset": stable,
             "high_watermark": log.end}
        )  # fmt: skip
        tables["replicas"] += [
            {
                **place,
                "broker_id": b,
                "log_dir": "/d",
                "size_bytes": log.replica_bytes,
                "is_leader": b == 1,
                "log_start_offset": log.start,
                "log_end_offset": log.end,
            }
            for b in (1, 2)
        ]
        if log.besides:
            other = {**place, "log_dir": "/e", "size_bytes": 10**9}
            tables["replicas"] += [
                {**other, "broker_id": 1, "is_future": True},
                {**other, "broker_id": 3, "is_leader": False, "error": UNASSIGNED},
            ]
        tables["group_offsets"] += [
            {**place, "group_id": g, "committed_offset": o} for g, o in log.commits.items()
        ]
    if bytes_out is not None:
        tables["broker_metrics"] = [
            {"broker_id": b, "name": BYTES_OUT, "value": value, "labels": f'{{"topic":"{topic}"}}'}
            for b in (1, 2) for topic, value in bytes_out.items()
        ]  # fmt: skip
    writer = cluster.begin("snapshots", at)
    for name, rows in tables.items():
        writer.write(name, table_of(SNAPSHOT_TABLES[name], rows, writer.id, at))
    writer.commit(0.1, {"groups_incomplete": list(incomplete)})
    return writer.id


def analysis(
    cluster: ClusterStore,
    at: datetime,
    *,
    knots: Sequence[tuple[int, int]] = (),
    guards: Mapping[int, Sequence[str]] | None = None,
    replicas: int = 2,
    unseen: Sequence[Mapping[str, Any]] = (),
    topics: Sequence[str] = ("t",),
) -> None:
    """Findings about topic `t`: the curve of partition 0, and guards by partition, these of
    `topics`; and rows of `unseen_readers`.
    """
    writer = cluster.begin("findings", at)
    curves = [
        {"topic": "t", "topic_id": "t", "partition": 0, "broker_id": b, "log_dir": "/d",
         "offset": offset, "bytes_below": below, "is_base": False, "method": "history",
         "segment_bytes": 1 << 30}
        for b in range(1, replicas + 1) for offset, below in knots
    ]  # fmt: skip
    stands = [
        {"topic": topic, "partition": partition, "target": "committed",
         "guards": [{"name": name, "reason": "r", "lift": "l"} for name in names]}
        for topic in topics for partition, names in (guards or {}).items()
    ]  # fmt: skip
    tables = {"curves": curves, "reclaimable": stands, "unseen_readers": list(unseen)}
    for name, rows in tables.items():
        writer.write(name, table_of(FINDING_TABLES[name], rows, writer.id, at))
    writer.commit(0.1, {})
    cluster.set_latest(writer.id)


def remembers(
    cluster: ClusterStore,
    at: datetime,
    held: Sequence[tuple[str, int, datetime]],
    former: Sequence[tuple[str, int, datetime]] = (),
    **place: Any,
) -> None:
    """Findings of the newest snapshot about topic `t`: group, its last offset, when it was seen.

    `former` are those on a topic of that name that is gone; `place`: other values of every row.
    """
    writer = cluster.begin("findings", at)
    for table, topic_id, rows in (("holds", "t", held), ("former_readers", "gone", former)):
        found = [
            {"topic": "t", "topic_id": topic_id, "partition": 0, "group_id": group,
             "committed_offset": offset, "last_seen_at": seen_at, **place}
            for group, offset, seen_at in rows
        ]  # fmt: skip
        writer.write(table, table_of(FINDING_TABLES[table], found, writer.id, at))
    for table in ("curves", "reclaimable"):
        writer.write(table, table_of(FINDING_TABLES[table], [], writer.id, at))
    writer.commit(0.1, {"snapshot_id": cluster.latest_snapshot()})
    cluster.set_latest(writer.id)


def topics_held(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """By long table, filled from now on: the topics of the lines that `read` gives whole."""
    found: dict[str, set[str]] = {}
    original = ClusterStore.read

    def read(own: ClusterStore, kind: Any, item_id: str, table: str, *more: Any, **by: Any) -> Any:
        rows = original(own, kind, item_id, table, *more, **by)
        if table in LONG[kind]:
            found.setdefault(table, set()).update(_names(own, kind, item_id, rows))
        return rows

    def _names(own: ClusterStore, kind: Any, item_id: str, rows: pa.Table) -> list[str]:
        if "topic" in rows.column_names:
            return list(rows["topic"].to_pylist())
        listed = original(own, kind, item_id, "topics", ["topic_no", "topic"]).to_pylist()
        named = {row["topic_no"]: row["topic"] for row in listed}
        return [named[number] for number in rows["topic_no"].to_pylist()]

    monkeypatch.setattr(ClusterStore, "read", read)
    return found
