"""What a deleted topic left on one broker's disk: a folder written there before its first start.

Its records are real and a month old. The broker itself finds that no topic has its id and sets it
aside as `-stray`, as it does with a topic that was deleted while it was down.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path

import dashboard.cluster.protocol.messages  # noqa: F401  # first: kafka's protocol without its clients
from dashboard.demo.kafka.server_properties import kafka_uuid
from dashboard.inventory.names import PARTITION_METADATA

# isort: split
from kafka.record import MemoryRecordsBuilder

TOPIC = "summer-campaign"  # of no workload
AGE = timedelta(days=30)  # past the week for which brokers keep records by default
BATCHES, RECORDS, RECORD_BYTES = 32, 60, 1000
_BASE_OFFSET_BYTES = 8  # at the head of a batch (KIP-98), and not in its checksum


def leave(log_dir: Path, now: datetime) -> Path:
    """Write partition 0 of TOPIC, some 2 MB, into the log dir of a broker that is not running."""
    folder = log_dir / f"{TOPIC}-0"
    folder.mkdir()
    (folder / PARTITION_METADATA).write_text(f"version: 0\ntopic_id: {kafka_uuid()}")
    written = now - AGE
    batch = _batch(int(written.timestamp() * 1000))[_BASE_OFFSET_BYTES:]
    log = folder / f"{0:020}.log"
    with log.open("wb") as file:
        for number in range(BATCHES):
            file.write((number * RECORDS).to_bytes(_BASE_OFFSET_BYTES, "big") + batch)
    os.utime(log, (written.timestamp(), written.timestamp()))
    return folder


def _batch(timestamp_ms: int) -> bytes:
    built = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=2 * RECORDS * RECORD_BYTES)
    for _ in range(RECORDS):
        built.append(timestamp=timestamp_ms, key=None, value=b"x" * RECORD_BYTES, headers=[])
    built.close()
    return bytes(built.buffer())
