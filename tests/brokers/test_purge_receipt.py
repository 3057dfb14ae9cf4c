"""A receipt of a real cluster: to the byte what left each disk, though its watcher was killed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as Part

from dashboard.cluster.live import connect
from dashboard.collect.collect import collect
from dashboard.core.clock import CLOCKS_AGREE, utc_now
from dashboard.demo.kafka.brokers import LocalCluster
from dashboard.domain.model import TopicPartition
from dashboard.inventory import scan
from dashboard.inventory.loading import Inventory, load
from dashboard.inventory.recorder import Recorder
from dashboard.purge.jobs import queue
from dashboard.purge.receipt import gap
from dashboard.purge.receipt.model import Receipt
from dashboard.purge.receipt.receipt import FILE
from tests.brokers.purge_bench import Bench
from tests.brokers.purge_faults import kinds, until
from tests.brokers.purge_proof import Left, assert_proved, segments, segments_below
from tests.brokers.workload import ANSWERS_WITHIN

pytestmark = pytest.mark.further

SEGMENT = 1 << 20


def test_a_final_receipt_says_to_the_byte_what_left_each_disk_though_its_watcher_was_killed(
    bench: Bench, cluster: LocalCluster, tmp_path: Path
) -> None:
    topic = bench.topic(3000, 300)
    key = TopicPartition(topic, 0)
    bench.commit("purge-g", topic, {0: 2900, 1: 200})
    plan = bench.plan(topic, sample=True)
    deletable = {b: segments_below(cluster, b, key, 2900) for b in cluster.broker_ids}
    assert all(size > SEGMENT for size in deletable.values())
    there = Part(topic, 1, 260)  # somebody else's purge: "already there" frees nothing
    next(iter(bench.admin.delete_records([there]).values())).result(ANSWERS_WITHIN)

    view = bench.apply(plan, watch=True)
    until(lambda: bench.journal.run(view.run.run_id).run.receipt is not None)
    bench.kill_worker(view.run.run_id)
    assert not bench.journal.run(view.run.run_id).run.receipt_final
    until(lambda: written(taken(cluster, tmp_path), key) == [2900] * 3, 60)
    surely_after = utc_now() + 2 * CLOCKS_AGREE  # else a scan may be from before the request
    until(lambda: utc_now() >= surely_after, 60)
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        disks = taken(cluster, tmp_path)
        collect(live, bench.store, now=utc_now, progress=lambda _: None, inventories=disks)
    later = utc_now() + timedelta(minutes=1)
    assert view.run.run_id in queue.respawn_stale(bench.settings, bench.journal, now=later)
    until(lambda: bench.journal.run(view.run.run_id).run.receipt_final, 60)

    receipt = bench.journal.run(view.run.run_id).run.receipt
    assert receipt is not None
    assert [part.key for part in receipt.replicas] == [key] * 3
    for replica in receipt.replicas:
        broker = replica.broker_id
        assert replica.freed_bytes == deletable[broker]
        assert replica.durable_at == disks[broker - 1].scanned_at
        on_disk = sum(file.stat().st_size for file in segments(cluster, broker, key))
        assert replica.size_bytes == on_disk
        assert replica.before_bytes == on_disk + deletable[broker]
        assert abs((replica.predicted_bytes or 0) - deletable[broker]) < SEGMENT
        assert segments_below(cluster, broker, key, 2900) == 0
    assert receipt.freed_bytes == sum(deletable.values())
    assert (receipt.retention_bytes, receipt.produced_bytes) == (0, 0)
    assert (receipt.gap is None) == (receipt.freed_bytes == receipt.predicted_bytes)
    (outcome,) = gap.outcomes([bench.journal.run(view.run.run_id).run])
    assert (outcome.of.method, outcome.of.freed_bytes) == ("sampled", receipt.freed_bytes)
    assert [line.partitions for line in receipt.calibration or ()] == [1]
    assert outcome.of.inside, outcome
    assert kinds(bench, view.run.run_id).count("receipt") == 1
    left = Left(topic, 0, "done", range(2900, 3000)), Left(topic, 1, "done", range(260, 300))
    assert_proved(bench, view, "done", *left)


def taken(cluster: LocalCluster, folder: Path) -> list[Inventory]:
    """Every broker's disk as it is now."""
    return [taken_of(cluster, broker, str(folder / f"{broker}")) for broker in (1, 2, 3)]


def taken_of(cluster: LocalCluster, broker: int, out: str) -> Inventory:
    log_dirs = [str(log_dir) for log_dir in cluster.log_dirs(broker)]
    with Recorder(out, broker, log_dirs, newest_from=scan.NEWEST_FROM) as recorder:
        scan.scan(log_dirs, recorder, now=utc_now)
        recorder.finish()
    return load(out)


def written(disks: Iterable[Inventory], key: TopicPartition) -> list[int]:
    """The log starts of that partition in the brokers' checkpoint files."""
    rows = [row for disk in disks for row in disk.tables["checkpoints"].to_pylist()]
    return [
        row["offset"]
        for row in rows
        if (row["file"], row["topic"], row["partition"]) == (FILE, key.topic, key.partition)
    ]


@pytest.mark.slow  # waits for two receipts
def test_two_purges_before_the_brokers_next_retention_check_count_each_byte_once(
    bench: Bench, cluster: LocalCluster
) -> None:
    topic = bench.topic(8000)
    key = TopicPartition(topic, 0)
    deletable = sum(segments_below(cluster, b, key, 7900) for b in cluster.broker_ids)
    runs = []
    for target in (4000, 7900):  # the second begins while the first one's segments are leaving
        bench.commit("purge-g", topic, {0: target})
        runs.append(bench.apply(bench.plan(topic, sample=True), watch=True).run.run_id)
    for run_id in runs:
        until(lambda run_id=run_id: bench.journal.run(run_id).run.receipt_final, 90)  # type: ignore[misc]
    receipts = [bench.journal.run(run_id).run.receipt or Receipt() for run_id in runs]
    # An estimate tells which bytes are whose: it may err by a segment of each replica.
    assert abs(sum(r.freed_bytes or 0 for r in receipts) - deletable) <= 3 * SEGMENT
    assert all((r.freed_bytes or 0) > 3 * SEGMENT for r in receipts)
