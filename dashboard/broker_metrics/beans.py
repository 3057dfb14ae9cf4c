"""Which of a broker's beans are wanted, in the spellings that exporters give them.

Bytes and records by topic are `topic_bytes`' own. Beside them: DeleteRecords requests that wait
(`DelayedOperationPurgatory`), how long DeleteRecords requests take (`RequestMetrics`), and how far
each fetcher is behind its leader (`FetcherLagMetrics`). All are written under one name each.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TextIO, cast

from prometheus_client.parser import text_fd_to_metric_families

from dashboard.domain.metric_names import (
    CONSUMER_LAG,
    COUNTERS,
    PURGATORY_SIZE,
    REQUEST_TIME,
    STARTED,
    TOPIC_METRICS,
    labels,
)
from dashboard.domain.metric_names import TOPIC_METRICS as _PREFIX
from dashboard.domain.model import BrokerMetric

_DELETE = "deleterecords"
_FETCHERS = "replicafetcherthread"
_PREFIXES = {
    "BrokerTopicMetrics": TOPIC_METRICS,
    "DelayedOperationPurgatory": "kafka_server_delayedoperationpurgatory_",
    "RequestMetrics": "kafka_network_requestmetrics_",
    "FetcherLagMetrics": "kafka_server_fetcherlagmetrics_",
}
# A broker that follows nobody has no fetcher: its bean is not missing.
_ALWAYS = ("BrokerTopicMetrics", "DelayedOperationPurgatory", "RequestMetrics")
_BYTE_PREFIXES = tuple(prefix.encode() for prefix in (*_PREFIXES.values(), STARTED))
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
    found = topic_counts((s.name, s.labels, s.value) for s in listed)
    if found and (started := [s.value for s in listed if s.name.lower() == STARTED]):
        found[STARTED, labels()] = max(started)
    lags: list[float] = []
    for one in listed:
        name, of = one.name.lower(), {k.lower(): v for k, v in one.labels.items()}
        if _is(name, of, PURGATORY_SIZE, "value", "delayedoperation"):
            found[PURGATORY_SIZE, labels(delayedOperation="DeleteRecords")] = one.value
        elif (time := _time(name, of)) is not None:
            found[f"{REQUEST_TIME}_{time}", labels(request="DeleteRecords")] = one.value
        elif _lag(name, of):
            lags.append(one.value)
            if one.value > 0:
                found[CONSUMER_LAG, labels(**_where(of))] = one.value
    if lags:
        found[CONSUMER_LAG, labels()] = max(lags)
    if found.get((f"{REQUEST_TIME}_count", labels(request="DeleteRecords"))) == 0:
        for name in ("mean", "99thpercentile"):
            found.pop((f"{REQUEST_TIME}_{name}", labels(request="DeleteRecords")), None)
    return tuple(BrokerMetric(broker_id, *key, found[key]) for key in sorted(found))


def missing(found: Iterable[BrokerMetric]) -> tuple[str, ...]:
    """Beans of the list that every broker has and of which nothing came."""
    names = {metric.name for metric in found}
    return tuple(
        bean
        for bean in _ALWAYS
        if not any(name.startswith(_PREFIXES[bean]) for name in names)
    )  # fmt: skip


def _is(name: str, of: Mapping[str, str], whole: str, attribute: str, by: str) -> bool:
    """Whether it is that gauge of DeleteRecords, spelt out or as `BEAN_Value{name="NAME"}`."""
    bean, _, last = whole.rpartition("_")
    spelt = name == whole or (name == f"{bean}_{attribute}" and of.get("name", "").lower() == last)
    return spelt and of.get(by, "").lower() == _DELETE


def _time(name: str, of: Mapping[str, str]) -> str | None:
    """`mean`, `99thpercentile` or `count` of the total time of DeleteRecords requests."""
    if of.get("request", "").lower() != _DELETE:
        return None
    bean = _PREFIXES["RequestMetrics"]
    if of.get("name", "").lower() == "totaltimems" and name.startswith(bean):
        return _OF_TIMES.get(name.removeprefix(bean).removesuffix("_total"))
    if name == REQUEST_TIME:
        return "99thpercentile" if of.get("quantile") == "0.99" else None
    if name.startswith(f"{REQUEST_TIME}_"):
        return _OF_TIMES.get(name.removeprefix(f"{REQUEST_TIME}_").removesuffix("_total"))
    return None


def _lag(name: str, of: Mapping[str, str]) -> bool:
    """ConsumerLag of a replica's fetcher; the broker's own internal consumers have one too."""
    bean = _PREFIXES["FetcherLagMetrics"]
    spelt = name == CONSUMER_LAG or (
        name == f"{bean}value" and of.get("name", "").lower() == "consumerlag"
    )
    return spelt and of.get("clientid", "").lower().startswith(_FETCHERS)


def _where(of: Mapping[str, str]) -> dict[str, str]:
    names = {"clientid": "clientId", "partition": "partition", "topic": "topic"}
    return {spelt: of[name] for name, spelt in names.items() if name in of}


# Picks a broker's own counts of bytes, records and requests out of Prometheus samples.
#
# The counts are `kafka.server:type=BrokerTopicMetrics` (Kafka's class `BrokerTopicMetrics`). Its
# BytesOutPerSec counts what consumers fetched and nothing else: followers are counted apart, in
# ReplicationBytesOutPerSec. A JMX exporter spells these beans as its rules say; the common
# spellings are read here, and written under one name.

_NAMES = {
    name.removeprefix(_PREFIX).removesuffix("_total"): name
    for name in COUNTERS.values()
    if name.startswith(_PREFIX)
}
# Rates (OneMinuteRate …) stand beside the counts: only a count's ending is taken. JMX exporter
# 1.x drops `_total` where no rule says COUNTER: `bytesout` alone is a count, `…persec` may be any.
_PER_BEAN = re.compile(
    rf"{_PREFIX}([a-z]+?)(?:(?:persec)?(?:_count|_total|_count_total)|(?<!persec))"
)
# Without rules the bean's name is a label, and the attribute's name ends the metric's.
_WITHOUT_RULES = re.compile(rf"{_PREFIX}count(?:_total)?")


def topic_counts(
    samples: Iterable[tuple[str, Mapping[str, str], float]],
) -> dict[tuple[str, str], float]:
    """(name, labels) -> count, of samples by name and labels; without a topic it counts all topics.

    `labels` is `{"topic": …}` or `{}` as canonical JSON.
    """
    found: dict[tuple[str, str], float] = {}
    for spelt, of, value in samples:
        name = _canonical(spelt.lower(), of.get("name", "").lower())
        if name is None:
            continue
        topic = of.get("topic", "")
        key = name, labels(topic=topic) if topic else labels()
        # Two spellings of one counter may stand side by side: they count the same bytes.
        found[key] = max(value, found.get(key, 0.0))
    return found


def _canonical(name: str, bean: str) -> str | None:
    if _WITHOUT_RULES.fullmatch(name):
        return _NAMES.get(bean.removesuffix("persec"))
    match = _PER_BEAN.fullmatch(name)
    return _NAMES.get(match[1]) if match else None
