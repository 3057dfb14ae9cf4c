"""What the disks hold: the batches of each replica, read from its segments' own headers."""

from __future__ import annotations

import mmap
import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from dashboard.demo.kafka.brokers import LocalCluster
from dashboard.domain.model import TopicPartition

_HEADER = struct.Struct(">qiibihi")  # base offset, length, leader epoch, magic, checksum, …, delta
_LENGTH_COUNTS_FROM = 12


@dataclass(frozen=True)
class Log:
    """A replica's batches: their first offsets, and the bytes before each; then the log end."""

    offsets: list[int]
    before: list[int]

    def below(self, offset: int) -> int:
        """Bytes below an offset; of the batch around it the share of its offsets."""
        at = min(max(bisect_right(self.offsets, offset) - 1, 0), len(self.offsets) - 2)
        first, end = self.offsets[at], self.offsets[at + 1]
        share = min(max((offset - first) / (end - first), 0.0), 1.0)
        return round(self.before[at] + share * (self.before[at + 1] - self.before[at]))

    def offset_of(self, share: float) -> int:
        """The offset below which this share of the bytes lies, at a batch's begin."""
        return self.offsets[bisect_right(self.before, share * self.before[-1]) - 1]


def read(cluster: LocalCluster, broker_id: int, key: TopicPartition) -> Log:
    """The log as it lies on a broker's disk; `*.log.deleted` is none any more."""
    batches = [b for file in segments(cluster, broker_id, key) for b in _batches(file)]
    before = [0, *accumulate(size for _, _, size in batches)]
    return Log([*(first for first, _, _ in batches), batches[-1][1] + 1], before)


def segments(cluster: LocalCluster, broker_id: int, key: TopicPartition) -> list[Path]:
    """A replica's log segments, oldest first."""
    return sorted((cluster.log_dir(broker_id) / f"{key.topic}-{key.partition}").glob("*.log"))


def size(cluster: LocalCluster, broker_id: int, key: TopicPartition) -> int:
    """Bytes of a replica's segments now."""
    return sum(file.stat().st_size for file in segments(cluster, broker_id, key))


def _batches(file: Path) -> Iterator[tuple[int, int, int]]:
    """First offset, last offset and bytes of each batch."""
    if not file.stat().st_size:
        return
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at = 0
        while at + _HEADER.size <= len(data):
            base, length, _, _, _, _, delta = _HEADER.unpack_from(data, at)
            yield base, base + delta, length + _LENGTH_COUNTS_FROM
            at += length + _LENGTH_COUNTS_FROM
