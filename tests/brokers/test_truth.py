"""The demo's topics on real brokers, collected and analyzed: findings tell their known truth."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from dashboard.cluster.live import LiveCluster, connect
from dashboard.collect.collect import collect
from dashboard.core.clock import utc_now
from dashboard.demo import load, truth
from dashboard.demo.children import Place, settings_text, take_stock
from dashboard.demo.kafka.brokers import LocalCluster
from dashboard.demo.truth import TopicTruth
from dashboard.inventory.loading import Inventory, load_all
from dashboard.settings.settings import load as load_settings
from dashboard.store.snapshots import ClusterStore, Store
from tests.brokers.workload import ANSWERS_WITHIN, until

pytestmark = [pytest.mark.spark, pytest.mark.further]
TOPICS = {topic.name: topic for topic in truth.TOPICS}
# The marker at the end of a transaction takes an offset; the load writes one transaction.
_MARKERS = 1
_POLICY = "cleanup.policy"


@pytest.fixture(scope="module")
def findings(
    cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClusterStore]:
    """The analysis of a snapshot and an inventory taken right after the demo's first load."""
    folder = tmp_path_factory.mktemp("truth")
    load.create_topics(cluster.bootstrap, truth.TOPICS)
    try:
        load.produce_first_load(cluster.bootstrap, truth.TOPICS, int(time.time() * 1000))
        load.commit_offsets(cluster.bootstrap, truth.TOPICS)
        store = ClusterStore(Store(str(folder / "data")), cluster.cluster_id)
        with connect({"bootstrap.servers": cluster.bootstrap}) as live:
            until(lambda: _taken_at_once(live, cluster, folder, store), 60)
        _analyze(cluster, folder)
        yield store
    finally:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for deleted in admin.delete_topics(list(TOPICS)).values():
            deleted.result(ANSWERS_WITHIN)


def _taken_at_once(
    live: LiveCluster, cluster: LocalCluster, folder: Path, store: ClusterStore
) -> bool:
    """Whether inventory and snapshot saw the same: the log cleaner may work between them."""
    shutil.rmtree(folder / "data", ignore_errors=True)
    before = _compacted_sizes(live)
    disks = _inventories(cluster, folder)
    collect(live, store, now=utc_now, progress=lambda _: None, inventories=disks)
    return _compacted_sizes(live) == before


def _compacted_sizes(live: LiveCluster) -> dict[tuple[int, str, int], int | None]:
    """Bytes of each replica whose log the cleaner works on."""
    compacted = {name for name, t in TOPICS.items() if "compact" in t.config.get(_POLICY, "")}
    return {
        (r.broker_id, r.topic, r.partition): r.size_bytes
        for r in live.log_dirs().replicas
        if r.topic in compacted
    }


def _inventories(cluster: LocalCluster, folder: Path) -> tuple[Inventory, ...]:
    """The brokers' disks, as the demo's own child takes stock of them."""
    disks = _place(folder).disks({i: cluster.log_dirs(i) for i in cluster.broker_ids})
    assert take_stock(disks) == {}
    return load_all([disk.file for disk in disks])


def _place(folder: Path) -> Place:
    return Place(folder, str(folder / "data"), folder / "lowwater.toml", 0)


def _analyze(cluster: LocalCluster, folder: Path) -> None:
    """As `lowwater analyze` does it, with the demo's own declarations."""
    place = _place(folder)
    place.settings.write_text(settings_text(load_settings(), place, cluster.bootstrap, utc_now()))
    command = [sys.executable, "-m", "analytics", "--data", place.data]
    command += ["--settings", str(place.settings)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["tables"]["reclaimable"] >= 2 * len(TOPICS)


def committed(findings: ClusterStore, topic: TopicTruth) -> list[dict[str, Any]]:
    rows = findings.read("findings", findings.latest_analysis(), "reclaimable").to_pylist()
    found = [r for r in rows if r["topic"] == topic.name and r["target"] == "committed"]
    assert len(found) == topic.partitions
    return found


def test_bytes_are_known_to_the_segment(findings: ClusterStore) -> None:
    for name, topic in TOPICS.items():
        if topic.expected in {"held", "consumed"}:
            assert {row["method"] for row in committed(findings, topic)} == {"segments"}, name


def names(row: dict[str, Any]) -> set[str]:
    return {guard["name"] for guard in row["guards"]}


def told(row: dict[str, Any]) -> str:
    """What a finding says of one partition, in the words of `TopicTruth.expected`."""
    if names(row) & {"not-deletable", "system-topic"}:
        return "refused"
    if row["target_offset"] is None:
        return "unknown"
    return "held" if row["high_watermark"] - row["target_offset"] > _MARKERS else "consumed"


@pytest.mark.parametrize("name", TOPICS)
def test_a_topic_is_told_as_it_is(findings: ClusterStore, name: str) -> None:
    topic = TOPICS[name]
    rows = committed(findings, topic)
    assert {told(row) for row in rows} == {topic.expected}
    assert {row["replicas"] for row in rows} == {3}
    ends = [records + _MARKERS * topic.transactional for records in truth.loaded_records(topic)]
    assert [row["high_watermark"] for row in rows] == ends
    declared = topic.owner is not None
    assert {row["readers_declared"] for row in rows} == {declared}
    if topic.expected in {"held", "consumed"}:
        assert {"readers-undeclared" in names(row) for row in rows} == {not declared}


@pytest.mark.parametrize("name", [n for n, t in TOPICS.items() if t.expected == "held"])
def test_the_group_that_holds_a_topic_is_named(findings: ClusterStore, name: str) -> None:
    topic = TOPICS[name]
    assert {row["held_by"] for row in committed(findings, topic)} == {topic.blocking_group}
    blockers = findings.read("findings", findings.latest_analysis(), "blockers").to_pylist()
    alone = {b["group_id"]: b["bytes_held_alone"] for b in blockers if b["topic"] == name}
    assert set(alone) == {group.group_id for group in topic.groups}
    assert [group for group, held in alone.items() if held] == [topic.blocking_group]
