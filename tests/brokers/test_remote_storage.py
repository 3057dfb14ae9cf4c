"""A tiered topic on a broker whose remote storage is a folder, by Kafka's own test classes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard.demo.kafka.jars import Artifact, KafkaJars, cause, retrieve
from dashboard.settings import settings
from tests.brokers.purge_bench import Bench, lone_bench
from tests.brokers.workload import until

_STORAGE = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"


class TestJar(Artifact):
    """The jar of a module's tests, which Kafka publishes beside it."""

    __test__ = False

    def to_xml(self) -> str:
        open_tag = super().to_xml().removesuffix("/>")
        jar = f'<artifact name="{self.name}" type="jar" ext="jar" m:classifier="test"/>'
        return f"{open_tag}>{jar}</dependency>"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="lowwater-test-") as text:
        yield Path(text)


@pytest.fixture(scope="module")
def bench(kafka_jars: KafkaJars, folder: Path) -> Iterator[Bench]:
    """One broker of its own, with remote storage switched on."""
    properties = {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": _STORAGE,
        "remote.log.storage.manager.class.path": str(
            storage_jar(kafka_jars, settings.load().cache_dir)
        ),
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
        "rsm.config.dir": str(folder / "remote"),
        "remote.log.manager.task.interval.ms": "1000",
    }
    with lone_bench(kafka_jars, folder, properties) as made:
        yield made


def storage_jar(jars: KafkaJars, cache_dir: Path) -> Path:
    """The test classes of Kafka's storage module, downloaded on first use."""
    home = cache_dir / f"kafka-storage-test-{jars.version}"
    jar = home / "jars" / f"kafka-storage-{jars.version}-test.jar"
    if not jar.is_file():
        home.mkdir(parents=True, exist_ok=True)
        wanted = [TestJar("org.apache.kafka", "kafka-storage", jars.version)]
        failure = retrieve(jars.java, home, wanted, jar.parent)
        if failure is not None and "[NOT FOUND  ]" in failure:
            pytest.skip(f"Kafka {jars.version} published no tests of its storage module")
        assert failure is None, cause(failure)
    return jar


def test_a_topic_with_remote_storage_is_guarded_and_an_override_lifts_it(
    bench: Bench, folder: Path
) -> None:
    topic = bench.topic(4000, remote_storage_enable="true")
    bench.commit("remote-g", topic, {0: 3500})
    (guard,) = bench.plan(topic).partitions[0].guards
    assert guard.name == "remote-storage"
    assert topic in guard.reason and "local start too" in guard.reason
    assert "Use remote retention" in guard.lift
    # Segments did go to the remote storage.
    until(lambda: any((folder / "remote").rglob("*.log")), 60)

    plan = bench.plan(topic, override=("remote-storage=nobody reads the old tier",))
    (override,) = [o for o in plan.overrides if o.name == "remote-storage"]
    assert (override.by, override.reason) == ("test", "nobody reads the old tier")
    assert override.at == plan.created_at
    assert bench.apply(plan).run.state == "done"
    assert bench.offsets(topic, 0) == list(range(3500, 4000))
