"""The running demo: started and ended as its users do, with brokers that can be brought back."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dashboard.core.processes import die_with_parent
from dashboard.demo import processes, state
from dashboard.demo.kafka.brokers import alive_brokers
from tests.soak import proc
from tests.soak.place import Place

ROOT = Path(__file__).parents[2]
LOWWATER = (sys.executable, "-m", "dashboard.cli.main")
SERVES_WITHIN_SECONDS = 120.0
ENDS_WITHIN_SECONDS = 90.0


@dataclass(slots=True)
class Broker:
    """A broker's process, and how to start it again."""

    pid: int
    command: list[str]
    environ: dict[str, str]
    home: Path
    process: subprocess.Popen[bytes] | None = None  # None: it is the demo's own


@dataclass(slots=True)
class World:
    """The demo of one soak: its supervisor and what it said when it was ready."""

    place: Place
    supervisor: subprocess.Popen[str]
    told: dict[str, Any]
    brokers: dict[int, Broker] = field(default_factory=dict)

    @property
    def room(self) -> Path:
        return Path(self.told["settings"]).parent

    @property
    def url(self) -> str:
        return str(self.told["url"])

    @property
    def bootstrap(self) -> str:
        return str(self.told["bootstrap"])

    def environ(self) -> dict[str, str]:
        """What an operator's shell has."""
        return {**self.place.environ(), "LOWWATER_SETTINGS": str(self.told["settings"])}

    def family(self) -> list[proc.Process]:
        """Every process of the demo and of this soak, workers that were detached included."""
        everybody = proc.read_all()
        marked = proc.with_environment("LOWWATER_SETTINGS", str(self.told["settings"]))
        return proc.descendants(everybody, {os.getpid(), self.supervisor.pid, *marked})

    def children(self, *words: str) -> Iterator[proc.Process]:
        """Those of the family, not zombies, whose command line has all these words."""
        for process in self.family():
            if not process.zombie and all(any(w in c for c in process.command) for w in words):
                yield process

    def stop_broker(self, broker_id: int, number: signal.Signals) -> None:
        """End a broker by a signal and wait until it is gone."""
        broker = self.brokers[broker_id]
        started = processes.started_at_ticks(broker.pid)
        os.kill(broker.pid, number)
        if not processes.wait_gone(broker.pid, started, 30):
            os.kill(broker.pid, signal.SIGKILL)
            processes.wait_gone(broker.pid, started, 10)
        if broker.process is not None:
            broker.process.wait()

    def start_broker(self, broker_id: int) -> None:
        """Start a broker that ended, from the main thread; returns when it serves."""
        broker = self.brokers[broker_id]
        broker.process = processes.spawn(
            broker.command, broker.home / "broker.log", environ=broker.environ, cwd=broker.home
        )
        broker.pid = broker.process.pid
        address = self.bootstrap.split(",")[broker_id - 1]
        until = time.monotonic() + SERVES_WITHIN_SECONDS
        while set(self.brokers) - alive_brokers(address):
            if broker.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"broker {broker_id} did not come back: see its broker.log")
            time.sleep(0.2)

    def down(self) -> int | None:
        """Ctrl-C to the demo: its exit code, None if it had to be killed."""
        self.supervisor.send_signal(signal.SIGINT)
        try:
            return self.supervisor.wait(ENDS_WITHIN_SECONDS)
        except subprocess.TimeoutExpired:
            self.supervisor.kill()
            self.supervisor.wait()
            return None

    def bury(self) -> None:
        """Wait for the brokers that are our own children: the demo has killed them."""
        for broker in self.brokers.values():
            if broker.process is not None:
                with suppress(subprocess.TimeoutExpired):
                    broker.process.wait(ENDS_WITHIN_SECONDS)

    def clear(self) -> None:
        """Whatever happened, leave nothing running."""
        if self.supervisor.poll() is None:
            self.down()
        for broker in self.brokers.values():
            if broker.process is not None:
                processes.stop(broker.process, 0)
        state.clear(str(self.room))


def start(place: Place) -> World:
    """`lowwater demo up`; returns once its page answers. Raises RuntimeError with what it said."""
    log = place.folder / "logs" / "demo.log"
    with log.open("w") as errors:
        supervisor = subprocess.Popen(
            [*LOWWATER, "demo", "up", "--json", "--data", str(place.data)],
            stdout=subprocess.PIPE, stderr=errors, text=True, env=place.environ(), cwd=ROOT,
            preexec_fn=die_with_parent(),  # noqa: PLW1509 - prctl and getppid only
        )  # fmt: skip
    assert supervisor.stdout is not None
    line = supervisor.stdout.readline()
    if not line:
        raise RuntimeError(f"the demo ended with code {supervisor.wait()}:\n{log.read_text()}")
    world = World(place, supervisor, json.loads(line))
    _on_the_small_disk(world)
    for each in world.told["processes"]:
        if each["name"].startswith("broker-"):
            world.brokers[int(each["name"].removeprefix("broker-"))] = _broker(int(each["pid"]))
    return world


def _on_the_small_disk(world: World) -> None:
    """The demo's journal lies in its room; here on the disk that `journal-full` fills."""
    own = world.room / "state"
    assert [file.name for file in own.iterdir()] == [state.FILE_NAME]  # nothing is written yet
    shutil.rmtree(own)
    own.symlink_to(world.place.state)


def _broker(pid: int) -> Broker:
    process = proc.read(pid)
    assert process is not None
    home = Path(f"/proc/{pid}/cwd").readlink()
    return Broker(pid, list(process.command), proc.environment(pid), home)
