"""Fixtures of the broker tests: a broker with every kind of door, and the marker for all."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard import settings
from dashboard.demo import preview
from dashboard.demo.brokers import LocalCluster
from dashboard.demo.jars import KafkaJars
from tests.brokers import secured
from tests.brokers.preview_cluster import PreviewCluster
from tests.brokers.preview_cluster import start as preview_cluster_of
from tests.brokers.purge_bench import Bench


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.brokers)


@pytest.fixture(scope="module")
def bench(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A store, a journal and topics of their own for each file of purge tests."""
    made = Bench(cluster.bootstrap, cluster.cluster_id, tmp_path_factory.mktemp("purge"))
    yield made
    made.close()


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


@pytest.fixture(scope="package")
def preview_cluster(kafka_jars: KafkaJars) -> Iterator[PreviewCluster]:
    """Three brokers with DeleteRecords v3; who stops or suspends one brings it back."""
    if kafka_jars.version != preview.KAFKA_VERSION:
        pytest.skip(f"the preview broker is made from Kafka {preview.KAFKA_VERSION} alone")
    jars = preview.resolve(kafka_jars.version, settings.load().cache_dir)
    with (
        tempfile.TemporaryDirectory(prefix="lowwater-test-") as folder,
        preview_cluster_of(Path(folder), jars) as running,
    ):
        yield running


@pytest.fixture(scope="module")
def preview_bench(
    preview_cluster: PreviewCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    """A bench on the preview brokers."""
    brokers = preview_cluster.brokers
    made = Bench(brokers.bootstrap, brokers.cluster_id, tmp_path_factory.mktemp("preview"))
    yield made
    made.close()
