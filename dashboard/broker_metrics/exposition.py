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
