"""Reads the metrics of all brokers side by side; one that fails costs only its own rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta

from dashboard.broker_metrics import beans, exposition, prometheus_server
from dashboard.core.errors import BrokerError
from dashboard.domain.model import BrokerMetric, BrokerMetrics
from dashboard.settings.metric_addresses import PrometheusServer

Answer = tuple[BrokerMetric, ...] | BrokerError


@dataclass(frozen=True, slots=True)
class Sources:
    """The source of each broker's metrics, a server for the others, and how long one may take."""

    by_broker: Mapping[int, str]
    timeout: timedelta
    server: PrometheusServer | None = None

    def read(self) -> BrokerMetrics:
        """The metrics of every broker that answered, and each other broker's error.

        Never raises for one broker. An endpoint of its own stands above the server.
        """
        calls: list[Callable[[], Mapping[int, Answer]]] = [
            self._of_broker(broker_id) for broker_id in sorted(self.by_broker)
        ]
        if self.server is not None:
            server = self.server
            calls.append(lambda: prometheus_server.read(server, self.timeout))
        if not calls:
            return BrokerMetrics((), {})
        found: dict[int, Answer] = {}
        with ThreadPoolExecutor(min(32, len(calls)), thread_name_prefix="metrics") as pool:
            for answers in pool.map(lambda call: call(), calls):
                found |= {b: answer for b, answer in answers.items() if b not in found}
        return _told(found)

    def _of_broker(self, broker_id: int) -> Callable[[], Mapping[int, Answer]]:
        return lambda: {broker_id: self._read_one(broker_id)}

    def _read_one(self, broker_id: int) -> Answer:
        try:
            return read(broker_id, self.by_broker[broker_id], self.timeout)
        except BrokerError as error:
            return error


def read(broker_id: int, source: str, timeout: timedelta) -> tuple[BrokerMetric, ...]:
    """One broker's metrics from an http(s) URL or a file. Raises BrokerError METRICS_…."""
    lines = exposition.lines(broker_id, source, timeout)
    try:
        found = beans.metrics(broker_id, beans.series_of(lines))
    except ValueError as error:
        raise exposition.failed(broker_id, source, "METRICS_INVALID", f"{error}") from error
    if not found:
        why = "none of the wanted beans is in it"
        raise exposition.failed(broker_id, source, "METRICS_MISSING", why)
    return found


def _told(answers: Mapping[int, Answer]) -> BrokerMetrics:
    samples: list[BrokerMetric] = []
    errors: dict[int, str | None] = {}
    missing: dict[int, tuple[str, ...]] = {}
    for broker_id, answer in sorted(answers.items()):
        if isinstance(answer, BrokerError):
            errors[broker_id] = f"{answer.code}: {answer.message}"
        else:
            errors[broker_id] = None
            missing[broker_id] = beans.missing(answer)
            samples.extend(answer)
    return BrokerMetrics(tuple(samples), errors, missing)
