"""Streams Prometheus text from a broker's exporter or a file, line by line, within limits.

An exporter may print every bean of a broker, a hundred megabytes: lines that nobody wants are
dropped as they come.
"""

from __future__ import annotations

import base64
import os
import stat
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from datetime import timedelta
from http.client import HTTPException
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from dashboard.broker_metrics.beans import wanted
from dashboard.core.errors import BrokerError
from dashboard.core.words import duration

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

# Counts of a file that was written longer ago are none of now: whoever fills it has died. As long
# two snapshots may be apart that are neighbours (`safety.progress.MOST_BETWEEN`).
OLDEST_FILE = timedelta(minutes=90)
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
        with Path(source).open("rb") as file:
            _not_stale(os.fstat(file.fileno()))
            yield from iter(lambda: file.read(_CHUNK_BYTES), b"")
        return
    request = _request(source, token)
    with _opener().open(request, timeout=timeout.total_seconds()) as answer:
        # read1 gives what has arrived: the deadline is looked at between any two of them.
        yield from iter(lambda: answer.read1(_CHUNK_BYTES), b"")


def _not_stale(file: os.stat_result) -> None:
    age = timedelta(seconds=max(0.0, time.time() - file.st_mtime))
    if stat.S_ISREG(file.st_mode) and age > OLDEST_FILE:  # a pipe is filled as it is read
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
        request.add_header("Authorization", f"Bearer {token}")
    elif user:
        request.add_header(
            "Authorization", "Basic " + base64.b64encode(unquote(user).encode()).decode()
        )
    return request
