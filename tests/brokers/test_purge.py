"""A purge of a real cluster: what goes, what stays, what is refused, and what is proved."""

from __future__ import annotations

import threading
import time
import uuid
from datetime import timedelta
from typing import Any

import pytest

from dashboard.cluster.live import connect
from dashboard.core.clock import utc_now
from dashboard.core.errors import RefusedError
from dashboard.domain.model import TopicPartition as Key
from dashboard.purge.journal.journal import Journal
from dashboard.purge.plan.plan import Plan
from tests.brokers.purge_bench import Bench
from tests.brokers.purge_proof import Left, assert_proved, assert_untouched


@pytest.mark.usefixtures("workers_started")
def test_wait_all_purge_frees_the_bytes_below_the_committed_minimum_and_nothing_above(
    bench: Bench,
) -> None:
    topic = bench.topic(4000, 2000, 500, 0)
    bench.commit("purge-fast", topic, {0: 3800, 1: 1500})
    bench.commit("purge-slow", topic, {0: 3000, 1: 1900})
    plan = bench.plan(topic)

    found = {p.partition: (p.target_offset, [g.name for g in p.guards]) for p in plan.partitions}
    assert found == {
        0: (3000, []),
        1: (1500, []),
        2: (None, ["no-committed-offset"]),
        3: (0, []),
    }
    view = bench.apply(plan, watch=True)

    assert (view.run.state, view.exit_code) == ("done", 0)
    assert {(r.partition, r.state, r.low_watermark) for r in view.partitions} == {
        (0, "done", 3000),
        (1, "done", 1500),
        (3, "done", 0),
    }
    left = {0: range(3000, 4000), 1: range(1500, 2000), 3: range(0)}
    assert_proved(bench, view, "done", *(Left(topic, p, "done", kept) for p, kept in left.items()))
    assert bench.offsets(topic, 2) == list(range(500))
    receipt = _freed(bench, view.run.run_id)
    bench.kill_worker(view.run.run_id)
    # Two full segments of partition 0 lie below 3,000 on each of three replicas, one of 1.
    for replica in receipt["replicas"]:
        left = replica["before_bytes"] - replica["freed_bytes"]
        assert replica["size_bytes"] == left
        assert 0 < replica["freed_bytes"] < replica["before_bytes"]
    assert receipt["retention_bytes"] == 0


def _freed(bench: Bench, run_id: str) -> dict[str, Any]:
    """The receipt once bytes left on every replica."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        receipt = bench.journal.run(run_id).to_json()["receipt"]
        if receipt and receipt["replicas"] and all(r["freed_bytes"] for r in receipt["replicas"]):
            return receipt
        time.sleep(0.2)
    raise AssertionError(f"no bytes left in a minute: {receipt}")


def test_every_replica_starts_at_the_target_once_the_run_is_done(bench: Bench) -> None:
    topic = bench.topic(1000)
    bench.commit("purge-g", topic, {0: 700})
    view = bench.apply(bench.plan(topic))
    assert view.run.state == "done"
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        starts = {r.log_start_offset for r in live.replica_offsets([Key(topic, 0)])}
    assert starts == {700}


def test_a_plan_runs_once(bench: Bench) -> None:
    topic = bench.topic(10)
    bench.commit("purge-g", topic, {0: 5})
    plan = bench.plan(topic)
    first = bench.apply(plan)
    with pytest.raises(RefusedError, match=first.run.run_id) as refused:
        bench.apply(plan)
    assert (refused.value.code, refused.value.exit_code) == ("PLAN_ALREADY_APPLIED", 3)
    assert_proved(bench, first, "done", Left(topic, 0, "done", range(5, 10)))


def free_plan(bench: Bench, topic: str, to: str) -> Plan:
    """A plan that no guard of the moment blocks: on a busy machine a replica falls behind."""
    until = time.monotonic() + 30
    while not (plan := bench.plan(topic, to=to)).free_partitions and time.monotonic() < until:
        time.sleep(0.5)
    return plan


@pytest.mark.further
def test_of_five_racers_on_one_topic_one_is_accepted(bench: Bench) -> None:
    topic = bench.topic(50)
    bench.commit("purge-g", topic, {0: 20})
    plans = [free_plan(bench, topic, f"offset:{10 + n}") for n in range(5)]
    outcomes: list[str] = []
    refusals: list[str] = []
    together = threading.Barrier(5)

    def race(number: int) -> None:
        journal = Journal(bench.journal.file.path)
        together.wait()
        try:
            journal_bench = Bench.__new__(Bench)
            journal_bench.__dict__.update({**bench.__dict__, "journal": journal})
            journal_bench.enqueue(plans[number], start=False)
            outcomes.append("accepted")
        except RefusedError as error:
            outcomes.append(error.code)
            refusals.append(error.message)
        finally:
            journal.close()

    racers = [threading.Thread(target=race, args=(n,)) for n in range(5)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert sorted(outcomes) == ["TOPIC_BUSY"] * 4 + ["accepted"], refusals
    open_run = next(r for r in bench.journal.runs() if r.open)
    bench.start(open_run.run_id)
    view = bench.wait(open_run.run_id)
    target = view.partitions[0].target_offset
    assert_proved(bench, view, "done", Left(topic, 0, "done", range(target, 50)))


def test_the_same_click_twice_is_one_run(bench: Bench) -> None:
    topic = bench.topic(10)
    bench.commit("purge-g", topic, {0: 5})
    plan, token = bench.plan(topic), uuid.uuid4().hex
    runs = {bench.enqueue(plan, token=token) for _ in range(5)}
    assert len(runs) == 1
    view = bench.wait(runs.pop())
    assert_proved(bench, view, "done", Left(topic, 0, "done", range(5, 10)))


def test_the_canary_goes_first_and_then_the_rest(bench: Bench) -> None:
    topic = bench.topic(20, 20, 20)
    bench.commit("purge-g", topic, {0: 5, 1: 6, 2: 7})
    view = bench.apply(bench.plan(topic), canary=True)
    assert view.run.state == "done"
    intents = [e for e in bench.journal.entries(view.run.run_id) if e.kind == "intent"]
    assert len(intents[0].body["partitions"]) == 1
    assert len(intents) > 1


def test_a_topic_without_delete_in_its_policy_is_never_sent(bench: Bench) -> None:
    topic = bench.topic(20, cleanup_policy="compact")
    bench.commit("purge-g", topic, {0: 5})
    assert "not-deletable" in [g.name for g in bench.plan(topic).partitions[0].guards]


@pytest.mark.further
def test_native_leader_only_is_unsupported_on_released_brokers_and_sends_nothing(
    bench: Bench,
) -> None:
    topic = bench.topic(20)
    bench.commit("purge-g", topic, {0: 5})
    view = bench.apply(bench.plan(topic), mode="leader-only")
    row = view.partitions[0]
    assert (row.state, row.error) == ("not_done", "UNSUPPORTED_VERSION")
    assert (view.run.state, view.exit_code) == ("refused", 3)
    assert_untouched(bench, topic, 20)


def test_a_run_is_cancelled_before_anything_is_sent(bench: Bench) -> None:
    topic = bench.topic(20)
    bench.commit("purge-g", topic, {0: 5})
    run_id = bench.enqueue(bench.plan(topic), start=False)
    bench.cancel(run_id)
    bench.start(run_id)
    view = bench.wait(run_id)
    assert (view.run.state, view.partitions[0].error) == ("cancelled", "CANCELLED")
    assert_untouched(bench, topic, 20)


def test_the_read_only_switch_stops_every_purge(bench: Bench) -> None:
    topic = bench.topic(20)
    bench.commit("purge-g", topic, {0: 5})
    run_id = bench.enqueue(bench.plan(topic), start=False)
    bench.journal.set_read_only(True, "approver", utc_now())
    try:
        bench.start(run_id)
        assert bench.wait(run_id).partitions[0].error == "READ_ONLY"
        with pytest.raises(RefusedError) as refused:
            bench.apply(bench.plan(topic))
        assert refused.value.code == "READ_ONLY"
    finally:
        bench.journal.set_read_only(False, "approver", utc_now())
    assert_untouched(bench, topic, 20)


def test_an_expired_plan_is_refused(bench: Bench) -> None:
    topic = bench.topic(5)
    bench.commit("purge-g", topic, {0: 5})
    plan = bench.plan(topic)
    with pytest.raises(RefusedError) as refused:
        bench.apply(plan, now=utc_now() + timedelta(hours=2))
    assert refused.value.code == "PLAN_EXPIRED"
