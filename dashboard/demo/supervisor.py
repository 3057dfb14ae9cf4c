"""Runs a whole demo, brings back parts that end, and ends it in reverse order, whatever ends it."""

from __future__ import annotations

import dataclasses
import os
import signal
import socket
import subprocess
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import FrameType
from typing import NoReturn

from kafka.record import MemoryRecordsBuilder

from dashboard.core.errors import DemoError
from dashboard.demo import children, guardian, processes, state
from dashboard.demo.children import Place
from dashboard.demo.faults import Obeying
from dashboard.demo.kafka import jars, preview
from dashboard.demo.kafka.brokers import LocalCluster, free_ports, kafka_uuid
from dashboard.demo.state import DemoState, ProcessId
from dashboard.inventory.names import PARTITION_METADATA
from dashboard.settings.settings import Settings

DEFAULT_PORT = 8501
PARTS = ("workload", "inventory", "watch", "dashboard")
SECOND_PARTS = ("workload-2", "watch-2")
LOAD_TIMEOUT_SECONDS = 180.0
STOCK_TIMEOUT_SECONDS = 60.0
PAGE_TIMEOUT_SECONDS = 60.0
FINDINGS_TIMEOUT_SECONDS = 90.0
CHILD_GRACE_SECONDS = 8.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ended(BaseException):
    """A signal asked the demo to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Supervisor:
    """One run of the demo. `say` gets progress lines, `ready` the state once the page is up."""

    def __init__(
        self,
        settings: Settings,
        say: Callable[[str], None],
        ready: Callable[[DemoState], None],
        *,
        port: int | None = None,
        data: str | None = None,
        parts: Sequence[str] = PARTS,
        brokers: int = 3,
        leader_only_preview: bool = False,
        clusters: int = 1,
    ) -> None:
        self._settings = settings
        self._say = say
        self._ready = ready
        self._parts = parts
        self._brokers = brokers
        self._preview = leader_only_preview
        self._clusters = clusters
        self._second: LocalCluster | None = None
        self._port = choose_port(port)
        self._data = str(Path(data).resolve()) if data and "://" not in data else data
        self._began = time.monotonic()
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._recording: subprocess.Popen[bytes] | None = None
        self._patience = Patience()

    def run(self) -> int:
        """Blocks until a signal comes: its number. Raises DemoError when a part cannot run."""
        handlers = {number: signal.signal(number, _end) for number in _SIGNALS}
        ending = ExitStack()
        try:
            self._start(ending)
            self._watch_over()
        except Ended as ended:
            return ended.number
        finally:
            _ignore_signals()  # a second Ctrl-C must not cut the cleaning short
            ending.close()
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _start(self, ending: ExitStack) -> None:
        version = self._settings.kafka_version
        resolve = preview.resolve if self._preview else jars.resolve
        java = resolve(version, self._settings.cache_dir, say=self._say)
        place = self._furnish(ending)
        flags, metrics = self._exporters(java.java, place) if "watch" in self._parts else ({}, {})
        self._cluster = LocalCluster(
            place.room / "kafka",
            java,
            brokers=self._brokers,
            environ=children.environment(place),
            jvm_flags=flags,
        )
        log_dirs = {i: self._cluster.log_dirs(i) for i in self._cluster.broker_ids}
        self._disks = place.disks(log_dirs) if "inventory" in self._parts else []
        ending.callback(self._cluster.stop)
        last = self._cluster.log_dir(self._cluster.broker_ids[-1])
        self._cluster.start(lambda: leave(last, datetime.now(UTC)))
        self._note(bootstrap=self._cluster.bootstrap, cluster_id=self._cluster.cluster_id)
        place.settings.write_text(
            children.settings_text(
                self._settings, place, self._cluster.bootstrap, datetime.now(UTC), metrics
            )
        )
        kind = " with DeleteRecords v3 (a preview, not a release)" if self._preview else ""
        self._tell(f"{self._brokers} brokers of Kafka {version}{kind} up")
        for part in self._parts:
            ending.callback(self._stop_child, part)
            self._spawn(part, first=True)
            self._await(part)
        obeying = Obeying(place.room, self._cluster)
        ending.callback(obeying.stop)
        obeying.start()
        self._note(phase="running", url=place.url if "dashboard" in self._parts else None)
        self._ready(self._state)
        if {"watch", "dashboard"} <= set(self._parts):
            self._record(place, ending)
        if self._clusters > 1:
            self._start_second(java, ending)

    def _record(self, place: Place, ending: ExitStack) -> None:
        """What was before the demo, by a process that ends by itself."""
        command = children.recorded(place, self._cluster.cluster_id)
        environ = children.environment(place)
        log = place.log("recorded")
        self._recording = processes.spawn(command, log, environ=environ, cwd=children.ROOT)
        ending.callback(self._stop_recording)

    def _stop_recording(self) -> None:
        # Once it was collected its process id may be anybody's.
        if self._recording is not None and self._recording.poll() is None:
            processes.stop(self._recording, CHILD_GRACE_SECONDS)

    def _start_second(self, java: jars.KafkaJars, ending: ExitStack) -> None:
        """One broker more, a cluster of its own, once the first one's page is there to show it."""
        place = self._place
        self._second = LocalCluster(
            place.room / "kafka-2", java, brokers=1, environ=children.environment(place),
            heap_mb=children.SECOND_HEAP_MB,
        )  # fmt: skip
        ending.callback(self._second.stop)
        self._second.start()
        with place.settings.open("a") as file:
            file.write(children.second_section(self._second.bootstrap))
        self._tell(f"second cluster {children.SECOND} up")
        for part in SECOND_PARTS:
            ending.callback(self._stop_child, part)
            self._spawn(part, first=True)

    def _exporters(self, java: str, place: Place) -> tuple[dict[int, list[str]], dict[int, str]]:
        """Java flags and the address of each broker's metrics; none where the jar cannot be had."""
        try:
            agent = jars.resolve_exporter(java, self._settings.cache_dir)
        except DemoError as error:
            self._tell(f"no broker metrics: {error.message}")
            return {}, {}
        ports = dict(zip(range(1, self._brokers + 1), free_ports(self._brokers), strict=True))
        flags = {i: jars.flags(agent, port, place.room) for i, port in ports.items()}
        return flags, {i: jars.address(port) for i, port in ports.items()}

    def _furnish(self, ending: ExitStack) -> Place:
        """Makes the room, the state file that leads to it, and the guardian who clears both."""
        folder = state.make()
        data = self._data or str(folder / "data")
        place = Place(folder, data, folder / "lowwater.toml", self._port)
        self._place = place
        self._state = DemoState(
            supervisor=ProcessId.of(os.getpid()),
            room=str(folder),
            phase="starting",
            kafka_version=self._settings.kafka_version,
            data=data,
            settings=str(place.settings),
            leader_only_preview=self._preview,
        )
        ending.callback(state.remove, self._settings.state_dir, str(folder))
        state.write(self._settings.state_dir, self._state)
        state.furnish(place.state_dir, self._settings.state_dir)
        guard = guardian.start(folder, self._settings.state_dir.resolve(), place.log("guardian"))
        ending.callback(guardian.stop, guard)
        return place

    def _spawn(self, part: str, *, first: bool) -> None:
        bootstrap, place = self._cluster.bootstrap, self._place
        commands = {
            "workload": lambda: children.workload(bootstrap, place, load=first),
            "inventory": lambda: children.inventory(self._disks),
            "watch": lambda: children.watch(bootstrap, place, self._disks),
            "dashboard": lambda: children.dashboard(place),
            "workload-2": lambda: children.workload(
                self._second_bootstrap, place, load=first, only=children.SECOND_TOPICS
            ),
            "watch-2": lambda: children.watch(
                self._second_bootstrap, place, [], children.SECOND, children.SECOND_EVERY
            ),
        }
        self._children[part] = processes.spawn(
            commands[part](),
            place.log(part),
            environ=children.environment(place),
            cwd=children.ROOT,
        )
        self._note()

    @property
    def _second_bootstrap(self) -> str:
        assert self._second is not None
        return self._second.bootstrap

    def _await(self, part: str) -> None:
        """Waits until a part has done what the next one needs."""
        place, cluster_id = self._place, self._cluster.cluster_id
        if part == "workload":
            self._until(part, LOAD_TIMEOUT_SECONDS, place.loaded_file.exists)
            self._tell("topics loaded")
        elif part == "inventory":
            disks = self._disks
            self._until(part, STOCK_TIMEOUT_SECONDS, lambda: children.have_stock(disks))
        elif part == "dashboard":
            self._until(part, PAGE_TIMEOUT_SECONDS, lambda: processes.page_is_up(place.url))
            self._tell("page up")
            if "watch" in self._parts:
                self._until_findings(lambda: children.has_findings(place, cluster_id))

    def _until(self, part: str, seconds: float, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + seconds
        while not done():
            if self._children[part].poll() is not None:
                raise self._failed(part, "ended")
            if time.monotonic() > deadline:
                raise self._failed(part, f"was not ready after {seconds:.0f} s")
            time.sleep(0.1)

    def _until_findings(self, done: Callable[[], bool]) -> None:
        """The page has something to say before its analysis too: late findings are no failure."""
        deadline = time.monotonic() + FINDINGS_TIMEOUT_SECONDS
        while not done():
            if time.monotonic() > deadline or self._children["watch"].poll() is not None:
                self._tell(f"first analysis not there yet (see {self._place.log('watch')})")
                return
            time.sleep(0.2)
        self._tell("first analysis there")

    def _watch_over(self) -> NoReturn:
        """Brings back a part that ended; a broker stays as it is, somebody may be trying faults."""
        down: set[int] = set()
        while True:
            time.sleep(1)
            if self._recording is not None:
                self._recording.poll()  # it ends long before the demo, and would stay a zombie
            for part, child in list(self._children.items()):
                if child.poll() is not None:
                    self._bring_back(part, child.returncode)
            gone = set(self._cluster.broker_ids) - set(self._cluster.pids())
            for broker_id in sorted(gone - down):
                self._tell(f"broker {broker_id} ended")
            down = gone

    def _bring_back(self, part: str, code: int) -> None:
        if not self._patience.lasts(part, time.monotonic()):
            raise self._failed(part, f"ended with code {code}, again and again")
        self._tell(f"{part} ended with code {code}; started again")
        self._spawn(part, first=False)

    def _stop_child(self, part: str) -> None:
        if part in self._children:
            processes.stop(self._children[part], CHILD_GRACE_SECONDS)

    def _failed(self, part: str, what: str) -> DemoError:
        lines = self._place.log(part).read_text(errors="replace").splitlines()[-15:]
        return DemoError(
            f"the demo's {part} {what}; its last lines:\n" + "\n".join(lines),
            "Read the lines above; `lowwater doctor` checks Java and the installation.",
            code="DEMO_PART_FAILED",
        )

    def _note(self, **changes: str | None) -> None:
        """Writes down what changed, and who is there now."""
        found = {part: child.pid for part, child in self._children.items()}
        found |= {f"broker-{i}": pid for i, pid in self._cluster.pids().items()}
        if self._second is not None:
            found |= {f"broker-2-{i}": pid for i, pid in self._second.pids().items()}
        ids = {name: ProcessId.of(pid) for name, pid in found.items()}
        self._state = dataclasses.replace(self._state, children=ids, **changes)  # type: ignore[arg-type]
        try:
            state.write(self._settings.state_dir, self._state)
        except OSError as error:  # a full disk must not end a demo that runs
            if self._state.phase == "starting":
                raise
            self._tell(f"the state file stays as it was: {error}")

    def _tell(self, what: str) -> None:
        self._say(f"{what} {time.monotonic() - self._began:.0f} s")


def choose_port(asked: int | None) -> int:
    """The page's port: the one asked for, else 8501, else a free one. DemoError names one taken."""
    if asked is not None and not _is_free(asked):
        raise DemoError(
            f"port {asked} on 127.0.0.1 is taken",
            "Name another with --port, or leave it out to have a free one chosen.",
            code="PORT_TAKEN",
        )
    if asked is not None:
        return asked
    return DEFAULT_PORT if _is_free(DEFAULT_PORT) else free_ports(1)[0]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            return False
    return True


def _end(number: int, _frame: FrameType | None) -> None:
    _ignore_signals()
    raise Ended(number)


def _ignore_signals() -> None:
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def clear_leftovers(state_dir: Path) -> bool:
    """Clears what a crashed demo left; True if there was something. Never a running demo's."""
    found, home = state.read(state_dir), state.home(state_dir)
    if found is None or found.supervisor.alive:
        return False
    state.clear(found.room)
    state.remove(home, found.room)
    return True


# How often a part of the demo that ends is brought back before that is called pointless.

MOST = 3
WITHIN_SECONDS = 120.0


class Patience:
    """A demo may run for days and meet many faults: only ends in quick succession count."""

    def __init__(self) -> None:
        self._ends: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=MOST))

    def lasts(self, part: str, now: float) -> bool:
        """Note that a part ended at `now` (monotonic seconds); False: too often in a row."""
        ends = self._ends[part]
        lasts = len(ends) < MOST or now - ends[0] > WITHIN_SECONDS
        ends.append(now)
        return lasts


# What a deleted topic left on one broker's disk: a folder written there before its first start.
#
# Its records are real and a month old. The broker itself finds that no topic has its id and sets it
# aside as `-stray`, as it does with a topic that was deleted while it was down.

TOPIC = "summer-campaign"  # of no workload
AGE = timedelta(days=30)  # past the week for which brokers keep records by default
BATCHES, RECORDS, RECORD_BYTES = 32, 60, 1000
_BASE_OFFSET_BYTES = 8  # at the head of a batch (KIP-98), and not in its checksum


def leave(log_dir: Path, now: datetime) -> Path:
    """Write partition 0 of TOPIC, some 2 MB, into the log dir of a broker that is not running."""
    folder = log_dir / f"{TOPIC}-0"
    folder.mkdir()
    (folder / PARTITION_METADATA).write_text(f"version: 0\ntopic_id: {kafka_uuid()}")
    written = now - AGE
    batch = _batch(int(written.timestamp() * 1000))[_BASE_OFFSET_BYTES:]
    log = folder / f"{0:020}.log"
    with log.open("wb") as file:
        for number in range(BATCHES):
            file.write((number * RECORDS).to_bytes(_BASE_OFFSET_BYTES, "big") + batch)
    os.utime(log, (written.timestamp(), written.timestamp()))
    return folder


def _batch(timestamp_ms: int) -> bytes:
    built = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=2 * RECORDS * RECORD_BYTES)
    for _ in range(RECORDS):
        built.append(timestamp=timestamp_ms, key=None, value=b"x" * RECORD_BYTES, headers=[])
    built.close()
    return bytes(built.buffer())
