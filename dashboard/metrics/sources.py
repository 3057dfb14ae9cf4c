"""Reads the metrics of all brokers side by side; one that fails costs only its own rows."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta

from dashboard.errors import BrokerError
from dashboard.metrics import exposition
from dashboard.metrics.topic_bytes import topic_bytes
from dashboard.model import BrokerMetric, BrokerMetrics


@dataclass(frozen=True, slots=True)
class Sources:
    """The source of each broker's metrics, and how long one may take."""

    by_broker: Mapping[int, str]
    timeout: timedelta

    def read(self) -> BrokerMetrics:
        """The counts of every broker that answered, and each other broker's error.

        Never raises for one broker.
        """
        if not self.by_broker:
            return BrokerMetrics((), {})
        brokers = sorted(self.by_broker)
        samples: list[BrokerMetric] = []
        errors: dict[int, str | None] = {}
        with ThreadPoolExecutor(min(32, len(brokers)), thread_name_prefix="metrics") as pool:
            answers = pool.map(self._read_one, brokers)
            for broker_id, answer in zip(brokers, answers, strict=True):
                if isinstance(answer, BrokerError):
                    errors[broker_id] = f"{answer.code}: {answer.message}"
                else:
                    errors[broker_id] = None
                    samples.extend(answer)
        return BrokerMetrics(tuple(samples), errors)

    def _read_one(self, broker_id: int) -> tuple[BrokerMetric, ...] | BrokerError:
        source = self.by_broker[broker_id]
        try:
            return read(broker_id, source, self.timeout)
        except BrokerError as error:
            return error


def read(broker_id: int, source: str, timeout: timedelta) -> tuple[BrokerMetric, ...]:
    """One broker's counts from an http(s) URL or a file. Raises BrokerError METRICS_…."""
    lines = exposition.lines(broker_id, source, timeout)
    try:
        found = topic_bytes(broker_id, lines)
    except ValueError as error:
        raise exposition.failed(broker_id, source, "METRICS_INVALID", f"{error}") from error
    if not found:
        raise exposition.failed(
            broker_id, source, "METRICS_MISSING", "no count of BrokerTopicMetrics is in it"
        )
    return found
