"""Purges while brokers hang and workers die: the states are right, no record too many is gone."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta

import pytest

from dashboard.clock import utc_now
from dashboard.cluster.connection import open_connection
from dashboard.cluster.live import LiveCluster, connect
from dashboard.demo.brokers import LocalCluster
from dashboard.model import DeleteRecordsResult, PartitionState, TopicPartition
from dashboard.purge import queue
from dashboard.purge.execute import Execution
from dashboard.purge.journal_rows import RunView
from tests.brokers.purge_bench import Bench

TIMEOUT = timedelta(seconds=2)


@pytest.fixture(scope="module")
def bench(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(cluster.bootstrap, cluster.cluster_id, tmp_path_factory.mktemp("purge-faults"))
    yield made
    made.close()


@contextmanager
def resumed(cluster: LocalCluster, broker_id: int) -> Iterator[None]:
    """A block in which a broker may be suspended; it serves again after it."""
    try:
        yield
    finally:
        cluster.resume(broker_id)
        cluster.start_broker(broker_id)


def placed(bench: Bench, topic: str) -> PartitionState:
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        return live.topics([topic])[topic].partitions[0]


def follower(bench: Bench, topic: str) -> int:
    state = placed(bench, topic)
    return next(b for b in state.replicas if b != state.leader_id)


def until(found: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def kinds(bench: Bench, run_id: str) -> list[str]:
    return [e.kind for e in bench.journal.entries(run_id)]


class Faulty(LiveCluster):
    """A real cluster to which something happens just before a request leaves."""

    def __init__(self, bench: Bench, before: Callable[[], None]) -> None:
        super().__init__(open_connection({"bootstrap.servers": bench.bootstrap}, timeout=TIMEOUT))
        self._before = [before]

    def delete_records(
        self,
        leader_id: int,
        targets: Mapping[TopicPartition, int],
        *,
        timeout_ms: int,
        leader_only: bool = False,
    ) -> DeleteRecordsResult:
        if self._before:
            self._before.pop()()
        return super().delete_records(
            leader_id, targets, timeout_ms=timeout_ms, leader_only=leader_only
        )


def carry_out(bench: Bench, run_id: str, before: Callable[[], None]) -> RunView:
    """Carry a queued run out in this process, with a fault at its first request."""
    with Faulty(bench, before) as live:
        Execution(
            live=live,
            journal=bench.journal,
            run=bench.journal.run(run_id).run,
            plan=bench.journal.plan(run_id),
            now=utc_now,
            sleep=time.sleep,
            read_only=lambda: False,
        ).execute()
    return bench.journal.run(run_id)


def test_a_hanging_follower_is_named_and_arrives_once_it_goes_on(
    bench: Bench, cluster: LocalCluster
) -> None:
    topic = bench.topic(100)
    bench.commit("purge-g", topic, {0: 60})
    behind = follower(bench, topic)
    run_id = bench.enqueue(bench.plan(topic), timeout=timedelta(seconds=1), start=False, watch=True)
    with resumed(cluster, behind):
        view = carry_out(bench, run_id, lambda: cluster.suspend(behind))
        row = view.partitions[0].to_json()
        assert (view.run.state, view.exit_code) == ("partial", 2)
        assert (row["state"], row["error"]) == ("leader_done", "REQUEST_TIMED_OUT")
        assert row["followers_behind"] == [behind]
        assert row["leader_log_start_offset"] == 60

    bench.start(run_id)  # a worker that finds the run closed watches it
    until(lambda: bench.journal.run(run_id).run.state == "done")
    bench.kill_worker(run_id)
    after = bench.journal.run(run_id)
    assert after.partitions[0].low_watermark == 60
    assert_done(bench, after, topic, 60)


def test_leader_only_verified_does_not_wait_for_a_hanging_follower(
    bench: Bench, cluster: LocalCluster
) -> None:
    topic = bench.topic(100)
    bench.commit("purge-g", topic, {0: 60})
    behind = follower(bench, topic)
    run_id = bench.enqueue(bench.plan(topic), mode="leader-only-verified", start=False)
    with resumed(cluster, behind):
        view = carry_out(bench, run_id, lambda: cluster.suspend(behind))
        row = view.partitions[0].to_json()
        assert (view.run.state, view.exit_code) == ("done", 0)
        assert (row["state"], row["error"]) == ("leader_done", None)
        assert behind in row["followers_behind"]  # an idle one may not have fetched yet
        assert row["leader_log_start_offset"] == 60
    assert bench.offsets(topic, 0) == list(range(60, 100))


@pytest.mark.parametrize("moment", ["before-sending", "after-the-answer"])
def test_a_worker_killed_between_intent_and_journal_is_followed_by_one_that_reads_first(
    bench: Bench, moment: str
) -> None:
    topic = bench.topic(100)
    bench.commit("purge-g", topic, {0: 60})
    run_id = bench.enqueue(bench.plan(topic), start=False)
    command = [sys.executable, "-m", "tests.brokers.dying_worker", moment, "--run", run_id]
    command += ["--state-dir", str(bench.settings.state_dir)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert bench.journal.run(run_id).partitions[0].state == "sent"
    assert "answer" not in kinds(bench, run_id)

    later = utc_now() + timedelta(minutes=1)
    assert run_id in queue.respawn_stale(bench.settings, bench.journal, now=later)
    assert_done(bench, bench.wait(run_id), topic, 60)
    # What had been carried out is seen by reading, and not sent a second time.
    assert kinds(bench, run_id).count("intent") == (2 if moment == "before-sending" else 1)


@pytest.mark.slow  # the election waits for the broker session to end
def test_a_killed_leader_loses_the_answer_and_the_next_leader_is_read_first(
    bench: Bench, cluster: LocalCluster
) -> None:
    topic = bench.topic(100)
    bench.commit("purge-g", topic, {0: 60})
    leader = placed(bench, topic).leader_id
    assert leader is not None
    run_id = bench.enqueue(
        bench.plan(topic), timeout=timedelta(seconds=25), start=False, watch=True
    )
    try:
        view = carry_out(bench, run_id, lambda: cluster.kill_broker(leader))
    finally:
        cluster.start_broker(leader)
    assert view.partitions[0].sent_leader_id != leader
    assert view.run.state == "done"
    assert view.to_json()["partitions"][0]["dead_replicas"] == [leader]
    bench.start(run_id)
    until(lambda: all_arrived(bench, run_id))
    bench.kill_worker(run_id)
    assert_done(bench, bench.journal.run(run_id), topic, 60)


def all_arrived(bench: Bench, run_id: str) -> bool:
    row = bench.journal.run(run_id).partitions[0]
    return row.state == "done" and all(f.alive and f.arrived for f in row.followers)


def assert_done(bench: Bench, view: RunView, topic: str, target: int) -> None:
    assert (view.run.state, view.partitions[0].state) == ("done", "done")
    assert bench.offsets(topic, 0) == list(range(target, 100))
    assert bench.journal.verify().ok
