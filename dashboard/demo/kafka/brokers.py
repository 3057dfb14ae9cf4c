"""A local KRaft cluster of combined brokers and controllers, one Java process each; and the
server.properties of one, with the ports and ids that it needs.
"""

from __future__ import annotations

import base64
import logging
import random
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from dashboard.core.errors import DemoError
from dashboard.core.processes import die_with_parent
from dashboard.demo import processes
from dashboard.demo.kafka.jars import KafkaJars

JVM_FLAGS = ("-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
START_TIMEOUT_SECONDS = 120.0
_STOPS_WITHIN_SECONDS = 5.0
# librdkafka prints each refused connection; while a broker starts that is no news.
_SILENT = logging.getLogger("lowwater.demo.probe")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False


class LocalCluster:
    """Three brokers on free loopback ports; a context manager that stops them at its end."""

    def __init__(
        self,
        folder: Path,
        jars: KafkaJars,
        *,
        brokers: int = 3,
        listeners: Sequence[Listener] = (),
        properties: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
        heap_mb: int = 384,
        jvm_flags: Mapping[int, Sequence[str]] | None = None,
        log_dirs: int = 1,
    ) -> None:
        """`properties` are Kafka's own, for every broker; `jvm_flags` are Java's, by broker id.

        Each broker has `log_dirs` log dirs.
        """
        self._heap = f"-Xmx{heap_mb}m"
        self.folder = folder
        self.broker_ids = tuple(range(1, brokers + 1))
        self.cluster_id = kafka_uuid()
        self._jars = jars
        self._listeners = listeners
        self._properties = dict(properties or {})
        self._environ = environ
        self._jvm_flags = dict(jvm_flags or {})
        self._log_dirs = log_dirs
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        names = ("PLAINTEXT", "CONTROLLER", *(listener.name for listener in listeners))
        ports = iter(free_ports(brokers * len(names)))
        self._ports = {i: {name: next(ports) for name in names} for i in self.broker_ids}

    def __enter__(self) -> LocalCluster:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def bootstrap(self) -> str:
        """`host:port,…` of the plain listener."""
        return self.bootstrap_of("PLAINTEXT")

    def bootstrap_of(self, listener: str) -> str:
        """`host:port,…` of a named listener."""
        return ",".join(f"127.0.0.1:{self._ports[i][listener]}" for i in self.broker_ids)

    def log_dir(self, broker_id: int) -> Path:
        """The folder that holds a broker's partitions, the first of several."""
        return self.log_dirs(broker_id)[0]

    def log_dirs(self, broker_id: int) -> list[Path]:
        """All of a broker's log dirs."""
        names = ("logs", *(f"logs-{n}" for n in range(2, self._log_dirs + 1)))
        return [self.folder / f"broker-{broker_id}" / name for name in names]

    def pids(self) -> dict[int, int]:
        """Process ids of the brokers that run, by broker id."""
        return {i: p.pid for i, p in self._processes.items() if p.poll() is None}

    def start(self, furnish: Callable[[], object] = lambda: None) -> None:
        """Formats and starts every broker; returns when all serve.

        `furnish` is called when the log dirs are formatted and no broker runs yet. Raises DemoError
        that names a broker which fails, with its last lines.
        """
        try:
            self._format()
            furnish()
            for broker_id in self.broker_ids:
                self._spawn(broker_id)
            self._await_serving(self.broker_ids)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends every broker at once by SIGKILL; its data stays in the folder.

        Orderly is slower by seconds: the last two of a quorum cannot finish their shutdown.
        """
        for process in self._processes.values():
            processes.signal_group(process, signal.SIGKILL)
        for process in self._processes.values():
            process.wait()

    def stop_broker(self, broker_id: int) -> None:
        """A controlled shutdown: leadership moves away first."""
        processes.stop(self._processes[broker_id], grace_seconds=30)

    def kill_broker(self, broker_id: int) -> None:
        """SIGKILL, as by a power failure."""
        processes.stop(self._processes[broker_id], grace_seconds=0)

    def start_broker(self, broker_id: int) -> None:
        """Starts a stopped broker on its old port and folder; returns when it serves."""
        if broker_id not in self.pids():
            self._spawn(broker_id)
        self._await_serving([broker_id])

    def suspend(self, broker_id: int) -> None:
        """SIGSTOP: the broker keeps its connections and answers nothing, once this returns."""
        process = self._processes[broker_id]
        processes.signal_group(process, signal.SIGSTOP)
        until = time.monotonic() + _STOPS_WITHIN_SECONDS
        while not processes.is_stopped(process.pid) and time.monotonic() < until:
            time.sleep(0.01)  # its threads stop one after the other on a busy machine

    def resume(self, broker_id: int) -> None:
        """SIGCONT after `suspend`."""
        processes.signal_group(self._processes[broker_id], signal.SIGCONT)

    def log_tail(self, broker_id: int) -> str:
        """The last lines that a broker printed."""
        log = self.folder / f"broker-{broker_id}" / "broker.log"
        return "\n".join(log.read_text(errors="replace").splitlines()[-20:])

    def _format(self) -> None:
        for broker_id in self.broker_ids:
            home = self.folder / f"broker-{broker_id}"
            home.mkdir(parents=True, exist_ok=True)
            lines = (f"{key}={value}" for key, value in self._server_properties(broker_id).items())
            (home / "server.properties").write_text("\n".join(lines) + "\n")
        first = self.broker_ids[0]
        self._run_storage_tool(first)
        # The other brokers' folders differ in two identifiers only: two Java starts saved.
        for broker_id in self.broker_ids[1:]:
            for source, folder in zip(self.log_dirs(first), self.log_dirs(broker_id), strict=True):
                shutil.copytree(source, folder)
                (folder / "meta.properties").write_text(
                    f"version=1\ncluster.id={self.cluster_id}\nnode.id={broker_id}\n"
                    f"directory.id={kafka_uuid()}\n"
                )

    def _server_properties(self, broker_id: int) -> dict[str, str]:
        found = server_properties(
            broker_id,
            self._ports,
            self._listeners,
            ",".join(str(folder) for folder in self.log_dirs(broker_id)),
        )
        return found | self._properties

    def _run_storage_tool(self, broker_id: int) -> None:
        config = self.folder / f"broker-{broker_id}" / "server.properties"
        tool = ["kafka.tools.StorageTool", "format", "-t", self.cluster_id, "-c", str(config)]
        done = subprocess.run(
            self._java(*tool),
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=die_with_parent(),
        )
        if done.returncode != 0:
            raise DemoError(
                f"Kafka {self._jars.version} could not format its folder: "
                f"{(done.stderr or done.stdout).strip()[-400:]}",
                "Check free disk space in the temporary folder and the Java version.",
                code="BROKER_FORMAT_FAILED",
            )

    def _java(self, *command: str, flags: Sequence[str] = ()) -> list[str]:
        logging = (
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
        )
        archive = self._jars.class_data
        return [
            self._jars.java,
            self._heap,
            *JVM_FLAGS,
            *([f"-XX:SharedArchiveFile={archive}", "-Xshare:auto"] if archive else ()),
            *logging,
            *flags,
            "-cp",
            self._jars.class_path,
            *command,
        ]

    def _spawn(self, broker_id: int) -> None:
        home = self.folder / f"broker-{broker_id}"
        flags = self._jvm_flags.get(broker_id, ())
        command = self._java("kafka.Kafka", str(home / "server.properties"), flags=flags)
        self._processes[broker_id] = processes.spawn(
            command, home / "broker.log", environ=self._environ, cwd=home
        )

    def _await_serving(self, broker_ids: Sequence[int]) -> None:
        """Until each of the brokers itself lists all of them as alive (KRaft: unfenced)."""
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        for broker_id in broker_ids:
            process = self._processes[broker_id]
            address = f"127.0.0.1:{self._ports[broker_id]['PLAINTEXT']}"
            while not set(broker_ids) <= alive_brokers(address):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise self._did_not_start(broker_id)
                time.sleep(0.1)

    def _did_not_start(self, broker_id: int) -> DemoError:
        return DemoError(
            f"broker {broker_id} of Kafka {self._jars.version} did not start; its last lines:\n"
            f"{self.log_tail(broker_id)}",
            "Read the lines above; often memory or disk is short, or Java is older than 17.",
            code="BROKER_START_FAILED",
        )


def alive_brokers(address: str) -> set[int]:
    """The broker ids that the broker at `host:port` holds for alive; empty without an answer."""
    client = AdminClient({"bootstrap.servers": address, "log_level": 0}, logger=_SILENT)
    try:
        return set(client.list_topics(timeout=1).brokers)
    except KafkaException:
        return set()


LOG = logging.getLogger("lowwater.demo")
# Where nobody set up logging, Python would print every message to stderr after all.
LOG.addHandler(logging.NullHandler())


def client(bootstrap: str, **properties: str) -> dict[str, Any]:
    """librdkafka's properties; its messages go to our logger, not to stderr without end."""
    return {
        "bootstrap.servers": bootstrap,
        "client.id": "lowwater-demo",
        "logger": LOG,
        "reconnect.backoff.max.ms": "5000",
        **properties,
    }


# Short intervals, so that a purge's bytes leave within seconds instead of minutes.
BASE_PROPERTIES: Mapping[str, str] = {
    "auto.create.topics.enable": "false",
    "log.retention.check.interval.ms": "5000",
    "log.initial.task.delay.ms": "1000",
    "log.segment.delete.delay.ms": "1000",
    "log.flush.start.offset.checkpoint.interval.ms": "5000",
    "log.cleaner.backoff.ms": "5000",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "metadata.max.idle.interval.ms": "5000",  # by default two records a second
    "offsets.topic.num.partitions": "5",
    "offsets.retention.check.interval.ms": "500",  # a group that never committed is gone at once
    "transaction.state.log.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "controlled.shutdown.enable": "true",
}

# Below the range of outgoing connections: from there a stopped broker's port could be taken before
# the broker comes back.
PORTS = range(15_000, 32_000)
_given: set[int] = set()


@dataclass(frozen=True, slots=True)
class Listener:
    """One more door into each broker, beside the plain one: its name, protocol and properties.

    `properties` are Kafka's own, without the `listener.name.NAME.` prefix.
    """

    name: str
    protocol: str
    properties: Mapping[str, str] = field(default_factory=dict)


def server_properties(
    broker_id: int,
    ports: Mapping[int, Mapping[str, int]],
    listeners: Sequence[Listener],
    log_dir: str,
) -> dict[str, str]:
    """One broker's properties; `ports` are every broker's, by listener name."""
    protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
    protocols |= {listener.name: listener.protocol for listener in listeners}
    doors = (f"{name}://127.0.0.1:{port}" for name, port in ports[broker_id].items())
    voters = (f"{i}@127.0.0.1:{of_broker['CONTROLLER']}" for i, of_broker in ports.items())
    replication = str(min(3, len(ports)))
    properties = {
        **BASE_PROPERTIES,
        "process.roles": "broker,controller",
        "node.id": str(broker_id),
        "controller.quorum.voters": ",".join(voters),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "listeners": ",".join(doors),
        "listener.security.protocol.map": ",".join(f"{n}:{p}" for n, p in protocols.items()),
        "log.dirs": log_dir,
        "broker.rack": f"rack-{broker_id}",
        "offsets.topic.replication.factor": replication,
        "transaction.state.log.replication.factor": replication,
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": replication,
        "share.coordinator.state.topic.min.isr": "1",
    }
    for listener in listeners:
        prefix = f"listener.name.{listener.name.lower()}."
        properties |= {prefix + key: value for key, value in listener.properties.items()}
    return properties


def free_ports(count: int) -> list[int]:
    """Loopback ports that nothing listens on, each given once: its listener may be on its way."""
    found: list[int] = []
    left = [port for port in PORTS if port not in _given]
    for port in random.sample(left, k=min(count * 50, len(left))):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            _given.update(found)
            return found
    raise DemoError(
        f"no {count} free ports between {PORTS.start} and {PORTS.stop} on 127.0.0.1",
        "Stop programs that listen there, then try again.",
        code="NO_FREE_PORTS",
    )


def kafka_uuid() -> str:
    """A random UUID in Kafka's spelling: 22 characters of URL-safe base64, no leading dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
