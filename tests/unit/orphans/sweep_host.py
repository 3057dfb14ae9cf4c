"""A broker's host in a temporary folder: a locked log dir, a cluster, verdicts."""

# ruff: noqa: ARG002 - the signatures are LiveCluster's own

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from dashboard.core.clock import utc_now
from dashboard.core.errors import ClusterError
from dashboard.domain import acts as words
from dashboard.domain.model import (
    ConfigEntry,
    LogDir,
    LogDirsAnswer,
    PartitionOffsets,
    PartitionState,
    Reassignment,
    ReplicaSize,
    TopicPartition,
    TopicState,
)
from dashboard.orphans.sweep.report import Outcome, Report
from dashboard.orphans.sweep.site import Options
from dashboard.orphans.sweep.sweep import sweep
from dashboard.orphans.verdicts import Verdict, Verdicts
from tests.unit.inventory.disks import TOPIC_ID, Disk

LIVE = 40  # folders beside the orphan, so that one is less than 5 % of them
STRAY = "gone-0.0123456789abcdef0123456789abcdef-stray"
_LOCKER = (
    "import fcntl,sys\n"
    "held=[open(path,'r+b') for path in sys.argv[1:]]\n"
    "[fcntl.lockf(file, fcntl.LOCK_EX) for file in held]\n"
    "print('locked',flush=True)\n"
    "for line in sys.stdin:\n"
    "    held.append(open(line.strip(),'r+b')); print('opened',flush=True)\n"
)


class FakeCluster:
    """A cluster with topic `live`, 40 partitions on broker 1; its parts can be changed."""

    def __init__(self, log_dirs: Iterable[str]) -> None:
        self.id = "C"
        self.alive: tuple[int, ...] = (1, 2)
        self.paths = list(log_dirs)
        self.hidden: set[str] = set()  # ids of topics that we may not describe
        self.states = {"live": topic("live", "live567890123456789012", LIVE)}
        self.moving: tuple[Reassignment, ...] = ()
        self.hosted = [ReplicaSize(1, self.paths[0], "live", p, 100, 0, False) for p in range(LIVE)]
        self.errors: dict[int, str] = {}
        self.settings = {"cleanup.policy": "delete", "retention.ms": "3600000"}  # of any topic
        # Log start and high watermark of any partition.
        self.ends: tuple[int | None, int | None] = (0, 0)
        self.controller_at: datetime | ClusterError | None = None  # nobody tells it

    def cluster_id(self) -> str:
        return self.id

    def controller_time(self) -> datetime | None:
        if isinstance(self.controller_at, ClusterError):
            raise self.controller_at
        return self.controller_at

    def configs(self, topics: Iterable[str]) -> tuple[ConfigEntry, ...]:
        found = self.settings.items()
        return tuple(ConfigEntry("topic", t, k, v, "DYNAMIC") for t in topics for k, v in found)

    def offsets(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, PartitionOffsets]:
        start, end = self.ends
        return {p: PartitionOffsets(*p, start, end, end) for p in partitions}

    def alive_brokers(self) -> tuple[int, ...]:
        return self.alive

    def topics(self, names: Iterable[str] | None) -> dict[str, TopicState]:
        wanted = self.states if names is None else names
        missing = TopicState("", None, False, (), "UNKNOWN_TOPIC_OR_PARTITION")
        return {name: self.states.get(name, missing) for name in wanted}

    def topic_of_id(self, topic_id: str) -> TopicState:
        found = next((s for s in self.states.values() if s.topic_id == topic_id), None)
        hidden = topic_id in self.hidden
        error = "TOPIC_AUTHORIZATION_FAILED" if hidden else "UNKNOWN_TOPIC_ID"
        return found or TopicState("", topic_id, False, (), error)

    def reassignments(self) -> tuple[Reassignment, ...]:
        return self.moving

    def log_dirs(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        brokers: Iterable[int] | None = None,
    ) -> LogDirsAnswer:
        if self.errors:
            return LogDirsAnswer((), (), self.errors)
        asked = None if partitions is None else set(partitions)
        found = [r for r in self.hosted if asked is None or (r.topic, r.partition) in asked]
        return LogDirsAnswer(tuple(LogDir(1, p, None, None) for p in self.paths), tuple(found), {})


def topic(name: str, topic_id: str, partitions: int = 1, **changed: Any) -> TopicState:
    one = PartitionState(name, 0, 1, 0, (1,), (1,))
    rows = tuple(replace(one, partition=p, **changed) for p in range(partitions))
    return TopicState(name, topic_id, False, rows)


class Host:
    """Broker 1 with one log dir, 40 live folders and one stray; the lock's holder is its broker."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log_dir = folder / "data"
        self.disk = Disk(self.log_dir)
        for number in range(LIVE):
            (self.log_dir / f"live-{number}").mkdir()
        self.stray = self.disk.folder(STRAY)
        self.disk.segment(self.stray, 0)
        (self.log_dir / ".lock").touch()
        self.live = FakeCluster([str(self.log_dir)])
        # The folder was put there just now; what is seen 20 s later may be of it.
        self.now = utc_now() + timedelta(minutes=2)
        self.stopped: str | None = None
        self.said: list[str] = []
        self._broker: subprocess.Popen[str] | None = None

    def start_broker(self, *more: Path) -> int:
        """A process that holds the lock, as a broker does, and that of `more` log dirs; its pid."""
        locks = [str(path / ".lock") for path in (self.log_dir, *more)]
        self._broker = subprocess.Popen(
            [sys.executable, "-S", "-c", _LOCKER, *locks],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._answer("locked")
        return self._broker.pid

    def broker_opens(self, path: Path) -> None:
        assert self._broker is not None and self._broker.stdin is not None
        self._broker.stdin.write(f"{path}\n")
        self._broker.stdin.flush()
        self._answer("opened")

    def stop_broker(self) -> None:
        if self._broker is not None:
            self._broker.communicate()
            self._broker = None

    def _answer(self, word: str) -> None:
        assert self._broker is not None and self._broker.stdout is not None
        assert self._broker.stdout.readline().strip() == word

    @property
    def quarantine(self) -> Path:
        return self.folder / ".lowwater-quarantine"

    def row(self, **changed: Any) -> Verdict:
        """A verdict that lets the stray go."""
        newest = max((f.stat().st_mtime for f in self.stray.glob("*.log")), default=0)
        row = Verdict(
            1, str(self.log_dir), STRAY, "gone", 0, TOPIC_ID, words.STRAY, 100, 4096,
            datetime.fromtimestamp(newest, UTC), words.REMOVABLE, "seen for 3 h", None,
            scanned_at=self.now + timedelta(days=9),  # the earlier one counts: the snapshot's time
        )  # fmt: skip
        return replace(row, **changed)

    def verdicts(self, *rows: Verdict) -> Verdicts:
        made = self.now - timedelta(minutes=1)
        return Verdicts(
            "C", "prod", "a1", "s1", made, made, made + timedelta(hours=24), rows or (self.row(),)
        )

    def sweep(self, verdicts: Verdicts | None = None, **options: Any) -> Report:
        chosen = Options(**{"log_dirs": (str(self.log_dir),), "apply": True, **options})
        return sweep(
            verdicts or self.verdicts(), chosen, self.live, now=lambda: self.now,
            progress=self.said.append, stopped=lambda: self.stopped,
        )  # fmt: skip

    def one(self, *rows: Verdict, **options: Any) -> Outcome:
        """The outcome of the only row."""
        (outcome,) = self.sweep(self.verdicts(*rows), **options).rows
        return outcome
