"""The demo on real processes: what it shows is true, and no end leaves anything behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaException
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient, OffsetSpec

from dashboard.core.processes import die_with_parent
from dashboard.demo import children, state, truth
from dashboard.demo import supervisor as orphan
from dashboard.demo.processes import is_stopped
from dashboard.demo.truth import TopicTruth
from dashboard.inventory.loading import load
from dashboard.store.snapshots import Store

pytestmark = pytest.mark.further

# Watch and dashboard have tests of their own; here one broker and the workload are enough.
PROGRAM = """
import json, sys
from dashboard.settings import settings
from dashboard.demo import verbs
verbs.up(
    settings.load(),
    lambda line: print(line, file=sys.stderr),
    lambda found: print(json.dumps(verbs.described(found)), flush=True),
    parts=tuple(sys.argv[3:]), brokers=int(sys.argv[1]), clusters=int(sys.argv[2]),
)
"""
TOPICS = {topic.name: topic for topic in truth.TOPICS}


@dataclass(frozen=True, slots=True)
class Demo:
    """A running demo: its supervisor, and what it said once it was ready."""

    process: subprocess.Popen[str]
    told: dict[str, Any]
    environ: dict[str, str]

    @property
    def room(self) -> Path:
        return Path(self.told["settings"]).parent

    def within(self) -> Demo:
        """The same for a shell with the demo's settings, and so its journal."""
        environ = {**self.environ, "LOWWATER_SETTINGS": str(self.told["settings"])}
        del environ["LOWWATER_STATE_DIR"]
        return replace(self, environ=environ)

    def pid(self, name: str) -> int:
        return next(int(p["pid"]) for p in self.told["processes"] if p["name"] == name)

    def lowwater(self, *words: str) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-m", "dashboard.cli.main", "demo", *words, "--json"],
            capture_output=True, text=True, check=True, env=self.environ, timeout=400,
        )  # fmt: skip
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def refused(self, *words: str) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-m", "dashboard.cli.main", "demo", *words, "--json"],
            capture_output=True, text=True, check=False, env=self.environ, timeout=400,
        )  # fmt: skip
        assert done.returncode == 1, done.stdout
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer


@pytest.fixture
def start(tmp_path: Path, kafka_jars: object) -> Iterator[Callable[..., Demo]]:
    started: list[Demo] = []

    def up(brokers: int, *parts: str, clusters: int = 1) -> Demo:
        environ = {**os.environ, "LOWWATER_STATE_DIR": str(tmp_path / "state")}
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(brokers), str(clusters), *parts],
            stdout=subprocess.PIPE, text=True, env=environ,
            preexec_fn=die_with_parent(),  # noqa: PLW1509 - prctl and getppid only
        )  # fmt: skip
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, f"the demo ended with code {process.wait()} before it was ready"
        started.append(Demo(process, json.loads(line), environ))
        return started[-1]

    yield up
    for demo in started:
        demo.process.kill()
        demo.process.communicate()
        state.clear(str(demo.room))


def assert_nothing_left(demo: Demo) -> None:
    assert list(state.marked(str(demo.room))) == []
    assert not demo.room.exists()
    assert not told_of(demo).exists()


def told_of(demo: Demo) -> Path:
    """The file by which `lowwater demo` finds a demo that runs."""
    return Path(demo.environ["LOWWATER_STATE_DIR"]) / "demo.json"


def guardian_of(demo: Demo) -> int:
    """The guardian carries its room on its command line, not its mark."""
    words = {b"dashboard.demo.guardian", str(demo.room).encode()}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if words <= set((entry / "cmdline").read_bytes().split(b"\0")):
                return int(entry.name)
    raise AssertionError("no guardian runs")


def eventually(check: Callable[[], bool], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while not check():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.3)
    return True


class Seen:
    """Reads offsets of the demo's cluster, leader by leader."""

    def __init__(self, demo: Demo) -> None:
        self._bootstrap = demo.told["bootstrap"]
        self._admin = AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})

    def ends(self, topic: TopicTruth, isolation: IsolationLevel) -> tuple[int, ...]:
        asked = {Position(topic.name, p): OffsetSpec.latest() for p in range(topic.partitions)}
        deadline = time.monotonic() + 30
        while True:  # while brokers start again, a partition may be without a leader
            answers = self._admin.list_offsets(asked, isolation_level=isolation)
            try:
                found = {at.partition: done.result().offset for at, done in answers.items()}
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.3)
            else:
                return tuple(found[p] for p in sorted(found))

    def high_watermarks(self, topic: TopicTruth) -> tuple[int, ...]:
        return self.ends(topic, IsolationLevel.READ_UNCOMMITTED)

    def committed(self, topic: TopicTruth, group: str) -> tuple[int, ...]:
        """By a consumer: librdkafka's admin call may end the process while a coordinator moves."""
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": group})
        try:
            wanted = [Position(topic.name, p) for p in range(topic.partitions)]
            found = consumer.committed(wanted, timeout=30)
        finally:
            consumer.close()
        return tuple(p.offset for p in sorted(found, key=lambda p: p.partition))

    def groups(self) -> set[str]:
        return {group.group_id for group in self._admin.list_consumer_groups().result().valid}

    def open_transaction(self, topic: TopicTruth) -> bool:
        stable = self.ends(topic, IsolationLevel.READ_COMMITTED)
        return sum(stable) < sum(self.high_watermarks(topic))


@pytest.mark.slow  # a dead broker counts as dead only when its session has ended
def test_the_workload_shows_its_truth_and_outlives_a_dead_broker(
    start: Callable[..., Demo],
) -> None:
    demo = start(3, "workload", "inventory")
    seen = Seen(demo)
    for topic in truth.TOPICS:
        for now, loaded in zip(
            seen.high_watermarks(topic), truth.loaded_records(topic), strict=True
        ):
            assert now >= loaded
    payments, clicks = TOPICS["payments"], TOPICS["clickstream"]
    dead = next(g for g in payments.groups if g.group_id == "billing-old")
    assert seen.committed(payments, "billing-old") == truth.committed_after_load(payments, dead)
    slow, live = (seen.committed(clicks, g) for g in ("warehouse-loader", "clickstream-live"))
    assert all(behind < ahead for behind, ahead in zip(slow, live, strict=True))
    # The reader without commits is no group, and a topic without a group has none.
    assert seen.groups() == {g.group_id for t in truth.TOPICS for g in t.groups}
    assert eventually(lambda: seen.open_transaction(TOPICS["transfers"]))
    status = demo.lowwater("status")
    assert status["alive_brokers"] == [1, 2, 3]
    assert "inventory" in {each["name"] for each in status["processes"] if each["alive"]}
    disks = [load(str(file)) for file in sorted(demo.room.glob("*.inventory"))]
    assert [disk.broker_id for disk in disks] == [1, 2, 3]
    scanned = disks[1].scanned_at
    for disk in disks:
        assert TOPICS.keys() <= set(disk.tables["segments"].column("topic").to_pylist())
    # What a deleted topic left: the broker itself set it aside, and its records are all there.
    left = [r for r in disks[2].tables["segments"].to_pylist() if r["topic"] == orphan.TOPIC]
    assert [(r["kind"], r["log_bytes"] > orphan.BATCHES * 60_000) for r in left] == [
        ("stray", True)
    ]
    assert left[0]["newest_at"] < disks[2].scanned_at - timedelta(days=29)

    os.kill(demo.pid("broker-2"), signal.SIGKILL)
    assert eventually(lambda: demo.lowwater("status")["alive_brokers"] == [1, 3])
    before = sum(seen.committed(TOPICS["orders"], "orders-app"))
    assert eventually(lambda: sum(seen.committed(TOPICS["orders"], "orders-app")) > before)
    # A dead broker's disk is still there to be taken stock of.
    assert eventually(lambda: load(str(demo.room / "broker-2.inventory")).scanned_at > scanned)

    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(30) != 0
    assert_nothing_left(demo)


def test_what_is_broken_is_seen_on_the_cluster_and_whole_again_when_healed(
    start: Callable[..., Demo],
) -> None:
    demo = start(3, "workload")
    seen = Seen(demo)
    sessions = TOPICS["web-sessions"]
    admin = AdminClient({"bootstrap.servers": demo.told["bootstrap"], "log_level": 0})

    demo.lowwater("break", "group")
    a_tenth = tuple(count // 10 for count in truth.loaded_records(sessions))
    assert seen.committed(sessions, "session-builder") == a_tenth
    demo.lowwater("heal", "group")
    assert eventually(
        lambda: (
            sum(seen.committed(sessions, "session-builder")) >= sum(truth.loaded_records(sessions))
        )
    )

    demo.lowwater("break", "disk")
    assert eventually(lambda: sum(seen.high_watermarks(truth.BURST)) > 500)
    assert demo.lowwater("heal") == {"healed": ["disk"]}
    assert eventually(lambda: truth.BURST.name not in admin.list_topics(timeout=10).topics)

    demo.lowwater("break", "broker")
    assert is_stopped(demo.pid("broker-2"))
    refused = demo.refused("break", "follower")
    assert refused["error"]["code"] == "DEMO_FAULT_FAILED"
    demo.lowwater("heal")
    assert not is_stopped(demo.pid("broker-2"))

    def behind() -> bool:
        topic = admin.list_topics("clickstream", timeout=10).topics["clickstream"]
        return any(3 not in partition.isrs for partition in topic.partitions.values())

    assert eventually(lambda: not behind())
    assert demo.lowwater("break", "follower")["state"] == "broken"
    assert behind()
    assert [fault["kind"] for fault in demo.lowwater("status")["faults"]] == ["follower"]
    demo.lowwater("heal")
    assert eventually(lambda: not behind())


def test_down_ends_a_running_demo(start: Callable[..., Demo]) -> None:
    demo = start(1)
    assert demo.lowwater("load", "--partitions", "130")["topics"] == 2
    assert demo.within().lowwater("status")["running"]
    assert demo.within().lowwater("down") == {"stopped": True, "cleared": True}
    assert demo.process.wait(10) == 0
    assert_nothing_left(demo)
    assert demo.lowwater("status") == {"running": False, "leftovers": False}


def test_a_killed_supervisor_leaves_no_process_and_no_folder(start: Callable[..., Demo]) -> None:
    demo = start(1, "inventory")
    os.kill(demo.process.pid, signal.SIGKILL)
    demo.process.wait()
    # The guardian clears the room first, and then what tells of it.
    assert eventually(lambda: not demo.room.exists() and not told_of(demo).exists())
    assert_nothing_left(demo)


def test_what_even_the_guardian_could_not_clear_goes_with_the_next_down(
    start: Callable[..., Demo],
) -> None:
    demo = start(1)
    os.kill(guardian_of(demo), signal.SIGKILL)
    os.kill(demo.process.pid, signal.SIGKILL)
    demo.process.wait()
    assert demo.lowwater("status") == {"running": False, "leftovers": True}
    assert demo.lowwater("down") == {"stopped": False, "cleared": True}
    assert_nothing_left(demo)


@pytest.mark.slow  # it analyzes, and so starts Spark
def test_a_second_cluster_comes_after_the_first_and_is_collected_into_the_same_folder(
    start: Callable[..., Demo],
) -> None:
    demo = start(1, clusters=2)
    data = Path(demo.told["data"])

    def named() -> set[str]:
        return {one.name for one in map(Store(str(data)).cluster, Store(str(data)).clusters())}

    assert eventually(lambda: named() == {"demo-2"}, 120)
    (second,) = (Store(str(data)).cluster(i) for i in Store(str(data)).clusters())
    assert second.cluster_id != demo.told["cluster_id"]
    assert eventually(lambda: second.latest("findings") is not None, 120)
    topics = second.read("findings", second.latest_analysis(), "reclaimable")["topic"].to_pylist()
    assert {*topics} >= set(children.SECOND_TOPICS)
    alive = {each["name"] for each in demo.lowwater("status")["processes"] if each["alive"]}
    assert alive >= {"broker-1", "broker-2-1", "workload-2", "watch-2"}
    demo.process.send_signal(signal.SIGINT)
    assert demo.process.wait(40) != 0
    assert_nothing_left(demo)
