"""Fixtures of the whole run: one real Kafka cluster serves every test that asks for it."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dashboard import settings
from dashboard.demo import exporter, jars
from dashboard.demo.brokers import LocalCluster
from dashboard.demo.server_properties import free_ports

# A shell that starts us in the background lets us ignore Ctrl-C, and so would every process that
# the tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def kafka_jars() -> jars.KafkaJars:
    """The jars of the version under test (LOWWATER_KAFKA_VERSION); downloaded on first use."""
    chosen = settings.load()
    return jars.resolve(chosen.kafka_version, chosen.cache_dir)


@pytest.fixture(scope="session")
def exporters() -> dict[int, str]:
    """Where each broker of `cluster` shows its metrics."""
    return {i: exporter.address(port) for i, port in enumerate(free_ports(3), 1)}


@pytest.fixture(scope="session")
def cluster(kafka_jars: jars.KafkaJars, exporters: dict[int, str]) -> Iterator[LocalCluster]:
    """Three brokers for the whole run; who stops or suspends one brings it back.

    Not pytest's own temporary folder: that one keeps three runs' worth of Kafka logs.
    """
    agent = exporter.resolve(kafka_jars.java, settings.load().cache_dir)
    with tempfile.TemporaryDirectory(prefix="lowwater-test-") as text:
        folder = Path(text)
        flags = {
            i: exporter.flags(agent, urlsplit(url).port or 0, folder)
            for i, url in exporters.items()
        }
        with LocalCluster(folder, kafka_jars, jvm_flags=flags) as running:
            yield running
