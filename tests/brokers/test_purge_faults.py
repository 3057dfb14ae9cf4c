"""Purges while brokers hang, die and change places: nothing is guessed, nothing too many goes."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from dashboard.cluster.live import LiveCluster, connect
from dashboard.demo.kafka.brokers import LocalCluster
from dashboard.domain.model import TopicPartition
from dashboard.purge.receipt.model import Receipt
from tests.brokers.purge_bench import PATIENCE, Bench
from tests.brokers.purge_faults import (
    carry_out,
    elect,
    follower,
    followers,
    kinds,
    prefer,
    resumed,
    until,
)
from tests.brokers.purge_proof import Left, assert_proved


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
        assert (row["error"], row["leader_log_start_offset"]) == ("REQUEST_TIMED_OUT", 60)
        assert [*row["followers_behind"], *row["dead_replicas"]] == [behind]
        state = state_beside(row, behind)
        assert view.exit_code == (0 if state == "done" else 2)
        run_state = "done" if state == "done" else "partial"
        assert_proved(bench, view, run_state, Left(topic, 0, state, range(60, 100)))
    watched_to_its_end(bench, run_id, topic)
    assert bench.journal.run(run_id).partitions[0].low_watermark == 60
    # It hung only after the forecast was made: the error stands beside it.
    (wait,) = (bench.journal.head(run_id).receipt or Receipt()).waits
    assert (wait.cause, wait.timed_out, wait.inside) == ("keeps-up", True, False)


@pytest.mark.further
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
        assert (row["error"], row["leader_log_start_offset"]) == (None, 60)
        state = state_beside(row, behind)
        assert view.exit_code == 0
    assert_proved(bench, view, "done", Left(topic, 0, state, range(60, 100)))


def test_a_leader_deposed_as_the_request_leaves_is_read_before_anything_is_sent_again(
    bench: Bench, cluster: LocalCluster
) -> None:
    topic = bench.topic(100)
    bench.commit("purge-g", topic, {0: 60})
    leader, heir = bench.placed(topic).leader_id, follower(bench, topic)
    prefer(bench, topic, [heir, *(b for b in cluster.broker_ids if b != heir)])
    run_id = bench.enqueue(bench.plan(topic), start=False)
    view = carry_out(bench, run_id, lambda: elect(bench, topic, heir, ask=heir))
    sent = [e.body for e in bench.journal.entries(run_id) if e.kind in ("intent", "answer")]
    if sent[1]["results"][0][-1] == 7:
        # Brokers before 4.0 may take the request on a log that has a new leader, and wait in vain.
        assert [b["leader_id"] for b in sent] == [leader, leader]
        assert view.exit_code != 0
        assert_proved(bench, view, view.run.state, Left(topic, 0, "reverted", range(100)))
        return
    assert [b["leader_id"] for b in sent] == [leader, leader, heir, heir]
    assert sent[1]["results"][0][-1] == 6  # NOT_LEADER_OR_FOLLOWER
    steps = kinds(bench, run_id)
    again = len(steps) - steps[::-1].index("intent") - 1
    assert "read" in steps[steps.index("answer") : again]
    assert view.partitions[0].attempts == 2
    assert_proved(bench, view, "done", Left(topic, 0, "done", range(60, 100)))


def test_a_leader_that_moves_while_wait_all_hangs_is_read_before_anything_is_sent_again(
    bench: Bench, cluster: LocalCluster
) -> None:
    topic = bench.topic(100)
    bench.commit("purge-g", topic, {0: 60})
    leader = bench.placed(topic).leader_id
    hung, heir = followers(bench, topic)
    assert leader is not None
    prefer(bench, topic, [heir, leader, hung])
    run_id = bench.enqueue(bench.plan(topic), timeout=timedelta(seconds=8), start=False, watch=True)

    def move() -> None:
        with connect({"bootstrap.servers": bench.bootstrap}, PATIENCE) as live:
            until(lambda: starts(live, topic, leader, heir) == [60, 60])
        elect(bench, topic, heir, ask=leader)

    with resumed(cluster, hung), ThreadPoolExecutor(1) as mover:
        moving: list[Future[None]] = []

        def hang_and_move() -> None:
            cluster.suspend(hung)
            moving.append(mover.submit(move))

        view = carry_out(bench, run_id, hang_and_move)
        moving[0].result()
        # The deposed leader keeps the request until its timeout, and then says that it timed out.
        assert view.partitions[0].answer_error_code in (6, 7)
        assert (view.partitions[0].sent_leader_id, bench.placed(topic).leader_id) == (leader, heir)
        steps = kinds(bench, run_id)
        assert steps.count("intent") == 1  # the heir was read, and starts at the target already
        assert steps.index("answer") < steps.index("read")
        state = view.partitions[0].state  # `done` once the hung broker's session has ended
        assert view.to_json()["partitions"][0]["dead_replicas"] == [hung] * (state == "done")
        assert_proved(bench, view, view.run.state, Left(topic, 0, state, range(60, 100)))
    watched_to_its_end(bench, run_id, topic)


def state_beside(row: dict[str, Any], hung: int) -> str:
    """The state that a leader at its target must have while one follower hangs.

    That one is behind until its session with the controllers has ended. By then it is dead, and
    `done` waits for the others alone: one that is idle may not have fetched yet.
    """
    behind, dead = row["followers_behind"], row["dead_replicas"]
    assert hung in (*behind, *dead)
    return "leader_done" if behind else "done"


def starts(live: LiveCluster, topic: str, *brokers: int) -> list[int | None]:
    rows = live.replica_offsets([TopicPartition(topic, 0)], brokers)
    by_broker = {row.broker_id: row.log_start_offset for row in rows}
    return [by_broker.get(broker) for broker in brokers]


@pytest.mark.slow  # the election waits for the broker session to end
def test_a_leader_killed_between_intent_and_answer_leaves_it_to_the_next_leader_to_tell(
    bench: Bench, cluster: LocalCluster
) -> None:
    topic = bench.topic(100)
    bench.commit("purge-g", topic, {0: 60})
    leader = bench.placed(topic).leader_id
    hung, heir = followers(bench, topic)
    assert leader is not None
    prefer(bench, topic, [leader, heir, hung])
    run_id = bench.enqueue(
        bench.plan(topic), timeout=timedelta(seconds=60), start=False, watch=True
    )

    def kill() -> None:
        with connect({"bootstrap.servers": bench.bootstrap}, PATIENCE) as live:
            until(lambda: starts(live, topic, leader, heir) == [60, 60])
        cluster.kill_broker(leader)
        cluster.resume(hung)  # controllers need a majority

    with resumed(cluster, hung, leader), ThreadPoolExecutor(1) as killer:
        killing: list[Future[None]] = []

        def hang_and_kill() -> None:
            cluster.suspend(hung)
            killing.append(killer.submit(kill))

        view = carry_out(bench, run_id, hang_and_kill)
        killing[0].result()
        (lost,) = [e.body for e in bench.journal.entries(run_id) if e.kind == "no-answer"]
        assert lost["code"] == "ANSWER_LOST"
        assert (view.partitions[0].sent_leader_id, bench.placed(topic).leader_id) == (leader, heir)
        assert kinds(bench, run_id).count("intent") == 1  # read, and not sent again
        # What is read as its session ends may still name it alive: then it has not arrived.
        row = view.to_json()["partitions"][0]
        assert [*row["followers_behind"], *row["dead_replicas"]] == [leader]
        state = view.partitions[0].state  # the follower that hung may not have fetched yet
        assert_proved(bench, view, view.run.state, Left(topic, 0, state, range(60, 100)))
    watched_to_its_end(bench, run_id, topic)


@pytest.mark.slow  # the ISR shrinks when the broker session ends
def test_a_leader_killed_before_the_request_stops_the_run_and_nothing_was_sent(
    bench: Bench, cluster: LocalCluster
) -> None:
    topic = bench.topic(100)
    bench.commit("purge-g", topic, {0: 60})
    leader = bench.placed(topic).leader_id
    assert leader is not None
    run_id = bench.enqueue(bench.plan(topic), timeout=timedelta(seconds=60), start=False)
    with resumed(cluster, leader):
        view = carry_out(bench, run_id, lambda: cluster.kill_broker(leader))
        row = view.partitions[0]
        assert (row.error, row.was_sent, view.exit_code) == ("STOPPED_ISR_SHRANK", False, 3)
        assert f"broker {leader}" in str(row.message)
        assert_proved(bench, view, "refused", Left(topic, 0, "not_done", range(100)))


@pytest.mark.slow  # the election waits for the broker session to end
def test_offsets_that_an_unclean_election_used_again_are_not_purged_by_an_older_plan(
    bench: Bench, cluster: LocalCluster
) -> None:
    topic = bench.topic(50)
    leader, heir = bench.placed(topic).leader_id, follower(bench, topic)
    assert leader is not None
    prefer(bench, topic, [leader, heir])
    with resumed(cluster, leader, heir):
        cluster.stop_broker(heir)
        bench.produce(topic, 0, 50)
        bench.commit("purge-g", topic, {0: 90})
        plan = bench.plan(topic, override=("under-replicated=a test",))
        assert (plan.partitions[0].target_offset, plan.partitions[0].free) == (90, True)
        cluster.kill_broker(leader)
        cluster.start_broker(heir)
        elect(bench, topic, heir, ask=heir, unclean=True)
        bench.produce(topic, 0, 60)  # offsets 50 to 109: 50 to 99 mean other records than planned
        cluster.start_broker(leader)
        view = bench.apply(plan)
    row = view.partitions[0]
    assert (row.error, row.was_sent, view.exit_code) == ("offsets-reused", False, 3)
    assert "ended at 50" in str(row.message)
    assert_proved(bench, view, "refused", Left(topic, 0, "not_done", range(110)))


def watched_to_its_end(bench: Bench, run_id: str, topic: str) -> None:
    """A worker that finds the run closed watches it until every replica has arrived."""
    bench.start(run_id)
    until(lambda: all_arrived(bench, run_id))
    bench.kill_worker(run_id)
    view = bench.journal.run(run_id)
    assert_proved(bench, view, "done", Left(topic, 0, "done", range(60, 100)))


def all_arrived(bench: Bench, run_id: str) -> bool:
    view = bench.journal.run(run_id)
    row = view.partitions[0]
    arrived = row.state == "done" and all(f.alive and f.arrived for f in row.followers)
    return arrived and view.run.state == "done"
