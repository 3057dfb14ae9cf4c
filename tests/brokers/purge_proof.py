"""What every fault must leave behind: right states, an intact chain, not one record too few."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from dashboard.demo.kafka.brokers import LocalCluster
from dashboard.domain.model import TopicPartition
from dashboard.purge.journal.rows import RunView
from tests.brokers.purge_bench import Bench


class Left(NamedTuple):
    """A partition after a fault: its state in the run, and the offsets that can be read."""

    topic: str
    partition: int
    state: str
    offsets: range


def assert_proved(bench: Bench, view: RunView, state: str, *left: Left) -> None:
    """The run and each of its partitions are in the state named, as the journal has it now.

    Every record of `left` is read back; its first one is the record at the target, which stays.
    """
    now = bench.journal.run(view.run.run_id)
    assert now.run.state == state
    ordered = sorted(left, key=lambda row: row[:2])
    found = [(r.topic, r.partition, r.state) for r in now.partitions]
    assert found == [row[:3] for row in ordered]
    for row, kept in zip(now.partitions, ordered, strict=True):
        if row.was_sent and row.state in ("done", "leader_done"):
            assert kept.offsets.start == row.target_offset
    assert_kept(bench, left)


def assert_kept(bench: Bench, left: Iterable[Left]) -> None:
    """The chain verifies and exactly these records can be read."""
    assert bench.journal.verify().problems == ()
    for topic, partition, _, offsets in left:
        assert bench.offsets(topic, partition) == list(offsets)


def assert_untouched(bench: Bench, topic: str, *counts: int) -> None:
    """Nothing was queued, or nothing sent: each partition has all of its records."""
    assert_kept(bench, [Left(topic, p, "", range(count)) for p, count in enumerate(counts)])


def segments_below(
    cluster: LocalCluster, broker_id: int, key: TopicPartition, target_offset: int
) -> int:
    """Bytes of the segments that a purge to the target makes deletable, as they lie on the disk."""
    files = segments(cluster, broker_id, key)
    bases = [int(file.stem) for file in files]
    return sum(
        file.stat().st_size
        for file, successor in zip(files, bases[1:], strict=False)
        if successor <= target_offset
    )


def segments(cluster: LocalCluster, broker_id: int, key: TopicPartition) -> list[Path]:
    """The log segments of a replica, oldest first; `*.log.deleted` is none any more."""
    return sorted((cluster.log_dir(broker_id) / f"{key.topic}-{key.partition}").glob("*.log"))
