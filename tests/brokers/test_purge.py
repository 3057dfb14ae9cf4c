"""A purge of a real cluster: what goes, what stays, what is refused, and what is proved."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition

from dashboard.clock import utc_now
from dashboard.cluster.live import connect
from dashboard.demo.brokers import LocalCluster
from dashboard.demo.clients import client
from dashboard.errors import RefusedError
from dashboard.model import TopicPartition as Key
from dashboard.purge.journal import Journal
from dashboard.purge.preview import preview
from dashboard.purge.targets import read_offsets_json
from tests.brokers.purge_bench import Bench


@pytest.fixture(scope="module")
def bench(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(cluster.bootstrap, cluster.cluster_id, tmp_path_factory.mktemp("purge"))
    yield made
    made.close()


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
    assert bench.offsets(topic, 0) == list(range(3000, 4000))
    assert bench.offsets(topic, 1) == list(range(1500, 2000))
    assert bench.offsets(topic, 2) == list(range(500))
    receipt = _freed(bench, view.run.run_id)
    bench.kill_worker(view.run.run_id)
    # Two full segments of partition 0 lie below 3,000 on each of three replicas, one of 1.
    for replica in receipt["replicas"]:
        left = replica["before_bytes"] - replica["freed_bytes"]
        assert replica["size_bytes"] == left
        assert 0 < replica["freed_bytes"] < replica["before_bytes"]
    assert receipt["retention_bytes"] == 0
    assert bench.journal.verify().ok


def _freed(bench: Bench, run_id: str) -> dict[str, Any]:
    """The receipt once bytes left on every replica."""
    until = time.monotonic() + 15
    while time.monotonic() < until:
        receipt = bench.journal.run(run_id).to_json()["receipt"]
        if receipt and receipt["replicas"] and all(r["freed_bytes"] for r in receipt["replicas"]):
            return receipt
        time.sleep(0.2)
    raise AssertionError(f"no bytes left in 15 s: {receipt}")


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
    assert bench.offsets(topic, 0) == [5, 6, 7, 8, 9]


def test_of_five_racers_on_one_topic_one_is_accepted(bench: Bench) -> None:
    topic = bench.topic(50)
    bench.commit("purge-g", topic, {0: 20})
    plans = [bench.plan(topic, to=f"offset:{10 + n}") for n in range(5)]
    outcomes: list[str] = []
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
        finally:
            journal.close()

    racers = [threading.Thread(target=race, args=(n,)) for n in range(5)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert sorted(outcomes) == ["TOPIC_BUSY"] * 4 + ["accepted"]
    open_run = next(r for r in bench.journal.runs() if r.open)
    bench.start(open_run.run_id)
    assert bench.wait(open_run.run_id).run.state == "done"


def test_the_same_click_twice_is_one_run(bench: Bench) -> None:
    topic = bench.topic(10)
    bench.commit("purge-g", topic, {0: 5})
    plan, token = bench.plan(topic), uuid.uuid4().hex
    runs = {bench.enqueue(plan, token=token) for _ in range(5)}
    assert len(runs) == 1
    assert bench.wait(runs.pop()).run.state == "done"


def test_a_group_born_below_the_target_after_the_plan_refuses(bench: Bench) -> None:
    topic = bench.topic(100)
    bench.commit("purge-g", topic, {0: 60})
    plan = bench.plan(topic)
    bench.commit("purge-born-later", topic, {0: 10})
    view = bench.apply(plan)
    assert (view.run.state, view.exit_code) == ("refused", 3)
    assert view.partitions[0].error == "unread-by-group"
    assert "purge-born-later" in str(view.partitions[0].message)
    assert view.to_json()["error"]["code"] == "REFUSED"
    assert len(bench.offsets(topic, 0)) == 100


def test_an_accepted_loss_is_no_more_than_what_the_plan_showed(bench: Bench) -> None:
    topic = bench.topic(100)
    bench.commit("purge-g", topic, {0: 60})
    lifted = ("unread-by-group:purge-g=its records are of no use",)
    first = bench.plan(topic, to="offset:80", override=lifted)
    shown = preview(first, utc_now())["groups"][0]
    assert (shown["loss_if_earliest"], shown["loss_if_latest"]) == (20, 40)
    bench.commit("purge-g", topic, {0: 50})  # reset backwards: more would be lost
    refused = bench.apply(first)
    assert (refused.run.state, refused.partitions[0].error) == ("refused", "unread-by-group")
    assert bench.apply(bench.plan(topic, to="offset:80", override=lifted)).run.state == "done"
    assert bench.offsets(topic, 0) == list(range(80, 100))


def test_a_topic_recreated_after_the_plan_refuses(bench: Bench) -> None:
    topic = bench.topic(100)
    bench.commit("purge-g", topic, {0: 60})
    plan = bench.plan(topic)
    bench.admin.delete_topics([topic])[topic].result(20)
    time.sleep(0.5)
    bench.topic(100, name=topic)
    view = bench.apply(plan)
    assert (view.run.state, view.partitions[0].error) == ("refused", "topic-id-changed")
    assert len(bench.offsets(topic, 0)) == 100


def test_an_open_transaction_below_the_target_blocks_it(bench: Bench) -> None:
    topic = bench.topic(10)
    bench.commit("purge-g", topic, {0: 10})
    settings = client(bench.bootstrap, **{"transactional.id": f"purge-{uuid.uuid4().hex}"})
    producer = Producer(settings)
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(20)
    bench.commit("purge-g", topic, {0: 11})
    try:
        capped = bench.plan(topic).partitions[0]
        assert (capped.target_offset, capped.capped_by) == (10, "last-stable-offset")
        beyond = bench.plan(topic, to="high-watermark").partitions[0]
        assert [g.name for g in beyond.guards] == ["beyond-last-stable-offset"]
    finally:
        producer.abort_transaction(20)


def test_a_time_after_the_last_record_gives_no_target(bench: Bench) -> None:
    topic = bench.topic(10, 0)
    bench.commit("purge-g", topic, {0: 10, 1: 0})
    plan = bench.plan(topic, to="timestamp:2099-01-01T00:00:00Z")
    assert [(p.target_offset, [g.name for g in p.guards]) for p in plan.partitions] == [
        (None, ["target-unresolved"]),
        (0, []),
    ]


def test_a_time_between_records_keeps_all_that_are_younger(bench: Bench) -> None:
    topic = bench.topic(10)
    time.sleep(0.05)
    between = utc_now()
    time.sleep(0.05)
    bench.produce(topic, 0, 5)
    bench.commit("purge-g", topic, {0: 15})
    text = f"timestamp:{between:%Y-%m-%dT%H:%M:%S.%f}Z"
    assert bench.apply(bench.plan(topic, to=text)).run.state == "done"
    assert bench.offsets(topic, 0) == [10, 11, 12, 13, 14]


def test_a_log_start_that_passed_the_target_meanwhile_leaves_nothing_to_do(bench: Bench) -> None:
    topic = bench.topic(100)
    bench.commit("purge-g", topic, {0: 60})
    plan = bench.plan(topic)
    part = TopicPartition(topic, 0, 70)
    next(iter(bench.admin.delete_records([part]).values())).result(20)
    view = bench.apply(plan)
    assert (view.run.state, view.partitions[0].was_sent) == ("done", False)
    assert view.partitions[0].leader_log_start_offset == 70
    assert bench.offsets(topic, 0) == list(range(70, 100))


def test_an_offsets_file_purges_what_it_names_and_minus_one_is_frozen(bench: Bench) -> None:
    topic = bench.topic(40, 40)
    bench.commit("purge-g", topic, {0: 40, 1: 40})
    text = (
        f'{{"partitions":[{{"topic":"{topic}","partition":1,"offset":-1}},'
        f'{{"topic":"{topic}","partition":0,"offset":7}}],"version":1}}'
    )
    plan = bench.plan(to=read_offsets_json(text, "offsets.json"))
    assert [p.target_offset for p in plan.partitions] == [7, 40]
    bench.produce(topic, 1, 3)
    assert bench.apply(plan).run.state == "done"
    assert bench.offsets(topic, 0) == list(range(7, 40))
    assert bench.offsets(topic, 1) == [40, 41, 42]


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


def test_native_leader_only_is_unsupported_on_released_brokers_and_sends_nothing(
    bench: Bench,
) -> None:
    topic = bench.topic(20)
    bench.commit("purge-g", topic, {0: 5})
    view = bench.apply(bench.plan(topic), mode="leader-only")
    row = view.partitions[0]
    assert (row.state, row.error) == ("not_done", "UNSUPPORTED_VERSION")
    assert view.exit_code == 2
    assert len(bench.offsets(topic, 0)) == 20


def test_a_run_is_cancelled_before_anything_is_sent(bench: Bench) -> None:
    topic = bench.topic(20)
    bench.commit("purge-g", topic, {0: 5})
    run_id = bench.enqueue(bench.plan(topic), start=False)
    bench.cancel(run_id)
    bench.start(run_id)
    view = bench.wait(run_id)
    assert (view.run.state, view.partitions[0].error) == ("cancelled", "CANCELLED")
    assert len(bench.offsets(topic, 0)) == 20


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
    assert len(bench.offsets(topic, 0)) == 20


def test_an_expired_plan_is_refused(bench: Bench) -> None:
    topic = bench.topic(5)
    bench.commit("purge-g", topic, {0: 5})
    plan = bench.plan(topic)
    with pytest.raises(RefusedError) as refused:
        bench.apply(plan, now=utc_now() + timedelta(hours=2))
    assert refused.value.code == "PLAN_EXPIRED"
