"""Whether somebody reads a topic whom no group shows: bytes out against what groups explain.

BytesOutPerSec of `kafka.server:type=BrokerTopicMetrics` counts the bytes that consumers fetched
from a broker, whoever they are and whether or not they commit; followers' fetches are counted
apart, in ReplicationBytesOutPerSec. A group that committed its way forward explains the records
it passed. What is left over was read by nobody who commits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# A known group may fetch its records twice (a rebalance, a crash before the commit, an average
# record size that is off); what it cannot do is fetch all of them twice as a rule.
FACTOR = 2
# One look by a tool or a person fetches up to max.partition.fetch.bytes, 1 MiB by default, of
# each partition: that is no reader.
LOOK_BYTES_PER_PARTITION = 1 << 20
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class TopicReading:
    """Bytes that left a topic in a window, and those its groups explain; None: not measured.

    `why` says what kept it from being measured, or on which brokers it was not. An unmeasured
    broker makes `bytes_out` a lower bound.
    """

    topic: str
    bytes_out: int | None = None
    explained_bytes: int | None = None
    window_ms: int | None = None
    partitions: int = 1
    why: str | None = "no broker metrics are kept"

    @property
    def suspected(self) -> bool:
        """Bytes out above FACTOR x what is explained, and above one look at every partition."""
        if self.bytes_out is None or self.explained_bytes is None:
            return False
        floor = LOOK_BYTES_PER_PARTITION * self.partitions
        return self.bytes_out > FACTOR * self.explained_bytes + floor

    @property
    def measured(self) -> str:
        """`measured`, `partly measured` (some brokers were not) or `not measured`."""
        if self.bytes_out is None or self.explained_bytes is None:
            return "not measured"
        return "partly measured" if self.why else "measured"

    def an_hour(self, size_bytes: int | None) -> int | None:
        """Bytes of the window as bytes an hour."""
        if size_bytes is None or not self.window_ms:
            return None
        return round(size_bytes * _HOUR_MS / self.window_ms)

    def to_json(self) -> dict[str, Any]:
        """A row of the preview: what was measured, in bytes an hour."""
        return {
            "topic": self.topic,
            "measured": self.measured,
            "suspected": self.suspected,
            "bytes_out_an_hour": self.an_hour(self.bytes_out),
            "explained_bytes_an_hour": self.an_hour(self.explained_bytes),
            "window_ms": self.window_ms,
            "why": self.why,
        }


def reading_of(readings: Mapping[str, TopicReading], topic: str) -> TopicReading:
    """What is known of a topic; one that nobody measured says so."""
    return readings.get(topic) or TopicReading(topic)
