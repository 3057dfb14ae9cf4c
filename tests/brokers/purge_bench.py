"""A workbench for purges of a real cluster: topics with known records, plans, runs, readers."""

from __future__ import annotations

import fcntl
import os
import signal
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from dashboard.cluster.live import connect
from dashboard.core.clock import utc_now
from dashboard.demo.kafka.brokers import LocalCluster, client
from dashboard.demo.kafka.jars import KafkaJars
from dashboard.domain.model import PartitionState
from dashboard.domain.model import TopicPartition as Key
from dashboard.purge.evidence.standards import Standards, standards
from dashboard.purge.jobs import queue
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.rows import RunView
from dashboard.purge.plan.drafts import PlanRequest, draft
from dashboard.purge.plan.guards import Lift, Waive
from dashboard.purge.plan.plan import Plan
from dashboard.purge.plan.targets import Target, parse_target
from dashboard.settings.settings import PurgeSettings, Settings
from dashboard.store.snapshots import ClusterStore, Store
from tests.brokers.workload import ANSWERS_WITHIN, commit, remove, until_all_know
from tests.support.collected import collected

UNDECLARED = "readers-undeclared=test data"
CLOSES_WITHIN = timedelta(seconds=60)
# A machine that stalls is no broker that hangs; below the 30 s that a request may wait.
PATIENCE = timedelta(seconds=20)
# Topics are as new as their test, beside groups of others: nobody subscribes by a pattern here.
SETTINGS = f'broker_timeout = "{PATIENCE.seconds}s"\n[purge]\npattern_refresh = "0s"\n'
PURGE = PurgeSettings(watch_for=timedelta(0), pattern_refresh=timedelta(0))
WATCHED = replace(PURGE, watch_for=timedelta(seconds=90))


def lift(text: str) -> Lift:
    """`NAME=why` or `NAME:GROUP=why`, of a group without a `=`."""
    named, _, reason = text.partition("=")
    name, _, group_id = named.partition(":")
    return Lift(name, reason, group_id or None)


@contextmanager
def lone_bench(
    jars: KafkaJars, folder: Path, properties: Mapping[str, str] | None = None
) -> Iterator[Bench]:
    """A bench on one broker of its own, both below `folder`; the broker ends with the block."""
    with LocalCluster(folder / "kafka", jars, brokers=1, properties=properties) as running:
        made = Bench(running.bootstrap, running.cluster_id, folder / "bench", replicas=1)
        yield made
        made.close()


class Bench:
    """One store, one journal and one admin client over a running cluster."""

    def __init__(
        self,
        bootstrap: str,
        cluster_id: str,
        folder: Path,
        *,
        as_user: Mapping[str, str] | None = None,
        replicas: int = 3,
    ) -> None:
        """Topics are made through `bootstrap`; purges go out as `as_user`, if given."""
        self.bootstrap = bootstrap
        self.replicas = replicas
        self.admin = AdminClient(client(bootstrap))
        self.store = collected(ClusterStore(Store(str(folder / "data")), cluster_id), utc_now())
        config = None
        if as_user is not None:
            config = folder / "client.properties"
            config.write_text("".join(f"{key}={value}\n" for key, value in as_user.items()))
        servers = (as_user or {}).get("bootstrap.servers", bootstrap)
        self.store.write_connection(servers, str(config) if config else None, "test")
        source = folder / "lowwater.toml"
        source.write_text(SETTINGS)
        self.settings = Settings(
            data=str(folder / "data"),
            state_dir=folder / "state",
            broker_timeout=PATIENCE,
            purge=PURGE,
            source=source,
        )
        self.journal = Journal(folder / "state" / "journal.sqlite")
        self._topics: set[str] = set()  # librdkafka crashes on a topic named twice
        self._groups: set[str] = set()

    def close(self) -> None:
        """End workers that still watch, and remove what was made here."""
        for run in self.journal.runs():
            self.kill_worker(run.run_id)
        remove(self.admin, self._groups, self._topics)
        self.journal.close()

    def topic(
        self,
        *counts: int,
        name: str | None = None,
        placed: list[list[int]] | None = None,
        **config: str,
    ) -> str:
        """A topic of three replicas with `counts` records per partition, 1,000 bytes each.

        `placed` names the brokers of each partition, its first leader first.
        """
        topic = name or f"purge-{uuid.uuid4().hex[:8]}"
        values = {"segment.bytes": "1048576", **{k.replace("_", "."): v for k, v in config.items()}}
        if placed is None:
            new = NewTopic(topic, len(counts), self.replicas, config=values)
        else:
            new = NewTopic(topic, len(counts), replica_assignment=placed, config=values)
        self._create(new)
        self._topics.add(topic)
        collected(self.store, utc_now(), topic)  # as a collector that goes on would
        for partition, count in enumerate(counts):
            self.produce(topic, partition, count)
        self._in_sync(topic)
        return topic

    def _in_sync(self, topic: str) -> None:
        """Wait for replicas that a busy machine kept from their controller: `under-replicated` is a
        guard. Not for ever: a test may have stopped a broker before.
        """
        until = time.monotonic() + 30
        with connect({"bootstrap.servers": self.bootstrap}) as live:
            while time.monotonic() < until:
                if not any(p.under_replicated for p in live.topics([topic])[topic].partitions):
                    return
                time.sleep(0.2)

    def _create(self, new: NewTopic) -> None:
        """Again where librdkafka drops the broker that it was about to ask: it met its cluster."""
        try:
            self.admin.create_topics([new])[new.topic].result(ANSWERS_WITHIN)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._DESTROY_BROKER:
                raise
            self.admin.create_topics([new])[new.topic].result(ANSWERS_WITHIN)
        until_all_know({"bootstrap.servers": self.bootstrap}, new.topic)

    def produce(self, topic: str, partition: int, count: int) -> None:
        """Records whose value is their offset, padded; acknowledged by all replicas."""
        producer = Producer(client(self.bootstrap, acks="all", **{"linger.ms": "20"}))
        for number in range(count):
            value = b"%d " % number + b"x" * 1000
            producer.produce(topic, value, partition=partition)
            producer.poll(0)
        assert producer.flush(30) == 0

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Set a group's committed offsets, without any member."""
        wanted = {Key(topic, partition): offset for partition, offset in offsets.items()}
        self._groups.add(group)
        commit({"bootstrap.servers": self.bootstrap}, group, wanted)

    def plan(self, *topics: str, to: str | Target = "committed", **request: Any) -> Plan:
        """A plan whose readers need no declaration."""
        target = to if isinstance(to, Target) else parse_target(to)
        lifted = tuple(lift(text) for text in (UNDECLARED, *request.pop("override", ())))
        waived = tuple(Waive(*text.split("=", 1)) for text in request.pop("waive", ()))
        wanted = PlanRequest(topics, target, waive=waived, override=lifted, by="test", **request)
        return draft(self.settings, self.settings.data, None, wanted)

    def standards(self, plan: Plan) -> Standards:
        """What settings and the store say now of the plan's topics."""
        return standards(self.settings, self.store, plan.topic_ids, utc_now())

    def enqueue(self, plan: Plan, **change: Any) -> str:
        """Queue with the right confirmation; `change` replaces arguments of `enqueue`.

        With `watch` the worker follows replicas and receipt after the run closed.
        """
        watched = replace(self.settings, purge=WATCHED)
        settings = watched if change.pop("watch", False) else self.settings
        given = {
            "mode": "wait-all", "confirm": plan.confirmation, "sha256": plan.sha256,
            "who": "test", "token": uuid.uuid4().hex, **change,
        }  # fmt: skip
        return queue.enqueue(settings, self.journal, plan, **given)

    def apply(self, plan: Plan, **change: Any) -> RunView:
        """Queue and wait for the run to close."""
        return self.wait(self.enqueue(plan, **change))

    def start(self, run_id: str) -> int:
        """Start a worker of a queued run: its process id."""
        return queue.spawn(self.settings, run_id)

    def kill_worker(self, run_id: str) -> None:
        """SIGKILL the worker that holds the run's lock, if one does, and wait until it is gone: one
        that follows while it is not finds the lock taken, and ends.
        """
        lock = self.settings.state_dir / "locks" / f"{run_id}.lock"
        with suppress(FileNotFoundError), lock.open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.kill(int(lock.read_text()), signal.SIGKILL)
                fcntl.flock(file, fcntl.LOCK_EX)

    def cancel(self, run_id: str) -> None:
        queue.request_cancel(self.settings, self.journal, run_id, "test")

    def wait(self, run_id: str) -> RunView:
        view = queue.wait(self.settings, self.journal, run_id, timeout=CLOSES_WITHIN)
        log = self.settings.state_dir / "logs" / f"{run_id}.log"
        assert not view.run.open, log.read_text() if log.exists() else "no log"
        return view

    def placed(self, topic: str, partition: int = 0) -> PartitionState:
        """Who leads and follows a partition now."""
        with connect({"bootstrap.servers": self.bootstrap}) as live:
            return live.topics([topic])[topic].partitions[partition]

    def log_start(self, topic: str, partition: int = 0) -> int | None:
        """The leader's log start offset now."""
        key = Key(topic, partition)
        with connect({"bootstrap.servers": self.bootstrap}) as live:
            return live.offsets([key])[key].log_start_offset

    def offsets(self, topic: str, partition: int) -> list[int]:
        """The offsets of all records that can still be read, in order; uncommitted ones too."""
        settings = {
            "group.id": "purge-read",
            "enable.auto.commit": "false",
            "isolation.level": "read_uncommitted",
        }
        reader = Consumer(client(self.bootstrap, **settings))
        low, high = _watermarks(reader, TopicPartition(topic, partition))
        reader.assign([TopicPartition(topic, partition, low)])
        found: list[int] = []
        until = utc_now() + timedelta(seconds=60)
        while (not found or found[-1] < high - 1) and low < high and utc_now() < until:
            for message in reader.consume(high - low - len(found), timeout=0.5):
                assert message.error() is None
                offset = message.offset()
                assert offset is not None
                found.append(offset)
        reader.close()
        return found


def _watermarks(reader: Consumer, partition: TopicPartition) -> tuple[int, int]:
    """Low and high watermark; a leader just elected first has to learn the latter (KIP-207)."""
    until = time.monotonic() + 60
    while True:
        try:
            return reader.get_watermark_offsets(partition, timeout=60)
        except KafkaException:  # OFFSET_NOT_AVAILABLE until then
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
