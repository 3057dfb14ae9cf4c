"""Looks at the soak's processes every 30 s, and at what is stored every few seconds."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.soak import proc
from tests.soak.world import World

EVERY_SECONDS = 30.0
_LOOK_SECONDS = 2.0
# The first that fits: words that must all be in the command line.
ROLES = (
    ("broker", ("kafka.Kafka",)),
    ("spark", ("org.apache.spark.deploy.SparkSubmit",)),
    ("analysis", ("analytics", "--serve")),
    ("worker", ("dashboard.purge.jobs.worker",)),
    ("guardian", ("dashboard.demo.guardian",)),
    ("workload", ("dashboard.demo.workload",)),
    ("inventory", ("dashboard.demo.children",)),
    ("supervisor", ("dashboard.cli.main", "demo", "up")),
    ("watch", ("dashboard.cli.main", "watch", "--every")),
    ("page server", ("streamlit",)),
    ("policies", ("dashboard.cli.main", "policies", "run")),
    ("dashboard", ("dashboard.cli.main", "dashboard", "--port")),
)


def role(command: tuple[str, ...]) -> str | None:
    """What a process is in the demo; None for all others (pyspark's helpers, a browser)."""
    for name, words in ROLES:
        if all(any(word in part for part in command) for word in words):
            return name
    return None


class Sampler(threading.Thread):
    """Writes `samples.jsonl`, and each new snapshot and analysis into the diary."""

    def __init__(self, world: World, ended: threading.Event) -> None:
        super().__init__(name="sampler", daemon=True)
        self._world, self._ended = world, ended
        self._seen: dict[str, str | None] = {}

    def run(self) -> None:
        next_sample = 0.0
        while not self._ended.wait(_LOOK_SECONDS):
            self._stored()
            if self._world.place.seconds >= next_sample:
                next_sample += EVERY_SECONDS
                self.sample()

    def sample(self) -> None:
        """One line a process, and one for the whole."""
        place = self._world.place
        at = round(place.seconds, 1)
        family = self._world.family()
        lines = [{"at": at, **line} for line in _of_processes(family)]
        zombies = [[p.pid, p.started, p.parent, _name(p.parent)] for p in family if p.zombie]
        lines.append({"at": at, "role": "all", "zombies": zombies, **self._sizes()})
        with (place.folder / "samples.jsonl").open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)

    def _sizes(self) -> dict[str, Any]:
        folder = self._world.place.folder
        names = ("state", "data", "tmp")
        sizes = {f"{name}_bytes": folder_bytes(folder / name) for name in names}
        return {**sizes, "load": os.getloadavg()[0]}

    def _stored(self) -> None:
        home = self._world.place.data / str(self._world.told["cluster_id"])
        with suppress(OSError):
            found = [p.parent.name for p in (home / "snapshots").glob("*/manifest.json")]
            self._changed("snapshot", max(found, default=None))
        with suppress(OSError):
            self._changed("analysis", (home / "findings" / "LATEST").read_text().strip())

    def _changed(self, what: str, newest: str | None) -> None:
        if newest and self._seen.get(what) != newest:
            self._seen[what] = newest
            self._world.place.note(what, id=newest)


def _of_processes(family: list[proc.Process]) -> Iterator[dict[str, Any]]:
    for process in family:
        name = role(process.command)
        if name is None or process.zombie:
            continue
        yield {
            "role": name, "pid": process.pid, "started": process.started,
            "rss_kb": proc.rss_kb(process.pid), "fds": proc.open_files(process.pid),
        }  # fmt: skip


def folder_bytes(folder: Path) -> int:
    """Bytes on disk of all files below a folder; those that vanish meanwhile do not count."""
    total = 0
    for root, _, files in os.walk(folder):
        for name in files:
            with suppress(OSError):
                total += (Path(root) / name).stat().st_blocks * 512
    return total


def _name(pid: int) -> str:
    process = proc.read(pid)
    return " ".join(process.command[-3:]) if process else "gone"
