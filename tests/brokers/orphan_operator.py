"""An operator with a shell on a broker's host, after that broker missed a topic's deletion."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession

from analytics.job import analyze
from dashboard.cli.main import main
from dashboard.cluster.live import connect
from dashboard.core.clock import utc_now
from dashboard.demo.kafka.brokers import LocalCluster, client
from dashboard.settings import settings
from dashboard.store.snapshots import Store
from tests.brokers.workload import until

BROKER = 2
RECORDS = 300
LOG_BYTES = RECORDS * 1000
AGE = timedelta(days=30)
DELAY = timedelta(seconds=1)
Output = Callable[[], str]
Row = dict[str, Any]


@dataclass
class Operator:
    """Calls `lowwater VERB … --json`; `taken` is what it printed."""

    cluster: LocalCluster
    spark: SparkSession
    folder: Path
    taken: Output

    @property
    def log_dir(self) -> Path:
        return self.cluster.log_dir(BROKER)

    def allow(self, most_share: float) -> None:
        """The settings: how much of a broker may be orphans at once."""
        (self.folder / "lowwater.toml").write_text(
            f'orphan_delay = "{DELAY.seconds}s"\norphan_most_share = {most_share}\n'
            f'data = "{self.folder / "data"}"\n'
        )

    def __call__(self, *words: str) -> tuple[int, dict[str, Any]]:
        self.taken()
        code = main([*words, "--json"])
        return code, json.loads(self.taken())

    def look(self) -> dict[str, Row]:
        """Take stock of the broker's disk, collect, analyze; the orphans by topic."""
        inventory = str(self.folder / f"{BROKER}.inventory")
        log_dirs = ("--log-dirs", str(self.log_dir), "--broker", str(BROKER))
        assert self("inventory", "scan", *log_dirs, "--out", inventory)[0] == 0
        where = ("--bootstrap-server", self.cluster.bootstrap, "--inventory", inventory)
        assert self("collect", *where)[0] == 0
        found = settings.load()
        analyze(self.spark, Store(found.data).cluster(None), found, now=utc_now)
        code, answer = self("orphans", "--out", self.verdicts)
        assert code == 0, answer
        return {row["topic"]: row for row in answer["rows"]}

    @property
    def verdicts(self) -> str:
        return str(self.folder / "verdicts.json")

    def stray_bytes(self) -> int:
        """What the newest analysis says that strays hold on this broker's disk."""
        _, answer = self("orphans")
        return sum(d["stray_bytes"] for d in answer["disks"] if d["broker_id"] == BROKER)

    def sweep(self, *flags: str) -> tuple[int, dict[str, Any]]:
        return self(*self._sweep(), *flags)

    def killed_sweep(self, point: str, *flags: str) -> None:
        """The same in a process that SIGKILL ends at `point`."""
        line = [sys.executable, "-m", "tests.brokers.dying_operator", point]
        done = subprocess.run(
            [*line, *self._sweep(), *flags], check=False, timeout=60, capture_output=True
        )
        assert done.returncode == -signal.SIGKILL, done.stderr.decode()

    def _sweep(self) -> list[str]:
        where = ["--log-dirs", str(self.log_dir), "--bootstrap-server", self.cluster.bootstrap]
        # Not the one beside the log dir: other tests' sweeps of this broker have that.
        aside = self.log_dir.parent / "operators-quarantine"
        return ["orphans", "sweep", *where, "--quarantine-dir", str(aside)]

    def strays(self, topic: str) -> list[Path]:
        return list(self.log_dir.glob(f"{topic}-0.*-stray"))

    def held_open(self, topic: str) -> list[str]:
        """The broker's open files of that topic that no folder has any more: bytes not yet free."""
        opened = Path(f"/proc/{self.cluster.pids()[BROKER]}/fd").iterdir()
        links = [os.readlink(fd) for fd in opened if fd.is_symlink()]  # noqa: PTH115
        return [name for name in links if topic in name and name.endswith("(deleted)")]

    def restart(self) -> None:
        self.cluster.stop_broker(BROKER)
        self.cluster.start_broker(BROKER)
        self.wait_until_well()

    def wait_until_well(self) -> None:
        def well() -> bool:
            states = live.topics(None).values()
            return not any(p.under_replicated or p.error for s in states for p in s.partitions)

        with connect({"bootstrap.servers": self.cluster.bootstrap}) as live:
            until(well, 60)


def grow_old(stray: Path) -> None:
    """As the disk looks a month later: nobody writes to a stray's log."""
    for file in stray.glob("*.log"):
        os.utime(file, (time.time(), (utc_now() - AGE).timestamp()))


def produce(bootstrap: str, topic: str, partition: int, *, aged: bool = False) -> None:
    """RECORDS records of 1,000 bytes, of now or of a month ago."""
    written = int((utc_now() - (AGE if aged else timedelta(0))).timestamp() * 1000)
    producer = Producer(client(bootstrap, acks="all"))
    for _ in range(RECORDS):
        producer.produce(topic, b"x" * 1000, partition=partition, timestamp=written)
    assert producer.flush(30) == 0


def served(bootstrap: str, topic: str, partition: int) -> int:
    """How many records a consumer gets from that partition's leader."""
    reads = {"group.id": "operator", "enable.auto.commit": "false"}
    consumer = Consumer(client(bootstrap) | reads)
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=60)
        deadline = time.monotonic() + 60
        count = 0
        while count < end and time.monotonic() < deadline:
            count += sum(message.error() is None for message in consumer.consume(500, 1))
        return count
    finally:
        consumer.close()
