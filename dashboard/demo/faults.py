"""Breaks and heals what was asked for in a running demo: brokers here, groups and disks there.

The supervisor does what takes its brokers, the workload what its readers and writers are made of.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from dashboard.core import demo_faults
from dashboard.core.demo_faults import Fault
from dashboard.core.errors import DemoError
from dashboard.demo import load
from dashboard.demo.kafka.brokers import LocalCluster, client
from dashboard.demo.truth import BURST, TOPICS

STOPPED_BROKER, SLOW_BROKER = 2, 3
SLOW_TOPIC = "clickstream"
FOLLOWER_BYTES_PER_SECOND = 1_000
OUT_OF_ISR_SECONDS = 60.0  # a broker's session ends 9 s after it fell silent
_ADMIN_SECONDS = 20.0
_READ_SECONDS = 2.0  # everybody else of the workload waits for it
_EVERY_SECONDS = 1.0


class Part(Protocol):
    """What can be broken. Both may take their time; to heal what is whole is no error."""

    def breaks(self) -> str:
        """Break it; what to know of it. Raises DemoError, KafkaException."""

    def heals(self) -> None:
        """Make it whole again. Raises DemoError, KafkaException."""


def obey(room: Path, parts: Mapping[str, Part]) -> None:
    """One look at what is asked for: break what is whole, heal what is broken, tell of both."""
    for kind, part in parts.items():
        # Read anew for each: the one before may have taken half a minute.
        wanted, there = kind in demo_faults.asked(room), demo_faults.told(room).get(kind)
        try:
            if wanted and there is None:
                demo_faults.tell(room, Fault(kind, "breaking"))
                demo_faults.tell(room, Fault(kind, "broken", part.breaks()))
            elif not wanted and there is not None:
                demo_faults.tell(room, Fault(kind, "healing"))
                part.heals()
                demo_faults.forget(room, kind)
        except (DemoError, KafkaException) as error:
            said = error.message if isinstance(error, DemoError) else error.args[0].str()
            demo_faults.tell(room, Fault(kind, "failed", said))


class Obeying:
    """The supervisor's part, in a thread of its own: a follower takes half a minute to break."""

    def __init__(self, room: Path, cluster: LocalCluster) -> None:
        parts = {"broker": StoppedBroker(cluster), "follower": SlowFollower(cluster, room)}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(room, parts), daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Asks for no more; what waits for a broker ends with it."""
        self._ended.set()

    def _run(self, room: Path, parts: Mapping[str, Part]) -> None:
        while not self._ended.wait(_EVERY_SECONDS):
            try:
                obey(room, parts)
            except OSError:  # the room is gone, or its disk full: asked again in a second
                continue


class StoppedBroker:
    """A broker that hangs."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster

    def breaks(self) -> str:
        self._cluster.suspend(STOPPED_BROKER)
        return f"broker {STOPPED_BROKER} stands still"

    def heals(self) -> None:
        self._cluster.resume(STOPPED_BROKER)


class SlowFollower:
    """A follower that lacks records, and may copy few of them a second.

    A broker throttles a follower only while it lacks committed records, so it is stopped first
    until it is out of sync, records are written, and then it goes on.
    """

    def __init__(self, cluster: LocalCluster, room: Path) -> None:
        self._cluster, self._room = cluster, room
        self._throttled = False

    def breaks(self) -> str:
        if "broker" in demo_faults.told(self._room):
            raise DemoError(
                f"broker {STOPPED_BROKER} stands still: with another one stopped no two are left",
                "Heal it first: lowwater demo heal broker",
                code="DEMO_FAULT_FAILED",
            )
        bootstrap = self._cluster.bootstrap
        self._throttled = True
        _configure(bootstrap, AlterConfigOpType.SET)
        self._cluster.suspend(SLOW_BROKER)
        try:
            _await_out_of_sync(bootstrap)
            topic = [topic for topic in TOPICS if topic.name == SLOW_TOPIC]
            load.produce_first_load(bootstrap, topic, int(time.time() * 1000))
        finally:
            self._cluster.resume(SLOW_BROKER)
        rate = f"{FOLLOWER_BYTES_PER_SECOND:,} bytes a second"
        return f"broker {SLOW_BROKER} catches up on {SLOW_TOPIC} by {rate}"

    def heals(self) -> None:
        if (
            self._throttled
        ):  # one that was refused has nothing to take back, and maybe nobody to ask
            _configure(self._cluster.bootstrap, AlterConfigOpType.DELETE)
            self._throttled = False


def _configure(bootstrap: str, kind: AlterConfigOpType) -> None:
    """Set, or delete, the throttle of the topic's followers and of the broker."""
    wanted = (
        (ResourceType.TOPIC, SLOW_TOPIC, "follower.replication.throttled.replicas", "*"),
        (ResourceType.BROKER, str(SLOW_BROKER), "follower.replication.throttled.rate",
         str(FOLLOWER_BYTES_PER_SECOND)),
    )  # fmt: skip
    asked = [
        ConfigResource(
            resource, name,
            incremental_configs=[ConfigEntry(key, value, incremental_operation=kind)],
        )
        for resource, name, key, value in wanted
    ]  # fmt: skip
    admin = AdminClient(client(bootstrap))
    answers = admin.incremental_alter_configs(asked, request_timeout=_ADMIN_SECONDS)
    for answer in answers.values():
        answer.result()


def _await_out_of_sync(bootstrap: str) -> None:
    admin = AdminClient(client(bootstrap))
    deadline = time.monotonic() + OUT_OF_ISR_SECONDS
    while any(
        SLOW_BROKER in partition.isrs
        for partition in admin.list_topics(SLOW_TOPIC, _ADMIN_SECONDS)
        .topics[SLOW_TOPIC]
        .partitions.values()
    ):
        if time.monotonic() > deadline:
            raise DemoError(
                f"broker {SLOW_BROKER} stays in the in-sync replicas of {SLOW_TOPIC}",
                "Heal the follower, then try again.",
                code="DEMO_FAULT_FAILED",
            )
        time.sleep(0.5)


# What the workload breaks: a group of its own, and a disk by a producer that ran away.

MOST_BYTES = 1 << 30  # of records; on disk three times as much
LEAST_FREE_BYTES = 10 << 30
_RECORDS_A_TICK = 256
RECORD_BYTES = BURST.load[-1].size_bytes


class Member(Protocol):
    """A reader that can leave its group and come back."""

    def leave(self) -> None: ...

    def join(self) -> None: ...


class DeadGroup:
    """A group whose members went in the middle of reading everything once more."""

    GROUP, SHARE = "session-builder", 0.1

    def __init__(self, bootstrap: str, members: Sequence[Member]) -> None:
        self._bootstrap, self._members = bootstrap, members

    def breaks(self) -> str:
        for member in self._members:
            member.leave()
        topics = [t for t in TOPICS if any(g.group_id == self.GROUP for g in t.groups)]
        load.set_back(self._bootstrap, self.GROUP, topics, self.SHARE)
        return f"{self.GROUP} has no members and stands at a tenth of {topics[0].name}"

    def heals(self) -> None:
        for member in self._members:
            member.join()


class Flood:
    """Fills the disks by a topic of its own, up to a limit; its group has read all of it."""

    def __init__(self, bootstrap: str, room: Path) -> None:
        self._bootstrap, self._room = bootstrap, room
        self._producer: Producer | None = None
        self._written = 0

    def breaks(self) -> str:
        if (free := shutil.disk_usage(self._room).free) < LEAST_FREE_BYTES:
            raise DemoError(
                f"the disk has {free >> 30} GiB free: it fills up by itself",
                f"Make room until {LEAST_FREE_BYTES >> 30} GiB are free, then try again.",
                code="DEMO_FAULT_FAILED",
            )
        load.create_topics(self._bootstrap, [BURST])
        self._producer, self._written = Producer(client(self._bootstrap)), 0
        return f"{BURST.name} grows by {_RECORDS_A_TICK * RECORD_BYTES >> 20} MiB a second"

    def heals(self) -> None:
        self._producer = None
        admin = AdminClient(client(self._bootstrap))
        if BURST.name in admin.list_topics(timeout=_ADMIN_SECONDS).topics:
            asked = admin.delete_topics([BURST.name], request_timeout=_ADMIN_SECONDS)
            asked[BURST.name].result()

    def tick(self) -> None:
        """A second's records, while they are less than the limit and the disk has room."""
        producer = self._producer
        free = shutil.disk_usage(self._room).free
        if producer is None or self._written >= MOST_BYTES or free < LEAST_FREE_BYTES:
            return
        for number in range(_RECORDS_A_TICK):
            try:
                producer.produce(
                    BURST.name, load.payload(number, RECORD_BYTES),
                    partition=number % BURST.partitions,
                )  # fmt: skip
            except BufferError:  # brokers are slower than this: less is written
                break
            self._written += RECORD_BYTES
        producer.poll(0)
        self._read_all()

    def _read_all(self) -> None:
        """Commit the log ends for its group, by a consumer that never joins."""
        (group,) = BURST.groups
        own = {"group.id": group.group_id, "enable.auto.commit": "false"}
        consumer = Consumer(client(self._bootstrap, **own))
        try:
            ends = [
                consumer.get_watermark_offsets(Position(BURST.name, p), _READ_SECONDS)[1]
                for p in range(BURST.partitions)
            ]
            consumer.commit(
                offsets=[Position(BURST.name, p, end) for p, end in enumerate(ends)],
                asynchronous=False,
            )
        finally:
            consumer.close()


class Asked:
    """The workload's part: an actor among the others."""

    def __init__(self, bootstrap: str, room: Path, members: Sequence[Member]) -> None:
        self._room, self._flood = room, Flood(bootstrap, room)
        self._parts: Mapping[str, Part] = {
            "group": DeadGroup(bootstrap, members),
            "disk": self._flood,
        }

    def tick(self) -> None:
        obey(self._room, self._parts)
        self._flood.tick()

    def close(self) -> None:
        """Nothing of it outlives the demo's room."""
