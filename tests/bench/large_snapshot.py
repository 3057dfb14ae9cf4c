"""A snapshot of a large cluster in the declared schemas, made from arithmetic alone."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from dashboard.store.snapshots import ClusterStore
from dashboard.store.tables import SNAPSHOT_TABLES, build

BROKERS = 3
PARTITIONS_PER_TOPIC = 25
GROUPS_PER_TOPIC = 4
MIB = 1 << 20


def write(
    cluster: ClusterStore, taken_at: datetime, *, partitions: int = 5000, groups: int = 300,
    moved: int = 0,
) -> str:  # fmt: skip
    """Write and commit a snapshot; its id. `moved` more records were written and read by all."""
    tables = _tables(partitions, groups, moved)
    writer = cluster.begin("snapshots", taken_at)
    for name, columns in tables.items():
        length = len(next(iter(columns.values())))
        stamp = {"snapshot_id": [writer.id] * length, "taken_at": [taken_at] * length}
        writer.write(name, build(SNAPSHOT_TABLES[name], stamp | columns))
    brokers = [{"broker_id": b, "reachable": True, "error": None} for b in range(BROKERS)]
    writer.commit(1.0, {"brokers": brokers, "groups_incomplete": [], "errors": []})
    return writer.id


def _tables(partitions: int, groups: int, moved: int) -> dict[str, dict[str, Any]]:
    number = np.arange(partitions, dtype=np.int64)
    topic_no = number // PARTITIONS_PER_TOPIC
    start = number % 97 * 1000
    end = start + 50_000 + number % 13 * 10_000 + moved
    topics = int(topic_no[-1]) + 1
    place = {
        "topic_no": topic_no.astype(np.int32),
        "partition": (number % PARTITIONS_PER_TOPIC).astype(np.int32),
    }
    everywhere = [list(range(BROKERS))] * partitions
    names = [f"topic-{n:04d}" for n in range(topics)]
    return {
        "brokers": {"broker_id": range(BROKERS), "host": ["127.0.0.1"] * BROKERS,
                    "reachable": [True] * BROKERS},
        "topics": {"topic_no": range(topics), "topic": names,
                   "topic_id": [f"id-{n:019d}" for n in range(topics)],
                   "is_internal": [False] * topics},
        "configs": _configs(names),
        "partitions": {**place, "leader_id": number % BROKERS, "leader_epoch": number * 0,
                       "replicas": everywhere, "isr": everywhere, "log_start_offset": start,
                       "last_stable_offset": end, "high_watermark": end},
        "replicas": _replicas(place, start, end),
        "log_dirs": {"broker_id": range(BROKERS), "log_dir": ["/d1"] * BROKERS,
                     "total_bytes": [1 << 42] * BROKERS, "usable_bytes": [1 << 40] * BROKERS},
        "groups": {"group_id": [f"group-{g:04d}" for g in range(groups)],
                   "type": ["consumer"] * groups, "state": ["Stable"] * groups,
                   "members": [1] * groups, "assigned": [[]] * groups,
                   "coordinator_answered": [True] * groups},
        "group_offsets": _offsets(place, start, end, groups, moved),
        "reassignments": {"topic_no": pa.array([], pa.int32()), "partition": []},
    }  # fmt: skip


def _configs(names: list[str]) -> dict[str, Any]:
    settings = {"cleanup.policy": "delete", "segment.bytes": str(16 * MIB)} | {
        f"other.setting.{n}": str(n) for n in range(30)
    }
    return {
        "scope": ["topic"] * len(names) * len(settings),
        "name": [name for name in names for _ in settings],
        "key": list(settings) * len(names),
        "value": list(settings.values()) * len(names),
    }


def _replicas(place: dict[str, Any], start: Any, end: Any) -> dict[str, Any]:
    size = (end - start) * 1000
    count = len(start)
    return {
        "broker_id": np.repeat(np.arange(BROKERS, dtype=np.int32), count),
        "log_dir": ["/d1"] * count * BROKERS,
        **{key: np.tile(values, BROKERS) for key, values in place.items()},
        "size_bytes": np.tile(size, BROKERS),
        "is_future": np.zeros(count * BROKERS, dtype=bool),
        "log_start_offset": np.tile(start, BROKERS),
        "log_end_offset": np.tile(end, BROKERS),
    }


def _offsets(place: dict[str, Any], start: Any, end: Any, groups: int, moved: int) -> Any:
    parts = [
        {
            "group": (place["topic_no"] * GROUPS_PER_TOPIC + k) % groups,
            "offset": start + (end - moved - start) * (k + 1) // (GROUPS_PER_TOPIC + 1) + moved,
        }
        for k in range(GROUPS_PER_TOPIC)
    ]
    group = np.concatenate([p["group"] for p in parts])
    return {
        "group_id": [f"group-{g:04d}" for g in group.tolist()],
        **{key: np.tile(values, GROUPS_PER_TOPIC) for key, values in place.items()},
        "committed_offset": np.concatenate([p["offset"] for p in parts]),
    }
