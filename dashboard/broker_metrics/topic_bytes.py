"""Picks a broker's own counts of bytes, records and requests out of Prometheus samples.

The counts are `kafka.server:type=BrokerTopicMetrics` (Kafka's class `BrokerTopicMetrics`). Its
BytesOutPerSec counts what consumers fetched and nothing else: followers are counted apart, in
ReplicationBytesOutPerSec. A JMX exporter spells these beans as its rules say; the common
spellings are read here, and written under one name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from dashboard.domain.metric_names import COUNTERS, labels
from dashboard.domain.metric_names import TOPIC_METRICS as _PREFIX

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
        key = name, labels(topic=topic) if topic else labels()
        # Two spellings of one counter may stand side by side: they count the same bytes.
        found[key] = max(value, found.get(key, 0.0))
    return found


def _canonical(name: str, bean: str) -> str | None:
    if _WITHOUT_RULES.fullmatch(name):
        return _NAMES.get(bean.removesuffix("persec"))
    match = _PER_BEAN.fullmatch(name)
    return _NAMES.get(match[1]) if match else None
