"""The disks of real brokers: a scan and the shell line agree with DescribeLogDirs to the byte."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.cluster.live import LiveCluster, connect
from dashboard.collect.collect import collect
from dashboard.core.clock import utc_now
from dashboard.demo.kafka.brokers import LocalCluster
from dashboard.domain.model import PartitionState
from dashboard.inventory import loading
from dashboard.store.snapshots import ClusterStore, Store
from tests.brokers.workload import Workload, until
from tests.unit.inventory.disks import comparable, listed, read, scanned, segments

SEGMENT_BYTES = 1_048_576  # the least that a broker takes
Take = Callable[[int], loading.Inventory]


@pytest.fixture(scope="module")
def topic(cluster: LocalCluster) -> Iterator[str]:
    """A quiet topic: two partitions of several segments, one empty."""
    workload = Workload({"bootstrap.servers": cluster.bootstrap})
    name = workload.topic(3, segment_bytes=str(SEGMENT_BYTES))
    for partition in (0, 1):
        for _ in range(8):  # flushed one by one: a batch is never split over segments
            workload.produce(name, partition, 20 + partition, 20_000)
    yield name
    workload.close()


@pytest.fixture
def live(cluster: LocalCluster) -> Iterator[LiveCluster]:
    with connect({"bootstrap.servers": cluster.bootstrap}) as opened:
        yield opened


@pytest.fixture(params=["scan", "shell line"])
def take(request: pytest.FixtureRequest, cluster: LocalCluster, tmp_path: Path) -> Take:
    """The inventory of a broker, taken either way."""

    def taken(broker: int) -> loading.Inventory:
        out, log_dirs = tmp_path / f"{broker}.inventory", cluster.log_dirs(broker)
        if request.param == "scan":
            return scanned(out, *log_dirs, broker=broker)
        return read(out, listed(log_dirs), broker=broker)

    return taken


def replicas(live: LiveCluster, topic: str) -> dict[tuple[int, str, int], int]:
    """Broker, log dir and partition -> bytes, once the followers have all of it."""
    sizes: dict[tuple[int, str, int], int] = {}

    def settled() -> bool:
        found = [r for r in live.log_dirs().replicas if r.topic == topic]
        sizes.update({(r.broker_id, r.log_dir, r.partition): r.size_bytes for r in found})
        by_partition = [{r.size_bytes for r in found if r.partition == p} for p in (0, 1)]
        return len(found) == 9 and all(len(same) == 1 and 0 not in same for same in by_partition)

    until(settled, 30)
    return sizes


def of_topic(inventory: loading.Inventory, topic: str) -> list[dict[str, Any]]:
    return [row for row in segments(inventory) if row["topic"] == topic]


def test_segments_sum_to_the_sizes_that_the_brokers_tell(
    cluster: LocalCluster, live: LiveCluster, topic: str, take: Take
) -> None:
    sums: dict[tuple[int, str, int], int] = {}
    expected = replicas(live, topic)
    topic_id = live.topics([topic])[topic].topic_id
    for broker in cluster.broker_ids:
        inventory = take(broker)
        assert inventory.cluster_id == cluster.cluster_id
        assert inventory.summary.gaps == ()
        rows = of_topic(inventory, topic)
        assert {row["topic_id"] for row in rows} == {topic_id}
        assert {row["kind"] for row in rows} == {"live"}
        assert len([row for row in rows if row["partition"] == 0]) > 2
        assert not any(row["directory"].startswith("__cluster") for row in segments(inventory))
        for row in rows:
            key = (broker, row["log_dir"], row["partition"])
            sums[key] = sums.get(key, 0) + row["log_bytes"]
            assert abs(row["newest_at"] - utc_now()) < timedelta(minutes=10)
    assert sums == expected


def test_the_shell_line_says_what_a_scan_says(
    cluster: LocalCluster, live: LiveCluster, topic: str, tmp_path: Path
) -> None:
    replicas(live, topic)
    log_dirs = cluster.log_dirs(1)

    def equal() -> bool:  # other tests' topics may still be on their way out
        here = scanned(tmp_path / "scan", *log_dirs)
        there = read(tmp_path / "read", listed(log_dirs))
        return comparable(here) == comparable(there)

    until(equal, 30)


def test_a_snapshot_joins_disks_and_replicas(
    cluster: LocalCluster, live: LiveCluster, topic: str, tmp_path: Path
) -> None:
    replicas(live, topic)
    store = ClusterStore(Store(str(tmp_path / "store")), cluster.cluster_id)
    disks = [
        scanned(tmp_path / str(broker), *cluster.log_dirs(broker), broker=broker)
        for broker in cluster.broker_ids
    ]
    got = collect(live, store, now=utc_now, progress=lambda _: None, inventories=disks)
    assert [e for e in got.errors if e["part"] == "inventory"] == []

    def read_table(name: str) -> Any:
        return store.read("snapshots", got.snapshot_id, name).to_pylist()

    number = next(t["topic_no"] for t in read_table("topics") if t["topic"] == topic)
    sizes = {
        (r["broker_id"], r["log_dir"], r["topic_id"], r["partition"]): r["size_bytes"]
        for r in read_table("replicas")
        if r["topic_no"] == number
    }
    sums = dict.fromkeys(sizes, 0)
    for row in read_table("segments"):
        if row["topic"] == topic:
            key = (row["broker_id"], row["log_dir"], row["topic_id"], row["partition"])
            sums[key] += row["log_bytes"]
    assert sums == sizes


@pytest.mark.slow
def test_the_folder_of_a_topic_deleted_meanwhile_is_a_stray(
    cluster: LocalCluster, live: LiveCluster, tmp_path: Path
) -> None:
    """DescribeLogDirs does not list it; both ways find it, with the old topic id and all bytes."""
    workload = Workload({"bootstrap.servers": cluster.bootstrap})
    topic = workload.topic()
    workload.produce(topic, 0, 30, 20_000)
    size = replicas_of_broker(live, topic, 2)
    topic_id = live.topics([topic])[topic].topic_id
    cluster.stop_broker(2)
    try:
        addresses = cluster.bootstrap.split(",")
        remaining = Workload({"bootstrap.servers": f"{addresses[0]},{addresses[2]}"})
        remaining.admin.delete_topics([topic], request_timeout=60)[topic].result(60)
    finally:
        cluster.start_broker(2)
    until(lambda: not any(p.under_replicated for p in partitions(live)), 60)
    log_dirs = cluster.log_dirs(2)

    def strays() -> list[dict[str, Any]]:
        return of_topic(scanned(tmp_path / "scan", *log_dirs, broker=2), topic)

    until(lambda: [row["kind"] for row in strays()] == ["stray"], 60)
    assert [(row["topic_id"], row["log_bytes"]) for row in strays()] == [(topic_id, size)]
    there = of_topic(read(tmp_path / "read", listed(log_dirs), broker=2), topic)
    assert [(row["kind"], row["topic_id"], row["log_bytes"]) for row in there] == [
        ("stray", topic_id, size)
    ]
    assert not [r for r in live.log_dirs().replicas if r.topic == topic]


def partitions(live: LiveCluster) -> list[PartitionState]:
    return [p for state in live.topics(None).values() for p in state.partitions]


def replicas_of_broker(live: LiveCluster, topic: str, broker: int) -> int:
    """The bytes of partition 0 on a broker, once all three replicas have the same."""
    sizes: dict[int, int] = {}

    def settled() -> bool:
        sizes.update(
            {r.broker_id: r.size_bytes for r in live.log_dirs().replicas if r.topic == topic}
        )
        return len(sizes) == 3 and len(set(sizes.values())) == 1

    until(settled, 30)
    return sizes[broker]
