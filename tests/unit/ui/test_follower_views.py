"""Low watermarks and lines of lags, from rows of the findings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from dashboard.store.tables import FINDING_TABLES
from dashboard.ui import lags
from dashboard.views import followers as lag_points
from dashboard.views.followers import Place, behind

NOW = datetime(2026, 3, 1, 4, tzinfo=UTC)


def table(name: str, *rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=FINDING_TABLES[name].schema)


def start(partition: int, broker: int, lag: int | None, topic: str = "t") -> dict[str, Any]:
    return {"topic": topic, "partition": partition, "broker_id": broker, "log_start_lag": lag,
            "holds_low_watermark": bool(lag)}  # fmt: skip


def test_the_holder_of_each_partition_and_what_is_not_known() -> None:
    followers = table(
        "slow_followers", start(0, 1, 0), start(0, 2, 0), start(1, 2, 40), start(1, 3, 0),
        start(2, 2, None), start(2, 3, 900), start(0, 4, 5, "other"),
    )  # fmt: skip
    found = lags.held(followers, "t")

    assert [(h.partition, h.brokers, h.lag, h.unknown) for h in found] == [
        (2, (3,), 900, (2,)), (1, (2,), 40, ()), (0, (), 0, ()),
    ]  # fmt: skip
    assert lags.topic_of(followers) == "t"
    assert lags.sentence(found) == (
        "Brokers 2, 3, in 2 of 3 partitions: a wait-all purge waits there. "
        "Not known of broker 2: no log start was read there."
    )


def test_where_every_log_start_is_level_nobody_holds_anything() -> None:
    followers = table("slow_followers", start(0, 1, 0), start(0, 2, 0))

    assert lags.topic_of(followers) is None
    found = lags.held(followers, "t")
    assert lags.sentence(found) == "Nobody: every known log start is at its leader's."
    assert "<table" not in lags.held_html(found, "t")


def test_places_are_told_by_what_is_known_of_their_followers() -> None:
    def row(log_dir: str | None, partition: int, **more: Any) -> dict[str, Any]:
        return {"topic": "t", "partition": partition, "broker_id": 1, "log_dir": log_dir} | more

    followers = table(
        "slow_followers",
        row("/a", 0, slow=False, in_sync=True, lag_seconds=90.0, lag_bytes=7),
        row("/a", 1, slow=None, in_sync=None, lag_seconds=None, lag_bytes=None),
        row("/b", 2, slow=True, in_sync=False, lag_seconds=2.0, lag_bytes=5),
        row("/b", 3, slow=True, in_sync=True, lag_seconds=4.0, lag_bytes=6),
        row(None, 4, slow=True, in_sync=False, lag_seconds=None, lag_bytes=None),
    )
    assert lag_points.places(followers) == [
        Place(1, "/b", 2, 2, 1, 4.0, 11),
        Place(1, None, 1, 1, 1, None, None),
        Place(1, "/a", 2, 0, 0, 90.0, 7),
    ]


def pane(broker: int, minutes: tuple[int, int], lags: tuple[int, int], **more: Any) -> Any:
    first, last = (NOW - timedelta(minutes=m) for m in minutes)
    return {"topic": "t", "partition": 0, "broker_id": broker, "lag_n": 9, "lag_first_at": first,
            "lag_first": lags[0], "lag_last_at": last, "lag_last": lags[1], **more}  # fmt: skip


def test_a_line_is_drawn_through_what_was_measured() -> None:
    before = {"before_at": NOW - timedelta(minutes=10), "lag_before": 50}
    trends = table(
        "trends", pane(1, (30, 20), (0, 0)), pane(1, (20, 0), (0, 100), **before),
        pane(2, (20, 0), (7, 7)), {"topic": "t", "partition": 0, "broker_id": 3, "lag_n": 0},
    )  # fmt: skip
    found = lag_points.points(trends, [("t", 0, 1), ("t", 0, 3)])

    assert set(found) == {("t", 0, 1)}
    line = found["t", 0, 1]
    assert [lag for _, lag in line] == [0, 0, 50, 100]
    assert lag_points.spark(line) == pytest.approx(
        [0, 0, 0, 12.5, 31.25, 50, 68.75, 87.5, 100], abs=7
    )
    assert lag_points.spark(line[:1]) is None
    drawn = lag_points.option(line, dark=True)["series"][0]["data"]
    assert drawn[-1]["value"] == [NOW.timestamp() * 1000, 100]


def test_points_of_long_ago_are_left_out() -> None:
    trends = table("trends", pane(1, (500, 490), (9, 9)), pane(1, (20, 0), (1, 2)))

    assert [lag for _, lag in lag_points.points(trends, [("t", 0, 1)])["t", 0, 1]] == [1, 2]


def test_a_lag_that_is_not_known_has_its_reason() -> None:
    row = {"broker_id": 3, "alive": True, "lag_records": None, "lag_seconds": None}

    assert behind(row) == "lag unknown: its log end, or its leader's, was not read"
    assert behind({**row, "lag_records": 5}) == "5 records behind"
    assert "broker 3 does not answer" in behind({**row, "alive": False})
