"""The sample cluster's findings, as the analysis would write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from dashboard.domain.model import Guard
from dashboard.safety import guard_texts
from dashboard.store.snapshots import ClusterStore
from dashboard.store.tables import FINDING_TABLES
from tests.support import (
    sample_followers,
    sample_idle,
    sample_retention,
    sample_rich,
    sample_traffic,
    sample_trends,
)
from tests.support.sample_partitions import (
    BROKERS,
    SILENT,
    Rows,
    SamplePartition,
    log_dir,
    table_of,
)
from tests.support.sample_topics import GROUPS

KNOTS = 6
SCANNED_AT = datetime(2026, 3, 1, 3, tzinfo=UTC)


def write(
    cluster: ClusterStore,
    parts: list[SamplePartition],
    snapshot_id: str,
    taken_at: datetime,
    missing: int | None,
    *,
    variant: str = "plain",
) -> None:
    """Write them. `rich`: a bad night; `calm`: no orphan, nobody slow; `older`: by a release that
    looked for neither; `unmeasured`: without DescribeLogDirs; `broker-away`: the controller knows
    broker 3 no more, so its log dirs are listed nowhere.
    """
    writer = cluster.begin("findings", taken_at + timedelta(seconds=2))
    answered = [broker for broker in BROKERS if broker != missing]
    reclaimable = [_reclaimable(p, t, answered) for p in parts
                   for t in ("committed", "high-watermark")]  # fmt: skip
    tables: dict[str, Rows] = {
        "reclaimable": reclaimable,
        "former_readers": [
            {**p.key, "group_id": "before-the-rebuild", "topic_id": "an-earlier-one",
             "committed_offset": 7, "last_seen_at": taken_at}
            for p in parts if "no-committed-offset" in p.topic.guards
        ],
        "holds": [
            {**p.key, "group_id": g, "committed_offset": o, "last_seen_at": taken_at,
             "last_commit_at": taken_at - timedelta(days=41 if g == "old-reporting" else 0)}
            for p in parts for g, o in p.committed.items()
        ],
        "curves": [
            {**p.key, "broker_id": b, "log_dir": "/d1", "offset": o,
             "bytes_below": p.bytes_below(o), "method": "history", "segment_bytes": 64 * 2**20}
            for p in parts for b in answered for o in _knots(p)
        ],
        "blockers": _blockers(parts, taken_at, len(answered)),
        "disks": [_disk(b, b in answered, parts, reclaimable) for b in BROKERS],
        "orphans": _orphans(taken_at) if 3 in answered else [],
        "sightings": _sightings(taken_at),
        "quality": [
            {"table": t, "broker_id": b, "rows": len(parts) if b in answered else 0,
             "expected_rows": len(parts), "complete": b in answered,
             "reason": None if b in answered else SILENT}
            for t in ("replicas", "log_dirs") for b in BROKERS
        ],
        "trends": sample_trends.trends(parts, answered, taken_at),
        "growth": sample_trends.growth(parts, answered),
        "slow_followers": sample_followers.slow_followers(parts, answered, taken_at),
        "idle_topics": sample_idle.idle_topics(parts, answered, taken_at, missing),
        "last_writes": sample_idle.last_writes(parts, taken_at),
        "retention_fit": sample_retention.retention_fit(parts, answered, taken_at),
        "reader_lags": sample_retention.reader_lags(parts, taken_at),
        "traffic": sample_traffic.traffic(parts, answered, taken_at),
        "counters": sample_traffic.counters(parts, answered, taken_at),
        "unseen_readers": sample_traffic.unseen_readers(parts, taken_at),
    }  # fmt: skip
    _VARIANTS.get(variant, lambda *_: None)(tables, taken_at)
    for table, rows in tables.items():
        writer.write(table, table_of(FINDING_TABLES[table], rows, snapshot_id, taken_at))
    writer.commit(2.1, {"snapshot_id": snapshot_id})
    cluster.set_latest(writer.id)


def _rich(tables: dict[str, Rows], taken_at: datetime) -> None:
    tables["orphans"] = sample_rich.orphans(taken_at)
    tables["disks"] = [sample_rich.disk(row, tables["orphans"]) for row in tables["disks"]]
    tables["slow_followers"] = sample_rich.followers(tables["slow_followers"])
    tables["trends"] += sample_rich.lags(tables["slow_followers"], taken_at)


def _calm(tables: dict[str, Rows], taken_at: datetime) -> None:
    tables["orphans"] = tables["sightings"] = []
    for row in tables["disks"]:
        if row.get("stray_bytes"):
            row |= {"stray_bytes": 0, "unexplained_bytes": row["unexplained_bytes"] + STRAY_BYTES}
    for row in tables["slow_followers"]:
        row |= {"slow": False, "cause": None, "reason": None}
    for row in tables["unseen_readers"]:
        row |= {"suspected": False, "explained_bytes": row["bytes_out"], "left_bytes": 0}


def _older(tables: dict[str, Rows], taken_at: datetime) -> None:
    newer = ("idle_topics", "last_writes", "retention_fit", "reader_lags", "traffic", "counters")
    for table in ("orphans", "sightings", "slow_followers", "trends", "unseen_readers", *newer):
        del tables[table]


def _unmeasured(tables: dict[str, Rows], taken_at: datetime) -> None:
    """No broker answers DescribeLogDirs: records and offsets are known, bytes are not."""
    for table in ("reclaimable", "blockers", "idle_topics", "retention_fit"):
        for row in tables[table]:
            method = {"method": None} if "method" in row else {}
            row.update({name: None for name in row if "bytes" in name} | method)
    tables["disks"] = [
        {"broker_id": broker, "measured": False, "error": "CLUSTER_AUTHORIZATION_FAILED"}
        for broker in BROKERS
    ]
    tables["growth"] = [
        {"topic": row["topic"], "samples": 0, "replicas": 0}
        for row in tables["growth"]
        if row.get("topic") and row.get("broker_id") is None
    ]
    tables["curves"] = tables["orphans"] = tables["sightings"] = []


def _away(tables: dict[str, Rows], taken_at: datetime) -> None:
    tables["disks"] = [row for row in tables["disks"] if row["broker_id"] != 3]


_VARIANTS = {
    "rich": _rich, "calm": _calm, "older": _older, "unmeasured": _unmeasured, "broker-away": _away,
}  # fmt: skip


def _target(part: SamplePartition, target: str) -> int | None:
    if target == "high-watermark":
        return part.stable
    return min(*part.committed.values(), part.stable) if part.committed else None


def _guards(part: SamplePartition, target: str) -> list[Guard]:
    topic = part.topic.topic
    facts = {"topic": topic, "policy": part.topic.cleanup, "who": "No group", "brokers": "3",
             "group_id": "metrics-tail"}  # fmt: skip
    found = [guard_texts.guard(name, **facts) for name in part.topic.guards]
    for group, offset in part.committed.items() if target == "high-watermark" else ():
        if offset < part.stable:
            found.append(guard_texts.guard(
                "unread-by-group", group_id=group, committed_offset=offset,
                target_offset=part.stable, records=part.stable - offset))  # fmt: skip
    if not part.topic.owner:
        found.append(guard_texts.guard("readers-undeclared", topic=topic))
    return found


def _reclaimable(part: SamplePartition, target: str, answered: list[int]) -> dict[str, Any]:
    offset = _target(part, target)
    copies = len(answered)
    likely = part.bytes_below(offset) * copies if offset is not None else None
    committed = _target(part, "committed")
    waits = committed is not None and committed < part.stable
    lowest = min(part.committed, key=lambda g: part.committed[g]) if part.committed else None
    return {
        **part.key, "target": target, "target_offset": offset,
        "log_start_offset": part.log_start, "high_watermark": part.high_watermark,
        "records": offset - part.log_start if offset is not None else None,
        "bytes_low": None if likely is None else int(likely * 0.93),
        "bytes_likely": likely,
        "bytes_high": None if likely is None else int(likely * 1.04),
        "bytes_at_once": None if likely is None else likely - likely % (64 * 2**20),
        "size_bytes": part.size_bytes * copies,
        "held_bytes": None if likely is None else part.size_bytes * copies - likely,
        "held_by": lowest if waits else None, "method": "history", "replicas": copies,
        "readers_declared": part.topic.owner is not None, "owner": part.topic.owner,
        "guards": [guard.to_json() for guard in _guards(part, target)],
        "limit_offset": part.stable,
    }  # fmt: skip


def _knots(part: SamplePartition) -> list[int]:
    span = part.high_watermark - part.log_start
    spread = {part.log_start + span * i // (KNOTS - 1) for i in range(KNOTS)}
    return sorted(spread | set(part.committed.values()) | {part.stable})


def _blockers(parts: list[SamplePartition], taken_at: datetime, copies: int) -> Rows:
    held: dict[tuple[str, str], int] = {}
    freed: dict[tuple[str, str], int] = {}
    for part in parts:
        lowest = _target(part, "committed")
        if lowest is None:
            continue
        for group in part.committed:
            others = [o for g, o in part.committed.items() if g != group]
            unheld = min([*others, part.stable])
            gain = max(0, part.bytes_below(unheld) - part.bytes_below(lowest)) * copies
            key = (group, part.topic.topic)
            held[key] = held.get(key, 0) + gain
            freed[key] = freed.get(key, 0) + (gain if others else 0)
    return [
        {"group_id": group, "topic": topic, "bytes_held_alone": gain,
         "bytes_freed_if_waived": freed[group, topic],
         "last_commit_at": taken_at - timedelta(days=41 if group == "old-reporting" else 0),
         "group_state": GROUPS.get(group, ("classic", "Stable", 1))[1],
         "members": GROUPS.get(group, ("classic", "Stable", 1))[2]}
        for (group, topic), gain in held.items()
    ]  # fmt: skip


def _disk(
    broker: int, answered: bool, parts: list[SamplePartition], reclaimable: Rows
) -> dict[str, Any]:
    if not answered:
        return {"broker_id": broker, "log_dir": "/d1", "measured": False,
                "error": SILENT}  # fmt: skip
    rows = [r for r in reclaimable if r["target"] == "committed"]
    free = [r for r in rows if {g["name"] for g in r["guards"]} <= {"readers-undeclared"}]
    given = sum(r["bytes_likely"] // r["replicas"] for r in free)
    held = sum(r["held_bytes"] // r["replicas"] for r in free)
    size = sum(p.size_bytes for p in parts)
    directory = log_dir(broker, True, parts)
    used = directory["total_bytes"] - directory["usable_bytes"]
    return {**{k: directory[k] for k in ("broker_id", "log_dir", "total_bytes", "usable_bytes")},
            "reclaimable_bytes": given, "held_bytes": held, "live_bytes": size - given - held,
            "future_bytes": 0, "measured": True, **_beside(broker, used - size)}  # fmt: skip


STRAY_BYTES, INDEX_BYTES = 966_367_641, 40 * 2**20  # of broker 3, whose disk was listed


def _beside(broker: int, rest: int) -> dict[str, Any]:
    """What lies beside the replicas: an inventory told it for broker 3 alone."""
    if broker != 3:
        return {"unexplained_bytes": rest, "inferred": ["unexplained"]}
    return {"stray_bytes": STRAY_BYTES, "orphan_bytes": 0, "delete_bytes": 0,
            "index_bytes": INDEX_BYTES, "unexplained_bytes": rest - STRAY_BYTES - INDEX_BYTES,
            "inventory_at": SCANNED_AT, "inferred": ["unexplained"]}  # fmt: skip


def _sightings(taken_at: datetime) -> Rows:
    """The orphans', and a folder that was seen once."""
    once = {"broker_id": 3, "log_dir": "/d1", "directory": "brief-0", "topic": "brief",
            "partition": 0, "kind": "deleted-topic", "size_bytes": 5, "snapshots_seen": 1,
            "first_seen_at": taken_at, "last_seen_at": taken_at}  # fmt: skip
    rows = [*_orphans(taken_at), once]
    return [{**row, "folder": "live" if row is once else "stray", "scanned_at": taken_at,
             "looked_at": taken_at} for row in rows]  # fmt: skip


def _orphans(taken_at: datetime) -> Rows:
    """Two stray folders of topics that were deleted while broker 3 was down."""
    seen = {"last_seen_at": taken_at, "index_bytes": 20 * 2**20, "kind": "stray",
            "broker_id": 3, "log_dir": "/d1"}  # fmt: skip
    return [
        {**seen, "directory": f"{topic}-0.{unique}-stray", "topic": topic, "partition": 0,
         "topic_id": f"{number:022d}", "size_bytes": size, "allocated_bytes": size,
         "newest_at": taken_at - timedelta(days=age), "verdict": verdict, "reason": reason,
         "first_seen_at": taken_at - timedelta(hours=hours), "snapshots_seen": hours * 60,
         "check_at": None if verdict == "removable" else taken_at + timedelta(days=5),
         "evidence": f"The inventory shows {topic}-0.{unique}-stray."}
        for number, topic, unique, size, age, hours, verdict, reason in (
            (901, "clicks-v1", "0a4f", 2 * STRAY_BYTES // 3, 40, 9, "removable",
             "every snapshot of 9 h shows it"),
            (902, "refunds-old", "77c1", STRAY_BYTES - 2 * STRAY_BYTES // 3, 2, 1, "scheduled",
             "seen by 60 snapshots over 1 h; 2 h are asked for"),
        )
    ]  # fmt: skip
