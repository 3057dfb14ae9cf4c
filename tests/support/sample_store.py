"""A synthetic store in the declared schemas: one snapshot and its findings, with variants.

The numbers agree with each other (targets, curves, holds, bytes over replicas), so that pages can
be developed and tested without Kafka or Spark. `python -m tests.support.sample_store DIR
[VARIANT]` writes one.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from dashboard.core.clock import utc_now
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.store.tables import SNAPSHOT_TABLES
from tests.support import sample_findings, sample_rich
from tests.support.sample_followers import lag_of
from tests.support.sample_partitions import (
    BROKERS,
    SILENT,
    Rows,
    SamplePartition,
    log_dir,
    partitions,
    table_of,
)
from tests.support.sample_topics import GROUPS, TOPICS, large_topics

CLUSTER_ID = "sAmpLeCLusTer0000000x1"
NAME = "prod-eu"
VARIANTS = (
    "plain", "broker-missing", "stale", "no-analysis", "nothing", "large", "incomplete", "rich",
    "calm", "older", "unmeasured", "broker-away",
)  # fmt: skip

# A tenth of a second of processor time each, and most tests of pages and commands want one.
_AS_NEW = timedelta(seconds=10)
# By variant: when it was made, of what, and each file.
_LAST: dict[str, tuple[datetime, tuple[object, ...], dict[str, bytes]]] = {}


def write(
    root: Path | str,
    variant: str = "plain",
    *,
    now: datetime | None = None,
    cluster_id: str = CLUSTER_ID,
    name: str | None = None,
) -> ClusterStore:
    """A store at `root` with one snapshot and (but for `no-analysis`) its findings.

    One that is as new as others will do, where no moment is given and nothing is there yet, has the
    files of the last of its variant.
    """
    assert variant in VARIANTS, variant
    place, cluster = Path(root, cluster_id), ClusterStore(Store(str(root)), cluster_id)
    other = cluster_id != CLUSTER_ID or name is not None
    if now is not None or other or "://" in str(root) or place.exists():
        return _made(cluster, name or NAME, variant, now or utc_now())
    moment, source, files = _LAST.get(variant, (utc_now() - _AS_NEW, (), {}))
    if utc_now() - moment < _AS_NEW and source == _source():
        for file, content in files.items():
            (place / file).parent.mkdir(parents=True, exist_ok=True)
            (place / file).write_bytes(content)
        return cluster
    moment = utc_now()
    _made(cluster, NAME, variant, moment)
    found = (f for f in place.rglob("*") if f.is_file())
    _LAST[variant] = moment, _source(), {str(f.relative_to(place)): f.read_bytes() for f in found}
    return cluster


def _source() -> tuple[object, ...]:
    """What a store is made of, as far as tests replace it."""
    return NAME, TOPICS, dict(GROUPS), sample_rich.followers, sample_rich.orphans


def _made(cluster: ClusterStore, name: str, variant: str, moment: datetime) -> ClusterStore:
    taken_at = moment - (timedelta(minutes=17) if variant == "stale" else timedelta(seconds=38))
    topics = large_topics() if variant == "large" else TOPICS
    if variant == "nothing":
        topics = tuple(
            replace(t, groups={}, guards=t.guards or ("no-committed-offset",)) for t in topics
        )
    if variant == "broker-away":
        topics = tuple(replace(t, guards=("under-replicated", *t.guards)) for t in topics)
    parts = list(partitions(topics))
    cluster.write_connection("127.0.0.1:9", None, name)
    missing = 3 if variant in ("broker-missing", "broker-away") else None
    incomplete = ["no DESCRIBE on the cluster"] if variant == "incomplete" else []
    snapshot_id = _write_snapshot(cluster, parts, taken_at, missing, incomplete)
    if variant != "no-analysis":
        sample_findings.write(cluster, parts, snapshot_id, taken_at, missing, variant=variant)
    return cluster


def _write_snapshot(
    cluster: ClusterStore,
    parts: list[SamplePartition],
    taken_at: datetime,
    missing: int | None,
    incomplete: list[str],
) -> str:
    writer = cluster.begin("snapshots", taken_at)
    answered = [broker for broker in BROKERS if broker != missing]
    tables: dict[str, Rows] = {
        "brokers": [_broker(broker, missing) for broker in BROKERS],
        "topics": _topics(parts),
        "partitions": [_partition(p) for p in parts],
        "replicas": [_replica(p, b, taken_at) for p in parts for b in answered],
        "log_dirs": [log_dir(b, b in answered, parts) for b in BROKERS],
        "groups": [
            {"group_id": g, "type": t, "state": s, "members": m, "assigned": [],
             "coordinator_answered": True}
            for g, (t, s, m) in GROUPS.items()
        ],
        "group_offsets": [
            {"group_id": g, **p.numbered, "committed_offset": o}
            for p in parts for g, o in p.committed.items()
        ],
        "configs": [
            {"scope": "topic", "name": name, "key": "cleanup.policy", "value": policy,
             "source": "DYNAMIC_TOPIC_CONFIG"}
            for name, policy in sorted({(p.topic.topic, p.topic.cleanup) for p in parts})
        ],
        "reassignments": [],
    }  # fmt: skip
    for table, rows in tables.items():
        writer.write(table, table_of(SNAPSHOT_TABLES[table], rows, writer.id, taken_at))
    details = {
        "brokers": [
            {"broker_id": b, "reachable": b != missing,
             "error": None if b != missing else SILENT}
            for b in BROKERS
        ],
        "groups_incomplete": incomplete,
        "errors": [],
        "durations": {"replicas": 0.41},
        "cluster_name": cluster.name,
    }  # fmt: skip
    writer.commit(1.2, details)
    return writer.id


def _broker(broker_id: int, missing: int | None) -> dict[str, Any]:
    error = SILENT if broker_id == missing else None
    return {"broker_id": broker_id, "host": "127.0.0.1", "port": 9090 + broker_id,
            "reachable": error is None, "error": error, "api_versions": []}  # fmt: skip


def _topics(parts: list[SamplePartition]) -> Rows:
    names = {p.topic_no: p.topic for p in parts}
    return [
        {"topic_no": number, "topic": topic.topic, "topic_id": f"{number:022d}",
         "is_internal": topic.is_internal}
        for number, topic in names.items()
    ]  # fmt: skip


def _partition(part: SamplePartition) -> dict[str, Any]:
    return {**part.numbered, "leader_id": part.leader, "leader_epoch": 4,
            "replicas": list(BROKERS), "isr": list(BROKERS), "log_start_offset": part.log_start,
            "last_stable_offset": part.stable, "high_watermark": part.high_watermark}  # fmt: skip


def _replica(part: SamplePartition, broker: int, taken_at: datetime) -> dict[str, Any]:
    behind = lag_of(part, broker)
    return {"broker_id": broker, "log_dir": "/d1", **part.numbered,
            "size_bytes": part.size_bytes, "is_future": False,
            "log_start_offset": part.log_start, "log_end_offset": part.high_watermark - behind,
            "is_leader": broker == part.leader, "in_sync": behind == 0 or broker == part.leader,
            "observed_at": taken_at}  # fmt: skip


if __name__ == "__main__":
    print(write(sys.argv[1], *sys.argv[2:3]).path)
