"""Rows of `retention_fit` out of sums: lags of all buckets, guards, bytes by rates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from analytics.advice import retention_fit
from analytics.kernels import SUMMED
from analytics.readers import last_writes, reader_lags
from dashboard.store.tables import FINDING_TABLES

NOW = datetime(2026, 3, 1, 4, tzinfo=UTC)
HOUR, DAY = 3_600_000, 86_400_000
_TIME = pa.timestamp("us", tz="UTC")
_HELD = pa.schema(
    [
        ("topic", pa.string()),
        ("group_id", pa.string()),
        ("last_seen_at_min", _TIME),
        ("offset_seen_at", _TIME),
    ]
)
_KINDS = {"topic": pa.string(), "guard": pa.string(), "since": _TIME, "groups_since": _TIME}
TOPICS = pa.table(
    {"topic": ["a", "b", "undeclared"], "topic_id": ["1", "2", "3"], "owner": ["ann", None, None],
     "retention_ms": [7 * DAY, 7 * DAY, 7 * DAY], "replay_window_ms": [0, 0, 0],
     "segment_bytes": [1000, 1000, 1000]}
)  # fmt: skip
SIZES = [
    {"topic": n, "size_bytes": 100_000, "replicas": 2, "unmeasured": 0}
    for n in ("a", "b", "undeclared")
]


def table(rows: list[dict[str, Any]], names: list[str]) -> pa.Table:
    return pa.Table.from_pylist(rows, pa.schema([(n, _KINDS.get(n, pa.int64())) for n in names]))


def lag(topic: str, low: int, high: int, **facts: Any) -> dict[str, Any]:
    row = {"topic": topic, "partitions": 2, "unknown": 0, "since": NOW - timedelta(days=20),
           "groups_since": NOW - timedelta(days=20), "lag_low_ms": low,
           "lag_high_ms": high}  # fmt: skip
    return {**row, **facts}


def found(
    *lags: dict[str, Any],
    rate: int | None = 600,
    rated: int = 2,
    seen: timedelta = timedelta(0),
    ahead: timedelta = timedelta(0),
) -> dict[str, dict[str, Any]]:
    held = {
        "topic": ["a"],
        "group_id": ["monthly"],
        "last_seen_at_min": [NOW - seen],
        "offset_seen_at": [NOW - seen],
    }
    sums = {
        "held": pa.table(held).cast(_HELD),
        "reader_lags": table(list(lags), ["topic", "guard", *reader_lags._SUMS]),
        "last_writes": table(
            SIZES,
            ["topic", "partitions", "unread", "never_known", "moved_at", "known_since", "records",
             "size_bytes", "replicas", "unmeasured"],
        ),
    }  # fmt: skip
    assert set(last_writes._SUMS) < set(sums["last_writes"].column_names)
    sums = {name: SUMMED[name](rows) for name, rows in sums.items()}
    growth = pa.table(
        {"topic": ["a", "b", None], "broker_id": pa.array([None, None, 1], pa.int32()),
         "bytes_in_per_hour": pa.array([rate, rate, 9], pa.int64()), "replicas": [rated, rated, 2],
         "window_seconds": [12 * 3600] * 3}
    )  # fmt: skip
    made = retention_fit(sums, TOPICS, growth, taken_at=NOW, seen_at=NOW + ahead, margin=2.0)
    declared = set(FINDING_TABLES["retention_fit"].schema.names) - {"snapshot_id", "taken_at"}
    assert set(made.column_names) == declared
    return {row["topic"]: row for row in made.to_pylist()}


def test_the_longest_lag_of_all_buckets_counts_and_bytes_have_bounds() -> None:
    rows = found(lag("a", HOUR, 2 * HOUR), lag("a", 8 * HOUR, 11 * HOUR), lag("b", 0, 0))
    assert list(rows) == ["a", "b"], "nobody declared the third one's readers"
    a = rows["a"]
    assert (a["lag_low_ms"], a["lag_high_ms"], a["fits_ms"]) == (8 * HOUR, 11 * HOUR, 3 * DAY)
    assert (a["verdict"], a["partitions"], a["owner"]) == ("shorter", 4, "ann")
    # 72 hours at 600 an hour, the first 12 of them by a rate of half to twice as much.
    assert a["freed_likely_bytes"] == 100_000 - 72 * 600 - 1000
    assert a["freed_low_bytes"] == 100_000 - (12 + 2 * 60) * 600 - 2000
    assert a["freed_high_bytes"] == 100_000 - (12 + 60 // 2) * 600


def test_guards_and_unknown_partitions_of_any_bucket_propose_nothing() -> None:
    guard = {"topic": "a", "guard": "no-committed-offset"}
    rows = found(lag("a", 0, 0), guard, lag("b", 0, 0), lag("b", 0, 0, unknown=1))
    assert (rows["a"]["verdict"], rows["a"]["guards"]) == ("unknown", ["no-committed-offset"])
    assert (rows["b"]["verdict"], rows["b"]["lag_high_ms"]) == ("unknown", None)
    assert rows["a"]["freed_likely_bytes"] is None


def test_a_group_that_came_to_any_partition_lately_proposes_nothing() -> None:
    came = NOW - timedelta(hours=26)
    rows = found(lag("a", 0, 0), lag("a", 0, 0, groups_since=came), lag("b", 0, 0))
    assert (rows["a"]["verdict"], rows["a"]["groups_since"]) == ("unknown", came)
    assert rows["b"]["verdict"] == "shorter"


def test_bytes_are_unknown_without_a_rate() -> None:
    row = found(lag("a", 0, HOUR), rate=None)["a"]
    assert row["verdict"] == "shorter"
    assert {row[f"freed_{end}_bytes"] for end in ("low", "likely", "high")} == {None}


def test_bytes_are_unknown_by_the_rate_of_a_part_of_the_replicas() -> None:
    """One was moved or rebuilt: all its bytes would count, and nothing that comes to it."""
    row = found(lag("a", 0, HOUR), rate=300, rated=1)["a"]
    assert (row["verdict"], row["size_bytes"]) == ("shorter", 100_000)
    assert {row[f"freed_{end}_bytes"] for end in ("low", "likely", "high")} == {None}


def test_days_that_a_wrong_clock_put_before_a_snapshot_are_not_counted() -> None:
    """Its id stands behind one that was taken by a clock eight days ahead."""
    since = NOW - timedelta(hours=2)
    row = found(lag("b", 0, 0, since=since), ahead=timedelta(days=8))["b"]
    assert (row["verdict"], "not known for long enough" in row["reason"]) == ("unknown", True)


def test_a_group_that_is_gone_may_come_back_for_what_it_has_not_read() -> None:
    rows = found(lag("a", HOUR, HOUR), lag("b", HOUR, HOUR), seen=timedelta(days=9))
    assert (rows["a"]["gone_groups"], rows["b"]["gone_groups"]) == (["monthly"], [])
    assert (rows["a"]["verdict"], rows["b"]["verdict"]) == ("unknown", "shorter")
