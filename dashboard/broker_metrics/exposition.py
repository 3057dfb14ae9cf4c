"""Streams Prometheus text from a broker's exporter, line by line.

An exporter may print every bean of a broker, a hundred megabytes: lines that nobody wants are
dropped as they come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta

from dashboard.broker_metrics import fetching
from dashboard.broker_metrics.beans import wanted
from dashboard.core.errors import BrokerError

_LONGEST_LINE_BYTES = 1 << 20
_SHORT_LIST = "Give it the rules of: lowwater metrics --exporter-rules."
_STEPS = {
    "METRICS_UNREACHABLE": "Start it, or open the way from this machine to it.",
    "METRICS_REFUSED": "Correct the address and its sign-in; redirects are not followed.",
    "METRICS_TOO_SLOW": _SHORT_LIST,
    "METRICS_TOO_LARGE": _SHORT_LIST,
    "METRICS_INVALID": "Name an address that answers in Prometheus text.",
    "METRICS_MISSING": _SHORT_LIST,
}


def lines(broker_id: int, source: str, timeout: timedelta) -> Iterator[str]:
    """The wanted lines of a URL or file, read as they are asked for.

    Raises BrokerError METRICS_UNREACHABLE, _REFUSED, _TOO_SLOW or _TOO_LARGE, and ValueError for
    what is no text.
    """
    try:
        for line in _split(fetching.chunks(source, timeout)):
            if wanted(line):
                yield line.decode("utf-8")
    except fetching.Unread as error:
        raise failed(broker_id, source, error.code, error.why) from error


def failed(broker_id: int, source: str, code: str, why: str) -> BrokerError:
    """The error of one broker's metrics, without what is secret in its address."""
    return BrokerError(
        broker_id,
        f"the metrics of broker {broker_id} at {fetching.shown(source)} cannot be read: {why}",
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
