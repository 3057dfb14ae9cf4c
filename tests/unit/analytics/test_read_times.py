"""How long the reading of a snapshot took, told from parts of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from analytics.metrics.scrapes import read_times, seconds
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import SNAPSHOT_TABLES
from tests.support.sample_partitions import table_of

NOW = datetime(2026, 3, 1, 4, tzinfo=UTC)


def replica(second: int | None, *, end: int | None = 5, **more: Any) -> dict[str, Any]:
    at = None if second is None else NOW + timedelta(seconds=second)
    return {"broker_id": 1, "log_dir": "/d", "topic_no": 0, "partition": 0, "is_future": False,
            "log_end_offset": end, "observed_at": at} | more  # fmt: skip


def written(cluster: ClusterStore, *replicas: dict[str, Any]) -> str:
    writer = cluster.begin("snapshots", NOW)
    tables = {"topics": [{"topic_no": 0, "topic": "t"}], "replicas": list(replicas)}
    for name, rows in tables.items():
        writer.write(name, table_of(SNAPSHOT_TABLES[name], rows, writer.id, NOW))
    writer.commit(1.0, {})
    return writer.id


def test_what_tells_no_log_end_does_not_count(tmp_path: Path) -> None:
    cluster = ClusterStore(Store(str(tmp_path)), "c1")
    known = written(
        cluster, replica(3), replica(None), replica(7), replica(60, end=None),
        replica(70, is_future=True), replica(80, topic_no=9),
    )  # fmt: skip
    nothing = written(cluster, replica(3, end=None))
    assert seconds(read_times(cluster, [known, nothing])) == {known: 7.0, nothing: 0.0}


def test_parts_tell_the_whole() -> None:
    times = {"snapshot_id": ["a", "b", "a"], "first": [5, None, 2], "last": [9, None, 3_000_002]}
    schema = pa.schema([("snapshot_id", pa.string()), ("first", pa.int64()), ("last", pa.int64())])
    assert seconds(pa.table(times, schema=schema)) == {"a": 3.0, "b": 0.0}
