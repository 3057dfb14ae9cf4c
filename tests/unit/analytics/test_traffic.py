"""Rates of brokers' counters: resets, scrapes that missed, and what nobody measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from analytics.metrics import counters, scrapes, traffic
from analytics.metrics.counters import Counters, Scrape, from_table, to_table
from analytics.metrics.scrapes import TOLD, Scrapes
from analytics.replicas.panes import SECOND
from dashboard.domain.metric_names import (
    BYTES_OUT,
    CONSUMER_LAG,
    COUNTERS,
    PURGATORY_SIZE,
    REQUEST_TIME,
    labels,
)
from dashboard.store.snapshot_files import Manifest

EPOCH = 1_772_323_200  # a multiple of 12 hours
MINUTE = 60 * SECOND
Told = Mapping[tuple[str | None, str], float]
Row = dict[str, Any]


@dataclass
class Bench:
    """A cluster's scrapes, folded one by one; each is kept as a table between."""

    topics: list[str] = field(default_factory=lambda: ["t", "u"])
    brokers: list[int] = field(default_factory=lambda: [1, 2])
    found: Counters = field(default_factory=counters.nothing)
    before: dict[int, list[int]] = field(default_factory=dict)
    at: int = 0

    def scrape(self, minute: float, told: Mapping[int, Told | None]) -> None:
        """What each broker told, by topic and counter; None: it was asked and did not answer."""
        self.at = int(EPOCH * SECOND + minute * MINUTE)
        rows = [
            {"topic": topic, "broker_id": broker, "counter": counter, "value": value}
            for broker, counts in told.items() for (topic, counter), value in (counts or {}).items()
        ]  # fmt: skip
        bits = {
            broker: sum({1 << TOLD.index(counter) for _, counter in counts})
            for broker, counts in told.items() if counts
        }  # fmt: skip
        known = Scrapes({"now": bits}, self.before).snapshots()
        scrape = Scrape(
            self.at, pa.array(self.topics), pa.array(self.brokers, pa.int32()), list(told), bits,
            known,
        )  # fmt: skip
        table = pa.Table.from_pylist(rows, schema=_ROWS)
        self.found = from_table(to_table(counters.stepped(self.found, table, scrape)))
        known.add(bits, self.at, scrape.brokers)
        self.before = dict(zip(known.ids.tolist(), known.last.tolist(), strict=True))

    def rows(
        self, metrics: pa.Table | None = None, later: float = 0
    ) -> dict[tuple[str | None, int], Row]:
        """The `traffic` table by topic and broker, so many minutes after the last scrape."""
        told = _METRICS.empty_table() if metrics is None else metrics
        at = self.at + int(later * MINUTE)
        found = traffic.traffic(self.found, told, pa.array(self.topics, pa.string()), at)
        return {(row["topic"], row["broker_id"]): row for row in found.to_pylist()}


_ROWS = pa.schema(
    [("topic", pa.string()), ("broker_id", pa.int32()), ("counter", pa.string()),
     ("value", pa.float64())]
)  # fmt: skip
_METRICS = pa.schema(
    [("broker_id", pa.int32()), ("name", pa.string()), ("labels", pa.string()),
     ("value", pa.float64()), ("topic", pa.string()), ("partition", pa.int32())]
)  # fmt: skip


def out(topic: float | None, whole: float = 0.0) -> Told:
    """Bytes that left topic t (None: its counter is not there) and all topics."""
    told: dict[tuple[str | None, str], float] = {(None, "bytes_out"): whole}
    return told if topic is None else {**told, ("t", "bytes_out"): topic}


def of(bench: Bench, *columns: str, topic: str | None = "t", broker: int = 1) -> list[Any]:
    row = bench.rows()[topic, broker]
    return [row[column] for column in columns]


def test_a_counters_differences_are_a_rate_of_the_hour_and_of_the_day() -> None:
    bench = Bench()
    for step in range(5):
        bench.scrape(10 * step, {1: out(1000.0 + 500 * step, 9000.0 + 1000 * step)})
    assert of(bench, "bytes_out_per_hour", "bytes_out_per_day") == [3000, 72_000]
    assert of(bench, "hour_samples", "hour_seconds", "day_seconds") == [5, 2400, 2400]
    assert of(bench, "bytes_out_per_hour", "resets", "missed", topic=None) == [6000, 0, 0]


def test_a_counter_that_fell_began_anew_and_counts_from_0() -> None:
    bench = Bench()
    for minute, count in ((0, 1000.0), (10, 1200.0), (20, 50.0), (30, 60.0)):
        bench.scrape(minute, {1: out(count)})
    assert of(bench, "bytes_out_per_hour", "resets", "missed") == [2 * (200 + 50 + 10), 1, 0]


def test_a_scrape_that_missed_is_told_apart_and_what_came_meanwhile_counts() -> None:
    bench = Bench()
    bench.scrape(0, {1: out(100.0), 2: out(100.0)})
    bench.scrape(10, {1: out(100.0), 2: out(100.0)})
    bench.scrape(20, {1: out(100.0), 2: None})
    assert of(bench, "bytes_out_per_hour", "missed", "hour_samples") == [0, 0, 3]
    assert of(bench, "bytes_out_per_hour", "missed", "hour_samples", broker=2) == [0, 1, 2]
    bench.scrape(30, {1: out(100.0), 2: out(700.0)})
    assert of(bench, "bytes_out_per_hour", "missed", broker=2) == [1200, 1]


def test_unmeasured_is_null_and_never_0() -> None:
    bench = Bench()
    bench.scrape(0, {1: out(5.0), 2: None})
    assert of(bench, "bytes_out_per_hour", "hour_samples", "hour_seconds") == [None, 1, 0]
    silent = of(
        bench, "bytes_out_per_hour", "resets", "measured_at", "missed", topic=None, broker=2
    )
    assert silent == [None, None, None, 1]
    bench.scrape(10, {1: out(5.0), 2: None})
    assert of(bench, "bytes_out_per_hour", "bytes_in_per_hour") == [0, None], "no count of bytes in"
    late = bench.rows(later=61)["t", 1]
    assert (late["bytes_out_per_hour"], late["hour_samples"], late["bytes_out_per_day"]) == (
        None, 0, 0,
    )  # fmt: skip
    assert bench.rows(later=60 * 25)["t", 1]["bytes_out_per_day"] is None


@pytest.mark.parametrize("count", [1e300, -1e300])
def test_what_no_counter_says_is_no_error(count: float) -> None:
    bench = Bench()
    for minute, told in ((0, 1.0), (0.01, count), (0.02, 2.0)):
        bench.scrape(minute, {1: out(told)})
    lag = {"broker_id": 1, "name": CONSUMER_LAG, "labels": "{}", "value": abs(count)}
    row = bench.rows(pa.Table.from_pylist([lag], schema=_METRICS))["t", 1]
    assert row["bytes_out_per_hour"] > 0
    assert bench.rows(pa.Table.from_pylist([lag], schema=_METRICS))[None, 1]["fetcher_lag"] == 2**53


def test_what_is_spread_over_many_hours_is_no_rate_of_an_hour() -> None:
    bench = Bench()
    for hours in (0, 6, 12):
        bench.scrape(60 * hours, {1: out(100.0 * hours)})
    assert of(bench, "bytes_out_per_hour", "bytes_out_per_day") == [None, 2400]


def test_a_topic_without_a_counter_stands_at_0_where_its_broker_tells_others() -> None:
    """Kafka makes the counter with the first request: what it begins with is what came since."""
    bench = Bench()
    bench.scrape(0, {1: out(None), 2: None})
    bench.scrape(10, {1: out(None), 2: out(None)})
    bench.scrape(20, {1: out(900.0), 2: None})
    assert of(bench, "bytes_out_per_hour", "hour_seconds") == [900 * 6, 600]
    bench.scrape(30, {1: out(None), 2: out(400.0)})
    assert of(bench, "resets") == [1], "its leadership went away"
    assert of(bench, "bytes_out_per_hour", broker=2) == [400 * 3]


def test_a_first_count_after_no_scrape_is_where_it_begins() -> None:
    bench = Bench()
    bench.scrape(0, {1: {(None, "bytes_in"): 1.0}})
    bench.scrape(10, {1: out(900.0)})
    assert of(bench, "bytes_out_per_hour") == [None]
    bench.scrape(20, {1: out(930.0)})
    assert of(bench, "bytes_out_per_hour") == [180]


def test_what_is_none_of_the_clusters_any_more_is_forgotten() -> None:
    bench = Bench()
    both = {("t", "bytes_out"): 1.0, ("u", "bytes_out"): 1.0}
    for minute in (0, 10):
        bench.scrape(minute, {1: both, 2: both})
    bench.topics, bench.brokers = ["u"], [1]
    bench.scrape(20, {1: both})
    assert set(bench.rows()) == {(None, 1), ("u", 1)}


LIFE = 5e12  # what a topic has counted since its broker's start


@pytest.mark.parametrize("since", [0, 1])
@pytest.mark.parametrize("missed", [False, True])
def test_a_topic_that_was_hidden_does_not_count_its_whole_life_at_once(
    since: int, missed: bool
) -> None:
    """Its rights were taken away, or given only then, and its broker told of it all the while."""
    bench = Bench()
    for step in range(4):
        bench.topics = ["u"] if since <= step < 3 else ["t", "u"]
        away = missed and step == 2
        bench.scrape(10 * step, {1: None if away else out(LIFE + 100 * step, LIFE)})
        assert (("t", 1) in bench.rows()) is ("t" in bench.topics), "it has no row while hidden"
    assert of(bench, "bytes_out_per_hour", "resets") == [600, 0]


def test_a_topic_that_was_deleted_is_forgotten_and_made_anew_begins_at_0() -> None:
    bench = Bench()
    for minute in (0, 10):
        bench.scrape(minute, {1: out(LIFE)})
    bench.topics = ["u"]
    bench.scrape(20, {1: None})
    assert "t" in bench.found.series["topic"].to_pylist(), "its broker told nothing"
    bench.scrape(30, {1: out(None)})
    assert "t" not in bench.found.series["topic"].to_pylist()
    bench.topics = ["t", "u"]
    bench.scrape(40, {1: out(500.0)})
    assert of(bench, "bytes_out_per_hour", "hour_seconds", "resets") == [3000, 600, 0]


def test_a_topic_that_left_a_broker_is_forgotten_once_it_has_counted_nothing_for_a_day() -> None:
    bench = Bench()
    bench.scrape(0, {1: out(10.0)})
    bench.scrape(30, {1: out(50.0)})
    for hours in (6, 12, 18):
        bench.scrape(60 * hours, {1: out(None)})
        assert ("t", 1) in bench.rows()
    bench.scrape(60 * 24, {1: out(None)})
    assert ("t", 1) not in bench.rows()


def test_gauges_are_those_of_the_broker_itself() -> None:
    bench = Bench()
    bench.scrape(0, {1: out(10.0), 2: out(10.0)})
    purge, request = labels(delayedOperation="DeleteRecords"), labels(request="DeleteRecords")
    told = pa.Table.from_pylist(
        [
            {"broker_id": 1, "name": name, "labels": label, "value": value}
            for name, label, value in (
                (PURGATORY_SIZE, purge, 2.0), (f"{REQUEST_TIME}_mean", request, 340.5),
                (f"{REQUEST_TIME}_99thpercentile", request, 498.0),
                (CONSUMER_LAG, labels(clientId="ReplicaFetcherThread-0-2"), 7.0),
                (CONSUMER_LAG, labels(), 40.0),
            )
        ],
        schema=_METRICS,
    )  # fmt: skip
    rows = bench.rows(told)
    gauges = ("delete_requests_waiting", "delete_ms_mean", "delete_ms_p99", "fetcher_lag")
    assert [rows[None, 1][name] for name in gauges] == [2, 340.5, 498.0, 40]
    assert {rows[place][name] for place in (("t", 1), (None, 2)) for name in gauges} == {None}


def test_the_lag_that_fetchers_see_is_the_most_of_any_and_unknown_of_a_silent_broker() -> None:
    followers = pa.table(
        {
            "topic": ["t", "t", "u", "t"],
            "partition": pa.array([0, 1, 0, 0], pa.int32()),
            "broker_id": pa.array([1, 1, 1, 2], pa.int32()),
        }
    )
    told = pa.Table.from_pylist(
        [
            {"broker_id": 1, "name": CONSUMER_LAG, "value": value, "topic": "t", "partition": 0}
            for value in (30.0, 40.0)
        ] + [{"broker_id": 1, "name": CONSUMER_LAG, "labels": "{}", "value": 40.0}],
        schema=_METRICS,
    )  # fmt: skip
    found = traffic.fetcher_lags(followers, told, frozenset({1}))
    assert found.to_pylist() == [40, 0, 0, None]


class Kept:
    """A store of two snapshots' metrics in two parts."""

    parts: Mapping[str, list[tuple[int, str]]] = {
        "a": [(1, BYTES_OUT), (1, COUNTERS["bytes_in"]), (1, BYTES_OUT)],
        "b": [(2, BYTES_OUT), (2, PURGATORY_SIZE), (2, CONSUMER_LAG)],
    }

    def read(self, _kind: str, name: str, _table: str, _columns: list[str]) -> pa.Table:
        brokers, names = zip(*self.parts[name], strict=True)
        return pa.table({"broker_id": pa.array(brokers, pa.int32()), "name": pa.array(names)})


def test_what_any_part_of_a_store_saw_of_a_broker_counts_in_all() -> None:
    store: Any = Kept()
    told = scrapes.told(store, ["a", "b"])
    again = pa.table(
        {"snapshot_id": ["a"], "broker_id": pa.array([1], pa.int32()), "told": [1 << 2]}
    )
    found = Scrapes.of(pa.concat_tables([told, again, told]), scrapes.before(_counters()))
    assert found.telling("a", "bytes_in") == found.telling("a", "messages_in") == {1}
    assert found.telling("b", "bytes_out") == found.telling("b", "fetcher_lag") == {2}
    assert found.telling("c", "bytes_out") == frozenset()
    known = found.snapshots()
    asked = pa.table({"broker_id": pa.array([1, 3, 9], pa.int32()), "counter": ["bytes_out"] * 3})
    assert known.at(asked).tolist() == [0, 77, 0]
    known.add(found.told["a"], 99, pa.array([1, 3]))
    assert known.at(asked).tolist() == [99, 77, 0]
    known.add({}, 100, pa.array([1, 2]))
    assert known.at(asked).tolist() == [99, 0, 0], "broker 3 is none of the cluster's any more"


def _counters() -> pa.Table:
    rows = [("t", 3, "bytes_out", 88), (None, 3, "bytes_out", 77), (None, 9, "bytes_out", None)]
    return pa.table(
        {
            "topic": pa.array([row[0] for row in rows], pa.string()),
            "broker_id": pa.array([row[1] for row in rows], pa.int32()),
            "counter": [row[2] for row in rows],
            "told_at": pa.array([row[3] for row in rows], pa.timestamp("us", "UTC")),
        }
    )


@pytest.mark.parametrize("name", ["hour", "day"])
def test_no_counter_at_all_makes_an_empty_table(name: str) -> None:
    found = traffic.traffic(counters.nothing(), _METRICS.empty_table(), pa.array(["t"]), 0)
    assert found.num_rows == 0
    assert f"bytes_out_per_{name}" in found.column_names


def manifest(number: int, *tables: str, snapshot: str = "") -> Manifest:
    at = datetime(2026, 3, 1, 4, number, tzinfo=UTC)
    return Manifest(f"s{number}", at, dict.fromkeys(tables, 0), 0.0, {"snapshot_id": snapshot})


class Listed:
    """A store that keeps three snapshots."""

    def ids(self, _kind: str) -> list[str]:
        return ["s1", "s2", "s3"]


@pytest.mark.parametrize(
    ("base", "new"),
    [
        (None, ["s1", "s2", "s3"]),
        (manifest(9, "holds", snapshot="s2"), ["s1", "s2", "s3"]),  # of an earlier version
        (manifest(9, "holds", "counters", snapshot="s2"), ["s3"]),
        (manifest(9, "holds", "counters", snapshot="s3"), []),  # it is analyzed again
    ],
)
def test_counters_go_on_from_an_analysis_that_counted(
    base: Manifest | None, new: list[str]
) -> None:
    store: Any = Listed()
    assert counters.new(store, base, manifest(3)) == new


def test_what_clients_fetch_by_the_hour_or_the_day_is_summed_over_brokers() -> None:
    rates = pa.table(
        {
            "topic": ["a", "a", "night", "quiet", None],
            "bytes_out_per_hour": pa.array([5, None, 0, 0, 99], pa.int64()),
            "bytes_out_per_day": pa.array([None, 24, 2, 0, 99], pa.int64()),
        }
    )
    found = traffic.all_fetched(pa.concat_tables([traffic.fetched(rates)] * 2))
    assert dict(zip(*(c.to_pylist() for c in found.columns), strict=True)) == {"a": 12, "night": 2}
