"""Picks a broker's own counts of bytes and records per topic out of Prometheus text.

The counts are `kafka.server:type=BrokerTopicMetrics` (Kafka's class `BrokerTopicMetrics`). Its
BytesOutPerSec counts what consumers fetched and nothing else: followers are counted apart, in
ReplicationBytesOutPerSec. A JMX exporter spells these beans as its rules say; the common
spellings are read here, and written under one name.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import TextIO, cast

from prometheus_client.parser import text_fd_to_metric_families

from dashboard.model import BrokerMetric

BYTES_OUT = "kafka_server_brokertopicmetrics_bytesout_total"
_NAMES = {
    "bytesout": BYTES_OUT,
    "bytesin": "kafka_server_brokertopicmetrics_bytesin_total",
    "messagesin": "kafka_server_brokertopicmetrics_messagesin_total",
}
_PREFIX = b"kafka_server_brokertopicmetrics_"
# Rates (OneMinuteRate …) stand beside the counts: only a count's ending is taken. JMX exporter
# 1.x drops `_total` where no rule says COUNTER: `bytesout` alone is a count, `…persec` may be any.
_PER_BEAN = re.compile(
    rf"{_PREFIX.decode()}([a-z]+?)(?:(?:persec)?(?:_count|_total|_count_total)|(?<!persec))"
)
# Without rules the bean's name is a label, and the attribute's name ends the metric's.
_WITHOUT_RULES = re.compile(rf"{_PREFIX.decode()}count(?:_total)?")


def wanted(line: bytes) -> bool:
    """Whether a line may hold one of the counts; all others need not be parsed."""
    return line[: len(_PREFIX)].lower() == _PREFIX


def topic_bytes(broker_id: int, lines: Iterable[str]) -> tuple[BrokerMetric, ...]:
    """The counts in lines of Prometheus text, sorted; one without a topic counts all topics.

    `labels` is `{"topic": …}` or `{}` as canonical JSON. Raises ValueError for a broken line.
    """
    found: dict[tuple[str, str], float] = {}
    for name, topic, value in _samples(lines):
        labels = json.dumps({"topic": topic} if topic else {}, separators=(",", ":"))
        # Two spellings of one counter may stand side by side: they count the same bytes.
        found[name, labels] = max(value, found.get((name, labels), 0.0))
    return tuple(BrokerMetric(broker_id, *key, found[key]) for key in sorted(found))


def _samples(lines: Iterable[str]) -> Iterator[tuple[str, str, float]]:
    for family in text_fd_to_metric_families(cast(TextIO, lines)):
        for sample in family.samples:
            name = _canonical(sample.name.lower(), sample.labels.get("name", "").lower())
            if name is not None and math.isfinite(sample.value):
                yield name, sample.labels.get("topic", ""), sample.value


def _canonical(name: str, bean: str) -> str | None:
    if _WITHOUT_RULES.fullmatch(name):
        return _NAMES.get(bean.removesuffix("persec"))
    match = _PER_BEAN.fullmatch(name)
    return _NAMES.get(match[1]) if match else None
