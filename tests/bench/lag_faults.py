"""What is done to brokers and followers while lags are recorded, and what is true then."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from kafka import TopicPartition, TopicPartitionReplica
from kafka.admin import KafkaAdminClient

from dashboard.cluster.live import connect
from dashboard.demo.kafka.brokers import LocalCluster
from tests.bench.lag_writers import PARTITIONS, STREAMS, Writers
from tests.bench.slow_disk import SlowDisk
from tests.brokers.purge_faults import until

FOLLOWER, LEADER = "follower.replication.throttled", "leader.replication.throttled"
MOVES = "replica.alter.log.dirs.io.max.bytes.per.second"
FENCED_AFTER = 5.5  # seconds; by the recorder's broker.session.timeout.ms


class Verdict(NamedTuple):
    """Of one replica. slow None: only what the sampler measures can tell; cause: why, if it is."""

    slow: bool | None
    cause: str | None = None


HEALTHY, MEASURED = Verdict(False), Verdict(None)
Judge = Callable[[Mapping[str, Any]], Verdict]  # of a row of the last snapshot's replicas


@dataclass(frozen=True)
class Scene:
    """The cluster that faults are made in."""

    cluster: LocalCluster
    writers: Writers
    disk: SlowDisk
    admin: AdminClient
    rng: random.Random

    def settled(self) -> bool:
        """Every replica in sync, every preferred leader leading."""
        with connect({"bootstrap.servers": self.cluster.bootstrap}) as live:
            parts = [p for topic in live.topics(None).values() for p in topic.partitions]
        return all(p.leader_id == p.replicas[0] and set(p.isr) == set(p.replicas) for p in parts)

    def config(self, kind: ResourceType, name: str, **values: str | None) -> None:
        """Set, or with None unset, keys spelt with `_` for `.`."""
        resource = ConfigResource(kind, name)
        for key, value in values.items():
            how = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
            entry = ConfigEntry(key.replace("_", "."), value, incremental_operation=how)
            resource.add_incremental_config(entry)
        self.admin.incremental_alter_configs([resource])[resource].result(20)


@contextmanager
def nothing(scene: Scene, **boost: float) -> Iterator[Judge]:
    """No fault; `boost` makes topics busier."""
    scene.writers.boost = dict(boost)
    try:
        yield lambda _: HEALTHY
    finally:
        scene.writers.boost = {}


@contextmanager
def back(scene: Scene) -> Iterator[Judge]:
    """Just after a fault: followers catch up, and only the sampler knows how far they are."""
    yield lambda _: MEASURED


@contextmanager
def stopped(scene: Scene, broker: int) -> Iterator[Judge]:
    """SIGSTOP."""
    scene.cluster.suspend(broker)
    try:
        yield lambda row: Verdict(True, "broker down") if row["broker_id"] == broker else HEALTHY
    finally:
        scene.cluster.resume(broker)


@contextmanager
def paused(scene: Scene, broker: int, seconds: float) -> Iterator[Judge]:
    """SIGSTOP for less than anybody would call a fault, as by a long garbage collection."""
    scene.cluster.suspend(broker)
    time.sleep(seconds)
    scene.cluster.resume(broker)
    yield lambda _: HEALTHY


@contextmanager
def down(scene: Scene, broker: int) -> Iterator[Judge]:
    """A controlled shutdown; it is started again afterwards."""
    scene.cluster.stop_broker(broker)
    try:
        yield lambda row: Verdict(True, "broker down") if row["broker_id"] == broker else HEALTHY
    finally:
        scene.cluster.start_broker(broker)


@contextmanager
def halting(scene: Scene, broker: int, still: float, runs: float) -> Iterator[Judge]:
    """A broker that gets the processor for a part of each second only."""
    ends = threading.Event()

    def beat() -> None:
        while not ends.is_set():
            scene.cluster.suspend(broker)
            ends.wait(still)
            scene.cluster.resume(broker)
            ends.wait(runs)

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield lambda _: Verdict(None, "broker")
    finally:
        ends.set()
        thread.join()
        scene.cluster.resume(broker)


@contextmanager
def slow_disk(scene: Scene, broker: int, number: int, rate: int) -> Iterator[Judge]:
    """One log dir of a broker writes no more than `rate` bytes a second."""
    log_dir = scene.cluster.log_dirs(broker)[number]
    with scene.disk.slow(log_dir, rate):
        yield (
            lambda row: (
                Verdict(None, "log dir" if row["log_dir"] == str(log_dir) else "broker")
                if broker in (row["broker_id"], row["leader_id"])
                else HEALTHY
            )
        )


@contextmanager
def throttled(
    scene: Scene, broker: int, topics: tuple[str, ...], rate: int, *, weak: bool = False
) -> Iterator[Judge]:
    """Follower throttle on these topics. weak: more than is written, so that nobody feels it.

    Kafka throttles a follower only while it is below the high watermark (ReplicaFetcherThread),
    so never in sync: the broker is stopped until it is out.
    """
    follower = ResourceType.TOPIC
    for topic in topics:
        listed = ",".join(f"{p}:{broker}" for p in range(PARTITIONS))
        scene.config(follower, topic, **{f"{FOLLOWER}.replicas": listed})
    scene.config(ResourceType.BROKER, str(broker), **{f"{FOLLOWER}.rate": str(rate)})
    scene.cluster.suspend(broker)
    time.sleep(FENCED_AFTER)
    scene.cluster.resume(broker)

    def judge(row: Mapping[str, Any]) -> Verdict:
        if row["broker_id"] != broker or row["topic"] not in topics:
            return HEALTHY
        return HEALTHY if weak else Verdict(None, "throttle")

    try:
        yield judge
    finally:
        scene.config(ResourceType.BROKER, str(broker), **{f"{FOLLOWER}.rate": None})
        for topic in topics:
            scene.config(follower, topic, **{f"{FOLLOWER}.replicas": None})


@contextmanager
def moving(scene: Scene, broker: int, topic: str, rate: int | None) -> Iterator[Judge]:
    """A topic's replicas on one broker move to its other log dir; no follower is slower for it."""
    dirs = scene.cluster.log_dirs(broker)
    goes = {}
    for partition in range(PARTITIONS):
        other = next(d for d in dirs if not (d / f"{topic}-{partition}").is_dir())
        goes[TopicPartitionReplica(topic, partition, broker)] = str(other)
    value = None if rate is None else str(rate)
    scene.config(ResourceType.BROKER, str(broker), **{MOVES: value})
    with closing(KafkaAdminClient(bootstrap_servers=scene.cluster.bootstrap)) as admin:
        admin.alter_replica_log_dirs(goes)
    try:
        yield lambda _: HEALTHY
    finally:
        scene.config(ResourceType.BROKER, str(broker), **{MOVES: None})


@contextmanager
def reassigned(scene: Scene, broker: int, rate: int | None) -> Iterator[Judge]:
    """A topic of two replicas and 40 MB gets a third one on `broker`."""
    topic = f"moved-{scene.rng.randrange(10**6)}"
    others = [b for b in scene.cluster.broker_ids if b != broker]
    placed = [others if p % 2 else others[::-1] for p in range(PARTITIONS)]
    scene.admin.create_topics([NewTopic(topic, len(placed), replica_assignment=placed)])[
        topic
    ].result(20)
    scene.writers.fill(topic, 40 << 20)
    if rate is not None:
        for key in (FOLLOWER, LEADER):
            scene.config(ResourceType.TOPIC, topic, **{f"{key}.replicas": "*"})
            for each in scene.cluster.broker_ids:
                scene.config(ResourceType.BROKER, str(each), **{f"{key}.rate": str(rate)})
    added = {TopicPartition(topic, p): [*placed[p], broker] for p in range(PARTITIONS)}
    with closing(KafkaAdminClient(bootstrap_servers=scene.cluster.bootstrap)) as admin:
        admin.alter_partition_reassignments(added)
    adding = Verdict(None, "reassignment" if rate is None else "throttle")
    try:
        yield lambda row: adding if (row["topic"], row["broker_id"]) == (topic, broker) else HEALTHY
    finally:
        for key in (FOLLOWER, LEADER):
            for each in scene.cluster.broker_ids:
                scene.config(ResourceType.BROKER, str(each), **{f"{key}.rate": None})
        until(scene.settled, 60)
        scene.admin.delete_topics([topic])[topic].result(20)


def create_topics(admin: AdminClient) -> None:
    """The topics of all streams."""
    new = [NewTopic(stream.topic, PARTITIONS, 3) for stream in STREAMS]
    for done in admin.create_topics(new).values():
        done.result(20)
