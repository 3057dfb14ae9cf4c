"""Snapshots written by hand, and what an analysis makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from analytics.job import Analyzed, analyze
from dashboard.settings.settings import Settings, TopicDeclaration
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import SNAPSHOT_TABLES
from tests.support.sample_partitions import table_of

START = datetime(2026, 3, 1, 4, 0, tzinfo=UTC)
SEGMENT = 1000


@dataclass
class Snapshot:
    """Rows of a snapshot; every topic has one partition 0 on brokers 1 and 2 unless said."""

    tables: dict[str, list[dict[str, Any]]] = field(
        default_factory=lambda: {name: [] for name in SNAPSHOT_TABLES if name != "segments"}
    )

    def topic(
        self, name: str, *, start: int = 0, end: int = 100, size: int = 10_000,
        groups: dict[str, int] | None = None, stable: int | None = None,
        topic_id: str | None = None, policy: str = "delete", brokers: Sequence[int] = (1, 2),
        isr: Sequence[int] = (1, 2), **settings: str,
    ) -> Snapshot:  # fmt: skip
        number = len(self.tables["topics"])
        place = {"topic_no": number, "partition": 0}
        self.tables["topics"].append(
            {"topic_no": number, "topic": name, "topic_id": topic_id or f"id-{name}",
             "is_internal": False})  # fmt: skip
        self.tables["partitions"].append(
            {**place, "leader_id": 1, "leader_epoch": 0, "replicas": [1, 2], "isr": list(isr),
             "log_start_offset": start, "high_watermark": end,
             "last_stable_offset": end if stable is None else stable})  # fmt: skip
        for broker in brokers:
            self.tables["replicas"].append(
                {"broker_id": broker, "log_dir": "/d1", **place, "size_bytes": size,
                 "is_future": False, "log_start_offset": start,
                 "log_end_offset": end})  # fmt: skip
        for group, offset in (groups or {}).items():
            self.tables["group_offsets"].append(
                {"group_id": group, **place, "committed_offset": offset})  # fmt: skip
        values = {"cleanup.policy": policy, "segment.bytes": str(SEGMENT)} | {
            key.replace("__", "."): value for key, value in settings.items()
        }
        self.tables["configs"] += [
            {"scope": "topic", "name": name, "key": key, "value": value}
            for key, value in values.items()
        ]
        return self

    def group(
        self, group_id: str, *assigned: str, type: str = "consumer", is_streams: bool = False
    ) -> Snapshot:
        self.tables["groups"].append(
            {"group_id": group_id, "type": type, "state": "Stable", "members": len(assigned),
             "assigned": [{"topic": topic, "partition": 0} for topic in assigned],
             "coordinator_answered": True, "is_streams": is_streams})  # fmt: skip
        return self


@dataclass
class Lab:
    """A store in a temporary folder, its clock, and the analysis of what is written to it."""

    spark: SparkSession
    cluster: ClusterStore
    settings: Settings
    minutes: int = 0

    def write(self, snapshot: Snapshot, *, incomplete: Sequence[str] = (), **details: Any) -> str:
        self.minutes += 1
        # Rows have microseconds, as real ones do; manifests tell milliseconds.
        taken_at = START + timedelta(minutes=self.minutes, microseconds=691)
        tables = snapshot.tables
        tables["brokers"] = [{"broker_id": b, "host": "h", "port": 1, "reachable": True}
                             for b in (1, 2)]  # fmt: skip
        tables["log_dirs"] = tables["log_dirs"] or [
            {"broker_id": b, "log_dir": "/d1", "total_bytes": 10**9, "usable_bytes": 5 * 10**8}
            for b in (1, 2)
        ]
        writer = self.cluster.begin("snapshots", taken_at)
        for name, rows in tables.items():
            writer.write(name, table_of(SNAPSHOT_TABLES[name], rows, writer.id, taken_at))
        writer.commit(1.0, {"groups_incomplete": list(incomplete), **details})
        return writer.id

    def analyze(self, **options: Any) -> Analyzed:
        moment = START + timedelta(minutes=self.minutes, seconds=2)
        return analyze(self.spark, self.cluster, self.settings, now=lambda: moment, **options)

    def rows(self, table: str) -> list[dict[str, Any]]:
        found = self.cluster.read("findings", self.cluster.latest_analysis(), table).to_pylist()
        return list(found)

    def targets(self, target: str = "committed") -> dict[str, dict[str, Any]]:
        rows = self.rows("reclaimable")
        return {row["topic"]: row for row in rows if row["target"] == target}


def empty(folder: Path, spark: SparkSession | None = None) -> Lab:
    """Of a store without snapshots, whose topics' groups are declared as their readers.

    Without `spark`: for analyses whose tasks run in the test's process, of clusters without an
    inventory.
    """
    declared = TopicDeclaration("*", "team", "groups", timedelta(0), "ann", "2026-01-01")
    replayed = TopicDeclaration("replayed*", "team", "groups", timedelta(minutes=2), "ann", "")
    undeclared = TopicDeclaration("undeclared*", "", "unknown", timedelta(0), "", "")
    settings = Settings(topics=(replayed, undeclared, declared))
    return Lab(spark, ClusterStore(Store(str(folder)), "c1"), settings)  # type: ignore[arg-type]


def names(row: dict[str, Any]) -> list[str]:
    return [guard["name"] for guard in row["guards"]]
