"""Streams Prometheus text from a broker's exporter or a file, line by line, within limits; and
which of its beans are wanted, in the spellings that exporters give them.

An exporter may print every bean of a broker, a hundred megabytes: lines that nobody wants are
dropped as they come.

Bytes and records by topic are `topic_bytes`' own. Beside them: DeleteRecords requests that wait
(`DelayedOperationPurgatory`), how long DeleteRecords requests take (`RequestMetrics`), and how far
each fetcher is behind its leader (`FetcherLagMetrics`). All are written under one name each.
"""

from __future__ import annotations

import base64
import math
import os
import re
import select
import stat
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from http.client import HTTPException
from typing import TextIO, cast
from urllib.parse import unquote, urlsplit, urlunsplit

from prometheus_client.parser import text_fd_to_metric_families

from dashboard.core.errors import BrokerError
from dashboard.core.words import duration
from dashboard.domain.metric_names import (
    CONSUMER_LAG,
    COUNTERS,
    MOST_BETWEEN,
    PURGATORY_SIZE,
    REQUEST_TIME,
    STARTED,
    TOPIC_METRICS,
    labels,
)
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
    try:
        for family in text_fd_to_metric_families(cast(TextIO, lines)):
            for sample in family.samples:
                # It makes an int of a whole number, which no column of doubles takes above 2^53.
                yield Series(sample.name, sample.labels, float(sample.value))
    except (IndexError, OverflowError) as error:  # the parser's own, at `, ="b"` and a huge time
        raise ValueError("it has a line that cannot be read") from error


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
    name.removeprefix(TOPIC_METRICS).removesuffix("_total"): name
    for name in COUNTERS.values()
    if name.startswith(TOPIC_METRICS)
}
# Rates (OneMinuteRate …) stand beside the counts: only a count's ending is taken. JMX exporter
# 1.x drops `_total` where no rule says COUNTER: `bytesout` alone is a count, `…persec` may be any.
_PER_BEAN = re.compile(
    rf"{TOPIC_METRICS}([a-z]+?)(?:(?:persec)?(?:_count|_total|_count_total)|(?<!persec))"
)
# Without rules the bean's name is a label, and the attribute's name ends the metric's.
_WITHOUT_RULES = re.compile(rf"{TOPIC_METRICS}count(?:_total)?")


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


_LONGEST_LINE_BYTES = 1 << 20
_SHORT_LIST = "Give it the rules of: lowwater metrics --exporter-rules."
_STEPS = {
    "METRICS_UNREACHABLE": "Start it, or open the way from this machine to it.",
    "METRICS_REFUSED": "Correct the address and its sign-in; redirects are not followed.",
    "METRICS_TOO_SLOW": _SHORT_LIST,
    "METRICS_TOO_LARGE": _SHORT_LIST,
    "METRICS_INVALID": "Name an address that answers in Prometheus text.",
    "METRICS_MISSING": _SHORT_LIST,
    "METRICS_STALE": "Start what fills it; it is read again at the next collection.",
}


def lines(broker_id: int, source: str, timeout: timedelta) -> Iterator[str]:
    """The wanted lines of a URL or file, read as they are asked for.

    Raises BrokerError METRICS_UNREACHABLE, _REFUSED, _STALE, _TOO_SLOW or _TOO_LARGE, and
    ValueError for what is no text.
    """
    try:
        for line in _split(chunks(source, timeout)):
            if wanted(line):
                yield line.decode("utf-8")
    except Unread as error:
        raise failed(broker_id, source, error.code, error.why) from error


def failed(broker_id: int, source: str, code: str, why: str) -> BrokerError:
    """The error of one broker's metrics, without what is secret in its address."""
    return BrokerError(
        broker_id,
        f"the metrics of broker {broker_id} at {shown(source)} cannot be read: {why}",
        _STEPS[code],
        code=code,
    )


def _split(chunks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
        if len(rest) > _LONGEST_LINE_BYTES:
            raise ValueError("a line of it never ends")
    if rest:
        yield rest


# The JMX exporter's rules file that brokers need: a short list of beans, one name each.

# With every bean a broker of 5,000 partitions shows 57,000 series and a scrape takes minutes.
RULES = """\
lowercaseOutputName: true
includeObjectNames:
  - "kafka.server:type=BrokerTopicMetrics,*"
  - "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize,delayedOperation=DeleteRecords"
  - "kafka.network:type=RequestMetrics,name=TotalTimeMs,request=DeleteRecords"
  - "kafka.server:type=FetcherLagMetrics,name=ConsumerLag,*"
rules:
  - pattern: kafka.server<type=BrokerTopicMetrics, name=((?:Replication)?Bytes(?:In|Out)|MessagesIn|Total(?:Fetch|Produce)Requests)PerSec, topic=(.+)><>Count
    name: kafka_server_brokertopicmetrics_$1_total
    type: COUNTER
    labels: {topic: "$2"}
  - pattern: kafka.server<type=BrokerTopicMetrics, name=((?:Replication)?Bytes(?:In|Out)|MessagesIn|Total(?:Fetch|Produce)Requests)PerSec><>Count
    name: kafka_server_brokertopicmetrics_$1_total
    type: COUNTER
  - pattern: kafka.server<type=DelayedOperationPurgatory, name=PurgatorySize, delayedOperation=(.+)><>Value
    name: kafka_server_delayedoperationpurgatory_purgatorysize
    type: GAUGE
    labels: {delayedOperation: "$1"}
  - pattern: kafka.network<type=RequestMetrics, name=TotalTimeMs, request=(.+)><>(Mean|99thPercentile|Count)
    name: kafka_network_requestmetrics_totaltimems_$2
    type: GAUGE
    labels: {request: "$1"}
  - pattern: kafka.server<type=FetcherLagMetrics, name=ConsumerLag, clientId=(ReplicaFetcherThread-.+), topic=(.+), partition=(.+)><>Value
    name: kafka_server_fetcherlagmetrics_consumerlag
    type: GAUGE
    labels: {clientId: "$1", topic: "$2", partition: "$3"}
"""  # noqa: E501


# Fetches metrics from an address or a file, piece by piece, within limits of size and time.

MOST_BYTES = 256 << 20
_CHUNK_BYTES = 1 << 16


class Unread(Exception):
    """Why a source could not be read: the code METRICS_… and the reason, without any secret."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code, self.why = code, why


def chunks(source: str, timeout: timedelta, token: str | None = None) -> Iterator[bytes]:
    """The bytes of an http(s) URL or a file as they come; `token` is a bearer token.

    Raises Unread METRICS_UNREACHABLE, _REFUSED, _STALE, _TOO_SLOW or _TOO_LARGE. User and password
    of the URL become Basic sign-in; redirects are not followed.
    """
    until, size = time.monotonic() + timeout.total_seconds(), 0
    try:
        for chunk in _chunks(source, timeout, token):
            size += len(chunk)
            if size > MOST_BYTES:
                raise Unread("METRICS_TOO_LARGE", f"it is longer than {MOST_BYTES >> 20} MiB")
            if time.monotonic() > until:
                raise Unread("METRICS_TOO_SLOW", "it was not through in time")
            yield chunk
    except urllib.error.HTTPError as error:
        with error:
            why = f"HTTP {error.code} {error.reason}"
        raise Unread("METRICS_REFUSED", why) from error
    except (OSError, HTTPException, UnicodeError) as error:  # a host that no name can be, too
        reason = getattr(error, "reason", None) or error
        slow = isinstance(reason, TimeoutError)
        raise Unread(
            "METRICS_TOO_SLOW" if slow else "METRICS_UNREACHABLE",
            str(reason) or type(reason).__name__,
        ) from error


def shown(source: str) -> str:
    """A source as it may be printed: no user, password or query."""
    if "://" not in source:
        return source
    parts = urlsplit(source)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def _chunks(source: str, timeout: timedelta, token: str | None) -> Iterator[bytes]:
    if "://" not in source:
        yield from _of_file(source, timeout)
        return
    request = _request(source, token)
    with _opener().open(request, timeout=timeout.total_seconds()) as answer:
        # read1 gives what has arrived: the deadline is looked at between any two of them.
        yield from iter(lambda: answer.read1(_CHUNK_BYTES), b"")


def _of_file(source: str, timeout: timedelta) -> Iterator[bytes]:
    """A named pipe may have no writer, or one that hangs: it is waited for until the time is up."""
    until = time.monotonic() + timeout.total_seconds()
    file = os.open(source, os.O_RDONLY | os.O_NONBLOCK)
    try:
        _not_stale(os.fstat(file))
        ready = select.poll()
        ready.register(file, select.POLLIN)
        while ready.poll(max(0.0, until - time.monotonic()) * 1000):
            if not (chunk := os.read(file, _CHUNK_BYTES)):
                return
            yield chunk
    finally:
        os.close(file)
    raise TimeoutError("nobody wrote into it in time")


def _not_stale(file: os.stat_result) -> None:
    """Counts of a file that was written so long ago are none of now: whoever fills it has died."""
    age = timedelta(seconds=max(0.0, time.time() - file.st_mtime))
    if stat.S_ISREG(file.st_mode) and age > MOST_BETWEEN:  # a pipe is filled as it is read
        raise Unread("METRICS_STALE", f"it was written {duration(age.total_seconds())} ago")


def _opener() -> urllib.request.OpenerDirector:
    # Neither proxies from the environment nor redirects: brokers stand beside us.
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPDefaultErrorHandler(),
    ):
        opener.add_handler(handler)
    return opener


def _request(url: str, token: str | None) -> urllib.request.Request:
    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    request = urllib.request.Request(urlunsplit((*parts[:1], host, *parts[2:])))
    if token:
        if not (token.isascii() and token.isprintable()):  # the client's own words would show it
            raise Unread("METRICS_REFUSED", "the bearer token for it is not one line of ASCII")
        request.add_header("Authorization", f"Bearer {token}")
    elif user:
        request.add_header(
            "Authorization", "Basic " + base64.b64encode(unquote(user).encode()).decode()
        )
    return request
