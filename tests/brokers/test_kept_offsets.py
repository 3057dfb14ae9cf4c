"""A coordinator that kept an offset of an earlier topic of a name, on a real broker.

What it would take to lose the race of a deletion and a coordinator's loading is written into the
offsets topic instead, as the coordinator of before writes it; another start reads it.
"""

from __future__ import annotations

import struct
import time
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Producer

from dashboard.cluster.group_lists import OFFSETS_TOPIC
from dashboard.cluster.group_members import partition_of
from dashboard.cluster.live import connect
from dashboard.cluster.topics import raw_topic_id
from dashboard.demo.kafka.brokers import LocalCluster, client
from dashboard.demo.kafka.jars import KafkaJars
from tests.brokers.purge_bench import Bench

_OFFSET_KEY, _VALUE_WITH_ID = 1, 4  # OffsetCommitKey v1, OffsetCommitValue v4 (Kafka 4.1)


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def _keep(bench: Bench, group: str, topic: str, offset: int, raw_id: bytes) -> None:
    """Write the offset as one of the topic of this id. Only Kafka's own client may, by its name."""
    with connect({"bootstrap.servers": bench.bootstrap}) as live:
        partitions = live.topics([OFFSETS_TOPIC])[OFFSETS_TOPIC].partitions
    key = struct.pack(">h", _OFFSET_KEY) + _text(group) + _text(topic) + struct.pack(">i", 0)
    now_ms = int(time.time() * 1000)
    value = struct.pack(">hqi", _VALUE_WITH_ID, offset, -1) + b"\x01" + struct.pack(">q", now_ms)
    value += bytes([1, 0, len(raw_id)]) + raw_id  # one tagged field: the topic's id
    producer = Producer(client(bench.bootstrap, acks="all", **{"client.id": "__admin_client"}))
    producer.produce(OFFSETS_TOPIC, value, key, partition=partition_of(group, len(partitions)))
    assert producer.flush(30) == 0


def test_an_offset_of_an_earlier_topic_holds_its_group_back(
    kafka_jars: KafkaJars, tmp_path: Path
) -> None:
    if kafka_jars.version < "4.1":
        pytest.skip("offsets are of a topic's id since Kafka 4.1")
    with LocalCluster(tmp_path / "kafka", kafka_jars, brokers=1) as running:
        bench = Bench(running.bootstrap, running.cluster_id, tmp_path / "bench", replicas=1)
        topic = bench.topic(100)
        bench.commit("of-now", topic, {0: 90})
        bench.commit("kept", bench.topic(10), {0: 5})  # it reads something else, too
        with connect({"bootstrap.servers": bench.bootstrap}) as live:
            own = raw_topic_id(live.topics([topic])[topic].topic_id or "")
        _keep(bench, "of-now", topic, 80, own)
        _keep(bench, "kept", topic, 60, uuid.uuid4().bytes)
        running.stop_broker(1)
        running.start_broker(1)

        with connect({"bootstrap.servers": bench.bootstrap}) as live:
            states = live.topics([topic])
            by_name = {o.group_id: o.committed_offset for o in live.groups([topic]).offsets
                       if o.topic == topic}  # fmt: skip
            listing = live.groups(states)
        by_id = {o.group_id: o.committed_offset for o in listing.offsets if o.topic == topic}
        (held,) = bench.plan(topic).partitions
        bench.close()

    assert by_name == {"of-now": 80, "kept": 60}
    assert by_id == {"of-now": 80, "kept": None}
    assert listing.incomplete == ()
    assert [guard.name for guard in held.guards] == ["no-committed-offset"]
    assert "kept" in held.guards[0].reason
