"""Trends over a store: carried on or folded again they are equal, whatever the snapshots tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from analytics.replicas import curves, points, trends
from analytics.replicas.trends import Carried, microseconds
from analytics.tables import stamped
from dashboard.estimate.curve_tables import to_table
from dashboard.store.snapshot_files import Manifest
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import FINDING_TABLES, SNAPSHOT_TABLES
from tests.support.lab import START, Snapshot
from tests.support.one_bucket import growth
from tests.support.sample_partitions import table_of

TOPICS = pa.table(
    {"topic": ["a", "b"], "segment_bytes": [1000, 500], "segment_ms": [3_600_000, None]}
)
Row = dict[str, Any]


@dataclass
class Lab:
    """Snapshots in, the three tables out; without Spark."""

    cluster: ClusterStore
    base: Manifest | None = None
    seen: list[Manifest] = field(default_factory=list)

    def write(
        self,
        minute: float,
        snapshot: Snapshot,
        used: int = 10**9,
        *,
        away: int | None = None,
        brokers: Sequence[int] = (1, 2),
    ) -> Manifest:
        """A snapshot that many minutes after START, both disks with `used` bytes of 10 GB; the
        broker that is `away` tells of none.
        """
        taken_at = START + timedelta(minutes=minute)
        snapshot.tables["brokers"] = snapshot.tables["brokers"] or [
            {"broker_id": b, "host": "h", "port": 1, "reachable": b != away} for b in brokers
        ]
        snapshot.tables["log_dirs"] = [
            {"broker_id": b, "log_dir": "/d1", "total_bytes": 10**10, "usable_bytes": 10**10 - used}
            for b in brokers if b != away
        ]  # fmt: skip
        for row in snapshot.tables["replicas"]:
            row.setdefault("is_leader", row["broker_id"] == 1)
            row.setdefault("observed_at", taken_at)
        writer = self.cluster.begin("snapshots", taken_at)
        for name, rows in snapshot.tables.items():
            writer.write(name, table_of(SNAPSHOT_TABLES[name], rows, writer.id, taken_at))
        writer.commit(1.0, {})
        self.seen.append(self.cluster.manifest("snapshots", writer.id))
        return self.seen[-1]

    def fold(self, base: Manifest | None) -> dict[str, pa.Table]:
        """The tables of the newest snapshot."""
        newest = self.seen[-1]
        told, carried = points.told(self.cluster, newest.id), Carried(self.cluster, base)
        drawn = curves.fold(self.cluster, newest, base, told, TOPICS, each=carried.add)
        log_dirs = self.cluster.read("snapshots", newest.id, "log_dirs")
        found = {
            "curves": to_table(drawn),
            "trends": trends.to_table(carried.trends),
            "growth": growth(carried.trends, log_dirs, microseconds(newest)),
        }
        return {name: stamped(name, table, newest) for name, table in found.items()}

    def analyze(self) -> None:
        writer = self.cluster.begin("findings", self.seen[-1].taken_at)
        for name, table in self.fold(self.base).items():
            writer.write(name, table)
        writer.commit(1.0, {"snapshot_id": self.seen[-1].id})
        self.base = self.cluster.manifest("findings", writer.id)

    def rows(self, table: str = "trends") -> list[Row]:
        assert self.base is not None
        found: list[Row] = self.cluster.read("findings", self.base.id, table).to_pylist()
        return found

    def running(self, topic: str = "a", broker: int = 1) -> Row:
        """The running pane of a replica."""
        (row,) = (
            r for r in self.rows()
            if (r["pane"], r["topic"], r["broker_id"]) == ("running", topic, broker)
        )  # fmt: skip
        return row


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(ClusterStore(Store(str(tmp_path)), "c1"))


_UNTOLD = ("log_dir", "size_bytes", "log_start_offset", "log_end_offset", "observed_at")


def silent(snapshot: Snapshot, broker: int) -> Snapshot:
    """The same, but this broker answered nothing: its replicas are named by the metadata alone."""
    for row in snapshot.tables["replicas"]:
        if row["broker_id"] == broker:
            row.update(dict.fromkeys(_UNTOLD), error="BROKER_UNREACHABLE")
    return snapshot


@pytest.mark.further
def test_carried_on_or_folded_again_the_tables_are_equal(lab: Lab) -> None:
    for step in range(30):
        end = 100 * step + 50 if step != 11 else 100  # 11: an unclean election
        snapshot = Snapshot().topic(
            "a", start=step // 8 * 300, end=end + 900, size=9000 + 70 * step
        )
        if step != 9:  # once a topic is hidden
            snapshot.topic("b", end=10 + step, size=500 * step, topic_id="new" if step > 15 else "")
        if step > 5:  # a partition was added
            snapshot.tables["replicas"] += [
                {**r, "partition": 1} for r in snapshot.tables["replicas"] if r["topic_no"] == 0
            ]
        if step in (13, 14):
            silent(snapshot, 2)
        away = {13: 1, 14: 2, 17: 2, 18: 2, 28: 1}.get(step)  # broker 1's stand first
        minute = 2.7 * step  # two at the same time, and a clock that steps back
        minute = {20: 2.7 * 19, 23: 2.7 * 21}.get(step, minute + 480 * (step > 26))
        lab.write(minute, snapshot, used=10**9 + step, away=away)
        if step not in (3, 4, 14):  # these are only seen by the next analysis
            lab.analyze()
    again = lab.fold(None)
    for name, table in again.items():
        assert lab.base is not None
        carried = lab.cluster.read("findings", lab.base.id, name)
        assert carried.equals(table.select(carried.column_names)), name
        key = [(column, "ascending") for column in FINDING_TABLES[name].key]
        assert table.sort_by(key).equals(table), f"{name} is sorted by its key"
    assert {row["size_n"] for row in lab.rows() if row["pane"] == "before"} == {4}
    assert {row["lag_from"] > START for row in lab.rows() if row["topic"]} == {True}


def test_bytes_in_less_bytes_out_is_how_much_a_size_changed(lab: Lab) -> None:
    sizes = [(0, 10, 1000), (0, 20, 2000), (10, 30, 2000), (10, 30, 2000), (10, 40, 2900)]
    for minute, (start, end, size) in enumerate(sizes):
        lab.write(minute, Snapshot().topic("a", start=start, end=end, size=size))
        lab.analyze()
    row = lab.running()
    assert (row["size_n"], row["size_first"], row["size_last"]) == (5, 1000, 2900)
    # 100 bytes an offset: 1000 came, 1000 came while 1000 left, 900 came.
    assert (row["bytes_in"], row["bytes_out"]) == (2900, 1000)


def test_a_cleaner_takes_bytes_out_and_hides_none_that_came(lab: Lab) -> None:
    for minute, (end, size) in enumerate([(10, 1000), (20, 2000), (30, 1500)]):
        lab.write(minute, Snapshot().topic("a", end=end, size=size))
    lab.analyze()
    row = lab.running()
    assert (row["bytes_in"], row["bytes_out"]) == (1000 + 1000, 1500)


def test_a_log_that_left_as_a_whole_counts_in_and_out(lab: Lab) -> None:
    for minute, (start, end, size) in enumerate([(0, 10, 1000), (50, 60, 700), (60, 60, 0)]):
        lab.write(minute, Snapshot().topic("a", start=start, end=end, size=size))
    lab.analyze()
    row = lab.running()
    assert (row["bytes_in"], row["bytes_out"]) == (700, 1000 + 700)


def test_an_analysis_of_the_same_snapshot_counts_it_once(lab: Lab) -> None:
    lab.write(0, Snapshot().topic("a"))
    lab.analyze()
    lab.analyze()
    assert (lab.running()["size_n"], lab.running()["lag_n"]) == (1, 1)


@pytest.mark.further
def test_a_replica_that_does_not_answer_keeps_its_last_answer(lab: Lab) -> None:
    for minute in range(60):
        snapshot = Snapshot().topic("a", end=100 + minute)
        lab.write(minute, silent(snapshot, 2) if minute > 1 else snapshot)
    lab.analyze()
    row = lab.running(broker=2)
    assert (row["log_dir"], row["end_last"], row["lag_n"]) == ("/d1", 101, 2)
    assert row["lag_last_at"] == START + timedelta(minutes=1)


def test_what_is_not_the_same_log_begins_anew(lab: Lab) -> None:
    def write(minute: int, **options: Any) -> Row:
        snapshot = Snapshot().topic("a", **{"end": 100 + minute, "topic_id": "old"} | options)
        snapshot.tables["replicas"][0]["log_dir"] = "/d2" if minute > 4 else "/d1"
        lab.write(minute, snapshot)
        lab.analyze()
        return lab.running()

    assert [write(minute)["size_n"] for minute in range(3)] == [1, 2, 3]
    went_back = write(3, end=50)
    assert (went_back["size_n"], went_back["lag_n"], went_back["end_last"]) == (4, 1, 50)
    recreated = write(4, topic_id="new", size=700)
    assert (recreated["size_n"], recreated["bytes_out"], recreated["topic_id"]) == (1, 0, "new")
    moved = write(5, topic_id="new", size=700)
    assert (moved["size_n"], moved["log_dir"], moved["size_since"]) == (
        1, "/d2", START + timedelta(minutes=5),
    )  # fmt: skip
    # A topic that a snapshot does not name is forgotten.
    lab.write(6, Snapshot().topic("b"))
    assert {row["topic"] for row in lab.fold(lab.base)["trends"].to_pylist()} == {"b", None}


def test_a_clock_that_steps_back_begins_everything_anew(lab: Lab) -> None:
    for minute in (0, 1, 3, 2, 4):
        lab.write(minute, Snapshot().topic("a", size=1000 * minute))
        lab.analyze()
    row = lab.running()
    assert (row["size_n"], row["lag_n"], row["bytes_in"]) == (2, 2, 2000)
    assert row["size_since"] == START + timedelta(minutes=2)


def test_lags_are_told_at_the_instant_of_the_follower(lab: Lab) -> None:
    """The leader writes 10 records a second and is read 2 seconds before its follower."""
    for minute in range(3):
        snapshot = Snapshot().topic("a", end=600 * minute + 1000)
        leader, follower = snapshot.tables["replicas"]
        at = START + timedelta(minutes=minute)
        leader["observed_at"], follower["observed_at"] = at, at + timedelta(seconds=2)
        follower["log_end_offset"] += 20 - 7
        lab.write(minute, snapshot)
    lab.analyze()
    row = lab.running(broker=2)
    assert (row["lag_first"], row["lag_last"], lab.running()["lag_last"]) == (0, 7, 0)
