"""Reads from kept snapshots how many bytes left each topic, and how far its groups came."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from dashboard.metrics.topic_bytes import BYTES_OUT
from dashboard.model import TopicPartition
from dashboard.purge.unseen_readers import TopicReading
from dashboard.snapshots import ClusterStore

WINDOW = timedelta(hours=24)
# Enough to see restarts and resets between; a day of watch keeps some eighty snapshots.
_NEWEST, _SPREAD = 6, 12


@dataclass(frozen=True, slots=True)
class Sample:
    """What one snapshot tells of the topics asked about.

    `bytes_out` maps a broker to topic -> its counter since its start; a broker that answered
    stands there even without a topic. `commits` maps (group, partition) to the offset,
    `starts` a partition to its leader's log start, `record_bytes` to the leader's bytes by offset
    held, `hosts` a topic to the brokers of its replicas.
    """

    taken_at: datetime
    bytes_out: Mapping[int, Mapping[str, float]]
    commits: Mapping[tuple[str, TopicPartition], int] = field(default_factory=dict)
    starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    record_bytes: Mapping[TopicPartition, float] = field(default_factory=dict)
    hosts: Mapping[str, frozenset[int]] = field(default_factory=dict)


def topic_readings(
    store: ClusterStore, topics: Iterable[str], now: datetime
) -> dict[str, TopicReading]:
    """The reading of each topic over the kept snapshots of the last day that hold metrics.

    A topic that is missing has no metrics at all. Raises StoreError.
    """
    wanted = sorted(set(topics))
    oldest = f"{now - WINDOW:%Y%m%dT%H%M%S}"
    ids = [name for name in store.ids("snapshots") if name >= oldest]
    picked = sorted({*ids[-_NEWEST:], *ids[:: max(1, len(ids) // _SPREAD)]})
    samples = [s for name in picked if (s := _sample(store, name, wanted)) is not None]
    return {topic: reading(samples, topic) for topic in wanted} if samples else {}


def reading(samples: list[Sample], topic: str) -> TopicReading:
    """One topic's reading from samples, oldest first.

    Bytes out is the sum of counter differences per broker; a counter that fell began anew at 0
    (a restart, or the leadership that went and came). Explained is an estimate: the progress of
    every group's committed offset on a partition x the leader's bytes by offset held there, the
    lowest of the window (after a purge the leader's size counts a segment that mostly went). A
    group's first commit counts from the log start.
    """
    hosts = samples[-1].hosts.get(topic, frozenset())
    counted = {b for b in hosts if sum(b in s.bytes_out for s in samples) > 1}
    partitions = sum(key.topic == topic for key in samples[-1].starts)
    if not counted:
        none = "no broker of it has two samples of metrics within a day"
        return TopicReading(topic, partitions=max(1, partitions), why=none)
    window = samples[-1].taken_at - samples[0].taken_at
    silent = ", ".join(str(b) for b in sorted(hosts - counted))
    explained = _explained(samples, topic)
    why: str | None = None
    if explained is None:
        why = "the size of its records is unknown"
    elif silent:
        why = f"broker {silent} has no two samples of metrics within a day"
    return TopicReading(
        topic,
        round(sum(_sent(samples, broker, topic) for broker in counted)),
        explained,
        max(1, round(window.total_seconds() * 1000)),
        max(1, partitions),
        why,
    )


def _sent(samples: list[Sample], broker_id: int, topic: str) -> float:
    # A topic without a counter was not fetched since the broker's start: Kafka makes it then.
    seen = [s.bytes_out[broker_id].get(topic, 0.0) for s in samples if broker_id in s.bytes_out]
    return sum(after - before if after >= before else after for before, after in pairwise(seen))


def _explained(samples: list[Sample], topic: str) -> int | None:
    total = 0.0
    for key, records in _progress(samples, topic).items():
        sizes = [s.record_bytes[key] for s in samples if key in s.record_bytes]
        if records and not sizes:
            return None
        total += records * min(sizes, default=0.0)
    return round(total)


def _progress(samples: list[Sample], topic: str) -> dict[TopicPartition, int]:
    """Offsets that all groups together committed their way forward, by partition."""
    last = dict(samples[0].commits)
    found: dict[TopicPartition, int] = {}
    for before, after in pairwise(samples):
        for claim, offset in after.commits.items():
            key = claim[1]
            if key.topic == topic:
                was = last.get(claim, before.starts.get(key, after.starts.get(key, offset)))
                found[key] = found.get(key, 0) + max(0, offset - was)
        last.update(after.commits)
    return found


def _sample(store: ClusterStore, snapshot: str, topics: list[str]) -> Sample | None:
    manifest = store.manifest("snapshots", snapshot)
    if not manifest.tables.get("broker_metrics"):
        return None
    import pyarrow.compute as pc  # slow to import; a purge without snapshots does without

    columns = ["topic_no", "topic"]
    names = store.read("snapshots", snapshot, "topics", columns).to_pylist()
    numbers = {row["topic_no"]: row["topic"] for row in names if row["topic"] in topics}
    chosen = pc.field("topic_no").isin(sorted(numbers))
    replicas = store.read("snapshots", snapshot, "replicas").filter(chosen).to_pylist()
    commits = store.read("snapshots", snapshot, "group_offsets").filter(chosen).to_pylist()
    hosts: dict[str, set[int]] = {}
    for row in replicas:
        hosts.setdefault(numbers[row["topic_no"]], set()).add(row["broker_id"])
    leaders = {_key(numbers, row): row for row in replicas if row["is_leader"]}
    return Sample(
        manifest.taken_at,
        _counters(store, snapshot, topics),
        {
            (row["group_id"], _key(numbers, row)): row["committed_offset"]
            for row in commits
            if row["committed_offset"] is not None
        },
        {k: r["log_start_offset"] for k, r in leaders.items() if r["log_start_offset"] is not None},
        {k: size for k, r in leaders.items() if (size := _record_bytes(r)) is not None},
        {topic: frozenset(brokers) for topic, brokers in hosts.items()},
    )


def _counters(store: ClusterStore, snapshot: str, topics: list[str]) -> dict[int, dict[str, float]]:
    import pyarrow.compute as pc

    rows = store.read("snapshots", snapshot, "broker_metrics")
    counts = rows.filter(pc.field("name") == BYTES_OUT)
    found: dict[int, dict[str, float]] = {b: {} for b in pc.unique(rows["broker_id"]).to_pylist()}
    topic_of = {json.dumps({"topic": t}, separators=(",", ":")): t for t in topics}
    for row in counts.filter(pc.field("labels").isin(list(topic_of))).to_pylist():
        found[row["broker_id"]][topic_of[row["labels"]]] = row["value"]
    return found


def _record_bytes(leader: Mapping[str, Any]) -> float | None:
    start, end, size = (leader[n] for n in ("log_start_offset", "log_end_offset", "size_bytes"))
    if start is None or end is None or size is None or end <= start:
        return None
    return int(size) / int(end - start)


def _key(numbers: Mapping[int, str], row: Mapping[str, Any]) -> TopicPartition:
    return TopicPartition(numbers[row["topic_no"]], row["partition"])
