"""The server.properties of a local broker, with the ports and ids that it needs."""

from __future__ import annotations

import base64
import random
import socket
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dashboard.core.errors import DemoError

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
