"""Brokers of a generated cluster on real sockets: what the product asks, they answer.

`python -m tests.bench.broker_simulator --partitions N --brokers B --groups G` prints one line of
JSON, `{"bootstrap", "cluster_id", "processes"}`, serves on the loopback and ends with its stdin.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest, DescribeGroupsRequest
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import MetadataRequest

from dashboard.cluster.protocol.messages import ConsumerGroupDescribeRequest
from tests.bench import simulated_bulk as bulk
from tests.bench import simulated_details as details
from tests.bench.simulated_cluster import SimulatedCluster

_LIST_OFFSETS_ROWS = 5
_LOG_DIRS_ROWS = 4
_PROCESSES = 2


class Brokers:
    """Answers for every broker of one cluster, whose listening sockets are open already."""

    def __init__(self, truth: SimulatedCluster, servers: dict[int, socket.socket]) -> None:
        self.truth = truth
        self.ports = {broker: s.getsockname()[1] for broker, s in servers.items()}
        self._servers = servers
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
            threading.Thread(target=self._accept, args=(broker,), daemon=True).start()

    def stop(self, brokers: Collection[int]) -> None:
        """Let these brokers refuse connections."""
        for broker in brokers:
            with suppress(OSError):
                self._servers[broker].shutdown(socket.SHUT_RDWR)
            self._servers[broker].close()

    def _accept(self, broker: int) -> None:
        while True:
            try:
                connection, _ = self._servers[broker].accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._talk, args=(broker, connection), daemon=True).start()

    def _talk(self, broker: int, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while frame := _read_frame(connection):
                head, body = self._answer(broker, frame)
                connection.sendall(struct.pack(">i", len(head) + len(body)) + head)
                connection.sendall(body)

    def _answer(self, broker: int, frame: bytes) -> tuple[bytes, bytes]:
        """Header and body of the answer to one request."""
        key, version, correlation = struct.unpack_from(">hhi", frame)
        head = struct.pack(">i", correlation)
        if key in self._bodies:
            flexible = key != 2  # ListOffsets is answered in v5, the others in versions with tags
            return head + b"\x00" * flexible, self._bodies[key](broker, version, frame)
        answer = self._detail(key, broker, version, frame)
        answer.with_header(correlation_id=correlation)
        return b"", bytes(answer.encode(header=True))

    def _detail(self, key: int, broker: int, version: int, frame: bytes) -> Any:
        def asked(message: Any) -> Any:
            return _decoded(message, version, frame)

        truth = self.truth
        answers: dict[int, Callable[[], Any]] = {
            15: lambda: details.classic_members(truth, asked(DescribeGroupsRequest), version),
            16: lambda: details.groups(truth, broker, version),
            18: lambda: details.api_versions(version),
            32: lambda: details.configs(asked(DescribeConfigsRequest), version),
            46: lambda: details.reassignments(version),
            60: lambda: details.cluster(truth, self.ports, version),
            69: lambda: details.consumer_members(
                truth, asked(ConsumerGroupDescribeRequest), version
            ),
        }
        return answers[key]()

    def _topics(self, _: int, version: int, frame: bytes) -> bytes:
        asked = _decoded(MetadataRequest, version, frame).topics
        if asked is None:
            return self._all_topics
        return self._metadata.answer([topic.name for topic in asked])

    def _list_offsets(self, broker: int, version: int, frame: bytes) -> bytes:
        if version != _LIST_OFFSETS_ROWS:
            raise ValueError(f"the simulator speaks ListOffsets v5, not v{version}")
        (client,) = struct.unpack_from(">h", frame, 8)
        return bulk.list_offsets(self.truth, broker, memoryview(frame)[10 + client :])

    def _log_dirs(self, broker: int, version: int, _: bytes) -> bytes:
        if version != _LOG_DIRS_ROWS:
            raise ValueError(f"the simulator speaks DescribeLogDirs v4, not v{version}")
        return bulk.log_dirs(self.truth, broker)

    def _committed(self, _: int, version: int, frame: bytes) -> bytes:
        asked = _decoded(OffsetFetchRequest, version, frame)
        return bulk.committed(self.truth, [group.group_id for group in asked.groups])


@contextmanager
def serving(truth: SimulatedCluster, down: Collection[int] = ()) -> Iterator[Brokers]:
    """All brokers but those that are `down`, in threads of this process."""
    brokers = Brokers(truth, _listen(truth))
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
    brokers = Brokers(truth, _listen(truth))
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


def _listen(truth: SimulatedCluster) -> dict[int, socket.socket]:
    return {b: socket.create_server(("127.0.0.1", 0), backlog=64) for b in truth.broker_ids}


def _decoded(message: Any, version: int, frame: bytes) -> Any:
    return message.decode(frame, version=version, header=True)


def _read_frame(connection: socket.socket) -> bytes:
    size = _exactly(connection, 4)
    return _exactly(connection, int.from_bytes(size, "big")) if size else b""


def _exactly(connection: socket.socket, count: int) -> bytes:
    buffer = bytearray(count)
    view = memoryview(buffer)
    while view:
        got = connection.recv_into(view)
        if not got:
            return b""
        view = view[got:]
    return bytes(buffer)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
