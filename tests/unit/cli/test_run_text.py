"""A run as people read it: who is behind, what came back, until when it is watched."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from dashboard.cli.purge import run as run_text


def partition(state: str, **change: Any) -> dict[str, Any]:
    return {
        "topic": "orders", "partition": 0, "target_offset": 60, "state": state,
        "low_watermark": 0, "leader_log_start_offset": 60, "error": None, "message": None,
        "leader_id": 1, "followers_behind": [], "dead_replicas": [], "followers": [], **change,
    }  # fmt: skip


def view(*partitions: dict[str, Any]) -> dict[str, Any]:
    counts = {row["state"]: 1 for row in partitions}
    return {
        "run_id": "r1", "mode": "wait-all", "state": "partial", "counts": counts, "moves": [],
        "partitions": list(partitions), "receipt": None,
        "watched_until": "2026-03-01T13:00:00.000Z",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("hour", "said"), [(12, "watched until 2026-03-01T13"), (13, "watching ended at 2026-03-01T13")]
)
def test_a_run_that_timed_out_names_who_is_behind_and_until_when_it_watches(
    monkeypatch: pytest.MonkeyPatch, hour: int, said: str
) -> None:
    monkeypatch.setattr(run_text, "utc_now", lambda: datetime(2026, 3, 1, hour, tzinfo=UTC))
    behind = {
        "broker_id": 2, "log_start_offset": 0, "behind_offsets": 60, "lag_records": 1200,
        "closing_per_second": -40.0, "seconds_to_go": None, "alive": True, "error": None,
    }  # fmt: skip
    told = run_text.describe(
        view(partition("leader_done", followers_behind=[2], followers=[behind]))
    )

    assert (
        "Broker 2 is behind on 1 partition: 1\u202f200 records behind, falling back at 40" in told
    )
    assert said in told
    assert "ALERT" not in told


def test_records_that_came_back_are_an_alert_with_the_next_command() -> None:
    told = run_text.describe(view(partition("reverted", leader_id=3)))

    assert "ALERT, reverted: orders, 1 partition: broker 3 was elected leader" in told
    assert "next: lowwater plan --topic orders --to committed --out again.json" in told
    assert "watched until" not in told


def test_waits_are_told_beside_their_forecast_where_there_was_one() -> None:
    wait = {
        "leader_id": 1, "partitions": 3, "cause": "keeps-up", "low_seconds": 0.0,
        "likely_seconds": 0.333, "high_seconds": 0.75, "waited_seconds": 0.41,
        "timed_out": False, "inside": True,
    }  # fmt: skip
    assert run_text.waits({"waits": [wait]}) == [
        "waits: the slowest of 1 request took 0.4 s; predicted 0 s to 0.8 s, about 0.3 s: "
        "1 of 1 inside"
    ]
    assert run_text.waits({"waits": []}) == run_text.waits({}) == run_text.waits(None) == []
