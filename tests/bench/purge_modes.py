"""Leader-only against wait-all: single requests, and whole runs with a follower that hangs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path

from confluent_kafka import Producer

from dashboard.cluster.connection.connection import open_connection
from dashboard.cluster.live import LiveCluster
from dashboard.core.clock import utc_now
from dashboard.demo.kafka.brokers import client
from dashboard.domain.model import DeleteRecordsResult, PartitionState, TopicPartition
from dashboard.purge.evidence.standards import standards
from dashboard.purge.execute.execute import Execution
from dashboard.purge.jobs import queue
from dashboard.purge.journal.journal import open_default
from dashboard.purge.plan.drafts import PlanRequest, read_live
from dashboard.purge.plan.guards import Lift
from dashboard.purge.plan.targets import parse_target
from dashboard.settings import settings as settings_file
from dashboard.store.snapshots import ClusterStore, Store
from tests.bench.purge_lab import Lab, in_turn, seconds

TOPIC = "modes"
RUN_TOPIC = "hung"  # one partition: the broker that stops leads none that is purged
BROKER_TIMEOUT = timedelta(seconds=2)
MODES = ("wait-all", "leader-only")
TIMEOUT_MS = 1500  # three of them stay below the broker session's end, 9 s, which frees wait-all
_ACCEPTED = tuple(
    Lift(name, "bench") for name in ("readers-undeclared", "no-committed-offset", "no-history")
)
# An idle follower asks every half second: not in step with our requests.
_OUT_OF_STEP = (0.05, 0.31, 0.17, 0.43, 0.11, 0.37, 0.23, 0.49, 0.29)
_NO_OFFSETS = count()


def measure_requests(lab: Lab) -> dict[str, dict[str, float]]:
    """Median seconds of one request by condition and mode."""
    lab.topic(TOPIC, 3)
    with _connected(lab) as live:
        place = live.topics([TOPIC])[TOPIC].partitions[0]
        found = {"idle": _requests(lab, live, place, 9)}
        with _traffic(lab):
            found["produce traffic"] = _requests(lab, live, place, 9)
        with _suspended(lab, _follower(place)):
            found["one follower stopped"] = _requests(lab, live, place, 3)
    return found


def measure_runs(lab: Lab) -> dict[str, float]:
    """Seconds of one whole run of each mode whose follower stops as its request leaves."""
    lab.topic(RUN_TOPIC, 1)
    return {mode: _run(lab, mode) for mode in MODES}


def _requests(lab: Lab, live: LiveCluster, place: PartitionState, runs: int) -> dict[str, float]:
    key, leader = TopicPartition(TOPIC, place.partition), place.leader_id
    assert leader is not None
    pauses = iter(_OUT_OF_STEP * 2)

    def one(mode: str) -> float:
        target = {key: lab.next_offset(TOPIC)}
        only = mode == "leader-only"
        time.sleep(next(pauses))
        return seconds(
            lambda: live.delete_records(leader, target, timeout_ms=TIMEOUT_MS, leader_only=only)
        )

    calls: dict[str, Callable[[], float]] = {m: (lambda m=m: one(m)) for m in MODES}  # type: ignore[misc]
    return in_turn(calls, runs)


def _run(lab: Lab, mode: str) -> float:
    chosen = replace(
        settings_file.load(environ=lab.environment()),
        data=str(Path(lab.folder) / "modes"),
        state_dir=Path(lab.folder) / "modes-state",
        broker_timeout=BROKER_TIMEOUT,
    )
    with _connected(lab) as live:
        place = live.topics([RUN_TOPIC])[RUN_TOPIC].partitions[0]
        store = ClusterStore(Store(chosen.data), live.cluster_id())
        target = parse_target(f"offset:{lab.next_offset(RUN_TOPIC)}")
        request = PlanRequest((RUN_TOPIC,), target, override=_ACCEPTED, by="bench")
        plan = read_live(live, chosen, store, request, now=utc_now()).plan(request.override)
    journal = open_default(chosen)
    run_id = queue.enqueue(
        chosen, journal, plan, mode=mode, confirm=plan.confirmation, sha256=plan.sha256,
        who="bench", token=f"bench-{next(_NO_OFFSETS)}", start=False,
        timeout=timedelta(milliseconds=TIMEOUT_MS),
    )  # fmt: skip
    behind = _follower(place)
    faulty = _StopsAFollower(lab, behind)
    try:
        with faulty:
            execution = Execution(
                live=faulty, journal=journal, run=journal.head(run_id), plan=plan, now=utc_now,
                sleep=time.sleep, read_only=lambda: None,
                standards=lambda: standards(chosen, store, plan.topic_ids, utc_now()),
            )  # fmt: skip
            return seconds(execution.execute)
    finally:
        lab.brokers.resume(behind)
        journal.close()
        _all_back(lab)


class _StopsAFollower(LiveCluster):
    """A live cluster whose first request finds a follower suspended a moment before."""

    def __init__(self, lab: Lab, broker_id: int) -> None:
        super().__init__(
            open_connection({"bootstrap.servers": lab.brokers.bootstrap}, timeout=BROKER_TIMEOUT)
        )
        self._lab, self._stop = lab, [broker_id]

    def delete_records(
        self,
        leader_id: int,
        targets: Mapping[TopicPartition, int],
        *,
        timeout_ms: int,
        leader_only: bool = False,
        may_leave: Callable[[], bool] = lambda: True,
    ) -> DeleteRecordsResult:
        if self._stop:
            self._lab.brokers.suspend(self._stop.pop())
        return super().delete_records(
            leader_id, targets, timeout_ms=timeout_ms, leader_only=leader_only,
            may_leave=may_leave,
        )  # fmt: skip


def _follower(place: PartitionState) -> int:
    return next(b for b in place.replicas if b != place.leader_id)


@contextmanager
def _connected(lab: Lab) -> Iterator[LiveCluster]:
    client_ = {"bootstrap.servers": lab.brokers.bootstrap}
    with LiveCluster(open_connection(client_, timeout=timedelta(seconds=10))) as live:
        yield live


@contextmanager
def _suspended(lab: Lab, broker_id: int) -> Iterator[None]:
    lab.brokers.suspend(broker_id)
    try:
        yield
    finally:
        lab.brokers.resume(broker_id)
        lab.brokers.start_broker(broker_id)


@contextmanager
def _traffic(lab: Lab) -> Iterator[None]:
    """Some 200 records a second to every partition while the block runs."""
    producer = Producer(client(lab.brokers.bootstrap, acks="1", **{"linger.ms": "1"}))
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(0.005):
            for partition in range(3):
                producer.produce(TOPIC, b"x" * 20, partition=partition)
            producer.poll(0)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        producer.flush(30)


def _all_back(lab: Lab) -> None:
    """Until every replica is in sync again: a follower that lags is a guard."""
    with _connected(lab) as live:
        until = time.monotonic() + 30
        while any(p.under_replicated for p in live.topics([RUN_TOPIC])[RUN_TOPIC].partitions):
            assert time.monotonic() < until, "a follower did not come back"
            time.sleep(0.2)
