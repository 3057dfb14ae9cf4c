"""A broker's host in a temporary folder: a locked log dir, a cluster, verdicts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from dashboard.core.clock import utc_now
from dashboard.domain import acts as words
from dashboard.domain.model import (
    LogDir,
    LogDirsAnswer,
    PartitionOffsets,
    PartitionState,
    ReplicaSize,
    TopicPartition,
    TopicState,
)
from dashboard.orphans.sweep.report import Outcome, Report
from dashboard.orphans.sweep.site import Options
from dashboard.orphans.sweep.sweep import sweep
from dashboard.orphans.verdicts import Verdict, Verdicts
from tests.support.cluster import FakeCluster
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


class SweepCluster(FakeCluster):
    """A cluster with topic `live`, 40 partitions on broker 1; its parts can be changed."""

    def __init__(self, log_dirs: Iterable[str]) -> None:
        super().__init__(0)
        self.id, self.alive = "C", {1, 2}
        self.paths = list(log_dirs)
        self.states = {"live": topic("live", "live567890123456789012", LIVE)}
        self.hosted = [ReplicaSize(1, self.paths[0], "live", p, 100, 0, False) for p in range(LIVE)]
        self.topic_configs = {"cleanup.policy": "delete", "retention.ms": "3600000"}
        # Log start and high watermark of any partition.
        self.ends: tuple[int | None, int | None] = (0, 0)

    def _offsets(self, key: TopicPartition) -> PartitionOffsets:
        start, end = self.ends
        return PartitionOffsets(*key, start, end, end)

    def log_dirs(self, *asked: Any, **more: Any) -> LogDirsAnswer:
        self.dirs = [LogDir(b, path, None, None) for b in (1, 2) for path in self.paths]
        return super().log_dirs(*asked, **more)


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
        self.live = SweepCluster([str(self.log_dir)])
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
