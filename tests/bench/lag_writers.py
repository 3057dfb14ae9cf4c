"""Producers of the recorded lags: topics of different rates, some idle, some in bursts."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

from confluent_kafka import Producer

from dashboard.demo.kafka.brokers import client

PARTITIONS = 4
_TICK = 0.02


@dataclass(frozen=True)
class Stream:
    """Records per second of a whole topic, bytes of each, and seconds with and without them."""

    topic: str
    rate: float
    size: int
    on: float = 1.0
    off: float = 0.0

    def due(self, since: float, until: float) -> float:
        """Records that are to be written between two times."""
        cycle = self.on + self.off
        return self.rate * (until - since) if until % cycle < self.on else 0.0


STREAMS = (
    Stream("steady", 300, 400),
    Stream("fast", 2400, 250),
    Stream("trickle", 6, 300),
    Stream("fat", 24, 20_000),
    Stream("bursty", 1500, 300, on=3, off=4),
    Stream("idle", 0, 100),
)


class Writers:
    """Writes all streams in a thread of its own; `boost` multiplies the rates of topics."""

    def __init__(self, bootstrap: str) -> None:
        limits = {"message.timeout.ms": "4000", "socket.timeout.ms": "3000", "linger.ms": "10"}
        self._producer = Producer(client(bootstrap, acks="1", **limits))
        self.boost: dict[str, float] = {}
        self._noise = os.urandom(1 << 16)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="writers")

    def __enter__(self) -> Writers:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        self._producer.purge()
        self._producer.flush(5)

    def fill(self, topic: str, total_bytes: int) -> None:
        """Write that much to a topic at once."""
        for number in range(total_bytes // 10_000):
            self._write(topic, number % PARTITIONS, 10_000)
        self._producer.flush(30)

    def _run(self) -> None:
        owed = dict.fromkeys((s.topic for s in STREAMS), 0.0)
        turn = dict.fromkeys(owed, 0)
        last = time.time()
        while not self._ends.wait(_TICK):
            now = time.time()
            for stream in STREAMS:
                boost = self.boost.get(stream.topic, 1.0)
                owed[stream.topic] += stream.due(last, now) * boost
                while owed[stream.topic] >= 1:
                    owed[stream.topic] -= 1
                    turn[stream.topic] += 1
                    self._write(stream.topic, turn[stream.topic] % PARTITIONS, stream.size)
            last = now
            self._producer.poll(0)

    def _write(self, topic: str, partition: int, size: int) -> None:
        # A full queue means that a broker is away: what is not written is not missed.
        with suppress(BufferError):
            self._producer.produce(topic, self._noise[:size], partition=partition)
