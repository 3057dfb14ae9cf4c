"""How fast purges are: modes beside each other, whole processes beside Kafka's own tool, planning.

`python -m tests.bench.bench_purge [--runs 5]`. Its own three brokers, with native LeaderOnly where
the preview can be built.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from dashboard.core.clock import parse_time
from dashboard.core.errors import DemoError
from dashboard.demo.kafka import jars, preview
from dashboard.settings import settings
from tests.bench.purge_lab import (
    LEAN_FLAGS,
    SCRIPT_FLAGS,
    Lab,
    in_turn,
    open_lab,
    seconds,
)
from tests.bench.purge_modes import MODES, measure_requests, measure_runs

SIZES = (10, 1000)
LARGEST_SHARE = 1 / 20  # of idle wait-all
UNMOVED = 2.0  # times idle leader-only: medians of a few milliseconds
PLAN_SECONDS, APPLY_SECONDS, BEFORE_SENDING_SECONDS = 5.0, 2.0, 2.0

Goals = dict[str, bool]


def main(argv: list[str]) -> int:
    """Measure and print; 1 when a goal was missed or could not be measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args(argv)
    chosen = settings.load()
    tools = jars.resolve(chosen.kafka_version, chosen.cache_dir)
    if not tools.has_tools:
        sys.exit(f"Kafka {tools.version} is published without its tools; use 4.3.1 or 3.9.2.")
    goals = _planning()
    try:
        brokers, native = preview.resolve(tools.version, chosen.cache_dir, say=_say), True
    except DemoError as error:
        _say(f"no native leader-only: {error.message} {error.next_step}")
        brokers, native = tools, False
        goals["native leader-only measured"] = False
    with open_lab(brokers, tools) as lab:
        goals |= _beside_kafkas_tool(lab, args.runs, native)
        if native:
            goals |= _apply(lab, args.runs)
            goals |= _modes(lab)
    print(f"\nload average of the last minute: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for name, reached in goals.items():
        print(f"goal: {name}: {'reached' if reached else 'MISSED'}")
    return 0 if all(goals.values()) else 1


def _planning() -> Goals:
    command = [sys.executable, "-m", "tests.bench.purge_planning"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    print(f"\n{'without brokers: our part alone':<54}{'s':>8}")
    print(f"{'plan 100,000 partitions, 200 groups, preview':<54}{found['plan']:>8.2f}")
    steps = ("queue", "read rows", "recheck", "intent")
    for step in steps:
        print(f"{f'a run of 10,000 partitions: {step}':<54}{found[step]:>8.2f}")
    before = sum(found[step] for step in steps)
    return {
        f"plan 100,000 partitions in less than {PLAN_SECONDS:g} s": found["plan"] < PLAN_SECONDS,
        f"queue, recheck and note 10,000 in less than {BEFORE_SENDING_SECONDS:g} s": before
        < BEFORE_SENDING_SECONDS,
    }


def _beside_kafkas_tool(lab: Lab, runs: int, native: bool) -> Goals:
    goals: Goals = {}
    print(f"\n{'whole processes, wait-all, median':<42}{'partitions':>12}{'s':>8}{'faster':>9}")
    for size in SIZES:
        topic = f"peer-{size}"
        lab.topic(topic, size)
        found = in_turn(_processes(lab, topic, size, native), runs)
        kafka = found["Kafka's DeleteRecordsCommand"]
        for name, took in found.items():
            print(f"{name:<42}{size:>12,}{took:>8.2f}{kafka / took:>8.2f}x")
        ours = found["lowwater delete-records --yes"]
        goals[f"delete-records faster than Kafka's tool, {size:,} partitions"] = ours < kafka
    return goals


def _processes(lab: Lab, topic: str, size: int, native: bool) -> dict[str, Callable[[], float]]:
    def ours(*more: str) -> Callable[[], float]:
        def call() -> float:
            file = lab.next_file(topic, size)
            words = ("--bootstrap-server", lab.brokers.bootstrap, "--offset-json-file", file)
            return seconds(lambda: lab.lowwater("delete-records", *words, "--yes", *more))

        return call

    def kafkas(flags: Sequence[str]) -> Callable[[], float]:
        def call() -> float:
            file = lab.next_file(topic, size)
            return seconds(lambda: lab.kafkas_tool(file, flags))

        return call

    found: dict[str, Callable[[], float]] = {
        "Kafka's DeleteRecordsCommand": kafkas(SCRIPT_FLAGS),
        "… with Java flags that start faster": kafkas(LEAN_FLAGS),
        "lowwater delete-records --yes": ours(),
    }
    if native:
        found["lowwater delete-records --yes --leader-only"] = ours("--leader-only")
    return found


def _apply(lab: Lab, runs: int) -> Goals:
    """Whole `lowwater apply` processes over 1,000 partitions, and the run inside each."""
    lab.lowwater("collect", "--bootstrap-server", lab.brokers.bootstrap)  # plan asks for a cluster
    whole: list[float] = []
    inside: list[float] = []
    for _ in range(runs):
        words = _planned(lab, 1000)
        began = time.perf_counter()
        view = lab.lowwater("apply", *words)
        whole.append(time.perf_counter() - began)
        inside.append(_span(view, "started_at", "closed_at"))
    print(f"\n{'leader-only over 1,000 partitions, median':<54}{'s':>8}")
    print(f"{'lowwater apply: process, worker and all':<54}{median(whole):>8.2f}")
    print(f"{'the run alone: recheck, send, read back, journal':<54}{median(inside):>8.2f}")
    name = f"1,000 partitions leader-only, whole apply, in less than {APPLY_SECONDS:g} s"
    return {name: median(whole) < APPLY_SECONDS}


def _planned(lab: Lab, size: int) -> tuple[str, ...]:
    """The words behind `apply` for a plan of one more record of each partition."""
    plan_file = str(lab.folder / "plan.json")
    words = ["--from-file", lab.next_file(f"peer-{size}", size), "--out", plan_file]
    for name in ("readers-undeclared", "no-committed-offset"):
        words += ["--override", f"{name}=bench"]
    plan = lab.lowwater("plan", *words)
    return plan_file, "--mode", "leader-only", "--confirm", plan["confirmation"]


def _modes(lab: Lab) -> Goals:
    requests, runs = measure_requests(lab), measure_runs(lab)
    print(f"\n{'one DeleteRecords request, median ms':<42}{MODES[0]:>12}{MODES[1]:>14}{'ratio':>8}")
    for name, found in requests.items():
        _print_modes(name, found)
    print(f"{'a whole run, follower stopped at its request':<42}")
    _print_modes("  (once)", runs)
    idle, stopped = requests["idle"], requests["one follower stopped"]
    return {
        "leader-only at most 1/20 of idle wait-all": idle["leader-only"]
        <= idle["wait-all"] * LARGEST_SHARE,
        "leader-only unmoved by a stopped follower": stopped["leader-only"]
        <= max(idle["leader-only"] * UNMOVED, idle["wait-all"] * LARGEST_SHARE),
    }


def _print_modes(name: str, found: dict[str, float]) -> None:
    slow, fast = (found[mode] for mode in MODES)
    print(f"{name:<42}{slow * 1000:>12.1f}{fast * 1000:>14.1f}{slow / fast:>7.0f}x")


def _span(view: dict[str, Any], first: str, last: str) -> float:
    return (parse_time(view[last]) - parse_time(view[first])).total_seconds()


def _say(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
