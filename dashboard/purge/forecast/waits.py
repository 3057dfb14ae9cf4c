"""How long a wait-all request waits for each partition: an interval in seconds, and why; and what
became of such predictions, request by request and over all purges. Pure.

A leader answers once every replica on an alive broker has told it a log start at the target. A
follower hears of it in the answer to its fetch and tells its own in the next one (Kafka's
`AbstractFetcherThread`, `Partition.lowWatermarkIfLeader`). An idle leader keeps a fetch for up to
`replica.fetch.wait.max.ms`, so that a follower comes at a moment that is even over that time;
traffic answers the fetch sooner. Of n followers the last one comes at n / (n + 1) of it on average.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from dashboard.core.errors import ClusterError
from dashboard.core.words import duration, plural
from dashboard.domain.model import (
    REQUEST_TIMED_OUT,
    PartitionState,
    ReplicaOffsets,
    TopicPartition,
)
from dashboard.purge.forecast.reading import APART_SECONDS, Reading, Replica, fetch_waits
from dashboard.purge.forecast.stalls import UNUSABLE, Stall, stalls_of
from dashboard.purge.journal.rows import PartitionRow, RunRow, WaitForecast
from dashboard.purge.plan.cluster_seam import Cluster
from dashboard.purge.plan.facts import PartitionFacts
from dashboard.purge.receipt.model import RequestWait, Sample

KEEPS_UP = "keeps-up"
FETCHES = "fetches"
# Connecting, the queue in the broker, a busy machine: what is beside the waiting itself.
SLACK_SECONDS = 0.25
# A follower that is behind takes its current fetch first, up to replica.fetch.response.max.bytes.
_FETCH_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Wait:
    """From sending a request to its answer, for one partition.

    `cause`: `keeps-up`, `fetches` (behind, and fetching), or that of the worst `Stall`. All three
    times are None where nothing can be said. `broker_id` is who is waited for, None: nobody alone.
    """

    key: TopicPartition
    cause: str
    low_seconds: float | None
    likely_seconds: float | None
    high_seconds: float | None
    times_out: bool = False
    broker_id: int | None = None


def waits_of(
    reading: Reading, stalls: Mapping[TopicPartition, Sequence[Stall]], timeout_seconds: float
) -> list[Wait]:
    """One wait per partition, sorted; partitions of one leader share a request, so its followers.

    Stalled partitions travel in requests of their own and do not hold the others up.
    """
    beside = _followers(reading, (k for k in reading.partitions if not stalls.get(k)))
    found = []
    for key, state in sorted(reading.partitions.items()):
        mine = stalls.get(key, ())
        if not mine:
            found.append(_quick(reading, key, beside[state.leader_id], KEEPS_UP, 0.0))
        else:
            found.append(_stalled(reading, state, mine, timeout_seconds))
    return found


def _stalled(
    reading: Reading, state: PartitionState, stalls: Sequence[Stall], timeout: float
) -> Wait:
    key = TopicPartition(state.topic, state.partition)
    if any(stall.cause in UNUSABLE for stall in stalls):
        return Wait(key, next(s.cause for s in stalls if s.cause in UNUSABLE), None, None, None)
    if all(stall.fetching for stall in stalls):
        followers = _followers(reading, [key])[state.leader_id]
        return _quick(reading, key, followers, FETCHES, _FETCH_SECONDS)
    worst = max(
        (s for s in stalls if not s.fetching),
        key=lambda s: (s.seconds_to_go is None, s.seconds_to_go or 0.0),
    )
    least = likely = timeout
    if worst.cause == "log-dir-move" and worst.seconds_to_go is not None:
        # The pace of one second is a rough one: half and twice the time are as likely.
        least, likely = min(timeout, worst.seconds_to_go / 2), min(timeout, worst.seconds_to_go)
    return Wait(
        key,
        worst.cause,
        round(least, 3),
        round(likely, 3),
        round(timeout + SLACK_SECONDS, 3),
        times_out=least >= timeout,
        broker_id=worst.broker_id,
    )


def _quick(
    reading: Reading, key: TopicPartition, followers: set[int], cause: str, extra: float
) -> Wait:
    if not followers:
        return Wait(key, cause, 0.0, 0.0, SLACK_SECONDS)
    known = [reading.fetch_wait_ms[b] for b in followers if b in reading.fetch_wait_ms]
    if not known:
        return Wait(key, cause, None, None, None)
    poll = max(known) / 1000
    likely = poll * len(followers) / (len(followers) + 1)
    return Wait(key, cause, 0.0, round(likely, 3), round(poll + extra + SLACK_SECONDS, 3))


def _followers(
    reading: Reading, keys: Iterable[TopicPartition]
) -> defaultdict[int | None, set[int]]:
    """Leader -> brokers that follow it on any of `keys` and are alive."""
    found: defaultdict[int | None, set[int]] = defaultdict(set)
    for key in keys:
        state = reading.partitions[key]
        found[state.leader_id] |= (set(state.replicas) & reading.alive) - {state.leader_id or 0}
    return found


# The waits that a run expects of its requests, from what it reads just before sending anyway.


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
    """A forecast per partition where one can be made; `sample` is `receipt_bytes.measure`'s,
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


@dataclass(frozen=True, slots=True)
class WaitErrors:
    """How far such predictions were off: waited - likely, in seconds.

    The median is of absolute values, the worst has its sign (below 0: sooner than predicted).
    """

    requests: int
    inside: int
    coverage: float
    median_error_seconds: float
    worst_error_seconds: float


@dataclass(frozen=True, slots=True)
class CauseWaits:
    """The requests of so many purges before which the same cause to wait was seen."""

    cause: str
    purges: int
    errors: WaitErrors

    def to_json(self) -> dict[str, object]:
        return {"cause": self.cause, "purges": self.purges, **asdict(self.errors)}


def requests(rows: Iterable[PartitionRow]) -> list[RequestWait]:
    """One entry per answered wait-all request that had a prediction, in the order of sending.

    A request is answered when its slowest partition is: its interval is the latest of its
    partitions'. Left out is what was sent more than once: its first answer is not kept.
    """
    groups: dict[tuple[Any, Any], list[PartitionRow]] = defaultdict(list)
    for row in rows:
        told = row.waited_seconds is not None and row.wait_forecast is not None
        if told and row.attempts == 1:
            groups[row.sent_at, row.sent_leader_id].append(row)
    return [_request(groups[key]) for key in sorted(groups)]


def _request(rows: Sequence[PartitionRow]) -> RequestWait:
    told = [row.wait_forecast for row in rows if row.wait_forecast is not None]
    slowest = max(told, key=lambda one: (one.likely_seconds, one.high_seconds, one.cause))
    low, high = max(one.low_seconds for one in told), max(one.high_seconds for one in told)
    waited = max(row.waited_seconds or 0.0 for row in rows)
    return RequestWait(
        leader_id=rows[0].sent_leader_id,
        partitions=len(rows),
        cause=slowest.cause,
        low_seconds=low,
        likely_seconds=slowest.likely_seconds,
        high_seconds=high,
        waited_seconds=waited,
        timed_out=any(row.answer_error_code == REQUEST_TIMED_OUT for row in rows),
        inside=low <= waited <= high,
    )


def errors_of(found: Sequence[RequestWait]) -> WaitErrors:
    """How far these were off, one at least."""
    errors: list[float] = [one.waited_seconds - one.likely_seconds for one in found]
    worst = max(errors, key=abs)
    inside = sum(one.inside for one in found)
    return WaitErrors(
        requests=len(found),
        inside=inside,
        coverage=inside / len(found),
        median_error_seconds=round(statistics.median(map(abs, errors)), 3),
        worst_error_seconds=round(worst, 3),
    )


def said(found: Sequence[RequestWait]) -> str | None:
    """The comparison of one run in a sentence, or None where nothing was predicted."""
    if not found:
        return None
    slowest = max(found, key=lambda one: one.waited_seconds)
    inside, out = sum(one.inside for one in found), sum(one.timed_out for one in found)
    text = (
        f"the slowest of {plural(len(found), 'request')} took "
        f"{duration(slowest.waited_seconds)}; predicted {duration(slowest.low_seconds)} to "
        f"{duration(slowest.high_seconds)}, about {duration(slowest.likely_seconds)}: "
        f"{inside} of {len(found)} inside"
    )
    return text + (f"; {plural(out, 'request')} timed out" if out else "")


def calibration(runs: Iterable[RunRow]) -> list[CauseWaits]:
    """How far predictions were off per cause, over what receipts kept; most requests first."""
    by_cause: dict[str, list[RequestWait]] = defaultdict(list)
    purges: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        for one in run.receipt.waits if run.receipt else ():
            by_cause[one.cause].append(one)
            purges[one.cause].add(run.run_id)
    found = [CauseWaits(c, len(purges[c]), errors_of(listed)) for c, listed in by_cause.items()]
    return sorted(found, key=lambda line: (-line.errors.requests, line.cause))
