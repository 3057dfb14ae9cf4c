"""How long one collect takes, beside Kafka's own tools on the same cluster in the same run.

`python -m tests.bench.bench_collect [--partitions 5000] [--runs 5] [--bootstrap-server H:P]`
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dashboard.cluster.live import connect
from dashboard.collect.collect import collect
from dashboard.core.clock import utc_now
from dashboard.demo.kafka import jars
from dashboard.demo.kafka.brokers import LocalCluster
from dashboard.demo.load import create_many_partitions
from dashboard.settings import settings
from dashboard.store.snapshots import ClusterStore, Store

TOOLS = {
    "LogDirsCommand": ["LogDirsCommand", "--describe"],
    "GetOffsetShell earliest": ["GetOffsetShell", "--time", "earliest"],
    "GetOffsetShell latest": ["GetOffsetShell", "--time", "latest"],
    "ConsumerGroupCommand": [
        "consumer.group.ConsumerGroupCommand", "--all-groups", "--describe",
    ],
}  # fmt: skip
# A whole process, as the tools are; and in a process that runs already, as `watch` does it.
PROCESS, INSIDE = "lowwater collect (a new process)", "lowwater collect (in watch)"
GOALS = {PROCESS: 6.0, INSIDE: 5.0}  # times as fast as the four tools


def main(argv: list[str]) -> int:
    """Measure and print; 1 when a goal was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=5000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--bootstrap-server", help="a cluster that is loaded already")
    args = parser.parse_args(argv)
    chosen = settings.load()
    found = jars.resolve(chosen.kafka_version, chosen.cache_dir)
    with (
        tempfile.TemporaryDirectory(prefix="lowwater-bench-") as folder,
        _bootstrap(args.bootstrap_server, found, Path(folder), args.partitions) as bootstrap,
    ):
        seconds, tables = _measure(found, bootstrap, folder, args.runs)
    print(f"\nKafka {found.version}, rows of our snapshot: {tables}")
    return _print_table(seconds)


@contextmanager
def _bootstrap(
    given: str | None, found: jars.KafkaJars, folder: Path, partitions: int
) -> Iterator[str]:
    if given:
        yield given
        return
    with LocalCluster(folder / "brokers", found, heap_mb=1024) as cluster:
        begun = time.monotonic()
        loaded = create_many_partitions(cluster.bootstrap, partitions, int(time.time() * 1000))
        print(f"loaded {loaded} in {time.monotonic() - begun:.0f} s", file=sys.stderr)
        yield cluster.bootstrap


def _measure(
    found: jars.KafkaJars, bootstrap: str, folder: str, runs: int
) -> tuple[dict[str, float], dict[str, int]]:
    """Median seconds of each; taken in turn, so that a busy machine is busy for all of them."""
    if not found.has_tools:
        sys.exit(f"Kafka {found.version} is published without its tools; use 4.3.1 or 3.9.2.")
    with connect({"bootstrap.servers": bootstrap}) as live:
        store = ClusterStore(Store(f"{folder}/data"), live.cluster_id())

        def inside() -> dict[str, int]:
            return dict(collect(live, store, now=utc_now, progress=lambda _: None).tables)

        calls: dict[str, Callable[[], object]] = {
            **{name: _tool(found, bootstrap, tool) for name, tool in TOOLS.items()},
            PROCESS: _process(bootstrap, folder),
            INSIDE: inside,
        }
        tables = inside()
        rounds = [{name: _seconds(call) for name, call in calls.items()} for _ in range(runs)]
    return {name: statistics.median(r[name] for r in rounds) for name in calls}, tables


def _tool(found: jars.KafkaJars, bootstrap: str, tool: list[str]) -> Callable[[], None]:
    name, *rest = tool
    command = [
        found.java, "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", found.class_path,
        f"org.apache.kafka.tools.{name}", "--bootstrap-server", bootstrap, *rest,
    ]  # fmt: skip

    def run() -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    return run


def _process(bootstrap: str, folder: str) -> Callable[[], None]:
    command = [
        sys.executable, "-m", "dashboard.cli.main", "collect",
        "--bootstrap-server", bootstrap, "--data", f"{folder}/cli", "--json",
    ]  # fmt: skip

    def run() -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    return run


def _seconds(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def _print_table(seconds: dict[str, float]) -> int:
    tools = {name: seconds[name] for name in TOOLS}
    ours = {name: seconds[name] for name in (PROCESS, INSIDE)}
    total = sum(tools.values())
    print(f"\n{'':<34}{'median s':>10}{'faster':>10}")
    for name, took in tools.items():
        print(f"{name:<34}{took:>10.2f}")
    print(f"{'all four of Kafka':<34}{total:>10.2f}{1:>9.1f}x")
    for name, took in ours.items():
        print(f"{name:<34}{took:>10.2f}{total / took:>9.1f}x")
    missed = [name for name, took in ours.items() if total / took < GOALS[name]]
    for name, goal in GOALS.items():
        print(f"goal: {name}: {goal:g}x {'MISSED' if name in missed else 'reached'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
