"""Every Kafka version that we name starts from the same properties and takes the same load."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from dashboard.demo import load, truth
from dashboard.demo.kafka import jars
from dashboard.demo.kafka.brokers import LocalCluster
from dashboard.settings import settings

TINY = [topic for topic in truth.TOPICS if topic.name in ("device-pings", "_schemas", "transfers")]


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.9.2", "4.3.1", "4.4.0"])
def test_a_version_starts_takes_records_and_commits(version: str) -> None:
    found = jars.resolve(version, settings.load().cache_dir)
    with (
        tempfile.TemporaryDirectory(prefix="lowwater-test-") as folder,
        LocalCluster(Path(folder), found) as running,
    ):
        load.create_topics(running.bootstrap, TINY)
        size = load.produce_first_load(running.bootstrap, TINY, int(time.time() * 1000))
        load.commit_offsets(running.bootstrap, TINY)
        client = AdminClient({"bootstrap.servers": running.bootstrap})
        assert set(client.list_topics(timeout=60).brokers) == {1, 2, 3}
        groups = {group.group_id for group in client.list_consumer_groups().result().valid}
    assert size == sum(b.records * b.size_bytes for t in TINY for b in t.load)
    assert groups == {"device-monitor", "ledger"}
