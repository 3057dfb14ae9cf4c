"""Operators who plan and apply purges through the CLI all the time, one who loads records, and a
service of policies that purges beside them.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from dashboard.core.processes import die_with_parent
from tests.soak.world import LOWWATER, ROOT, World

# Some cannot be purged, and must say so: nobody commits, or the topic is compacted.
TOPICS = {
    "clickstream": 4, "payments": 3, "web-sessions": 4, "orders": 3, "device-pings": 3,
    "orders-app-KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition": 4, "transfers": 2,
    "inventory-state": 2, "sensor-readings": 1, "app-logs": 1, "customer-profiles": 1,
}  # fmt: skip
MODES = ("wait-all", "leader-only-verified")
WAIVERS = {"payments": "billing-old=gone", "orders": "order-audit=reads the archive"}
ANSWERS_WITHIN_SECONDS = 300.0
POLICY = "repartition"
RESTARTED_AFTER_SECONDS = 3.0


def call(world: World, *words: str) -> dict[str, Any]:
    """One command with --json: its `code`, `answer` (None if it is no JSON) and `told` (stderr)."""
    began = world.place.seconds
    try:
        done = subprocess.run(
            [*LOWWATER, *words, "--json"],
            capture_output=True, text=True, check=False, cwd=ROOT, env=world.environ(),
            timeout=ANSWERS_WITHIN_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"began": began, "code": None, "answer": None, "told": "no answer in time"}
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        answer = None
    return {"began": began, "code": done.returncode, "answer": answer, "told": done.stderr}


def brief(done: dict[str, Any]) -> dict[str, Any]:
    """A call for the diary: what went wrong in full, what went well in short."""
    answer = done["answer"] or {}
    fine = done["code"] == 0 and done["answer"] is not None and "Traceback" not in done["told"]
    return {
        "began": round(done["began"], 1),
        "code": done["code"],
        "json": done["answer"] is not None,
        "error": (answer.get("error") or {}).get("code"),
        "message": (answer.get("error") or {}).get("message"),
        "told": "" if fine else done["told"][-1500:],
        "run_id": answer.get("run_id"),
        "state": answer.get("state"),
    }


class Operator(threading.Thread):
    """Plans a random topic and applies the plan, again and again until `ended`."""

    def __init__(self, world: World, name: str, seed: str, ended: threading.Event) -> None:
        super().__init__(name=name, daemon=True)
        self._world, self._ended = world, ended
        self._chooser = random.Random(seed)
        self._rounds = 0

    def run(self) -> None:
        while not self._ended.wait(self._chooser.uniform(0.5, 4.0)):
            self._rounds += 1
            self._round(self._world.place.folder / "plans" / f"{self.name}-{self._rounds}.json")

    def _round(self, file: Path) -> None:
        choose, note = self._chooser, self._world.place.note
        topic = choose.choices(list(TOPICS), list(TOPICS.values()))[0]
        mode = choose.choice(MODES)
        words = ["--topic", topic, "--to", "committed", "--out", str(file)]
        if choose.random() < 0.5 and topic in WAIVERS:
            words += ["--waive", WAIVERS[topic]]
        if choose.random() < 0.3:
            words += ["--override", "under-replicated=a broker is away"]
        planned = call(self._world, "plan", *words)
        note("plan", who=self.name, topic=topic, **brief(planned))
        if planned["code"] != 0 or not planned["answer"]:
            return
        confirm = planned["answer"]["confirmation"]
        applied = call(self._world, "apply", str(file), "--mode", mode, "--confirm", confirm)
        note("apply", who=self.name, topic=topic, mode=mode, **brief(applied))


class Loader(threading.Thread):
    """Writes the demo's first load once more, evenly spread over the time, so that bytes go."""

    def __init__(self, world: World, seconds: float, ended: threading.Event) -> None:
        super().__init__(name="loader", daemon=True)
        times = max(1, round(seconds / 600))
        self._world, self._ended = world, ended
        self._at = [seconds * (i + 0.3) / times for i in range(times)]

    def run(self) -> None:
        for at in self._at:
            if self._ended.wait(max(0.0, at - self._world.place.seconds)):
                return
            self._world.place.note("load", **brief(call(self._world, "demo", "load")))


class Service(threading.Thread):
    """`lowwater policies run` with the demo's policy on; started again, as systemd would, should it
    end by itself. Once `ended` it purges no more, and follows what it purged until `rested`.
    """

    def __init__(self, world: World, ended: threading.Event, rested: threading.Event) -> None:
        super().__init__(name="policies", daemon=True)
        self._world, self._ended, self._rested = world, ended, rested
        self._off = False

    def run(self) -> None:
        _purge_often(Path(self._world.told["settings"]))
        while not self._switched_on() and not self._ended.wait(RESTARTED_AFTER_SECONDS):
            pass
        lives = 0
        while not self._rested.is_set():
            lives += 1
            code = self._life(lives)
            self._world.place.note("service", code=code)
            self._rested.wait(RESTARTED_AFTER_SECONDS)

    def _switched_on(self) -> bool:
        checked = call(self._world, "policies", "check")["answer"] or {}
        told = [p for p in checked.get("policies", []) if p["name"] == POLICY]
        if not told:
            return False
        done = call(self._world, "policies", "on", POLICY, "--confirm", told[0]["confirmation"])
        self._world.place.note("policy-on", **brief(done))
        return bool(done["code"] == 0)

    def _life(self, number: int) -> int:
        logs = self._world.place.folder / "logs"
        with (
            (logs / "policies.jsonl").open("a") as events,
            (logs / f"policies-{number}.log").open("w") as told,
            subprocess.Popen(
                [*LOWWATER, "policies", "run", "--json"],
                stdout=events, stderr=told, cwd=ROOT, env=self._world.environ(),
                preexec_fn=die_with_parent(),  # noqa: PLW1509 - prctl and getppid only
            ) as service,
        ):  # fmt: skip
            while service.poll() is None and not self._rested.wait(0.5):
                if self._ended.is_set() and not self._off:
                    self._off = call(self._world, "policies", "off", POLICY)["code"] == 0
            service.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                return service.wait(ANSWERS_WITHIN_SECONDS)
            service.kill()
            return service.wait()


def _purge_often(source: Path) -> None:
    """Let the demo's policy purge each few seconds, so that what a purge leaves behind shows."""
    section = f"[policies.{POLICY}]\n"
    text = source.read_text()
    assert section in text
    anew = source.with_suffix(".new")
    anew.write_text(text.replace(section, f"{section}min_purge_interval_ms = 5000\n"))
    anew.replace(source)
