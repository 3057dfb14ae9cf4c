"""Streams Prometheus text from a broker's exporter, line by line, within limits of size and time.

An exporter may print every bean of a broker, a hundred megabytes: lines that nobody wants are
dropped as they come.
"""

from __future__ import annotations

import base64
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from datetime import timedelta
from http.client import HTTPException
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from dashboard.errors import BrokerError
from dashboard.metrics.topic_bytes import wanted

MOST_BYTES = 256 << 20
_CHUNK_BYTES = 1 << 16
_LONGEST_LINE_BYTES = 1 << 20
_STEPS = {
    "METRICS_UNREACHABLE": "Start its exporter, or open the way from this machine to it.",
    "METRICS_REFUSED": "Correct the address and its user; redirects are not followed.",
    "METRICS_TOO_SLOW": "Let the exporter list only kafka.server:type=BrokerTopicMetrics,*.",
    "METRICS_TOO_LARGE": "Let the exporter list only kafka.server:type=BrokerTopicMetrics,*.",
    "METRICS_INVALID": "Name an address that answers in Prometheus text.",
    "METRICS_MISSING": "Let the exporter list kafka.server:type=BrokerTopicMetrics,*.",
}


def lines(broker_id: int, source: str, timeout: timedelta) -> Iterator[str]:
    """The wanted lines of a URL or file, read as they are asked for.

    Raises BrokerError METRICS_UNREACHABLE, _REFUSED, _TOO_SLOW or _TOO_LARGE, and ValueError for
    what is no text.
    """
    until = time.monotonic() + timeout.total_seconds()
    try:
        for line in _split(_limited(broker_id, source, _chunks(source, timeout), until)):
            if wanted(line):
                yield line.decode("utf-8")
    except urllib.error.HTTPError as error:
        with error:
            why = f"HTTP {error.code} {error.reason}"
        raise failed(broker_id, source, "METRICS_REFUSED", why) from error
    except (TimeoutError, OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        slow = isinstance(reason, TimeoutError)
        code = "METRICS_TOO_SLOW" if slow else "METRICS_UNREACHABLE"
        raise failed(broker_id, source, code, str(reason) or type(reason).__name__) from error


def failed(broker_id: int, source: str, code: str, why: str) -> BrokerError:
    """The error of one broker's metrics, without what is secret in its address."""
    return BrokerError(
        broker_id,
        f"the metrics of broker {broker_id} at {shown(source)} cannot be read: {why}",
        _STEPS[code],
        code=code,
    )


def shown(source: str) -> str:
    """A source as it may be printed: no user, password or query."""
    if "://" not in source:
        return source
    parts = urlsplit(source)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def _chunks(source: str, timeout: timedelta) -> Iterator[bytes]:
    if "://" not in source:
        with Path(source).open("rb") as file:
            yield from iter(lambda: file.read(_CHUNK_BYTES), b"")
        return
    with _opener().open(_request(source), timeout=timeout.total_seconds()) as answer:
        # read1 gives what has arrived: the deadline is looked at between any two of them.
        yield from iter(lambda: answer.read1(_CHUNK_BYTES), b"")


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


def _request(url: str) -> urllib.request.Request:
    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    request = urllib.request.Request(urlunsplit((*parts[:1], host, *parts[2:])))
    if user:
        request.add_header(
            "Authorization", "Basic " + base64.b64encode(unquote(user).encode()).decode()
        )
    return request


def _limited(broker_id: int, source: str, chunks: Iterable[bytes], until: float) -> Iterator[bytes]:
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > MOST_BYTES:
            why = f"it is longer than {MOST_BYTES >> 20} MiB"
            raise failed(broker_id, source, "METRICS_TOO_LARGE", why)
        if time.monotonic() > until:
            raise failed(broker_id, source, "METRICS_TOO_SLOW", "it was not through in time")
        yield chunk


def _split(chunks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
        if len(rest) > _LONGEST_LINE_BYTES:
            raise ValueError("a line of it never ends")
    if rest:
        yield rest
