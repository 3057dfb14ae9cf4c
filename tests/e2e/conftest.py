"""Fixtures of the browser tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dashboard.demo.kafka.brokers import LocalCluster
from dashboard.demo.kafka.jars import KafkaJars
from tests.support.three_brokers import exporter_addresses, three_brokers


@pytest.fixture(scope="package")
def cluster(kafka_jars: KafkaJars) -> Iterator[LocalCluster]:
    """The brokers of the tests that purge in a browser."""
    with three_brokers(kafka_jars, exporter_addresses()) as running:
        yield running
