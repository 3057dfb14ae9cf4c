"""Finished runs with receipts, for tests of what the estimators' errors are told to be."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from dashboard.core.clock import format_time
from dashboard.purge.journal.journal_rows import Options, RunRow
from tests.unit.purge.facts_of import NOW, TOPIC


def kept(
    predicted: int,
    freed: int,
    low: int | None = None,
    high: int | None = None,
    *,
    method: str = "history",
    topic: str = TOPIC,
) -> dict[str, Any]:
    """What a receipt keeps of one topic; without an interval it is the prediction alone."""
    return {
        "topic": topic, "method": method, "partitions": 1, "predicted_bytes": predicted,
        "low_bytes": predicted if low is None else low,
        "high_bytes": predicted if high is None else high, "freed_bytes": freed,
    }  # fmt: skip


def receipt(*lines: dict[str, Any], hours: int = 0, final: bool = True) -> dict[str, Any]:
    return {
        "final": final,
        "measured_at": format_time(NOW + timedelta(hours=hours)),
        "predicted_bytes": 0, "freed_bytes": 0, "calibration": list(lines),
    }  # fmt: skip


def run(run_id: str, found: dict[str, Any] | None) -> RunRow:
    return RunRow(
        run_id=run_id, plan_id="p", plan_sha256="p", cluster_id="cluster-1", cluster_name="prod",
        mode="wait-all", state="done", who="ann", from_where="here", typed="",
        options=Options(30_000, 500, 2, 0), connection={}, queued_at=NOW, started_at=NOW,
        closed_at=NOW, heartbeat_at=NOW, watched_until=NOW, wish=None, error=None, receipt=found,
    )  # fmt: skip
