"""Targets that say what stays, on a real cluster: the newest hours or bytes, or by retention."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from dashboard.cluster.live import connect
from dashboard.collect.collect import collect
from dashboard.core.clock import utc_now
from dashboard.demo.kafka.brokers import LocalCluster, client
from dashboard.domain.model import TopicPartition as Key
from dashboard.purge.plan.plan import Plan
from dashboard.store.tables import FINDING_TABLES, build
from tests.brokers.purge_bench import Bench
from tests.brokers.purge_proof import Left, assert_proved, segments
from tests.support.collected import collected

HOUR_MS = 3_600_000


def aged(bench: Bench, ages: Mapping[int, int], **config: str) -> str:
    """A topic whose partition 0 holds records so many hours old: hours to how many, oldest first.

    Kafka's own retention is off while they are written, and does not run between two checks.
    """
    topic = bench.topic(0, **config)
    more(bench, topic, ages)
    return topic


def more(bench: Bench, topic: str, ages: Mapping[int, int]) -> None:
    """Records that bear times of so many hours ago; a group has read all that there are then."""
    producer = Producer(client(bench.bootstrap, acks="all", **{"linger.ms": "20"}))
    now_ms = int(utc_now().timestamp() * 1000)
    for hours, count in ages.items():
        for _ in range(count):
            producer.produce(topic, b"x" * 500, partition=0, timestamp=now_ms - hours * HOUR_MS)
    assert producer.flush(30) == 0
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        end = live.offsets([Key(topic, 0)])[Key(topic, 0)].high_watermark
    bench.commit("more-g", topic, {0: end or 0})


def analyzed(bench: Bench, cluster: LocalCluster, topic: str) -> None:
    """Findings as an inventory tells them: each replica's segments as they lie on the disk."""
    key = Key(topic, 0)
    seen(bench, hours_ago=0)
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        offsets, sizes = live.offsets([key])[key], live.log_dirs([key]).replicas
        state = live.topics([topic])[topic]
    rows: list[dict[str, Any]] = []
    for r in [r for r in sizes if (r.topic, r.partition) == key]:
        below = 0
        for file in segments(cluster, r.broker_id, key):
            place = {"topic": topic, "partition": 0, "broker_id": r.broker_id,
                     "log_dir": r.log_dir, "topic_id": state.topic_id,
                     "leader_epoch": state.partitions[0].leader_epoch}  # fmt: skip
            above = r.size_bytes - below
            rows.append({**place, "offset": int(file.stem), "bytes_below": below,
                         "bytes_above": above})  # fmt: skip
            below += file.stat().st_size
        rows.append({**place, "offset": offsets.high_watermark, "bytes_below": r.size_bytes,
                     "bytes_above": 0})  # fmt: skip
    writer = bench.store.begin("findings", utc_now())
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    writer.write("curves", build(FINDING_TABLES["curves"], columns))
    writer.write("holds", build(FINDING_TABLES["holds"], {"topic": [], "group_id": []}))
    writer.commit(0.1, {"snapshot_id": bench.store.latest_snapshot()})
    bench.store.set_latest(writer.id)


def bytes_from(file: Path, offset: int) -> int:
    """Bytes of a segment's batches that hold the offset or later ones, as they lie on the disk."""
    data, at, found = file.read_bytes(), 0, 0
    while at + 61 <= len(data):
        base, length = struct.unpack_from(">qi", data, at)
        last = base + struct.unpack_from(">i", data, at + 23)[0]
        found += (length + 12) if last >= offset else 0
        at += length + 12
    return found


def guards(plan: Plan) -> list[str]:
    return [guard.name for guard in plan.partitions[0].guards]


def test_the_newest_hours_stay(bench: Bench) -> None:
    topic = aged(bench, {5: 30})
    assert guards(bench.plan(topic, to="keep:2h")) == ["target-unresolved"], "no snapshot is so old"
    shutil.rmtree(f"{bench.store.path}/snapshots")  # the bench's own is of now
    seen(bench, hours_ago=3)
    collected(bench.store, utc_now(), topic)
    more(bench, topic, {5: 5, 1: 20})  # five that bear old times were written just now
    plan = bench.plan(topic, to="keep:2h")
    assert (plan.target, plan.partitions[0].target_offset) == ("keep:2h", 30)
    assert guards(bench.plan(topic, to="keep:9h")) == ["target-unresolved"]
    view = bench.apply(plan)
    assert_proved(bench, view, "done", Left(topic, 0, "done", range(30, 55)))


def seen(bench: Bench, *, hours_ago: int) -> None:
    """A snapshot as it was taken so long ago, by a host whose clock nobody could compare."""
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        live.controller_time = lambda: None  # type: ignore[method-assign]
        collect(
            live, bench.store, now=lambda: utc_now() - timedelta(hours=hours_ago),
            progress=lambda _: None,
        )  # fmt: skip


@pytest.mark.further
def test_the_newest_bytes_stay_though_records_grew(bench: Bench, cluster: LocalCluster) -> None:
    """Size times share of offsets would keep far less than was asked for."""
    topic = bench.topic(0)
    producer = Producer(client(bench.bootstrap, acks="all", **{"linger.ms": "5"}))
    for number in range(4000):
        producer.produce(topic, b"x" * (1500 if number < 2000 else 100), partition=0)
    assert producer.flush(30) == 0
    bench.commit("more-g", topic, {0: 4000})
    assert guards(bench.plan(topic, to="keep:200KiB")) == ["target-unresolved"]
    analyzed(bench, cluster, topic)
    keep = 200 << 10
    plan = bench.plan(topic, to="keep:200KiB")
    target, leader = plan.partitions[0].target_offset, bench.placed(topic).leader_id
    assert target is not None and target > 0 and plan.partitions[0].free
    assert leader is not None
    kept = sum(bytes_from(f, target) for f in segments(cluster, leader, Key(topic, 0)))
    assert kept >= keep
    assert bench.plan(topic, to="keep:1GiB").partitions[0].target_offset == 0
    view = bench.apply(plan)
    assert_proved(bench, view, "done", Left(topic, 0, "done", range(target, 4000)))


@pytest.mark.further_but("config0-30")
@pytest.mark.parametrize(
    ("config", "target"),
    [
        ({"retention_ms": str(2 * HOUR_MS)}, 30),
        ({"retention_ms": "-1", "retention_bytes": "-1"}, 0),
        ({"retention_ms": "-1", "retention_bytes": str(1 << 30)}, 0),
    ],
)
def test_retention_is_the_topics_own(
    bench: Bench, cluster: LocalCluster, config: dict[str, str], target: int
) -> None:
    # One segment that is not rolled yet: Kafka keeps what its young records stand in.
    topic = aged(bench, {5: 30, 1: 20}, **config)
    analyzed(bench, cluster, topic)
    plan = bench.plan(topic, to="retention")
    assert (plan.partitions[0].target_offset, plan.partitions[0].guards) == (target, ())
    if target:
        view = bench.apply(plan)
        assert_proved(bench, view, "done", Left(topic, 0, "done", range(30, 50)))
