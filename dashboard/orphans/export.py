"""The orphans as CSV: one line each, with verdict, times and evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dashboard.core.csv_cells import rows_as_csv

COLUMNS = (
    "broker_id", "log_dir", "directory", "topic", "partition", "topic_id", "current_topic_id",
    "kind", "verdict", "reason", "check_at", "size_bytes", "index_bytes", "allocated_bytes",
    "newest_at", "first_seen_at", "last_seen_at", "snapshots_seen", "evidence",
)  # fmt: skip


def as_csv(orphans: Iterable[Mapping[str, Any]]) -> str:
    """Rows of the findings table `orphans`; times are UTC, unknown is an empty cell."""
    return rows_as_csv(COLUMNS, ([row[name] for name in COLUMNS] for row in orphans))
