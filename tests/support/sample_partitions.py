"""The sample cluster's partitions: offsets, sizes and readers, from which every table comes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dashboard.store.tables import TableSpec, build
from tests.support.sample_topics import SampleTopic

BROKERS = (1, 2, 3)
DISK_BYTES = 40 * 2**30
SILENT = "no answer within 10 s"
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class SamplePartition:
    """One partition's offsets, sizes and readers, from which every table is derived."""

    topic: SampleTopic
    topic_no: int
    partition: int
    log_start: int
    high_watermark: int
    committed: dict[str, int]
    leader: int

    @property
    def key(self) -> dict[str, Any]:
        return {"topic": self.topic.topic, "partition": self.partition}

    @property
    def numbered(self) -> dict[str, Any]:
        return {"topic_no": self.topic_no, "partition": self.partition}

    def bytes_below(self, offset: int) -> int:
        """Bytes of one replica from the log start to `offset`: record sizes drift linearly."""
        first, last = self.topic.record_bytes
        span = max(self.high_watermark - self.log_start, 1)
        share = (offset - self.log_start) / span
        return int((offset - self.log_start) * (first + (last - first) * share / 2))

    @property
    def size_bytes(self) -> int:
        return self.bytes_below(self.high_watermark)

    @property
    def stable(self) -> int:
        return self.high_watermark - self.topic.unstable


def partitions(topics: Sequence[SampleTopic]) -> Iterator[SamplePartition]:
    for topic_no, topic in enumerate(topics):
        for partition in range(topic.partitions):
            records = topic.records * (topic.skew if partition == 0 else 1)
            end = topic.log_start + records - records * partition // 400
            committed = {
                group: topic.log_start + int((end - topic.log_start) * min(share, 1.0))
                for group, share in topic.groups.items()
            }
            leader = BROKERS[(topic_no + partition) % len(BROKERS)]
            yield SamplePartition(
                topic, topic_no, partition, topic.log_start, end, committed, leader
            )


def table_of(spec: TableSpec, rows: Rows, snapshot_id: str, taken_at: datetime) -> Any:
    columns: dict[str, list[Any]] = {
        field.name: [row.get(field.name) for row in rows] for field in spec.schema
    }
    columns["snapshot_id"] = [snapshot_id] * len(rows)
    columns["taken_at"] = [taken_at] * len(rows)
    return build(spec, columns)


def log_dir(broker: int, answered: bool, parts: list[SamplePartition]) -> dict[str, Any]:
    used = sum(p.size_bytes for p in parts) + (9 - 2 * broker) * 2**30
    total = max(DISK_BYTES, int(used * 1.1))
    return {"broker_id": broker, "log_dir": "/d1",
            "total_bytes": total if answered else None,
            "usable_bytes": total - used if answered else None,
            "error": None if answered else SILENT}  # fmt: skip
