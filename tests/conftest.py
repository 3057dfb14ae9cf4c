"""Fixtures of the whole run: one real Kafka cluster serves every test that asks for it."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard import settings
from dashboard.demo import jars
from dashboard.demo.brokers import LocalCluster

# A shell that starts us in the background lets us ignore Ctrl-C, and so would every process that
# the tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def kafka_jars() -> jars.KafkaJars:
    """The jars of the version under test (LOWWATER_KAFKA_VERSION); downloaded on first use."""
    chosen = settings.load()
    return jars.resolve(chosen.kafka_version, chosen.cache_dir)


@pytest.fixture(scope="session")
def cluster(kafka_jars: jars.KafkaJars) -> Iterator[LocalCluster]:
    """Three brokers for the whole run; who stops or suspends one brings it back.

    Not pytest's own temporary folder: that one keeps three runs' worth of Kafka logs.
    """
    with (
        tempfile.TemporaryDirectory(prefix="lowwater-test-") as folder,
        LocalCluster(Path(folder), kafka_jars) as running,
    ):
        yield running
