"""Picks a broker's own counts of bytes and records per topic out of Prometheus samples.

The counts are `kafka.server:type=BrokerTopicMetrics` (Kafka's class `BrokerTopicMetrics`). Its
BytesOutPerSec counts what consumers fetched and nothing else: followers are counted apart, in
ReplicationBytesOutPerSec. A JMX exporter spells these beans as its rules say; the common
spellings are read here, and written under one name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

BYTES_OUT = "kafka_server_brokertopicmetrics_bytesout_total"
_NAMES = {
    "bytesout": BYTES_OUT,
    "bytesin": "kafka_server_brokertopicmetrics_bytesin_total",
    "messagesin": "kafka_server_brokertopicmetrics_messagesin_total",
}
_PREFIX = "kafka_server_brokertopicmetrics_"
# Rates (OneMinuteRate …) stand beside the counts: only a count's ending is taken. JMX exporter
# 1.x drops `_total` where no rule says COUNTER: `bytesout` alone is a count, `…persec` may be any.
_PER_BEAN = re.compile(
    rf"{_PREFIX}([a-z]+?)(?:(?:persec)?(?:_count|_total|_count_total)|(?<!persec))"
)
# Without rules the bean's name is a label, and the attribute's name ends the metric's.
_WITHOUT_RULES = re.compile(rf"{_PREFIX}count(?:_total)?")


def counts(
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
        labels = json.dumps({"topic": topic} if topic else {}, separators=(",", ":"))
        # Two spellings of one counter may stand side by side: they count the same bytes.
        found[name, labels] = max(value, found.get((name, labels), 0.0))
    return found


def _canonical(name: str, bean: str) -> str | None:
    if _WITHOUT_RULES.fullmatch(name):
        return _NAMES.get(bean.removesuffix("persec"))
    match = _PER_BEAN.fullmatch(name)
    return _NAMES.get(match[1]) if match else None
