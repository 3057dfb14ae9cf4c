"""Brokers of a generated cluster on real sockets: what the product asks, they answer.

`python -m tests.bench.broker_simulator --partitions N --brokers B --groups G` prints one line of
JSON, `{"bootstrap", "cluster_id", "processes"}`, serves on the loopback and ends with its stdin.
"""

from __future__ import annotations

import argparse
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench import simulated_bulk as bulk
from tests.bench import simulated_details as details
from tests.bench.simulated_cluster import SimulatedCluster
from tests.support.socket_broker import Frame, Parts, SocketBroker, api_versions, cluster

_LIST_OFFSETS_ROWS = 5
_LOG_DIRS_ROWS = 4
_PROCESSES = 2


class Brokers:
    """Answers for every broker of one cluster; their sockets listen at once."""

    def __init__(self, truth: SimulatedCluster) -> None:
        self.truth = truth
        self._brokers = {b: SocketBroker(partial(self._answer, b)) for b in truth.broker_ids}
        self.ports = {broker: one.port for broker, one in self._brokers.items()}
        self._metadata = bulk.Metadata(truth, self.ports)
        self._all_topics = self._metadata.answer(None)
        self._bodies = {
            2: self._list_offsets,
            3: self._topics,
            9: self._committed,
            35: self._log_dirs,
        }
        # Made once, before processes part.
        _ = truth.at_broker, truth.last_stable, truth.committed, truth.reads, truth.first_of
        _ = truth.coordinated

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in sorted(self.ports.values())[:3])

    def serve(self, brokers: list[int]) -> None:
        """Accept for these brokers, each in a thread; returns at once."""
        for broker in brokers:
            self._brokers[broker].start()

    def stop(self, brokers: Collection[int]) -> None:
        """Let these brokers refuse connections."""
        for broker in brokers:
            self._brokers[broker].close()

    def _answer(self, broker: int, frame: Frame) -> Parts:
        if frame.key in self._bodies:
            # ListOffsets is answered in v5, the others in versions with tags.
            tags = b"\x00" * (frame.key != 2)
            head = struct.pack(">i", frame.correlation) + tags
            return head, self._bodies[frame.key](broker, frame)
        return frame.answered(self._detail(broker, frame))

    def _detail(self, broker: int, frame: Frame) -> Any:
        truth, version = self.truth, frame.version
        answers: dict[int, Callable[[], Any]] = {
            15: lambda: details.classic_members(truth, frame.decoded(), version),
            16: lambda: details.groups(truth, broker, version),
            18: lambda: api_versions(details.VERSIONS, version),
            32: lambda: details.configs(frame.decoded(), version),
            46: lambda: details.reassignments(version),
            60: lambda: cluster(truth.cluster_id, self.ports, min(self.ports), version),
            69: lambda: details.consumer_members(truth, frame.decoded(), version),
        }
        return answers[frame.key]()

    def _topics(self, _: int, frame: Frame) -> bytes:
        asked = frame.decoded().topics
        if asked is None:
            return self._all_topics
        return self._metadata.answer([topic.name for topic in asked])

    def _list_offsets(self, broker: int, frame: Frame) -> bytes:
        if frame.version != _LIST_OFFSETS_ROWS:
            raise ValueError(f"the simulator speaks ListOffsets v5, not v{frame.version}")
        (client,) = struct.unpack_from(">h", frame.raw, 8)
        return bulk.list_offsets(self.truth, broker, memoryview(frame.raw)[10 + client :])

    def _log_dirs(self, broker: int, frame: Frame) -> bytes:
        if frame.version != _LOG_DIRS_ROWS:
            raise ValueError(f"the simulator speaks DescribeLogDirs v4, not v{frame.version}")
        return bulk.log_dirs(self.truth, broker)

    def _committed(self, _: int, frame: Frame) -> bytes:
        return bulk.committed(self.truth, [group.group_id for group in frame.decoded().groups])


@contextmanager
def serving(truth: SimulatedCluster, down: Collection[int] = ()) -> Iterator[Brokers]:
    """All brokers but those that are `down`, in threads of this process."""
    brokers = Brokers(truth)
    brokers.stop(down)
    brokers.serve([broker for broker in truth.broker_ids if broker not in down])
    try:
        yield brokers
    finally:
        brokers.stop(truth.broker_ids)


@dataclass(frozen=True)
class Simulation:
    """A simulator in processes of its own."""

    bootstrap: str
    cluster_id: str
    processes: tuple[int, ...]

    def cpu_seconds(self) -> float:
        """Processor seconds that its processes used so far, their start included."""
        ticks = 0
        for pid in self.processes:
            stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(stat[11]) + int(stat[12])  # utime and stime (proc(5))
        return ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def simulation(truth: SimulatedCluster) -> Iterator[Simulation]:
    """Start one and wait until it serves; it ends with the block."""
    command = [
        sys.executable, "-m", "tests.bench.broker_simulator",
        "--partitions", str(truth.partitions), "--brokers", str(truth.brokers),
        "--groups", str(truth.groups), "--seed", str(truth.seed),
    ]  # fmt: skip
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            told = json.loads(child.stdout.readline())
            yield Simulation(told["bootstrap"], told["cluster_id"], tuple(told["processes"]))
        finally:
            child.stdin.close()


def main(argv: list[str]) -> int:
    """Serve until stdin ends, which it does with whoever started this."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--brokers", type=int, default=30)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    truth = SimulatedCluster(args.partitions, args.brokers, args.groups, args.seed)
    brokers = Brokers(truth)
    processes = [_fork(brokers, list(truth.broker_ids)[n::_PROCESSES]) for n in range(_PROCESSES)]
    told = {
        "bootstrap": brokers.bootstrap,
        "cluster_id": truth.cluster_id,
        "processes": processes,
    }
    print(json.dumps(told), flush=True)
    for process in processes:
        os.waitpid(process, 0)
    return 0


def _fork(brokers: Brokers, mine: list[int]) -> int:
    """A process that serves some brokers: all of them share the cluster's memory."""
    process = os.fork()
    if process:
        return process
    brokers.serve(mine)
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
