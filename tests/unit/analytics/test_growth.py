"""Rates need enough history; a disk that does not grow has no day on which it is full."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analytics.replicas.panes import SPREAD
from analytics.replicas.trends import from_table, microseconds, to_table
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import FINDING_TABLES, conform
from tests.support.lab import Snapshot
from tests.support.one_bucket import growth
from tests.unit.analytics.test_trends import Lab, silent

pytestmark = pytest.mark.further

Row = dict[str, Any]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(ClusterStore(Store(str(tmp_path)), "c1"))


def rows(lab: Lab) -> tuple[dict[str, Row], dict[int, Row]]:
    """The rows by topic, and by broker."""
    lab.analyze()
    found = lab.rows("growth")
    return (
        {row["topic"]: row for row in found if row["topic"] and row["broker_id"] is None},
        {row["broker_id"]: row for row in found if not row["topic"]},
    )


def write(lab: Lab, minute: float, used: int = 10**9, away: int | None = None) -> None:
    step = int(minute)
    lab.write(
        minute,
        Snapshot()
        .topic("a", end=10 + 10 * step, size=1000 + 1000 * step)
        .topic("b", start=10 * step, end=100 + 10 * step, size=10_000, brokers=(2,)),
        used,
        away=away,
    )


def test_rates_are_summed_over_replicas_and_need_three_snapshots_over_ten_minutes(
    lab: Lab,
) -> None:
    for minute in (0, 5, 9):
        write(lab, minute)
    topics, disks = rows(lab)
    assert {row["growth_per_hour"] for row in (*topics.values(), *disks.values())} == {None}
    assert (topics["a"]["samples"], topics["a"]["window_seconds"]) == (3, 540)
    assert (topics["a"]["replicas"], disks[1]["used_bytes_per_hour"]) == (0, None)
    write(lab, 12)
    topics, disks = rows(lab)
    a, b = topics["a"], topics["b"]
    assert (a["bytes_in_per_hour"], a["bytes_out_per_hour"], a["replicas"]) == (120_000, 0, 2)
    assert (a["samples"], a["window_seconds"]) == (4, 720)
    # 100 bytes an offset; 120 of them came and went in twelve minutes.
    assert (b["growth_per_hour"], b["bytes_in_per_hour"]) == (0, b["bytes_out_per_hour"])
    assert b["bytes_in_per_hour"] == pytest.approx(60_000, rel=0.2)
    assert [disks[broker]["bytes_in_per_hour"] for broker in (1, 2)] == [
        60_000, 60_000 + b["bytes_in_per_hour"],
    ]  # fmt: skip


def test_days_to_full_follow_the_slope_of_used_bytes(lab: Lab) -> None:
    for step in range(13):  # 1 GB an hour of 9 GB that are free at first
        write(lab, 5 * step, used=10**9 + step * 10**9 // 12)
    _, disks = rows(lab)
    assert disks[1]["used_bytes_per_hour"] == pytest.approx(10**9, rel=1e-6)
    assert disks[1]["days_to_full"] == pytest.approx(8 / 24)
    assert disks[1]["window_seconds"] == 3600
    for step in range(13, 40):
        write(lab, 5 * step, used=10**9)
    _, disks = rows(lab)
    assert disks[1]["used_bytes_per_hour"] < 0
    assert disks[1]["days_to_full"] is None


def test_a_broker_that_misses_a_snapshot_keeps_the_pace_of_its_disk(lab: Lab) -> None:
    """Its catching up is a part of what came in the window, and not all that is known of it."""
    for minute in range(0, 60, 5):
        write(lab, minute, used=10**9 + minute * 10**6)
    _, before = rows(lab)
    write(lab, 60, used=10**9 + 60 * 10**6, away=2)
    _, missing = rows(lab)
    assert set(missing) == {1}, "what nobody told has no row"
    for minute in range(65, 80, 5):
        write(lab, minute, used=10**9 + minute * 10**6)
    _, disks = rows(lab)
    assert disks[2]["used_bytes_per_hour"] == before[2]["used_bytes_per_hour"] == 60 * 10**6
    assert (disks[1]["samples"], disks[2]["samples"]) == (16, 15)
    assert disks[2]["window_seconds"] == disks[1]["window_seconds"] == 75 * 60
    lab.write(80, Snapshot().topic("a"), brokers=(1,))
    lab.write(85, Snapshot().topic("a"))
    _, disks = rows(lab)
    assert disks[2]["samples"] == 1, "one that left the cluster is forgotten"


@pytest.mark.parametrize("alone", [True, False])
def test_a_broker_that_was_away_alone_for_a_night_tells_no_pace_of_its_catching_up(
    lab: Lab, alone: bool
) -> None:
    """Where nobody collected meanwhile it has nothing to catch up: minutes are enough."""
    for hour in (*range(6), *(range(6, 21) if alone else ())):  # past the whole pane from 12:00
        write(lab, 60 * hour, used=10**9 + hour * 10**6, away=2 if hour > 5 else None)
    for minute in (0, 6, 12, 18):
        write(lab, 60 * 21 + minute, used=10**9 + 21 * 10**6 + minute * 10**6)
    _, disks = rows(lab)
    assert disks[1]["used_bytes_per_hour"] is not None
    assert (disks[2]["used_bytes_per_hour"] is None) == alone
    write(lab, 60 * 33.5, used=2 * 10**9)
    _, disks = rows(lab)
    assert disks[2]["used_bytes_per_hour"] is not None


@pytest.mark.parametrize("last", [13, 28])
def test_its_catching_up_is_no_pace_in_a_window_that_begins_with_it(lab: Lab, last: int) -> None:
    """Back shortly before noon, when a pane ends and the one of before leaves the window: away
    since 18:00, or since 10:30, which is more than a pane.
    """
    for half in range(63):  # from 04:00 to 11:00 of the next day
        write(lab, 30 * half, used=10**9 + 30 * half * 10**6, away=2 if half > last else None)
    for minute in (1896, 1904, 1912, 1918, 1924, 1932, 1940):
        write(lab, minute, used=10**9 + minute * 10**6)
    _, disks = rows(lab)
    assert disks[1]["used_bytes_per_hour"] == 60 * 10**6
    assert (disks[2]["samples"], disks[2]["used_bytes_per_hour"]) == (7, None)


def test_a_broker_that_died_keeps_no_pace_from_the_others(lab: Lab) -> None:
    """Nobody collected over the weekend: nothing was caught up, though one disk stands still."""
    for hour in range(6):
        write(lab, 60 * hour, used=10**9 + hour * 10**6)
    write(lab, 60 * 6, used=10**9 + 6 * 10**6, away=2)
    for minute in (0, 6, 12, 18):
        write(lab, 60 * 40 + minute, used=10**9 + minute * 10**6, away=2)
    _, disks = rows(lab)
    assert disks[1]["used_bytes_per_hour"] == 60 * 10**6


def test_a_topic_and_log_dir_have_a_row_of_their_own_and_sum_to_the_others(lab: Lab) -> None:
    for minute in (0, 5, 9, 12):
        write(lab, minute)
    topics, disks = rows(lab)
    both = [row for row in lab.rows("growth") if row["topic"] and row["broker_id"]]
    assert [(row["topic"], row["broker_id"], row["replicas"]) for row in both] == [
        ("a", 1, 1), ("a", 2, 1), ("b", 2, 1),
    ]  # fmt: skip
    for name in ("bytes_in_per_hour", "bytes_out_per_hour", "growth_per_hour"):
        for topic, row in topics.items():
            assert sum(r[name] for r in both if r["topic"] == topic) == row[name]
        for broker, row in disks.items():
            assert sum(r[name] for r in both if r["broker_id"] == broker) == row[name]
    assert {row["log_dir"] for row in both} == {disks[1]["log_dir"]}
    assert {row["days_to_full"] for row in both} == {None}


@pytest.mark.further
def test_days_to_full_have_an_interval_once_the_slope_has(lab: Lab) -> None:
    jitter = (0, 40, -30, 25, -45, 10, 35, -20, 5, -10, 30, -35, 15)
    for step, off in enumerate(jitter):
        write(lab, 5 * step, used=10**9 + step * 10**9 // 12 + off * 10**6)
    _, disks = rows(lab)
    one = disks[1]
    low, likely, high = (one[f"used_bytes_per_hour{end}"] for end in ("_low", "", "_high"))
    assert 0 < low < 10**9 < high < 2 * 10**9 and likely - low == pytest.approx(high - likely, 1e-6)
    left = 24 * one["days_to_full"] * likely
    assert 24 * one["days_to_full_low"] * high == pytest.approx(left, rel=1e-6)
    assert 24 * one["days_to_full_high"] * low == pytest.approx(left, rel=1e-6)


@pytest.mark.further
def test_sums_of_an_older_release_have_no_interval_until_they_are_gone(lab: Lab) -> None:
    for step in range(13):
        write(lab, 5 * step, used=10**9 + step * 10**8)
    lab.analyze()
    assert lab.base is not None
    whole = lab.cluster.read("findings", lab.base.id, "trends")
    older = whole.drop_columns([f"size_{part}" for part in SPREAD])
    read = from_table(conform(FINDING_TABLES["trends"], older))
    assert np.isnan(read.disk.now["size_dydy"]).all() and (read.disk.before["size_dydy"] == 0).all()
    again = to_table(read)
    assert again.equals(to_table(from_table(again)))
    assert again["size_dydy"].null_count == again.num_rows, "not known is null, not NaN"
    log_dirs = lab.cluster.read("snapshots", lab.seen[-1].id, "log_dirs")
    (row,) = (r for r in growth(read, log_dirs, microseconds(lab.seen[-1])).to_pylist()
              if r["topic"] is None and r["broker_id"] == 1)  # fmt: skip
    assert row["days_to_full"] > 0 and row["days_to_full_low"] is None
    assert row["used_bytes_per_hour_low"] is None is row["used_bytes_per_hour_high"]


def test_a_disk_that_may_or_may_not_fill_up_has_no_latest_day(lab: Lab) -> None:
    for step in range(13):
        write(lab, 5 * step, used=10**9 + (step % 3) * 10**8 + step * 10**6)
    _, disks = rows(lab)
    one = disks[1]
    assert one["used_bytes_per_hour_low"] < 0 < one["used_bytes_per_hour_high"]
    assert one["days_to_full_low"] < one["days_to_full"]
    assert one["days_to_full_high"] is None


def test_a_replica_that_this_snapshot_did_not_see_is_left_out(lab: Lab) -> None:
    for minute in range(0, 31, 10):
        snapshot = Snapshot().topic("a", end=10 + minute, size=1000 * minute)
        lab.write(minute, silent(snapshot, 2) if minute == 30 else snapshot)
    topics, disks = rows(lab)
    assert (topics["a"]["replicas"], topics["a"]["growth_per_hour"]) == (1, 60_000)
    assert disks[2]["growth_per_hour"] is None


@pytest.mark.further
def test_the_window_is_the_running_pane_and_the_one_before(lab: Lab) -> None:
    """Twelve hours aligned to UTC: a burst in the morning is gone by the next day's noon."""
    found = {}
    for hour in range(1, 37):
        size = 100 * hour + (5 * 10**6 if hour > 1 else 0)
        lab.write(60 * hour - 240, Snapshot().topic("a", end=10 + hour, size=size))
        if hour > 20:  # each goes on from the one before
            found[hour], _ = rows(lab)
    early, late = found[23], found[36]
    assert early["a"]["growth_per_hour"] > 10**5
    assert (late["a"]["growth_per_hour"], late["a"]["window_seconds"]) == (200, 13 * 3600)


def test_a_replica_that_no_log_dir_has_ever_listed_is_in_none(lab: Lab) -> None:
    """A broker that has never answered, or a topic that was made while the snapshot was taken."""
    for minute in (0, 5, 12):
        lab.write(minute, silent(Snapshot().topic("a", end=100, size=1000), 2), 10**9)
    lab.analyze()
    both = [r for r in lab.rows("growth") if r["topic"] and r["broker_id"] is not None]
    assert [(r["topic"], r["broker_id"], r["log_dir"]) for r in both] == [("a", 1, "/d1")]
