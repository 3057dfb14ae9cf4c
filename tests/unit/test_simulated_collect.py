"""A small simulated cluster, collected over real sockets, is in the snapshot to the last number."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.cluster.configs import BROKER_KEYS, TOPIC_KEYS
from dashboard.cluster.live import LiveCluster, connect
from dashboard.collect.collect import Collected, collect
from dashboard.core.clock import utc_now
from dashboard.store.snapshots import ClusterStore, Store
from tests.bench.broker_simulator import serving, simulation
from tests.bench.simulated_cluster import DIR_BYTES, LOG_DIRS, USABLE_BYTES, SimulatedCluster
from tests.bench.simulated_details import config_value

TRUTH = SimulatedCluster(partitions=900, brokers=5, groups=7, seed=3)


def opened(bootstrap: str) -> LiveCluster:
    return connect({"bootstrap.servers": bootstrap}, timedelta(seconds=120))


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ClusterStore, Collected]]:
    store = ClusterStore(Store(str(tmp_path_factory.mktemp("data"))), TRUTH.cluster_id)
    with serving(TRUTH) as brokers, opened(brokers.bootstrap) as live:
        yield store, collect(live, store, now=utc_now, progress=lambda _: None)


def rows(taken: tuple[ClusterStore, Collected], table: str) -> list[dict[str, Any]]:
    """Rows without the columns that every row of a snapshot shares."""
    store, got = taken
    found: list[dict[str, Any]] = store.read("snapshots", got.snapshot_id, table).to_pylist()
    same = ("snapshot_id", "taken_at", "observed_at")
    return [{name: value for name, value in row.items() if name not in same} for row in found]


def test_nothing_failed(taken: tuple[ClusterStore, Collected]) -> None:
    _, got = taken
    assert got.errors == ()
    assert got.groups_incomplete == ()
    assert [(b["broker_id"], b["reachable"]) for b in got.brokers] == [
        (broker, True) for broker in TRUTH.broker_ids
    ]


def test_topics_and_partitions(taken: tuple[ClusterStore, Collected]) -> None:
    assert rows(taken, "topics") == [
        {
            "topic_no": number,
            "topic": name,
            "topic_id": TRUTH.topic_id_text(number),
            "is_internal": number == 0,
        }
        for number, name in enumerate(TRUTH.names)
    ]
    expected = [
        {
            "topic_no": int(TRUTH.topic[n]),
            "partition": int(TRUTH.partition[n]),
            "leader_id": int(TRUTH.replicas[n, 0]),
            "leader_epoch": int(TRUTH.leader_epoch[n]),
            "replicas": TRUTH.replicas[n].tolist(),
            "isr": in_sync(n),
            "log_start_offset": int(TRUTH.log_start[n]),
            "last_stable_offset": int(TRUTH.last_stable[n]),
            "high_watermark": int(TRUTH.high_watermark[n]),
            "error": None,
        }
        for n in range(len(TRUTH.topic))
    ]
    assert rows(taken, "partitions") == expected
    assert TRUTH.shrunk.any()
    assert (TRUTH.last_stable < TRUTH.high_watermark).any()


def in_sync(number: int) -> list[int]:
    replicas: list[int] = TRUTH.replicas[number].tolist()
    return replicas[:-1] if TRUTH.shrunk[number] else replicas


def test_replicas(taken: tuple[ClusterStore, Collected]) -> None:
    expected = []
    for broker in TRUTH.broker_ids:
        partitions, position = TRUTH.at_broker[broker]
        starts, ends = TRUTH.replica_offsets(partitions, position)
        for index, n in enumerate(partitions.tolist()):
            topic = int(TRUTH.topic[n])
            expected.append(
                {
                    "broker_id": broker,
                    "log_dir": LOG_DIRS[int(TRUTH.log_dir(partitions)[index])],
                    "topic_no": topic,
                    "partition": int(TRUTH.partition[n]),
                    "topic_id": TRUTH.topic_id_text(topic),
                    "size_bytes": int(TRUTH.sizes(partitions, position)[index]),
                    "is_future": False,
                    "log_start_offset": int(starts[index]),
                    "log_end_offset": int(ends[index]),
                    "is_leader": bool(TRUTH.replicas[n, 0] == broker),
                    "in_sync": broker in in_sync(n),
                    "error": None,
                }
            )
    key = ("broker_id", "log_dir", "topic_no", "partition")
    assert rows(taken, "replicas") == sorted(expected, key=lambda row: [row[k] for k in key])
    assert len(expected) == 3 * len(TRUTH.topic)


def test_log_dirs_and_configs(taken: tuple[ClusterStore, Collected]) -> None:
    assert rows(taken, "log_dirs") == [
        {
            "broker_id": broker,
            "log_dir": path,
            "total_bytes": DIR_BYTES,
            "usable_bytes": USABLE_BYTES,
            "error": None,
        }
        for broker in TRUTH.broker_ids
        for path in LOG_DIRS
    ]
    found = {(r["scope"], r["name"], r["key"]): r["value"] for r in rows(taken, "configs")}
    asked = [("broker", str(broker), key) for broker in TRUTH.broker_ids for key in BROKER_KEYS]
    asked += [("topic", name, key) for name in TRUTH.names for key in TOPIC_KEYS]
    assert found == {(scope, name, key): config_value(name, key) for scope, name, key in asked}


def test_groups_and_their_offsets(taken: tuple[ClusterStore, Collected]) -> None:
    groups = rows(taken, "groups")
    assert [(g["group_id"], g["type"], g["state"], g["error"]) for g in groups] == [
        (TRUTH.group_id(n), TRUTH.group_type(n), TRUTH.group_state(n), None)
        for n in range(TRUTH.groups)
    ]
    for number, group in enumerate(groups):
        reads = sorted(topic for topic, _ in TRUTH.reads[number])
        assigned = [
            {"topic": TRUTH.names[topic], "partition": partition}
            for topic in reads
            for partition in range(TRUTH.counts[topic])
        ]
        assert group["assigned"] == (assigned if group["state"] == "Stable" else [])
    expected = [
        {
            "group_id": TRUTH.group_id(number),
            "topic_no": topic,
            "partition": partition,
            "committed_offset": int(TRUTH.committed[TRUTH.first[topic] + partition]) - reader,
            "error": None,
            "leader_epoch": None,
        }
        for number in range(TRUTH.groups)
        for topic, reader in sorted(TRUTH.reads[number])
        for partition in range(TRUTH.counts[topic])
    ]
    assert rows(taken, "group_offsets") == expected


@pytest.mark.further
def test_a_broker_that_is_down_costs_its_own_rows_and_no_others(
    taken: tuple[ClusterStore, Collected], tmp_path: Path
) -> None:
    down = next(broker for broker, groups in TRUTH.coordinated.items() if groups)
    store = ClusterStore(Store(str(tmp_path)), TRUTH.cluster_id)
    with (
        serving(TRUTH, down=[down]) as brokers,
        opened(brokers.bootstrap) as live,
    ):
        lacking = store, collect(live, store, now=utc_now, progress=lambda _: None)
    assert [b["broker_id"] for b in lacking[1].brokers if not b["reachable"]] == [down]
    nothing = {"log_start_offset": None, "error": "BROKER_UNREACHABLE"}
    lost = {"log_dir": None, "size_bytes": None, "log_end_offset": None, **nothing}
    replicas = [{**r, **lost} if r["broker_id"] == down else r for r in rows(taken, "replicas")]
    key = ("broker_id", "topic_no", "partition")

    def ordered(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted(found, key=lambda row: [row[k] for k in key])

    assert ordered(rows(lacking, "replicas")) == ordered(replicas)
    unled = {"last_stable_offset": None, "high_watermark": None, **nothing}
    assert rows(lacking, "partitions") == [
        {**p, **unled} if p["leader_id"] == down else p for p in rows(taken, "partitions")
    ]
    hidden = {TRUTH.group_id(group) for group in TRUTH.coordinated[down]}
    for table in ("groups", "group_offsets"):
        seen = [row for row in rows(taken, table) if row["group_id"] not in hidden]
        assert rows(lacking, table) == seen
    assert any(f"broker {down} did not answer" in r for r in lacking[1].groups_incomplete)


@pytest.mark.further
def test_a_simulator_in_processes_of_its_own_ends_with_who_started_it() -> None:
    with simulation(TRUTH) as brokers:
        before = brokers.cpu_seconds()
        with opened(brokers.bootstrap) as live:
            assert live.cluster_id() == brokers.cluster_id
            assert live.alive_brokers() == tuple(TRUTH.broker_ids)
        assert brokers.cpu_seconds() >= before
        there = [Path(f"/proc/{process}") for process in brokers.processes]
        assert all(path.exists() for path in there)
    assert not any(path.exists() for path in there)
