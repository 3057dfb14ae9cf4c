"""What a collect of a large cluster costs: `python -m tests.bench.bench_collect_scale [--large]`.

Brokers are simulated (`broker_simulator`): 30 of them on real sockets, three replicas of each
partition, two groups that commit on each topic. A collect is a whole process, `lowwater collect`,
and its seconds and memory are its own; the simulator's processor time is told apart. Both run on
the same machine, so the clock has the simulator in it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.broker_simulator import Simulation, simulation
from tests.bench.simulated_cluster import OFFSETS_PARTITIONS, READERS, REPLICAS, SimulatedCluster

BROKERS = 30


@dataclass(frozen=True)
class Goal:
    """A cluster's size, and what one collect of it may cost at most."""

    partitions: int
    groups: int
    seconds: float
    gib: float
    runs: int


GOALS = (Goal(100_000, 1_000, 20, 1.5, 3),)
LARGE_GOALS = (*GOALS, Goal(1_000_000, 10_000, 240, 6, 1))


@dataclass(frozen=True)
class Cost:
    """One collect: seconds by the clock and of the processor, its peak memory, what it wrote."""

    seconds: float
    cpu_seconds: float
    simulator_seconds: float
    gib: float
    snapshot_mib: float
    parts: dict[str, float]


def main(argv: list[str]) -> int:
    """Measure and print; 1 when a goal was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="a million partitions too")
    args = parser.parse_args(argv)
    print(f"load average of the last minute: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    missed = [_report(goal) for goal in (LARGE_GOALS if args.large else GOALS)]
    return int(any(missed))


def _report(goal: Goal) -> bool:
    """Whether the goal was missed."""
    truth = SimulatedCluster(goal.partitions, BROKERS, goal.groups)
    with simulation(truth) as brokers:
        costs = [_collect(brokers, truth) for _ in range(goal.runs)]
    cost = sorted(costs, key=lambda c: c.seconds)[len(costs) // 2]
    gib = max(c.gib for c in costs)
    print(f"\n{goal.partitions:,} partitions x {REPLICAS}, {goal.groups:,} groups")
    for name, value, unit in (
        (f"collect, median of {goal.runs}", cost.seconds, "s"),
        ("its processor", cost.cpu_seconds, "s"),
        ("the simulator's processor", cost.simulator_seconds, "s"),
        ("peak memory of collect", gib, "GiB"),
        ("snapshot", cost.snapshot_mib, "MiB"),
    ):
        print(f"{name:<34}{value:>8.2f} {unit}")
    print("parts, side by side: " + ", ".join(f"{k} {v:.1f} s" for k, v in cost.parts.items()))
    print(f"all runs: {', '.join(f'{c.seconds:.1f}' for c in costs)} s")
    missed = cost.seconds > goal.seconds or gib > goal.gib
    print(f"goal: {goal.seconds:g} s, {goal.gib:g} GiB: {'missed' if missed else 'reached'}")
    return missed


def _collect(brokers: Simulation, truth: SimulatedCluster) -> Cost:
    """One `lowwater collect` in a process of its own; ends the bench if its snapshot is wrong."""
    with tempfile.TemporaryDirectory(prefix="lowwater-bench-") as folder:
        command = [
            sys.executable, "-m", "dashboard.cli.main", "collect",
            "--bootstrap-server", brokers.bootstrap, "--data", folder, "--json",
        ]  # fmt: skip
        simulated, begun = brokers.cpu_seconds(), time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert process.stdout is not None
        told = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        took = time.monotonic() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(f"collect ended with {process.returncode}: {told.decode()}")
        _check(json.loads(told), truth)
        files = [path for path in Path(folder).rglob("*") if path.is_file()]
        manifest = next(path for path in files if path.name == "manifest.json")
        return Cost(
            seconds=took,
            cpu_seconds=usage.ru_utime + usage.ru_stime,
            simulator_seconds=brokers.cpu_seconds() - simulated,
            gib=usage.ru_maxrss / (1 << 20),
            snapshot_mib=sum(path.stat().st_size for path in files) / (1 << 20),
            parts=json.loads(manifest.read_text())["details"]["durations"],
        )


def _check(collected: dict[str, Any], truth: SimulatedCluster) -> None:
    partitions = truth.partitions + OFFSETS_PARTITIONS
    rows = {
        "brokers": truth.brokers,
        "partitions": partitions,
        "replicas": REPLICAS * partitions,
        "groups": truth.groups,
        "group_offsets": READERS * truth.partitions,
    }
    found = {table: collected["tables"][table] for table in rows}
    if found != rows or collected["errors"] or collected["groups_incomplete"]:
        sys.exit(f"the snapshot has {found} for {rows}; errors: {collected['errors'][:5]}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
