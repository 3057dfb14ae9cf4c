"""Reads the metrics of all brokers side by side; one that fails costs only its own rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

from dashboard.broker_metrics import exposition
from dashboard.broker_metrics.exposition import Series, failed, metrics
from dashboard.core.canonical import parse_json
from dashboard.core.errors import BrokerError
from dashboard.domain.model import BrokerMetric, BrokerMetrics
from dashboard.settings.metric_addresses import PrometheusServer
from dashboard.settings.settings import Settings

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
            calls.append(lambda: read_prometheus(server, self.timeout))
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


def sources_of(
    settings: Settings,
    cluster_name: str | None,
    timeout: timedelta,
    more: Mapping[int, str] = MappingProxyType({}),
) -> Sources | None:
    """Those that the settings name for a cluster, with `more` above them; None: there are none."""
    own, server = settings.metrics_of(cluster_name)
    found = {**own, **more}
    return Sources(found, timeout, server) if found or server else None


def read(broker_id: int, source: str, timeout: timedelta) -> tuple[BrokerMetric, ...]:
    """One broker's metrics from an http(s) URL or a file. Raises BrokerError METRICS_…."""
    lines = exposition.lines(broker_id, source, timeout)
    try:
        found = exposition.metrics(broker_id, exposition.series_of(lines))
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
            missing[broker_id] = exposition.missing(answer)
            samples.extend(answer)
    return BrokerMetrics(tuple(samples), errors, missing)


# Reads brokers' metrics from one Prometheus server, by instant queries of its HTTP API.

# One query for each bean: `or` between them would drop series whose labels are alike.
_QUERIES = (
    '__name__=~"(?i:kafka_server_brokertopicmetrics_.+)"',
    '__name__=~"(?i:kafka_server_delayedoperationpurgatory_.+)",delayedOperation="DeleteRecords"',
    '__name__=~"(?i:kafka_network_requestmetrics_.+)",request="DeleteRecords"',
    '__name__=~"(?i:kafka_server_fetcherlagmetrics_.+)",clientId=~"ReplicaFetcherThread-.+"',
)


def read_prometheus(
    server: PrometheusServer, timeout: timedelta
) -> dict[int, tuple[BrokerMetric, ...] | BrokerError]:
    """Every broker's metrics, or why there are none. Never raises for the server.

    A broker of which the server has two different values of one metric is an error: two clusters
    under one name would be mixed.
    """
    by_value: dict[str, list[Series]] = defaultdict(list)
    try:
        token = _token(server)
        for query in _QUERIES:
            for label, one in _query(server, query, timeout, token):
                by_value[label].append(one)
    except exposition.Unread as error:
        return {b: failed(b, server.url, error.code, error.why) for b in server.brokers}
    return {b: _of_broker(server, b, by_value.get(v, [])) for b, v in server.brokers.items()}


def _of_broker(
    server: PrometheusServer, broker_id: int, series: list[Series]
) -> tuple[BrokerMetric, ...] | BrokerError:
    if not series:
        why = f'it has no series with {server.label}="{server.brokers[broker_id]}"'
        return failed(broker_id, server.url, "METRICS_MISSING", why)
    if _mixed(series, server.label):
        why = "it has several values for one of its metrics; narrow metrics.prometheus.selector"
        return failed(broker_id, server.url, "METRICS_INVALID", why)
    return metrics(broker_id, series)


def _mixed(series: list[Series], label: str) -> bool:
    """Whether two series differ only by labels that Kafka's beans do not have, such as `job`."""
    own = ("topic", "partition", "clientid", "request", "delayedoperation", "name", "quantile")
    keys = {
        (s.name, *(v for k, v in sorted(s.labels.items()) if k.lower() in own and k != label))
        for s in series
    }
    return len(keys) < len(series)


def _query(
    server: PrometheusServer, matchers: str, timeout: timedelta, token: str | None
) -> list[tuple[str, Series]]:
    """(value of the broker's label, series) of one instant query. Raises Unread."""
    chosen = f"{{{matchers}{',' + server.selector if server.selector else ''}}}"
    parts = urlsplit(server.url)
    path = f"{parts.path.rstrip('/')}/api/v1/query"
    url = urlunsplit((parts.scheme, parts.netloc, path, urlencode({"query": chosen}), ""))
    body = b"".join(exposition.chunks(url, timeout, token))
    try:
        answer = parse_json(body)
        if answer["status"] != "success":
            raise exposition.Unread("METRICS_REFUSED", str(answer.get("error", "no reason given")))
        return [_series(row, server.label) for row in answer["data"]["result"]]
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise exposition.Unread(
            "METRICS_INVALID", "it does not answer as Prometheus' query API does"
        ) from error


def _series(row: Mapping[str, Any], label: str) -> tuple[str, Series]:
    labels = {str(k): str(v) for k, v in row["metric"].items()}
    name = labels.pop("__name__")
    "".join(labels.values()).encode()  # half a surrogate pair is no text: no table takes it
    return labels.get(label, ""), Series(name, labels, float(row["value"][1]))


def _token(server: PrometheusServer) -> str | None:
    if server.token_file is None:
        return server.token
    try:
        return Path(server.token_file).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, ValueError, RuntimeError) as error:
        why = f"the token file {server.token_file} cannot be read"
        raise exposition.Unread("METRICS_REFUSED", why) from error
