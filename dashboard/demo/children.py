"""The processes that a demo is made of, beside its brokers: what to run, and whether it is up."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from dashboard.core.clock import utc_now
from dashboard.core.demo_faults import MARK, RECORDED
from dashboard.core.errors import LowwaterError
from dashboard.core.processes import FEW_ARENAS, Stop
from dashboard.demo.truth import BURST, TOPICS
from dashboard.inventory import scan
from dashboard.inventory.names import parse_log_dirs
from dashboard.inventory.recorder import Recorder
from dashboard.settings.settings import Settings

WATCH_EVERY = "10s"
ORPHAN_DELAY = "1m"  # instead of two hours: a demo is looked at for minutes
ROOT = Path(__file__).parents[2]
# The second cluster of `--clusters 2`: small, so that two fit where one does.
SECOND = "demo-2"
SECOND_TOPICS = ("clickstream", "payments")
SECOND_HEAP_MB = 256
SECOND_EVERY = "30s"
_IN_SETTINGS = ("LOWWATER_DATA", "LOWWATER_STATE_DIR", "LOWWATER_CACHE_DIR")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a demo lives: its room, its data folder, its settings file and its page's port."""

    room: Path
    data: str
    settings: Path
    port: int

    @property
    def state_dir(self) -> Path:
        """Of the demo's own journal. The caller's is of real clusters, with people and workers."""
        return self.room / "state"

    @property
    def loaded_file(self) -> Path:
        return self.room / "loaded.json"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def log(self, child: str) -> Path:
        return self.room / f"{child}.log"

    def disks(self, log_dirs: Mapping[int, Sequence[Path]]) -> list[Disk]:
        """What is taken stock of: every broker's `log_dirs`, by broker id."""
        return [
            Disk(i, ",".join(map(str, found)), str(self.room / f"broker-{i}.inventory"))
            for i, found in log_dirs.items()
        ]


def environment(place: Place, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What every process of the demo sees: our own variables, its settings file and its mark."""
    paths = (str(ROOT), environ.get("PYTHONPATH"))
    # These stand in the demo's settings file, as absolute paths: a child's folder is another.
    kept = {name: value for name, value in environ.items() if name not in _IN_SETTINGS}
    return {
        **FEW_ARENAS,
        **kept,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "LOWWATER_SETTINGS": str(place.settings),
        MARK: str(place.room),
    }


def workload(bootstrap: str, place: Place, *, load: bool, only: Sequence[str] = ()) -> list[str]:
    """The command of the workload; `load` fills the topics first. `only`: of some topics alone."""
    command = [sys.executable, "-m", "dashboard.demo.workload", "--bootstrap", bootstrap]
    if only:  # of the second cluster, of which nothing is broken
        command += [word for topic in only for word in ("--only", topic)]
        return command + ["--load"] * load
    command += ["--room", str(place.room)]
    return command + ["--load", "--ready-file", str(place.loaded_file)] * load


def inventory(disks: Sequence[Disk]) -> list[str]:
    """The command of the loop that takes stock of the brokers' disks."""
    flags = [("--disk", str(disk.broker_id), disk.log_dirs, disk.file) for disk in disks]
    return [sys.executable, "-m", "dashboard.demo.children", *(w for flag in flags for w in flag)]


def watch(
    bootstrap: str,
    place: Place,
    disks: Sequence[Disk],
    name: str = "demo",
    every: str = WATCH_EVERY,
) -> list[str]:
    """The command of the loop that collects and analyzes, with the stock taken of `disks`."""
    return [
        *_verb("watch"), "--bootstrap-server", bootstrap, "--name", name,
        "--data", place.data, "--every", every,
        *(word for disk in disks for word in ("--inventory", disk.file)),
    ]  # fmt: skip


def recorded(place: Place, cluster_id: str) -> list[str]:
    """The command that writes the week before the demo, beside its data."""
    into = str(place.room / RECORDED)
    return [sys.executable, "-m", "dashboard.demo.recorded", place.data, cluster_id, into]


def dashboard(place: Place) -> list[str]:
    """The command of the page's server."""
    return [*_verb("dashboard"), "--port", str(place.port), "--data", place.data]


def have_stock(disks: Sequence[Disk]) -> bool:
    """Whether every disk has been taken stock of."""
    return all(Path(disk.file).exists() for disk in disks)


def has_findings(place: Place, cluster_id: str) -> bool:
    """Whether the first analysis is there for the page to show."""
    return (Path(place.data) / cluster_id / "findings" / "LATEST").exists()


def settings_text(
    settings: Settings,
    place: Place,
    bootstrap: str,
    now: datetime,
    metrics: Mapping[int, str] | None = None,
) -> str:
    """The demo's settings file: the cluster, its brokers' metrics, who reads which topic, a policy.

    The policy does nothing: nobody switched it on, and no service runs.
    """
    lines = [
        "# Written by `lowwater demo up`; gone when the demo ends.",
        f"data = {_quoted(place.data)}",
        f"state_dir = {_quoted(str(place.state_dir))}",
        f"cache_dir = {_quoted(str(settings.cache_dir.resolve()))}",
        f'orphan_delay = "{ORPHAN_DELAY}"',
        "",
        "[purge]",
        'pattern_refresh = "0s"  # all who read here subscribe by name',
        "",
        "[clusters.demo]",
        f'"bootstrap.servers" = {_quoted(bootstrap)}',
    ]
    if metrics:
        urls = ",".join(f"{broker_id}={url}" for broker_id, url in metrics.items())
        lines.append(f'"metrics.urls" = {_quoted(urls)}')
    lines += ["", "[policies.repartition]", 'preset = "repartition"', 'cluster = "demo"']
    for topic in (*TOPICS, BURST):
        if topic.owner is not None:
            lines += [
                "",
                f"[topics.{_quoted(topic.name)}]",
                f"owner = {_quoted(topic.owner)}",
                'readers = "groups"',
                'replay_window = "0s"',
                'declared_by = "lowwater demo"',
                f"declared_at = {now.date().isoformat()}",
            ]
    return "\n".join(lines) + "\n"


def second_section(bootstrap: str) -> str:
    """What the settings file says of the second cluster besides."""
    return f'\n[clusters.{SECOND}]\n"bootstrap.servers" = {_quoted(bootstrap)}\n'


def _verb(name: str) -> list[str]:
    return [sys.executable, "-m", "dashboard.cli.main", name]


def _quoted(text: str) -> str:
    """A TOML basic string; JSON's escapes are TOML's too."""
    return json.dumps(text)


# Takes stock of the demo's disks again and again, as `lowwater inventory scan` does once.

EVERY_SECONDS = 2.0
# Rest at least so many times a round's CPU time: 5,000 partitions must not keep a core busy. On a
# busy machine the time by the clock says nothing of that.
REST = 10.0


@dataclass(frozen=True, slots=True)
class Disk:
    """A broker's log dirs, with commas between them, and the file that tells what they hold."""

    broker_id: int
    log_dirs: str
    file: str


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m dashboard.demo.children --disk ID LOG_DIRS FILE …`; 0 when asked to end."""
    parser = argparse.ArgumentParser(prog="inventory")
    parser.add_argument("--disk", nargs=3, action="append", required=True)
    found = parser.parse_args(arguments).disk
    ended = Stop()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    run([Disk(int(broker_id), log_dirs, file) for broker_id, log_dirs, file in found], ended)
    return 0


def run(disks: Sequence[Disk], ended: Stop) -> None:
    """Scans every disk, rests, and again until `ended`; a new trouble is told once."""
    told: Mapping[int, str] = {}
    while True:
        began = time.process_time()
        troubles = take_stock(disks)
        for broker_id, trouble in troubles.items():
            if told.get(broker_id) != trouble:
                print(f"broker {broker_id}: {trouble}", flush=True)
        told = troubles
        if ended.wait(max(EVERY_SECONDS, REST * (time.process_time() - began))):
            return


def take_stock(disks: Sequence[Disk]) -> dict[int, str]:
    """Replaces every disk's file; why one could not be, by broker id: its old file stays."""
    troubles = {}
    for disk in disks:
        log_dirs = parse_log_dirs(disk.log_dirs)
        try:
            with Recorder(
                disk.file, disk.broker_id, log_dirs, newest_from=scan.NEWEST_FROM
            ) as recorder:
                scan.scan(log_dirs, recorder, now=utc_now)
                recorder.finish()
        except LowwaterError as error:
            troubles[disk.broker_id] = error.message
    return troubles


if __name__ == "__main__":
    raise SystemExit(main())
