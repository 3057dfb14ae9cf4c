"""The waits that a run expects of its requests, from what it reads just before sending anyway."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

from dashboard.core.errors import ClusterError
from dashboard.domain.model import PartitionState, ReplicaOffsets, TopicPartition
from dashboard.purge.forecast.reading import APART_SECONDS, Reading, Replica, fetch_waits
from dashboard.purge.forecast.stalls import stalls_of
from dashboard.purge.forecast.waits import waits_of
from dashboard.purge.journal.journal_rows import WaitForecast
from dashboard.purge.plan.cluster_seam import Cluster
from dashboard.purge.plan.facts import PartitionFacts
from dashboard.purge.receipt.model import Sample


def long_polls(live: Cluster) -> dict[int, int]:
    """Every alive broker's `replica.fetch.wait.max.ms`, where it tells; never raises."""
    try:
        return fetch_waits(live.configs((), sorted(live.alive_brokers())))
    except ClusterError:
        return {}


def expected(
    live: Cluster,
    allowed: Mapping[TopicPartition, PartitionFacts],
    sample: Sample,
    polls: Mapping[int, int],
    timeout_ms: int,
    *,
    now: Callable[[], datetime],
    sleep: Callable[[float], None] = time.sleep,
) -> dict[TopicPartition, WaitForecast]:
    """A forecast per partition where one can be made; `sample` is `receipt_sizes.measure`'s,
    `polls` are followers' long polls in milliseconds.

    Followers out of sync are read once more, a second later, to see whether they fetch. Empty
    where sizes, and with them the replicas, cannot be read; never raises.
    """
    if not sample.replicas:
        return {}
    try:
        reading = _reading(live, allowed, sample, polls, now())
        again = _out_of_sync(reading)
        if again:
            sleep(APART_SECONDS)
            rows = live.replica_offsets(sorted({key for _, key in again}), None)
            second = {(r.broker_id, TopicPartition(r.topic, r.partition)): r for r in rows}
            reading = replace(reading, second=second)
    except ClusterError:
        return {}
    stalls = {key: stalls_of(reading, state, {}) for key, state in reading.partitions.items()}
    return {
        wait.key: WaitForecast(
            wait.cause, wait.low_seconds, wait.likely_seconds, wait.high_seconds
        )
        for wait in waits_of(reading, stalls, timeout_ms / 1000)
        if wait.low_seconds is not None
        and wait.likely_seconds is not None
        and wait.high_seconds is not None
    }  # fmt: skip


def _reading(
    live: Cluster,
    allowed: Mapping[TopicPartition, PartitionFacts],
    sample: Sample,
    polls: Mapping[int, int],
    at: datetime,
) -> Reading:
    alive = frozenset(live.alive_brokers())
    return Reading(
        partitions={
            key: PartitionState(
                key.topic, key.partition, f.leader_id, f.leader_epoch, f.replicas, f.isr
            )
            for key, f in allowed.items()
        },
        topic_ids={},
        alive=alive,
        first=_offsets(allowed, sample, at),
        second={},
        moving=frozenset(
            key
            for topic, partition, broker_id in sample.future
            if (key := TopicPartition(topic, partition)) in allowed
            and allowed[key].leader_id == broker_id
        ),
        log_dirs_unread=frozenset(),
        fetch_wait_ms=polls,
        versions={},
        read_at=at,
        seconds=0.0,
    )


def _offsets(
    allowed: Mapping[TopicPartition, PartitionFacts], sample: Sample, at: datetime
) -> dict[Replica, ReplicaOffsets]:
    """What the sample shows of each replica; one that it lacks gave no answer."""
    read = {r.place: r for r in sample.replicas}
    found: dict[Replica, ReplicaOffsets] = {}
    for key, facts in allowed.items():
        for broker_id in facts.replicas:
            row = read.get((*key, broker_id))
            start, end = (row.log_start_offset, row.log_end_offset) if row else (None, None)
            error = None if end is not None else "ANSWER_LOST"
            found[broker_id, key] = ReplicaOffsets(broker_id, *key, start, end, at, error)
    return found


def _out_of_sync(reading: Reading) -> list[Replica]:
    """Followers outside the in-sync replicas whose broker is alive and answered."""
    return [
        (broker_id, key)
        for key, state in reading.partitions.items()
        for broker_id in sorted(set(state.replicas) - set(state.isr))
        if broker_id in reading.alive and reading.first[broker_id, key].error is None
    ]
