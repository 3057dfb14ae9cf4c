"""Fixtures of the broker tests: a broker with every kind of door, and the marker for all."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard.demo.kafka import preview
from dashboard.demo.kafka.brokers import LocalCluster
from dashboard.demo.kafka.jars import KafkaJars
from dashboard.purge.jobs import worker_process
from dashboard.settings import settings
from tests.brokers import certificates, secured, token_issuer
from tests.brokers.preview_cluster import PreviewCluster
from tests.brokers.preview_cluster import start as preview_cluster_of
from tests.brokers.purge_bench import Bench
from tests.support import class_data, forked_workers
from tests.support.three_brokers import exporter_addresses, three_brokers

# Whoever is first fetches and compiles the preview broker, four minutes on two busy cores. That has
# deadlines of its own, and is not the test's time.
FIRST_USE_TAKES_TIME = pytest.mark.timeout(300, func_only=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = str(Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(f"{here}/"):
            item.add_marker(pytest.mark.brokers)
            if "preview_cluster" in getattr(item, "fixturenames", ()):
                item.add_marker(FIRST_USE_TAKES_TIME)


@pytest.fixture(scope="package", autouse=True)
def workers_forked() -> Iterator[None]:
    """Half of a small purge's processor time was its worker's imports."""
    with forked_workers.forked_workers():
        yield


@pytest.fixture
def workers_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is a Python process of its own, started as by users."""
    monkeypatch.setattr(worker_process.os, "posix_spawn", forked_workers.STARTED)


@pytest.fixture(scope="package")
def exporters() -> dict[int, str]:
    """Where each broker of `cluster` shows its metrics."""
    return exporter_addresses()


@pytest.fixture(scope="package")
def cluster(kafka_jars: KafkaJars, exporters: dict[int, str]) -> Iterator[LocalCluster]:
    """The brokers of all these tests."""
    with three_brokers(kafka_jars, exporters) as running:
        yield running


@pytest.fixture(scope="module")
def bench(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A store, a journal and topics of their own for each file of purge tests."""
    made = Bench(cluster.bootstrap, cluster.cluster_id, tmp_path_factory.mktemp("purge"))
    yield made
    made.close()


@pytest.fixture(scope="package")
def secured_cluster(kafka_jars: KafkaJars) -> Iterator[secured.SecuredCluster]:
    """One broker with an authorizer and a listener for each way to sign in."""
    with tempfile.TemporaryDirectory(prefix="lowwater-test-") as text:
        folder = Path(text)
        authorities = certificates.write_certificates(folder)
        keys = folder / secured.KEY_SET
        with (
            token_issuer.TokenIssuer(keys, folder / "broker.pem") as issuer,
            LocalCluster(
                folder,
                kafka_jars,
                brokers=1,
                listeners=secured.listeners(folder),
                properties=secured.AUTHORIZER,
                jvm_flags={1: token_issuer.jvm_flags(keys)},
            ) as running,
        ):
            yield secured.SecuredCluster(running, authorities, issuer)


@pytest.fixture(scope="package")
def preview_cluster(kafka_jars: KafkaJars) -> Iterator[PreviewCluster]:
    """Three brokers with DeleteRecords v3; who stops or suspends one brings it back."""
    if kafka_jars.version != preview.KAFKA_VERSION:
        pytest.skip(f"the preview broker is made from Kafka {preview.KAFKA_VERSION} alone")
    cache = settings.load().cache_dir
    jars = class_data.archived(preview.resolve(kafka_jars.version, cache), cache)
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
