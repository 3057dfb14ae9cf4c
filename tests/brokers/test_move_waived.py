"""A waived group's offset on a real cluster: moved to the target once it is dead, else left."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from dashboard.cli.main import main
from dashboard.cluster.connection.connection import open_connection
from dashboard.cluster.live import LiveCluster, connect
from dashboard.core.clock import utc_now
from dashboard.core.errors import RefusedError
from dashboard.demo.kafka.brokers import LocalCluster, client
from dashboard.demo.kafka.jars import KafkaJars
from dashboard.domain.model import TopicPartition as Key
from dashboard.purge.execute.execute import Execution
from dashboard.purge.jobs import queue
from dashboard.purge.plan.plan import Plan
from tests.brokers.purge_bench import PATIENCE, UNDECLARED, Bench
from tests.brokers.purge_faults import TIMEOUT
from tests.brokers.workload import ANSWERS_WITHIN


@pytest.fixture
def dead() -> str:
    """A group id of this test alone."""
    return f"dead-{uuid.uuid4().hex[:8]}"


def plan_moving(bench: Bench, topic: str, group_id: str) -> Plan:
    return bench.plan(topic, waive=(f"{group_id}=gone since May",), move_waived=True)


def committed(bench: Bench, group_id: str, topic: str) -> dict[int, int | None]:
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        offsets = live.groups(()).offsets
    return {
        o.partition: o.committed_offset
        for o in offsets
        if (o.group_id, o.topic) == (group_id, topic)
    }


def first_record(bench: Bench, group_id: str, topic: str, partition: int) -> int | None:
    """Where a consumer of the group begins, whatever its reset policy would choose."""
    settings = {"group.id": group_id, "auto.offset.reset": "error", "enable.auto.commit": "false"}
    reader = Consumer(client(bench.bootstrap, **settings))
    try:
        reader.assign([TopicPartition(topic, partition)])
        until = time.monotonic() + 60
        while time.monotonic() < until:
            message = reader.poll(0.5)
            if message is not None:
                assert message.error() is None
                return message.offset()
        raise AssertionError("nothing was read")
    finally:
        reader.close()


@contextmanager
def alive(bench: Bench, group_id: str, topic: str, protocol: str) -> Iterator[None]:
    """A member of the group that is assigned the topic and commits nothing."""
    settings: Mapping[str, str] = {
        "group.id": group_id, "enable.auto.commit": "false", "group.protocol": protocol,
    }  # fmt: skip
    member = Consumer(client(bench.bootstrap, **settings))
    try:
        member.subscribe([topic])
        until = time.monotonic() + 60
        while not member.assignment():
            assert time.monotonic() < until, "it was assigned nothing"
            member.poll(0.2)
        yield
    finally:
        member.close()


def test_a_dead_group_is_moved_exactly_to_the_target_and_resumes_there(
    bench: Bench, dead: str
) -> None:
    topic, other = bench.topic(100, 100, 100), bench.topic(20)
    bench.commit("move-live", topic, {0: 60, 1: 70})
    bench.commit(dead, topic, {0: 10, 1: 80, 2: 5})
    bench.commit(dead, other, {0: 3})
    view = bench.apply(plan_moving(bench, topic, dead))

    assert (view.run.state, view.exit_code) == ("done", 0)
    assert [(m.partition, m.from_offset, m.to_offset, m.state) for m in view.moves] == [
        (0, 10, 60, "moved")
    ]
    # Partition 1 was past its target, 2 was guarded, the other topic was not planned.
    assert committed(bench, dead, topic) == {0: 60, 1: 80, 2: 5}
    assert committed(bench, dead, other) == {0: 3}
    assert first_record(bench, dead, topic, 0) == 60
    kinds = [e.kind for e in bench.journal.entries(view.run.run_id)]
    assert kinds.index("read") < kinds.index("move-intent") < kinds.index("moves-read")
    assert bench.journal.verify().ok


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_living_group_is_refused_at_planning_and_at_the_move(
    bench: Bench, dead: str, protocol: str, kafka_jars: KafkaJars
) -> None:
    if protocol == "consumer" and kafka_jars.version.startswith("3."):
        pytest.skip("brokers before 4.0 do not switch the new consumer protocol on (KIP-848)")
    topic = bench.topic(100)
    bench.commit("move-live", topic, {0: 60})
    bench.commit(dead, topic, {0: 10})
    plan = plan_moving(bench, topic, dead)
    with alive(bench, dead, topic, protocol):
        with pytest.raises(RefusedError, match=dead) as refused:
            plan_moving(bench, topic, dead)
        assert refused.value.code == "MOVE_GROUP_ALIVE"
        view = bench.apply(plan)
        with connect({"bootstrap.servers": bench.bootstrap}) as live:
            answer = live.commit_offsets(dead, {Key(topic, 0): 60})
    # What it has not read stays: it lived again before anything was sent.
    assert (view.run.state, view.partitions[0].state, view.exit_code) == ("refused", "not_done", 3)
    assert view.partitions[0].error == "unread-by-group"
    assert f"Group {dead} was waived as gone and lives again" in str(view.partitions[0].message)
    assert len(bench.offsets(topic, 0)) == 100
    assert (view.moves[0].state, view.moves[0].error) == ("refused", "PARTITION_NOT_DONE")
    # Whoever wakes up after it was read meets the coordinator's own refusal.
    assert answer == {Key(topic, 0): "UNKNOWN_MEMBER_ID"}
    assert committed(bench, dead, topic) == {0: 10}

    after = bench.apply(plan_moving(bench, topic, dead))  # its last member has left
    assert (after.exit_code, after.moves[0].state) == (0, "moved")
    assert committed(bench, dead, topic) == {0: 60}


def test_a_group_that_moved_back_after_the_plan_stays_where_it_is(bench: Bench, dead: str) -> None:
    topic = bench.topic(100)
    bench.commit("move-live", topic, {0: 60})
    bench.commit(dead, topic, {0: 10})
    plan = plan_moving(bench, topic, dead)
    bench.commit(dead, topic, {0: 4})
    view = bench.apply(plan)
    assert (view.run.state, view.partitions[0].error) == ("refused", "unread-by-group")
    assert f"Group {dead}, which is waived, moved back from 10 to 4" in str(
        view.partitions[0].message
    )
    assert view.moves[0].error == "PARTITION_NOT_DONE"
    assert committed(bench, dead, topic) == {0: 4}
    assert len(bench.offsets(topic, 0)) == 100


@pytest.mark.parametrize("moment", ["before-sending", "after-the-answer"])
def test_a_worker_killed_around_the_move_is_followed_by_one_that_reads_first(
    bench: Bench, dead: str, moment: str
) -> None:
    topic = bench.topic(100)
    bench.commit("move-live", topic, {0: 60})
    bench.commit(dead, topic, {0: 10})
    run_id = bench.enqueue(plan_moving(bench, topic, dead), start=False)
    command = [sys.executable, "-m", "tests.brokers.dying_mover", moment, "--run", run_id]
    command += ["--state-dir", str(bench.settings.state_dir)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert bench.journal.moves(run_id)[0].state == "unknown"
    assert bench.journal.head(run_id).open
    assert committed(bench, dead, topic) == {0: 10 if moment == "before-sending" else 60}

    later = utc_now() + timedelta(minutes=1)
    assert run_id in queue.respawn_stale(bench.settings, bench.journal, now=later)
    view = bench.wait(run_id)
    assert (view.run.state, view.exit_code, view.moves[0].state) == ("done", 0, "moved")
    assert committed(bench, dead, topic) == {0: 60}
    kinds = [e.kind for e in bench.journal.entries(run_id)]
    assert kinds.count("move-intent") == (2 if moment == "before-sending" else 1)
    assert kinds.count("intent") == 1
    assert bench.journal.verify().ok


class Hanging(LiveCluster):
    """A real cluster whose group coordinator hangs while the first move is on its way."""

    def __init__(self, bench: Bench, cluster: LocalCluster, coordinator: int) -> None:
        super().__init__(open_connection({"bootstrap.servers": bench.bootstrap}, timeout=PATIENCE))
        self._cluster = cluster
        self._hangs = [coordinator]

    def commit_offsets(
        self,
        group_id: str,
        offsets: Mapping[Key, int],
        *,
        may_leave: Callable[[], bool] = lambda: True,
    ) -> dict[Key, str | None]:
        if not self._hangs:
            return super().commit_offsets(group_id, offsets, may_leave=may_leave)
        coordinator = self._hangs.pop()
        self._cluster.suspend(coordinator)
        self._connection.timeout_seconds = TIMEOUT.total_seconds()
        try:
            return super().commit_offsets(group_id, offsets, may_leave=may_leave)
        finally:
            self._connection.timeout_seconds = PATIENCE.total_seconds()
            self._cluster.resume(coordinator)


def test_a_coordinator_that_hangs_got_nothing_and_is_asked_again(
    bench: Bench, cluster: LocalCluster, dead: str
) -> None:
    topic = bench.topic(100)
    bench.commit("move-live", topic, {0: 60})
    bench.commit(dead, topic, {0: 10})
    found = bench.admin.describe_consumer_groups([dead])[dead].result(ANSWERS_WITHIN)
    run_id = bench.enqueue(plan_moving(bench, topic, dead), start=False)
    with Hanging(bench, cluster, found.coordinator.id) as live:
        execution = Execution(
            live=live, journal=bench.journal, run=bench.journal.head(run_id),
            plan=bench.journal.plan(run_id), now=utc_now, sleep=time.sleep,
            read_only=lambda: None,
            standards=lambda: bench.standards(bench.journal.plan(run_id)),
        )  # fmt: skip
        assert execution.execute() == "done"
    lost = [e for e in bench.journal.entries(run_id) if e.kind == "move-no-answer"]
    assert {(e.body["code"], e.body["moves"][0]["state"]) for e in lost} == {
        ("BROKER_UNREACHABLE", "pending")  # it never greeted, so nothing was sent
    }
    assert bench.journal.moves(run_id)[0].state == "moved"
    assert committed(bench, dead, topic) == {0: 60}
    assert bench.journal.verify().ok


@pytest.mark.further
def test_plan_preview_and_apply_move_a_group_by_the_command_line(
    bench: Bench,
    dead: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOWWATER_SETTINGS", str(bench.settings.source))
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(bench.settings.state_dir))
    topic, data = bench.topic(100, 100), ("--data", bench.settings.data)
    bench.commit("move-live", topic, {0: 60, 1: 50})
    bench.commit(dead, topic, {0: 10, 1: 20})
    words = ["plan", "--topic", topic, "--to", "committed", "--override", UNDECLARED]
    words += ["--out", "plan.json", *data]
    assert main([*words, "--move-waived"]) == 1
    assert "no waived group" in capsys.readouterr().err
    assert main([*words, "--waive", f"{dead}=gone", "--move-waived"]) == 0
    steps = f"moves group {dead} on {topic}, 2 partitions once their records are gone: "
    assert steps + "0: 10 → 60, 1: 20 → 50" in capsys.readouterr().out
    assert main(["preview", "plan.json", "--json"]) == 0
    view = json.loads(capsys.readouterr().out)
    assert [m["to_offset"] for m in view["moves"]] == [60, 50]
    apply = ["apply", "plan.json", "--mode", "wait-all", "--confirm", view["confirmation"]]
    assert main([*apply, *data, "--json"]) == 0
    run = json.loads(capsys.readouterr().out)
    assert [(m["group_id"], m["state"]) for m in run["moves"]] == [(dead, "moved")] * 2
    assert main(["run", run["run_id"], *data]) == 0
    assert f"offsets of group {dead} on {topic}: 2 moved" in capsys.readouterr().out
    assert committed(bench, dead, topic) == {0: 60, 1: 50}
