"""The cluster that purge benches share: topics of tiny records, offsets files, whole processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from dashboard.demo.kafka.brokers import LocalCluster, client
from dashboard.demo.kafka.jars import KafkaJars

# The Java flags that Kafka's own scripts start a tool with, and those that start fastest.
SCRIPT_FLAGS = (
    "-Xmx256M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)  # fmt: skip
LEAN_FLAGS = ("-Xmx512m", "-XX:TieredStopAtLevel=1")
RECORDS = 60  # per partition: every purge takes one
SETTINGS = '[purge]\nwatch_for = "0s"\n'  # a worker ends with its run: none disturbs the next


@dataclass
class Lab:
    """A running cluster, the plain jars of Kafka's own tools, and how far topics were purged."""

    brokers: LocalCluster
    tools: KafkaJars
    folder: Path
    purged: dict[str, int] = field(default_factory=dict)

    def topic(self, name: str, partitions: int) -> None:
        """A topic of three replicas with RECORDS tiny records in each partition."""
        admin = AdminClient(client(self.brokers.bootstrap))
        admin.create_topics([NewTopic(name, partitions, 3)])[name].result(60)
        self.produce(name, partitions, RECORDS)
        self.purged[name] = 0

    def produce(self, topic: str, partitions: int, count: int) -> None:
        """`count` more tiny records per partition, acknowledged by all replicas."""
        producer = Producer(client(self.brokers.bootstrap, acks="all", **{"linger.ms": "50"}))
        for partition in range(partitions):
            for _ in range(count):
                producer.produce(topic, b"x" * 20, partition=partition)
            producer.poll(0)
        assert producer.flush(120) == 0

    def next_offset(self, topic: str) -> int:
        """One record further than the last purge of the topic went."""
        self.purged[topic] += 1
        assert self.purged[topic] < RECORDS
        return self.purged[topic]

    def next_file(self, topic: str, partitions: int) -> str:
        """An offsets file for the next purge of a whole topic."""
        offset = self.next_offset(topic)
        rows = [{"topic": topic, "partition": p, "offset": offset} for p in range(partitions)]
        path = self.folder / f"{topic}.json"
        path.write_text(json.dumps({"version": 1, "partitions": rows}))
        return str(path)

    def kafkas_tool(self, offsets_file: str, flags: Sequence[str] = SCRIPT_FLAGS) -> None:
        """Kafka's own DeleteRecordsCommand as a whole process, without its shell script."""
        command = [
            self.tools.java, *flags, "-cp", self.tools.class_path,
            "org.apache.kafka.tools.DeleteRecordsCommand",
            "--bootstrap-server", self.brokers.bootstrap, "--offset-json-file", offsets_file,
        ]  # fmt: skip
        self._run(command)

    def lowwater(self, *words: str) -> dict[str, Any]:
        """One call of the command line as a whole process: its object."""
        command = [sys.executable, "-m", "dashboard.cli.main", *words, "--json"]
        value: dict[str, Any] = json.loads(self._run(command))
        return value

    def _run(self, command: list[str]) -> str:
        done = subprocess.run(
            command, env=self.environment(), capture_output=True, text=True, check=False
        )
        if done.returncode:
            sys.exit(f"{command[-8:]} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def environment(self) -> dict[str, str]:
        """Settings, state and data of the bench alone."""
        return {
            **os.environ,
            "LOWWATER_SETTINGS": str(self.folder / "lowwater.toml"),
            "LOWWATER_STATE_DIR": str(self.folder / "state"),
            "LOWWATER_DATA": str(self.folder / "data"),
        }


@contextmanager
def open_lab(brokers: KafkaJars, tools: KafkaJars) -> Iterator[Lab]:
    """Three brokers from these jars while the block runs."""
    with tempfile.TemporaryDirectory(prefix="lowwater-bench-") as text:
        folder = Path(text)
        (folder / "lowwater.toml").write_text(SETTINGS)
        with LocalCluster(folder / "brokers", brokers, heap_mb=768) as cluster:
            yield Lab(cluster, tools, folder)


def seconds(call: Callable[[], object]) -> float:
    """How long a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def in_turn(calls: dict[str, Callable[[], float]], runs: int) -> dict[str, float]:
    """The median of each call's figure over `runs` rounds; a busy machine is busy for all."""
    rounds = [{name: call() for name, call in calls.items()} for _ in range(runs)]
    return {name: median(r[name] for r in rounds) for name in calls}
