"""Which of a broker's beans are wanted, in the spellings that exporters give them.

Bytes and records by topic are `topic_bytes`' own. Beside them: DeleteRecords requests that wait
(`DelayedOperationPurgatory`), how long DeleteRecords requests take (`RequestMetrics`), and how far
each fetcher is behind its leader (`FetcherLagMetrics`). All are written under one name each.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TextIO, cast

from prometheus_client.parser import text_fd_to_metric_families

from dashboard.metrics import topic_bytes
from dashboard.model import BrokerMetric

PURGATORY_SIZE = "kafka_server_delayedoperationpurgatory_purgatorysize"
REQUEST_TIME = "kafka_network_requestmetrics_totaltimems"
CONSUMER_LAG = "kafka_server_fetcherlagmetrics_consumerlag"
_DELETE = "deleterecords"
_FETCHERS = "replicafetcherthread"
_PREFIXES = {
    "BrokerTopicMetrics": "kafka_server_brokertopicmetrics_",
    "DelayedOperationPurgatory": "kafka_server_delayedoperationpurgatory_",
    "RequestMetrics": "kafka_network_requestmetrics_",
    "FetcherLagMetrics": "kafka_server_fetcherlagmetrics_",
}
# A broker that follows nobody has no fetcher: its bean is not missing.
_ALWAYS = ("BrokerTopicMetrics", "DelayedOperationPurgatory", "RequestMetrics")
_BYTE_PREFIXES = tuple(prefix.encode() for prefix in _PREFIXES.values())
_OF_TIMES = {"mean": "mean", "99thpercentile": "99thpercentile", "count": "count"}


@dataclass(frozen=True, slots=True)
class Series:
    """One sample as an exporter spells it."""

    name: str
    labels: Mapping[str, str]
    value: float


def wanted(line: bytes) -> bool:
    """Whether a line of Prometheus text may hold one of these; the others need not be parsed."""
    low = line[:60].lower()
    if not low.startswith(_BYTE_PREFIXES):
        return False
    # Of the hundreds of requests and purgatories only those of DeleteRecords.
    if low.startswith((_BYTE_PREFIXES[1], _BYTE_PREFIXES[2])):
        return _DELETE.encode() in line.lower()
    return True


def series_of(lines: Iterable[str]) -> Iterator[Series]:
    """The samples in lines of Prometheus text. Raises ValueError for a broken line."""
    for family in text_fd_to_metric_families(cast(TextIO, lines)):
        for sample in family.samples:
            yield Series(sample.name, sample.labels, sample.value)


def metrics(broker_id: int, series: Iterable[Series]) -> tuple[BrokerMetric, ...]:
    """One broker's wanted samples under their one name, sorted; `labels` is canonical JSON.

    Of lags only those above 0 have a row, and one without labels is the largest of all; request
    times have none before the first request.
    """
    listed = [one for one in series if math.isfinite(one.value)]
    found = topic_bytes.counts((s.name, s.labels, s.value) for s in listed)
    lags: list[float] = []
    for one in listed:
        name, labels = one.name.lower(), {k.lower(): v for k, v in one.labels.items()}
        if _is(name, labels, PURGATORY_SIZE, "value", "delayedoperation"):
            found[PURGATORY_SIZE, _json(delayedOperation="DeleteRecords")] = one.value
        elif (time := _time(name, labels)) is not None:
            found[f"{REQUEST_TIME}_{time}", _json(request="DeleteRecords")] = one.value
        elif _lag(name, labels):
            lags.append(one.value)
            if one.value > 0:
                found[CONSUMER_LAG, _json(**_where(labels))] = one.value
    if lags:
        found[CONSUMER_LAG, _json()] = max(lags)
    if found.get((f"{REQUEST_TIME}_count", _json(request="DeleteRecords"))) == 0:
        for name in ("mean", "99thpercentile"):
            found.pop((f"{REQUEST_TIME}_{name}", _json(request="DeleteRecords")), None)
    return tuple(BrokerMetric(broker_id, *key, found[key]) for key in sorted(found))


def missing(found: Iterable[BrokerMetric]) -> tuple[str, ...]:
    """Beans of the list that every broker has and of which nothing came."""
    names = {metric.name for metric in found}
    return tuple(
        bean
        for bean in _ALWAYS
        if not any(name.startswith(_PREFIXES[bean]) for name in names)
    )  # fmt: skip


def _is(name: str, labels: Mapping[str, str], whole: str, attribute: str, of: str) -> bool:
    """Whether it is that gauge of DeleteRecords, spelt out or as `BEAN_Value{name="NAME"}`."""
    bean, _, last = whole.rpartition("_")
    spelt = name == whole or (
        name == f"{bean}_{attribute}" and labels.get("name", "").lower() == last
    )
    return spelt and labels.get(of, "").lower() == _DELETE


def _time(name: str, labels: Mapping[str, str]) -> str | None:
    """`mean`, `99thpercentile` or `count` of the total time of DeleteRecords requests."""
    if labels.get("request", "").lower() != _DELETE:
        return None
    bean = _PREFIXES["RequestMetrics"]
    if labels.get("name", "").lower() == "totaltimems" and name.startswith(bean):
        return _OF_TIMES.get(name.removeprefix(bean).removesuffix("_total"))
    if name == REQUEST_TIME:
        return "99thpercentile" if labels.get("quantile") == "0.99" else None
    if name.startswith(f"{REQUEST_TIME}_"):
        return _OF_TIMES.get(name.removeprefix(f"{REQUEST_TIME}_").removesuffix("_total"))
    return None


def _lag(name: str, labels: Mapping[str, str]) -> bool:
    """ConsumerLag of a replica's fetcher; the broker's own internal consumers have one too."""
    bean = _PREFIXES["FetcherLagMetrics"]
    spelt = name == CONSUMER_LAG or (
        name == f"{bean}value" and labels.get("name", "").lower() == "consumerlag"
    )
    return spelt and labels.get("clientid", "").lower().startswith(_FETCHERS)


def _where(labels: Mapping[str, str]) -> dict[str, str]:
    names = {"clientid": "clientId", "partition": "partition", "topic": "topic"}
    return {spelt: labels[name] for name, spelt in names.items() if name in labels}


def _json(**labels: str) -> str:
    return json.dumps(labels, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
