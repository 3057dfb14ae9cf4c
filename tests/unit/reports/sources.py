"""Sources of storage reports out of a store, or out of a few rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from dashboard.history.findings_age import Age
from dashboard.purge.journal.rows import Begins, RunRow
from dashboard.purge.plan.plan import Plan
from dashboard.reports.source import Source, open_source
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore
from dashboard.store.tables import FINDING_TABLES, build
from tests.support.sample_partitions import table_of

NOW = datetime(2026, 3, 1, 4, tzinfo=UTC)
_EVERY = timedelta(minutes=1)


def of_store(
    cluster: ClusterStore,
    runs: Sequence[RunRow] = (),
    plan: Plan | None = None,
    begins: Begins | None = None,
    *,
    now: datetime = NOW,
) -> Source:
    return open_source(cluster, runs, now, _EVERY, plan=plan, begins=begins)


def of_rows(**tables: Sequence[Mapping[str, Any]]) -> Source:
    """Findings of these rows; every other table is empty."""
    found = {
        name: table_of(spec, [dict(row) for row in tables.get(name, ())], "s", NOW)
        for name, spec in FINDING_TABLES.items()
    }
    return _of(found)


def of_topics(count: int) -> Source:
    """As many topics with a partition each, all of it consumed and declared."""
    size = [(count - at) * 2**20 for at in range(count)]
    spec = FINDING_TABLES["reclaimable"]
    same = {"target": "committed", "partition": 0, "records": 10, "target_offset": 10,
            "held_bytes": 0, "method": "history", "replicas": 3, "readers_declared": True,
            "guards": []}  # fmt: skip
    columns: dict[str, Any] = {name: [value] * count for name, value in same.items()}
    columns["topic"] = [f"topic-{at:05d}" for at in range(count)]
    for name in ("size_bytes", "bytes_low", "bytes_likely", "bytes_high", "bytes_at_once"):
        columns[name] = size
    found = {name: empty.schema.empty_table() for name, empty in FINDING_TABLES.items()}
    return _of({**found, "reclaimable": build(spec, columns)})


def _of(tables: Mapping[str, pa.Table]) -> Source:
    rows = {name: table.num_rows for name, table in tables.items()}
    analysis = Manifest("20260301T040000000Z-0000", NOW, rows, 1.0, {"snapshot_id": "s"})
    return Source("c1", "prod", analysis, None, tables.__getitem__, (), None, Age(NOW, NOW, ""))
