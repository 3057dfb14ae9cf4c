"""Under which names and labels a broker's own metrics are kept, and which of them are counters.

Workers of Spark read them too: nothing is imported here but numpy and pyarrow.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

PURGATORY_SIZE = "kafka_server_delayedoperationpurgatory_purgatorysize"
REQUEST_TIME = "kafka_network_requestmetrics_totaltimems"
CONSUMER_LAG = "kafka_server_fetcherlagmetrics_consumerlag"
TOPIC_METRICS = "kafka_server_brokertopicmetrics_"
BYTES_IN = f"{TOPIC_METRICS}bytesin_total"
BYTES_OUT = f"{TOPIC_METRICS}bytesout_total"
# Of the process that shows the others: with an agent in it that is the broker.
STARTED = "process_start_time_seconds"

# Counts since the broker's start, by what findings call them. BrokerTopicMetrics has each for all
# topics together, and each but replication by topic; a request counts once for each partition in
# it (ReplicaManager), a fetch also where a follower sent it. RequestMetrics counts DeleteRecords.
COUNTERS: Mapping[str, str] = {
    "bytes_in": BYTES_IN,
    "bytes_out": BYTES_OUT,
    "messages_in": f"{TOPIC_METRICS}messagesin_total",
    "replication_bytes_in": f"{TOPIC_METRICS}replicationbytesin_total",
    "replication_bytes_out": f"{TOPIC_METRICS}replicationbytesout_total",
    "fetch_requests": f"{TOPIC_METRICS}totalfetchrequests_total",
    "produce_requests": f"{TOPIC_METRICS}totalproducerequests_total",
    "delete_requests": f"{REQUEST_TIME}_count",
}

# Counts this far apart are neighbours: kept snapshots are an hour apart at most, for a week.
MOST_BETWEEN = timedelta(minutes=90)

Floats = npt.NDArray[np.float64]


def increase(before: Floats, after: Floats) -> Floats:
    """By how much counters grew; one that fell began anew at 0, as Prometheus' `increase` has it.

    A restart is such a beginning, and so is the leadership of a topic that went and came back.
    """
    return np.where(after >= before, after - before, after)


def whole(values: Floats) -> npt.NDArray[np.int64]:
    """Rounded; an exporter may say anything, and above 2^53 a float counts nothing."""
    return np.rint(np.clip(values, -_MOST, _MOST)).astype(np.int64)


_MOST = 2.0**53


def labels(**named: str) -> str:
    """Labels as canonical JSON, `{}` for none."""
    return json.dumps(named, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def places(texts: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The topic and the partition that labels name, null where they name none."""
    coded = texts.dictionary_encode()
    told = [_read(text) for text in coded.dictionary.to_pylist()]
    topics = pa.array([str(t["topic"]) if "topic" in t else None for t in told], pa.string())
    partitions = pa.array([_partition(t.get("partition")) for t in told], pa.int32())
    return topics.take(coded.indices), partitions.take(coded.indices)


def _read(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _partition(text: Any) -> int | None:
    """An exporter's rules may put anything there."""
    known = isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 10
    return int(text) if known else None
