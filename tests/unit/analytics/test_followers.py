"""Who is slow, and who is merely between two fetches: hand-made snapshots of known truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from analytics.metrics import followers
from dashboard.store.snapshots import ClusterStore, Store
from tests.support.lab import START, Snapshot
from tests.support.one_bucket import followers_of
from tests.unit.analytics.test_trends import TOPICS, Lab

Row = dict[str, Any]
EVERY = 60  # seconds between snapshots
RATE = 1000  # records per second of each leader


@dataclass
class Cluster:
    """Topic t led by broker 1; `behind` gives records that a follower lacks, None: no answer."""

    lab: Lab
    brokers: tuple[int, ...] = (1, 2, 3)
    partitions: int = 1
    dirs: int = 1  # on each broker
    racks: dict[int, str] = field(default_factory=dict)
    down: frozenset[int] = frozenset()
    out: frozenset[int] = frozenset()  # of the ISR
    left: frozenset[int] = frozenset()  # were down while all was reassigned, and list it still
    configs: list[Row] = field(default_factory=list)
    moves: list[Row] = field(default_factory=list)
    starts: dict[int, int] = field(default_factory=dict)
    end: int = 100_000

    def snapshot(
        self, behind: Callable[[int, int], int | None], *, rate: int = RATE, reading: float = 0.0
    ) -> None:
        self.end += rate * EVERY
        made = Snapshot().topic("t", end=self.end)
        at = START + timedelta(seconds=EVERY * len(self.lab.seen))
        made.tables["replicas"] = [
            self._replica(broker, partition, behind, at, reading)
            for broker in self.brokers
            for partition in range(self.partitions)
        ]
        made.tables["brokers"] = [
            {"broker_id": b, "rack": self.racks.get(b), "reachable": b not in self.down}
            for b in self.brokers
        ]
        made.tables["configs"] += self.configs
        made.tables["reassignments"] = self.moves
        self.lab.write(EVERY / 60 * len(self.lab.seen), made)

    def run(self, count: int, behind: Callable[[int, int, int], int | None]) -> None:
        """So many snapshots; `behind` is told the step too."""
        for step in range(count):
            self.snapshot(partial(behind, step))

    def _replica(
        self, broker: int, partition: int, behind: Callable[[int, int], int | None],
        at: Any, reading: float,
    ) -> Row:  # fmt: skip
        leads = broker == 1
        lag = 0 if leads else behind(broker, partition)
        if broker in self.down | self.left:
            lag = None
        later = 0.0 if leads else reading
        end = None if lag is None else self.end + int(RATE * later) - lag
        listed = {"log_dir": "/d0", "size_bytes": 10, "in_sync": False, "error": "NOT_IN_METADATA"}
        return {
            "broker_id": broker, "topic_no": 0, "partition": partition, "is_leader": leads,
            "in_sync": broker not in self.out, "is_future": False,
            "log_dir": None if end is None else f"/d{partition % self.dirs}",
            "size_bytes": None if end is None else end * 10,
            "log_start_offset": None if end is None else self.starts.get(broker, 0),
            "log_end_offset": end,
            "observed_at": None if end is None else at + timedelta(seconds=later),
        } | (listed if broker in self.left else {})  # fmt: skip

    def rows(self) -> dict[tuple[int, int], Row]:
        """The table by broker and partition."""
        table = followers_of(self.lab.cluster, self.lab.seen[-1], TOPICS)
        return {(row["broker_id"], row["partition"]): row for row in table.to_pylist()}


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(Lab(ClusterStore(Store(str(tmp_path)), "c1")))


def told(row: Row) -> tuple[Any, ...]:
    return row["slow"], row["trend"], row["cause"]


def test_a_follower_between_two_fetches_of_a_busy_partition_is_not_slow(cluster: Cluster) -> None:
    for step in range(6):
        cluster.snapshot(partial(lambda s, b, _: 400 * b - 300 - 37 * s, step), reading=1.5)
    rows = cluster.rows()
    assert set(rows) == {(2, 0), (3, 0)}, "a leader follows nobody"
    assert {told(row) for row in rows.values()} == {(False, "steady", None)}
    assert rows[3, 0]["lag_records"] == 3 * 400 - 300 - 37 * 5
    assert rows[3, 0]["lag_seconds"] == pytest.approx(0.715, rel=0.01)
    assert rows[3, 0]["append_per_second"] == pytest.approx(RATE)


def test_what_a_broker_lists_without_an_assignment_follows_nobody(cluster: Cluster) -> None:
    """Out of the ISR and without a log end it would be slow from the first snapshot on."""
    cluster.partitions, cluster.left = 3, frozenset({3})
    cluster.run(2, lambda *_: 0)
    rows = cluster.rows()
    assert {broker for broker, _ in rows} == {2}
    assert {told(row) for row in rows.values()} == {(False, "steady", None)}


def test_few_records_that_come_and_go_are_no_trend(cluster: Cluster) -> None:
    for lag in (0, 0, 1, 0, 3):
        cluster.snapshot(partial(lambda few, *_: few, lag), rate=1)
    assert {told(row) for row in cluster.rows().values()} == {(False, "steady", None)}


def test_a_burst_that_one_snapshot_falls_into_is_not_slow(cluster: Cluster) -> None:
    cluster.run(9, lambda step, *_: 50_000 if step % 3 else 0)
    (two, _) = cluster.rows().values()
    assert (two["slow"], two["cause"], two["lag_records"]) == (False, None, 50_000)


def test_a_follower_that_falls_behind_is_slow_from_the_third_snapshot_on(cluster: Cluster) -> None:
    seen = []
    for step in range(6):
        late = 6000 * max(step - 1, 0)
        cluster.snapshot(partial(lambda lag, b, _: lag if b == 3 else 0, late))
        seen.append(cluster.rows()[3, 0]["slow"])
    assert seen == [False, False, False, False, True, True]
    row = cluster.rows()[3, 0]
    assert told(row) == (True, "falling behind", "partition")
    assert row["lag_seconds"] == pytest.approx(24)
    assert row["lag_bytes"] == 240_000
    assert row["lag_per_second"] == pytest.approx(100)
    assert row["behind_since"] == START + timedelta(seconds=2 * EVERY)
    assert row["catch_up_seconds"] is None


def test_catching_up_steady_and_stuck_are_told_apart(cluster: Cluster) -> None:
    cluster.partitions = 3
    stuck = cluster.end
    cluster.run(5, lambda s, _, p: (80_000 - 6000 * s, 30_000, cluster.end - stuck)[p])
    rows = cluster.rows()
    assert [rows[2, p]["trend"] for p in range(3)] == ["catching up", "steady", "stuck"]
    assert all(rows[2, p]["slow"] for p in range(3))
    assert rows[2, 0]["catch_up_seconds"] == pytest.approx(56_000 / 100)
    assert rows[2, 1]["catch_up_seconds"] is None


def test_behind_a_leader_that_writes_nothing_records_are_told_and_seconds_are_not(
    cluster: Cluster,
) -> None:
    for _ in range(4):
        cluster.snapshot(lambda broker, _: 5 if broker == 2 else 0, rate=0)
    rows = cluster.rows()
    assert (told(rows[2, 0]), rows[2, 0]["lag_seconds"]) == ((True, "stuck", "partition"), None)
    assert (told(rows[3, 0]), rows[3, 0]["lag_seconds"]) == ((False, "steady", None), 0)


def test_a_replica_that_stops_answering_is_measured_from_its_last_answer(cluster: Cluster) -> None:
    for _ in range(3):
        cluster.snapshot(lambda *_: 0)
    cluster.down, cluster.out = frozenset({3}), frozenset({3})
    for _ in range(2):
        cluster.snapshot(lambda *_: 0)
    row = cluster.rows()[3, 0]
    assert (told(row), row["alive"]) == ((True, "stuck", "broker down"), False)
    assert (row["lag_records"], row["lag_seconds"]) == (2 * EVERY * RATE, 2 * EVERY)
    assert (row["log_dir"], row["observed_at"]) == ("/d0", START + timedelta(minutes=2))


@pytest.mark.further
def test_one_that_was_behind_and_then_falls_silent_is_slow(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a slow disk: its broker answers now and then only."""
    monkeypatch.setattr(followers, "SILENT_SECONDS", 3600.0)
    seen = []
    for step in range(7):
        cluster.down = frozenset({2, 3}) if step > 3 else frozenset()
        late = 6000 * max(step - 1, 0)
        cluster.snapshot(partial(lambda lag, b, _: lag if b == 2 else 0, late))
        rows = cluster.rows()
        seen.append([rows[broker, 0]["slow"] for broker in (2, 3)])
    fine = [False, False]
    assert seen == [fine, fine, fine, fine, [True, False], [True, False], [True, True]]


def test_a_replica_that_never_answered_is_slow_when_it_is_out_of_the_isr(cluster: Cluster) -> None:
    cluster.down, cluster.out = frozenset({2, 3}), frozenset({3})
    for _ in range(2):
        cluster.snapshot(lambda *_: 0)
    rows = cluster.rows()
    assert (rows[3, 0]["lag_records"], told(rows[3, 0])) == (None, (True, None, "broker down"))
    assert (rows[2, 0]["lag_records"], told(rows[2, 0])) == (None, (False, None, None))


def test_out_of_the_isr_and_behind_is_slow_at_once(cluster: Cluster) -> None:
    cluster.out = frozenset({2, 3})
    cluster.snapshot(lambda *_: 0)
    cluster.snapshot(lambda broker, _: 5000 if broker == 2 else 0)
    rows = cluster.rows()
    assert [rows[broker, 0]["slow"] for broker in (2, 3)] == [True, False]


def test_who_holds_the_low_watermark(cluster: Cluster) -> None:
    cluster.starts = {1: 500, 2: 400, 3: 100}
    cluster.snapshot(lambda *_: 0)
    rows = cluster.rows()
    assert [rows[b, 0]["log_start_offset"] for b in (2, 3)] == [400, 100]
    assert [rows[b, 0]["log_start_lag"] for b in (2, 3)] == [100, 400]
    assert [rows[b, 0]["holds_low_watermark"] for b in (2, 3)] == [False, True]


def slow_at(cluster: Cluster, *, slow: Callable[[int, int], bool]) -> dict[tuple[int, int], Row]:
    cluster.run(5, lambda step, b, p: 5000 * (step + 1) if slow(b, p) else 0)
    return cluster.rows()


def test_a_slow_log_dir_a_slow_broker_and_a_slow_rack_are_told_apart(tmp_path: Path) -> None:
    def found(name: str, slow: Callable[[int, int], bool], **options: Any) -> set[Any]:
        lab = Lab(ClusterStore(Store(str(tmp_path / name)), "c1"))
        cluster = Cluster(lab, brokers=(1, 2, 3, 4, 5), partitions=12, dirs=3, **options)
        rows = slow_at(cluster, slow=slow)
        return {(row["cause"], row["reason"]) for row in rows.values() if row["slow"]}

    assert found("dir", lambda b, p: b == 3 and p % 3 == 2) == {
        ("log dir", "broker 3 is slow on disk /d2: 4 of 4 replicas")
    }
    assert found("broker", lambda b, p: b == 3 and p < 8) == {
        ("broker", "broker 3 is slow: 8 of 12 replicas")
    }
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "a"}
    assert found("rack", lambda b, _: b in {3, 4}, racks=racks) == {
        ("rack", "rack b is slow: 24 of 24 replicas")
    }
    assert found("one", lambda b, p: b == 3 and p == 2) == {
        ("partition", "no broker, disk or rack stands out")
    }


def test_a_throttle_or_a_reassignment_is_named_before_anything_that_stands_out(
    cluster: Cluster,
) -> None:
    cluster.partitions = 4
    cluster.moves = [
        {"topic_no": 0, "partition": p, "adding": [3], "removing": []} for p in range(4)
    ]
    cluster.configs = [
        {"scope": "topic", "name": "t", "key": "follower.replication.throttled.replicas",
         "value": "0:3, 1:3"},
        {"scope": "broker", "name": "3", "key": "follower.replication.throttled.rate",
         "value": str(2**20)},
        {"scope": "broker", "name": "1", "key": "leader.replication.throttled.rate",
         "value": str(2**63 - 1)},
    ]  # fmt: skip
    rows = slow_at(cluster, slow=lambda b, _: b == 3)
    assert [rows[3, p]["cause"] for p in range(4)] == ["throttle"] * 2 + ["reassignment"] * 2
    assert "follower.replication.throttled.rate on broker 3 is 1.0 MiB" in rows[3, 0]["reason"]
    assert rows[3, 2]["reason"] == "broker 3 is in a reassignment: adding"
    assert {rows[2, p]["cause"] for p in range(4)} == {None}


def test_a_leader_whose_followers_are_all_slow_is_named(tmp_path: Path) -> None:
    """Two leaders: broker 1 leads even partitions, and broker 2 odd ones."""
    lab = Lab(ClusterStore(Store(str(tmp_path)), "c1"))
    for step in range(5):
        made = Snapshot().topic("t", end=100_000 * (step + 1))
        end = 100_000 * (step + 1)
        made.tables["replicas"] = [
            {"broker_id": b, "log_dir": "/d1", "topic_no": 0, "partition": p, "size_bytes": 1,
             "is_future": False, "is_leader": b == p % 2 + 1, "in_sync": True,
             "log_start_offset": 0,
             "log_end_offset": end - (0 if p % 2 or b == 1 else 9000 * (step + 1))}
            for b in (1, 2, 3, 4) for p in range(8)
        ]  # fmt: skip
        made.tables["brokers"] = [{"broker_id": b, "reachable": True} for b in (1, 2, 3, 4)]
        lab.write(step, made)
    rows = Cluster(lab).rows()
    assert {row["reason"] for row in rows.values() if row["slow"]} == {
        "broker 1 is a slow leader: 12 of 12 replicas"
    }


def test_that_nobody_leads_a_partition_makes_no_leader_slow(tmp_path: Path) -> None:
    """Each broker leads two partitions; of two more no replica answers."""
    lab = Lab(ClusterStore(Store(str(tmp_path)), "c1"))
    for step in range(3):
        end = 100_000 * (step + 1)
        made = Snapshot().topic("t", end=end)
        made.tables["replicas"] = [
            {"broker_id": b, "log_dir": "/d1", "topic_no": 0, "partition": p, "size_bytes": 1,
             "is_future": False, "is_leader": p < 8 and b == p % 4 + 1, "in_sync": p < 8,
             "log_start_offset": 0, "log_end_offset": end if p < 8 else None}
            for b in (1, 2, 3, 4) for p in range(10)
        ]  # fmt: skip
        made.tables["brokers"] = [{"broker_id": b, "reachable": True} for b in (1, 2, 3, 4)]
        lab.write(step, made)
    slow = [row for row in Cluster(lab).rows().values() if row["slow"]]
    assert {(row["partition"], row["leader_id"]) for row in slow} == {(8, None), (9, None)}
    assert {row["reason"] for row in slow} == {"no broker, disk or rack stands out"}
