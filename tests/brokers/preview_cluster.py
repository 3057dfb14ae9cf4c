"""A cluster whose brokers know DeleteRecords v3, and the gauges of what waits in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dashboard.demo.kafka.brokers import LocalCluster, free_ports
from dashboard.demo.kafka.jars import KafkaJars
from tests.brokers import jmx
from tests.support import three_brokers

BROKERS = (1, 2, 3)
# Longer than any stall of the machine: whoever kills a broker unregisters it.
SESSION = {"broker.session.timeout.ms": "30000"}


@dataclass(frozen=True, slots=True)
class PreviewCluster:
    """Three preview brokers with a JMX port each."""

    brokers: LocalCluster
    jars: KafkaJars
    jmx_ports: dict[int, int]

    def waiting(self, broker_id: int) -> int:
        """DeleteRecords requests that wait for followers in a broker's purgatory."""
        return jmx.gauge(self.jars, self.jmx_ports[broker_id], "PurgatorySize", "DeleteRecords")

    def fetches(self, broker_id: int) -> int:
        """Fetch requests that a broker holds back until there are records, or time is up."""
        return jmx.gauge(self.jars, self.jmx_ports[broker_id], "NumDelayedOperations", "Fetch")

    def unregister(self, broker_id: int) -> None:
        """Take a dead broker out of the cluster: nothing here waits for the end of a session."""
        three_brokers.unregister(self.jars, self.brokers, broker_id)


@contextmanager
def start(folder: Path, jars: KafkaJars) -> Iterator[PreviewCluster]:
    """The cluster while the block runs."""
    ports = dict(zip(BROKERS, free_ports(len(BROKERS)), strict=True))
    flags = {broker_id: jmx.flags(port) for broker_id, port in ports.items()}
    with LocalCluster(
        folder, jars, brokers=len(BROKERS), properties=SESSION, jvm_flags=flags
    ) as running:
        yield PreviewCluster(running, jars, ports)
