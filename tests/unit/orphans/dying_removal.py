"""A service that is killed again and again, whenever chance says, on a folder of strays."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from dashboard.core.clock import utc_now
from dashboard.orphans.removal import Removal
from dashboard.orphans.removal_story import Story, read_stories
from dashboard.orphans.sweep.report import DayLimit
from dashboard.orphans.sweep.site import Options
from dashboard.orphans.verdicts import Verdict, Verdicts
from dashboard.purge.journal.journal import Journal
from tests.unit.orphans.sweep_acts import whole
from tests.unit.orphans.sweep_host import Host

KEEP = timedelta(milliseconds=150)
_LONGEST_LIFE = 0.25


class Scene:
    """A host with strays, all of which may go, and a service that runs in a child process."""

    def __init__(self, host: Host, strays: int) -> None:
        self.host = host
        self.journal = host.folder / "journal.sqlite"
        self.rows: list[Verdict] = []
        for _ in range(strays):
            self.add()

    def add(self) -> None:
        """One more stray, with its verdict: what a later analysis would find."""
        number = len(self.rows) + 1
        name = f"gone-{number}.{number:032x}-stray"
        self.host.disk.segment(self.host.disk.folder(name), 0)
        log = next((self.host.log_dir / name).glob("*.log"))
        newest = datetime.fromtimestamp(log.stat().st_mtime + 1, UTC)
        row = replace(self.host.row(), directory=name, partition=number, newest_at=newest)
        self.rows.append(row)

    def service(self) -> Removal:
        """As a process of its own has it: journal and cluster opened anew."""
        options = Options(
            (str(self.host.log_dir),), keep=KEEP, apply=True, most_share=0.99,
            day=DayLimit(10_000, 2**50),
        )  # fmt: skip
        # The clock is two minutes ahead of when the folders were made: nobody touched them since.
        return Removal(
            options, self._judge, lambda: nullcontext(self.host.live),
            every=timedelta(seconds=1), now=_ahead, stopped=lambda: None,
            progress=lambda _text: None, chain=Journal(self.journal),
        )  # fmt: skip

    def _judge(self, now: datetime) -> Verdicts:
        seen = now - timedelta(seconds=30)
        return Verdicts(
            "C", "prod", "a", "s", seen, seen, now + timedelta(hours=1), tuple(self.rows)
        )

    def killed_after(self, seconds: float) -> None:
        """A service that lives so long."""
        child = os.fork()
        if child == 0:
            try:
                acting = self.service()
                while True:
                    acting.turn()
            finally:
                os._exit(1)
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL

    def story(self) -> Story:
        (found,) = read_stories(Options((str(self.host.log_dir),)))
        return found

    def lost(self) -> list[str]:
        """Folders that are neither in place whole, nor in quarantine whole, nor deleted after their
        time by a line of the log.
        """
        return [str(r.directory) for r in self.rows if not self._accounted(str(r.directory))]

    def _accounted(self, name: str) -> bool:
        if (self.host.log_dir / name).exists():
            return whole(self.host.log_dir / name)
        aside = [*self.host.quarantine.glob(f"*/{name}")]
        if aside:
            return len(aside) == 1 and whole(aside[0])
        return self._deleted_in_time(name)

    def _deleted_in_time(self, name: str) -> bool:
        """Its deletion was begun, by a line that came after its time was over."""
        lines = self.story().entries
        (item,) = (e.body["item"] for e in lines
                   if e.kind == "moving" and e.body["directory"] == name
                   and self._was_moved(str(e.body["item"])))  # fmt: skip
        of = {e.kind: _time(e.at) for e in lines if e.body.get("item") == item}
        return "deleting" in of and of["deleting"] - of["moved"] >= KEEP

    def _was_moved(self, item: str) -> bool:
        return any(e.kind == "moved" and e.body["item"] == item for e in self.story().entries)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _ahead() -> datetime:
    return utc_now() + timedelta(minutes=2)


def chance(seed: int) -> list[float]:
    """How long each of the services lives."""
    drawn = random.Random(seed)
    return [drawn.uniform(0, _LONGEST_LIFE) for _ in range(100)]
