"""Topics whose histories make bytes hard to tell: sizes that change, hot keys, rolls by time."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from confluent_kafka import Producer

from dashboard.demo.kafka.brokers import client

SMALL, LARGE = 100, 1500
PARTITION_BYTES = 40 << 20  # a segment of 1 MiB is 2.5 % of it
ROUNDS, TURNS = 20, 2  # a snapshot after each round; every topic is written to in each turn
_NOISE = os.urandom(1 << 20)


def grow(progress: float) -> int:
    """From SMALL to LARGE with the bytes written, 0 to 1."""
    return round(SMALL + (LARGE - SMALL) * progress)


def shrink(progress: float) -> int:
    """From LARGE to SMALL."""
    return grow(1 - progress)


def saw(progress: float) -> int:
    """Five times from SMALL to LARGE."""
    return grow(progress * 5 % 1)


def level(_: float) -> int:
    """Always the same."""
    return 400


@dataclass(frozen=True)
class History:
    """One topic: `sizes` of its records by progress, and each partition's `shares` of the bytes.

    `dense` says at which progress values are zeros, which its producer's compression shrinks.
    """

    name: str
    sizes: Callable[[float], int]
    shares: tuple[float, ...] = (1.07, 0.93)
    config: Mapping[str, str] = field(default_factory=dict)
    compression: str = "none"
    dense: Callable[[float], bool] = lambda _: False
    purged_after: int | None = None  # this round: a purge by somebody else, to the middle


HISTORIES = (
    History("growing", grow),
    History("shrinking", shrink, shares=(1.02, 0.89)),
    History("sawtooth", saw, shares=(1.11, 0.96)),
    History(
        "compressible",
        level,
        shares=(1.3, 1.16),
        compression="lz4",
        dense=lambda p: p * 5 % 1 < 0.4,
    ),
    History("hot-partition", grow, shares=(1.8, 0.5, 0.45, 0.55)),
    History(
        "by-time",
        saw,
        shares=(1.0, 1.05),
        config={"segment.ms": "400", "segment.bytes": str(32 << 20)},
    ),
    History("retention", grow, shares=(1.5, 1.4), config={"retention.bytes": str(PARTITION_BYTES)}),
    History("purged-before", shrink, shares=(1.15, 0.98), purged_after=10),
)


class Writer:
    """Writes every topic's next turn; batches of 16 KiB, as Java's producer makes them."""

    def __init__(self, bootstrap: str) -> None:
        shape = {"linger.ms": "100", "batch.size": str(16 << 10), "compression.type": "none"}
        self._producers = {
            kind: Producer(client(bootstrap, acks="all", **{**shape, "compression.type": kind}))
            for kind in {history.compression for history in HISTORIES}
        }
        self._written: dict[tuple[str, int], int] = {}

    def turn(self, number: int) -> None:
        """The `number`-th of ROUNDS x TURNS, acknowledged by all replicas."""
        for history in HISTORIES:
            for partition, share in enumerate(history.shares):
                total = int(PARTITION_BYTES * share)
                self._fill(history, partition, total, total * (number + 1) // (ROUNDS * TURNS))
        for producer in self._producers.values():
            assert producer.flush(60) == 0

    def _fill(self, history: History, partition: int, total: int, upto: int) -> None:
        producer = self._producers[history.compression]
        key = (history.name, partition)
        written = self._written.get(key, 0)
        while written < upto:
            size = history.sizes(written / total)
            at = written % (len(_NOISE) - LARGE)
            value = bytes(size) if history.dense(written / total) else _NOISE[at : at + size]
            try:
                producer.produce(history.name, value, partition=partition)
            except BufferError:
                producer.poll(0.1)
                continue
            written += size
        producer.poll(0)
        self._written[key] = written
