"""Fixtures of the broker tests: a broker with every kind of door, and the marker for all."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard.demo.brokers import LocalCluster
from dashboard.demo.jars import KafkaJars
from tests.brokers import secured


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.brokers)


@pytest.fixture(scope="session")
def secured_cluster(kafka_jars: KafkaJars) -> Iterator[secured.SecuredCluster]:
    """One broker with an authorizer and SASL_PLAINTEXT, SSL and SASL_SSL listeners."""
    with tempfile.TemporaryDirectory(prefix="lowwater-test-") as text:
        folder = Path(text)
        authorities = secured.write_certificates(folder)
        with LocalCluster(
            folder,
            kafka_jars,
            brokers=1,
            listeners=secured.listeners(folder),
            properties=secured.AUTHORIZER,
        ) as running:
            yield secured.SecuredCluster(running, authorities)
