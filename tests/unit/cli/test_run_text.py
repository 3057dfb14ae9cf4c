"""A run as people read it: who is behind, what came back, until when it is watched."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from dashboard.cli.purge import run as run_text
from dashboard.purge.journal.rows import Follower, PartitionRow, RunView
from dashboard.purge.receipt.model import Receipt, RequestWait
from tests.unit.purge.outcomes import run


def partition(state: str, **change: Any) -> PartitionRow:
    row = PartitionRow("orders", 0, 60, state, low_watermark=0, leader_log_start_offset=60)
    return replace(row, **{"leader_id": 1, **change})


def view(*partitions: PartitionRow, **change: Any) -> RunView:
    until = datetime(2026, 3, 1, 13, tzinfo=UTC)
    found = replace(run("r1", None), state="partial", watched_until=until, **change)
    return RunView(found, partitions)


@pytest.mark.parametrize(
    ("hour", "said"), [(12, "watched until 2026-03-01T13"), (13, "watching ended at 2026-03-01T13")]
)
def test_a_run_that_timed_out_names_who_is_behind_and_until_when_it_watches(
    monkeypatch: pytest.MonkeyPatch, hour: int, said: str
) -> None:
    monkeypatch.setattr(run_text, "utc_now", lambda: datetime(2026, 3, 1, hour, tzinfo=UTC))
    behind = Follower(2, 0, alive=True, arrived=False, lag_records=1200, closing_per_second=-40.0)
    told = run_text.describe(view(partition("leader_done", followers=(behind,))))

    assert (
        "Broker 2 is behind on 1 partition: 1\u202f200 records behind, falling back at 40" in told
    )
    assert said in told
    assert "ALERT" not in told


def test_a_run_whose_followers_followed_says_so() -> None:
    there = Follower(2, 60, alive=True, arrived=True)
    told = run_text.describe(view(partition("done", followers=(there,))))

    assert "Followers have followed: every replica of 1 partition starts at the target" in told
    assert "watched until" not in told


@pytest.mark.parametrize(("none_done", "said"), [(True, "failed"), (False, "partial")])
def test_a_run_of_which_nothing_was_done_has_failed(none_done: bool, said: str) -> None:
    found = view(partition("not_done"), none_done=none_done)
    assert run_text.line(found).startswith(f"{said}: ")
    assert f"): {said}: " in run_text.describe(found)


def test_records_that_came_back_are_an_alert_with_the_next_command() -> None:
    told = run_text.describe(view(partition("reverted", leader_id=3)))

    assert "ALERT, reverted: orders, 1 partition: broker 3 was elected leader" in told
    assert "next: lowwater plan --topic orders --to committed --out again.json" in told
    assert "watched until" not in told


def test_waits_are_told_beside_their_forecast_where_there_was_one() -> None:
    wait = RequestWait(1, 3, "keeps-up", 0.0, 0.333, 0.75, 0.41, timed_out=False, inside=True)
    assert run_text.waited(Receipt(waits=(wait,))) == [
        "waits: the slowest of 1 request took 0.4 s; predicted 0 s to 0.8 s, about 0.3 s: "
        "1 of 1 inside"
    ]
    assert run_text.waited(Receipt()) == run_text.waited(None) == []
