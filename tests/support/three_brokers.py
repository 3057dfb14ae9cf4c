"""One real Kafka cluster for all tests of a package; it ends with the last of them.

Idle brokers are not free: a dozen of them take most of a core from the tests that come after.
A suspended broker stays a member of the cluster for longer than Kafka's 9 s: a machine that stalls
must not turn a broker that hangs into one that is down.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from dashboard.demo.kafka import jars as exporter
from dashboard.demo.kafka.brokers import LocalCluster, free_ports
from dashboard.demo.kafka.jars import KafkaJars
from dashboard.settings import settings
from tests.support import class_data

SESSION = {"broker.session.timeout.ms": "18000"}


def exporter_addresses() -> dict[int, str]:
    """Where each of three brokers is to show its metrics."""
    return {i: exporter.address(port) for i, port in enumerate(free_ports(3), 1)}


@contextmanager
def three_brokers(jars: KafkaJars, exporters: Mapping[int, str]) -> Iterator[LocalCluster]:
    """Three brokers with their metrics at `exporters`; who stops or suspends one brings it back.

    Not in pytest's own temporary folder: that one keeps three runs' worth of Kafka logs.
    """
    agent = exporter.resolve_exporter(jars.java, settings.load().cache_dir)
    with tempfile.TemporaryDirectory(prefix="lowwater-test-") as text:
        folder = Path(text)
        flags = {
            i: exporter.flags(agent, urlsplit(url).port or 0, folder)
            for i, url in exporters.items()
        }
        with LocalCluster(folder, jars, properties=SESSION, jvm_flags=flags) as running:
            yield running


def unregister(jars: KafkaJars, cluster: LocalCluster, broker_id: int) -> None:
    """Tell the controller that a broker which ended is gone, so that its session does so, too.

    The broker registers itself again when it starts; before a session's end it would be refused.
    Kafka's tools are not published for every version: without them a start takes that much longer.
    """
    if not jars.has_tools:
        return
    subprocess.run(
        [
            *class_data.java(jars), "org.apache.kafka.tools.ClusterTool", "unregister",
            "--bootstrap-server", cluster.bootstrap, "--id", str(broker_id),
        ],
        capture_output=True, check=True, timeout=60,
    )  # fmt: skip
