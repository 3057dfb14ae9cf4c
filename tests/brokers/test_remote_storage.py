"""A tiered topic on a broker whose remote storage is a folder, by Kafka's own test classes."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from dashboard.cluster.live import connect
from dashboard.demo.kafka.jars import Artifact, KafkaJars, cause, resolve, retrieve
from dashboard.domain.model import TopicPartition
from dashboard.settings import settings
from tests.brokers.purge_bench import Bench, lone_bench
from tests.brokers.workload import until

_STORAGE = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
_PUBLISHED = "4.3.1"  # with its tests, which not every version is
_TASKS_SECONDS = 6  # the remote log's task, and the retention check, look in this time
LIFTED = "remote-storage=nobody reads the old tier"


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
        "remote.log.storage.manager.class.path": storage_classes(
            kafka_jars, settings.load().cache_dir
        ),
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
        "rsm.config.dir": str(folder / "remote"),
        "remote.log.manager.task.interval.ms": "1000",
    }
    with lone_bench(kafka_jars, folder, properties) as made:
        yield made


def storage_classes(jars: KafkaJars, cache_dir: Path) -> str:
    """The class path of Kafka's tests of its storage module, downloaded on first use.

    4.4.0 was published without them. Those of 4.3.1 do there, too, as the broker knows them by an
    interface of its public API (`RemoteStorageManager`), but for one class that has moved since.
    """
    own = _tests_of(jars, cache_dir, jars.version)
    if own is not None:
        return str(own)
    other = _tests_of(jars, cache_dir, _PUBLISHED)
    assert other is not None, f"the tests of Kafka {_PUBLISHED}'s storage module are gone"
    moved = other.with_name("moved.jar")
    clients = resolve(_PUBLISHED, cache_dir).folder / f"kafka-clients-{_PUBLISHED}.jar"
    with ZipFile(clients) as old, ZipFile(moved, "w") as new:
        for name in old.namelist():
            if name.startswith("org/apache/kafka/common/utils/LogContext"):
                new.writestr(name, old.read(name))
    return f"{other}{os.pathsep}{moved}"


def _tests_of(jars: KafkaJars, cache_dir: Path, version: str) -> Path | None:
    home = cache_dir / f"kafka-storage-test-{version}"
    jar = home / "jars" / f"kafka-storage-{version}-test.jar"
    if jar.is_file():
        return jar
    home.mkdir(parents=True, exist_ok=True)
    wanted = [TestJar("org.apache.kafka", "kafka-storage", version)]
    failure = retrieve(jars.java, home, wanted, jar.parent)
    if failure is not None and "[NOT FOUND  ]" in failure:
        return None
    assert failure is None, cause(failure)
    return jar


def test_a_topic_with_remote_storage_is_guarded_and_an_override_lifts_it(
    bench: Bench, folder: Path
) -> None:
    topic = bench.topic(4000, remote_storage_enable="true")
    bench.commit("remote-g", topic, {0: 3500})
    (guard,) = bench.plan(topic).partitions[0].guards
    assert guard.name == "remote-storage"
    assert topic in guard.reason and "deletes them there as well" in guard.reason
    assert "Use remote retention" in guard.lift
    # Segments did go to the remote storage.
    until(lambda: segments(folder, topic) != [], 60)

    plan = bench.plan(topic, override=(LIFTED,))
    (override,) = [o for o in plan.overrides if o.name == "remote-storage"]
    assert (override.by, override.reason) == ("test", "nobody reads the old tier")
    assert override.at == plan.created_at
    assert bench.apply(plan).run.state == "done"
    assert bench.offsets(topic, 0) == list(range(3500, 4000))


def test_a_preview_tells_the_tiers_apart_and_a_purge_takes_of_each_what_it_said(
    bench: Bench, folder: Path
) -> None:
    """Four segments of a megabyte, of which disks keep the newest by the topic's own retention."""
    topic = bench.topic(4200, remote_storage_enable="true", local_retention_bytes="1200000")
    bench.commit("remote-g", topic, {0: 500})
    until(lambda: settled(bench, topic), 60)
    before = segments(folder, topic)
    tiers = bench.plan(topic).partitions[0].tiers
    assert tiers is not None and tiers.error is None
    local, last = tiers.local_start_offset or 0, tiers.remote_end_offset or 0
    assert 0 < local <= last < 4200
    assert tiers.local_bytes == tiers.leader_bytes == on_disk(bench, topic)

    low = bench.plan(topic, to="offset:500", override=(LIFTED,))
    first = low.partitions[0].taken
    assert first is not None
    assert (first.remote_records, first.local_records, first.local_bytes) == (500, 0, 0)
    assert 500_000 < (first.remote_bytes or 0) < 600_000
    assert bench.apply(low).run.state == "done"
    time.sleep(_TASKS_SECONDS)  # a look of each task that would delete
    assert (segments(folder, topic), on_disk(bench, topic)) == (before, tiers.local_bytes)

    bench.commit("remote-g", topic, {0: local})
    middle = bench.plan(topic, to=f"offset:{local}", override=(LIFTED,))
    takes = middle.partitions[0].taken
    assert takes is not None and (takes.local_records, takes.local_bytes) == (0, 0)
    assert bench.apply(middle).run.state == "done"
    # A local segment begins there, so that all of the remote ones below it go.
    said = (first.remote_bytes or 0) + (takes.remote_bytes or 0)
    until(lambda: sum(before) - sum(segments(folder, topic)) > 0.9 * said, 60)
    assert sum(before) - sum(segments(folder, topic)) < 1.1 * said
    assert on_disk(bench, topic) == tiers.local_bytes, "nothing of the disk, as was said"

    bench.commit("remote-g", topic, {0: 4200})
    high = bench.plan(topic, to="offset:4200", override=(LIFTED,))
    takes = high.partitions[0].taken
    assert takes is not None
    assert (takes.remote_records, takes.local_records) == (last - local, 4200 - local)
    assert takes.local_bytes == tiers.local_bytes
    assert bench.apply(high).run.state == "done"
    until(lambda: segments(folder, topic) == [], 60)
    until(lambda: on_disk(bench, topic) < (tiers.local_bytes or 0), 60)
    # What of it leaves follows what the active segment holds: the estimate says "at most".
    assert bench.offsets(topic, 0) == []


def segments(folder: Path, topic: str) -> list[int]:
    """The sizes of the topic's segments in remote storage."""
    logs = (folder / "remote").rglob(f"*{topic}*/**/*.log")
    return sorted(path.stat().st_size for path in logs)


def on_disk(bench: Bench, topic: str) -> int:
    """Bytes of the topic on the broker's disk."""
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        (replica,) = live.log_dirs([TopicPartition(topic, 0)]).replicas
    return replica.size_bytes


def settled(bench: Bench, topic: str) -> bool:
    """Whether all closed segments are uploaded, and disks have given back what they need not keep:
    twice within some seconds the same.
    """
    found = set()
    for _ in range(2):
        tiers = bench.plan(topic).partitions[0].tiers
        found.add(tiers)
        time.sleep(_TASKS_SECONDS)
    return len(found) == 1 and tiers is not None and bool(tiers.local_start_offset)
