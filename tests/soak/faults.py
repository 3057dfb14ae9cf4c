"""Carries faults out, one at a time, and undoes them: each ends before the next begins."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.brokers.starved_worker import fill
from tests.soak.place import free
from tests.soak.schedule import QUIET_FROM, UNSETTLING, Fault
from tests.soak.world import World

_DISKS = {"journal-full": "state", "data-full": "data"}
_WORKER_COMES_WITHIN = 12.0
_VICTIMS = {
    "worker-kill": ("dashboard.purge.jobs.worker",),
    "watch-kill": ("dashboard.cli.main", "watch"),
    "watch-term": ("dashboard.cli.main", "watch"),
    "analysis-kill": ("analytics", "--serve"),
    "spark-kill": ("org.apache.spark.deploy.SparkSubmit",),
}


class Faults:
    """The hand that breaks things. Call it from the main thread: brokers end with theirs."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._chooser = random.Random(seed)

    def run(self, faults: list[Fault], seconds: float, say: Callable[[str], None]) -> None:
        """All of them at their time, or as soon after as the one before has ended."""
        place = self._world.place
        for fault in faults:
            time.sleep(max(0.0, fault.at_seconds - place.seconds))
            if place.seconds > seconds:
                place.note("fault", number=fault.number, fault=fault.kind, what="left out: no time")
                continue
            began = place.seconds
            what = self._carried_out(fault, began > QUIET_FROM * seconds)
            place.note(
                "fault", number=fault.number, fault=fault.kind, broker_id=fault.broker_id,
                hold=fault.hold_seconds, began=round(began, 1), what=what,
            )  # fmt: skip
            say(f"{began:6.0f} s  fault {fault.number}: {fault.kind} {what}")

    def _carried_out(self, fault: Fault, quiet: bool) -> str:
        if fault.kind in UNSETTLING and quiet:
            return "left out: too late for it"
        if fault.kind in _DISKS:
            return self._fill(_DISKS[fault.kind], fault.hold_seconds)
        if fault.broker_id is not None:
            return self._hurt(fault.kind, fault.broker_id, fault.hold_seconds)
        number = signal.SIGTERM if fault.kind == "watch-term" else signal.SIGKILL
        return self._kill(_VICTIMS[fault.kind], number)

    def _hurt(self, kind: str, broker_id: int, hold: float) -> str:
        world = self._world
        if kind == "broker-stop":
            os.kill(world.brokers[broker_id].pid, signal.SIGSTOP)
            time.sleep(hold)
            os.kill(world.brokers[broker_id].pid, signal.SIGCONT)
            return f"broker {broker_id} hung for {hold} s"
        number = signal.SIGKILL if kind == "broker-kill" else signal.SIGTERM
        world.stop_broker(broker_id, number)
        time.sleep(hold)
        began = time.monotonic()
        world.start_broker(broker_id)
        back = time.monotonic() - began
        return f"broker {broker_id} away for {hold} s, serving {back:.0f} s after its start"

    def _kill(self, words: tuple[str, ...], number: signal.Signals) -> str:
        until = time.monotonic() + _WORKER_COMES_WITHIN
        while not (victims := sorted(p.pid for p in self._world.children(*words))):
            if time.monotonic() > until:
                return "nobody was there"
            time.sleep(0.2)
        pid = self._chooser.choice(victims)
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        return f"{number.name} to process {pid}, one of {len(victims)}"

    def _fill(self, name: str, hold: float) -> str:
        disk: Path | None = self._world.place.disks.get(name)
        if disk is None:
            return "left out: no small disk can be mounted on this machine"
        until = time.monotonic() + hold
        while time.monotonic() < until:  # what is deleted meanwhile makes room again
            fill(disk)
            time.sleep(0.5)
        free(disk)
        return f"the disk of {name} was full for {hold} s"
