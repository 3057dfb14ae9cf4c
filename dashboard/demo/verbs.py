"""What `lowwater demo up|load|break|heal|status|down` do; Kafka's client is slow to load."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dashboard.core import demo_faults
from dashboard.core.demo_faults import Fault
from dashboard.core.errors import DemoError, UsageError
from dashboard.demo import load as loading
from dashboard.demo import state
from dashboard.demo.kafka.brokers import alive_brokers
from dashboard.demo.processes import wait_gone
from dashboard.demo.state import DemoState
from dashboard.demo.supervisor import PARTS, Supervisor, clear_leftovers
from dashboard.demo.truth import TOPICS
from dashboard.settings.settings import Settings
from dashboard.store.snapshots import Store

Say = Callable[[str], None]
DOWN_TIMEOUT_SECONDS = 40.0
FAULT_TIMEOUT_SECONDS = 150.0  # a follower has to fall out of sync first
_LOOKS_EVERY_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class Loaded:
    """How much was written or created, by what it is."""

    counts: Mapping[str, int]
    seconds: float


@dataclass(frozen=True, slots=True)
class Status:
    """`state` of the demo that runs; None: none does, and maybe a crash left something."""

    state: DemoState | None
    leftovers: bool = False
    alive_brokers: Sequence[int] = ()
    faults: Sequence[Fault] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """Whether a demo ran, and whether anything of one was cleared."""

    stopped: bool
    cleared: bool


def up(
    settings: Settings,
    say: Say,
    ready: Callable[[DemoState], None],
    *,
    port: int | None = None,
    data: str | None = None,
    parts: Sequence[str] = PARTS,
    brokers: int = 3,
    leader_only_preview: bool = False,
    clusters: int = 1,
) -> None:
    """Runs the demo in the foreground until Ctrl-C (KeyboardInterrupt) or `down` (returns).

    `ready` gets the running demo once the page answers. `leader_only_preview`
    chooses brokers that know DeleteRecords v3, compiled on first use; a second of `clusters` has
    one broker and comes last. Raises DemoError when a
    demo runs already, the port is taken, or a part does not come up; UsageError FOLDER_TAKEN when
    `data` holds a cluster already; StoreError.
    """
    running = state.read(settings.state_dir)
    if running is not None and running.supervisor.alive:
        raise DemoError(
            f"a demo runs already, as process {running.supervisor.pid}",
            f"Use it at {running.url or 'the address that it will print'}, or end it: "
            "lowwater demo down",
            code="DEMO_RUNNING",
        )
    if data is not None:
        _refuse_others(Store(data))
    if clear_leftovers(settings.state_dir):
        say("cleared what an earlier demo left behind")
    supervisor = Supervisor(
        settings,
        say,
        ready,
        port=port,
        data=data,
        parts=parts,
        brokers=brokers,
        leader_only_preview=leader_only_preview,
        clusters=clusters,
    )
    if supervisor.run() == signal.SIGINT:
        raise KeyboardInterrupt


def _refuse_others(store: Store) -> None:
    """The demo's pages know no people and no stop of a real journal: no real cluster is theirs."""
    if known := [store.cluster(cluster_id).name for cluster_id in store.clusters()]:
        raise UsageError(
            f"{store.root} holds a cluster already: {', '.join(known)}",
            "Name an empty folder with --data, or leave it out.",
            code="FOLDER_TAKEN",
        )


def load(settings: Settings, say: Say, *, partitions: int | None = None) -> Loaded:
    """Writes the first load once more into a running demo, or creates many partitions.

    Raises DemoError when no demo runs or `partitions` is not above 0.
    """
    if partitions is not None and partitions < 1:
        raise DemoError(
            f"--partitions {partitions} is not above 0",
            "Give the number of partitions to create.",
            code="USAGE",
        )
    bootstrap = _running(settings).bootstrap
    if bootstrap is None:
        raise DemoError(
            "the demo's brokers are not up yet",
            "Wait until `lowwater demo status` shows them, then load.",
            code="DEMO_STARTING",
        )
    began, now_ms = time.monotonic(), int(time.time() * 1000)
    if partitions is not None:
        say(f"creating {partitions} partitions")
        loaded = loading.create_many_partitions(bootstrap, partitions, now_ms)
    else:
        say("writing the load once more")
        loading.create_topics(bootstrap, TOPICS)
        loaded = {"record_bytes": loading.produce_first_load(bootstrap, TOPICS, now_ms)}
    return Loaded(loaded, round(time.monotonic() - began, 1))


def broken(settings: Settings, say: Say, kind: str) -> Fault:
    """Breaks one of `demo_faults.KINDS` and returns once it is. Raises DemoError."""
    room = Path(_running(settings).room)
    if kind not in demo_faults.asked(room):  # one that is just being healed, or failed
        _awaited(room, kind, lambda found: found is None)
    say(f"breaking: {demo_faults.KINDS[kind].does}")
    demo_faults.ask(room, kind)
    fault = _awaited(room, kind, lambda found: found is not None and found.state != "breaking")
    if fault is None or fault.state != "broken":
        demo_faults.take_back(room, kind)
        said = fault.said if fault else "it was healed meanwhile"
        raise DemoError(
            f"{kind} is not broken: {said}",
            "lowwater demo status shows what is; the workload's log lies in the demo's folder.",
            code="DEMO_FAULT_FAILED",
        )
    return fault


def healed(settings: Settings, say: Say, kinds: Sequence[str]) -> list[str]:
    """Heals these kinds, or all; returns those that were broken. Raises DemoError."""
    room = Path(_running(settings).room)
    there = [kind for kind in kinds or demo_faults.KINDS if kind in demo_faults.told(room)]
    for kind in kinds or demo_faults.KINDS:
        demo_faults.take_back(room, kind)
    for kind in there:
        say(f"healing: {kind}")
        _awaited(room, kind, lambda found: found is None)
    return there


def _awaited(room: Path, kind: str, done: Callable[[Fault | None], bool]) -> Fault | None:
    """What is told of a fault once `done` says so. Raises DemoError when that takes too long."""
    deadline = time.monotonic() + FAULT_TIMEOUT_SECONDS
    while not done(found := demo_faults.told(room).get(kind)):
        if time.monotonic() > deadline:
            raise DemoError(
                f"nothing more was heard of {kind} for {FAULT_TIMEOUT_SECONDS:.0f} s",
                "See the workload's log in the demo's folder; lowwater demo heal takes it back.",
                code="DEMO_FAULT_FAILED",
            )
        time.sleep(_LOOKS_EVERY_SECONDS)
    return found


def status(settings: Settings) -> Status:
    """The demo as it is."""
    found = state.read(settings.state_dir)
    if found is None or not found.supervisor.alive:
        return Status(None, leftovers=found is not None)
    faults = sorted(demo_faults.told(Path(found.room)).values(), key=lambda fault: fault.kind)
    return Status(found, alive_brokers=_alive(found.bootstrap), faults=faults)


def down(settings: Settings, say: Say) -> Ended:
    """Ends a running demo, or clears what a crashed one left; says which."""
    found, home = state.read(settings.state_dir), state.home(settings.state_dir)
    if found is None:
        return Ended(stopped=False, cleared=False)
    if not found.supervisor.alive:
        return Ended(stopped=False, cleared=clear_leftovers(settings.state_dir))
    pid, started = found.supervisor.pid, found.supervisor.started
    say(f"ending the demo of process {pid}")
    os.kill(pid, signal.SIGTERM)
    if not wait_gone(pid, started, DOWN_TIMEOUT_SECONDS):
        os.kill(pid, signal.SIGKILL)
        wait_gone(pid, started, DOWN_TIMEOUT_SECONDS)
    state.clear(found.room)
    state.remove(home, found.room)
    return Ended(stopped=True, cleared=True)


def _running(settings: Settings) -> DemoState:
    found = state.read(settings.state_dir)
    if found is None or not found.supervisor.alive:
        raise DemoError("no demo runs", "Start one: lowwater demo up", code="DEMO_NOT_RUNNING")
    return found


def described(found: DemoState) -> dict[str, object]:
    """A running demo as JSON has it: processes, places and the known truth."""
    return {
        "pid": found.supervisor.pid,
        "phase": found.phase,
        "url": found.url,
        "bootstrap": found.bootstrap,
        "cluster_id": found.cluster_id,
        "kafka_version": found.kafka_version,
        "leader_only_preview": found.leader_only_preview,
        "data": found.data,
        "settings": found.settings,
        "processes": [
            {"name": name, "pid": one.pid, "alive": one.alive}
            for name, one in sorted(found.children.items())
        ],
        "topics": [topic.to_json() for topic in TOPICS],
    }


def _alive(bootstrap: str | None) -> list[int]:
    return sorted(alive_brokers(bootstrap)) if bootstrap else []
