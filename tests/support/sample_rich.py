"""The sample cluster on a bad night: orphans of every kind, followers slow in every way."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from dashboard.domain.acts import CHECKPOINT_ENTRY, KINDS
from tests.support import sample_followers
from tests.support.sample_partitions import Rows

MIB = 2**20
INDEXES = 40 * MIB
_REASONS = {
    "removable": "every snapshot of 9 h that could look there shows it, 540 of them; no "
    "assignment names it; its newest record is 40 d old, past the broker's 7 d of retention",
    "scheduled": "its newest record is 2 d old; the broker keeps records for 7 d",
    "never": "no topic id: nothing tells this folder from the one of a topic of the same name",
}
# directory, topic, partition, kind, MiB, age of the newest record in days, verdict
_FOLDERS = (
    ("clicks-v1-0.0a4f77c1b2d34e5f8a9b0c1d2e3f4a5b-stray", "clicks-v1", 0, "stray", 614, 40,
     "removable"),
    ("clicks-v1-3.1b4f77c1b2d34e5f8a9b0c1d2e3f4a5b-stray", "clicks-v1", 3, "stray", 580, 40,
     "removable"),
    ("refunds-old-0", "refunds-old", 0, "deleted-topic", 307, 2, "scheduled"),
    ("orders-5", "orders", 5, "recreated-topic", 210, 60, "removable"),
    ("payments-2", "payments", 2, "moved-away", 144, 30, "removable"),
    ("skewed-1.9c1d2e3f4a5b0a4f77c1b2d34e5f8a9b-future", "skewed", 1, "abandoned-future", 96, 12,
     "removable"),
    ("carts-0.7d1d2e3f4a5b0a4f77c1b2d34e5f8a9b-delete", "carts", 0, "late-delete", 33, 8,
     "scheduled"),
    ("customer-state-1", "customer-state", 1, "two-log-dirs", 12, 90, "removable"),
    ("legacy-0", "legacy", 0, "deleted-topic", 5, 400, "never"),
    (None, "tx-old", 0, CHECKPOINT_ENTRY, None, None, "never"),
)  # fmt: skip


def orphans(taken_at: datetime) -> Rows:
    """One of every kind at least, on broker 3 and (the last but one) on broker 2."""
    return [_orphan(at, folder, taken_at) for at, folder in enumerate(_FOLDERS)]


def _orphan(at: int, folder: tuple[Any, ...], taken_at: datetime) -> dict[str, Any]:
    directory, topic, partition, kind, mib, age, verdict = folder
    assert kind in KINDS
    size = None if mib is None else mib * MIB
    broker = 2 if topic == "legacy" else 3
    where = f"/d1/{directory}" if directory else f"a checkpoint entry of {topic}-{partition}"
    return {
        "broker_id": broker, "log_dir": "/d1", "directory": directory, "topic": topic,
        "partition": partition, "kind": kind, "size_bytes": size,
        "topic_id": None if verdict == "never" else f"{'xQ7d' * 5}{at:02d}",
        "current_topic_id": f"{at:022d}" if kind in ("recreated-topic", "moved-away") else None,
        "allocated_bytes": None if size is None else size + MIB, "index_bytes": 20 * MIB,
        "newest_at": None if age is None else taken_at - timedelta(days=age),
        "first_seen_at": taken_at - timedelta(hours=9), "last_seen_at": taken_at,
        "snapshots_seen": 540, "verdict": verdict, "reason": _REASONS[verdict],
        "check_at": taken_at + timedelta(days=5) if verdict == "scheduled" else None,
        "evidence": f"Seen 540 times. The inventory shows {where}. DescribeLogDirs does not list "
        f"it there. The metadata knows no topic {topic} with that id.",
    }  # fmt: skip


def disk(row: dict[str, Any], rows: Rows) -> dict[str, Any]:
    """A row of `disks` with these orphans on it; broker 1 has no inventory."""
    if row["broker_id"] == 1 or row.get("unexplained_bytes") is None:
        return row
    mine = [r for r in rows if r["broker_id"] == row["broker_id"] and r["size_bytes"]]
    stray = sum(r["allocated_bytes"] for r in mine if r["kind"] == "stray")
    other = sum(r["allocated_bytes"] for r in mine) - stray
    used = row["total_bytes"] - row["usable_bytes"]
    live = row["reclaimable_bytes"] + row["held_bytes"] + row["live_bytes"]
    parts = {"stray_bytes": stray, "orphan_bytes": other, "delete_bytes": 90 * MIB,
             "index_bytes": INDEXES, "future_bytes": 180 * MIB}  # fmt: skip
    scanned = rows[0]["last_seen_at"] - timedelta(hours=5)
    rest = used - live - sum(parts.values())
    return {**row, **parts, "unexplained_bytes": rest, "inventory_at": scanned}


def followers(rows: Rows) -> Rows:
    """Broker 3 is slow on one disk, falling; broker 2 is throttled, catching up; one replica is
    stuck behind a leader that writes nothing; of one nothing is known; two hold log starts back.
    """
    for row in rows:
        if row["cause"] == "broker":
            row.update({"cause": "log dir", "log_dir": "/d2",
                        "holds_low_watermark": row["partition"] > 0,
                        "log_start_lag": 1200 * row["partition"]})  # fmt: skip
        elif row["topic"] == "clickstream" and row["broker_id"] == 2:
            row.update(_slow("throttle", 61_000, 122.0, -40.0, "catching up"))
            row["reason"] = "follower.replication.throttled.rate on broker 2 is 1.0 MiB a second"
        elif row["topic"] == "payments" and (row["partition"], row["broker_id"]) == (1, 1):
            row.update(_slow("partition", 1200, None, None, "stuck"))
            row.update({"reason": "no broker, disk or rack stands out", "append_per_second": 0.0})
        elif row["topic"] == "audit-log" and row["broker_id"] == 1:
            row.update(dict.fromkeys(("lag_records", "lag_bytes", "lag_seconds", "log_start_lag")))
    slow = sum(row["cause"] == "log dir" for row in rows)
    for row in rows:
        if row["cause"] == "log dir":
            where = f"broker {sample_followers.SLOW} is slow on disk /d2"
            row["reason"] = f"{where}: {slow} of 40 replicas"
    return rows


def _slow(
    cause: str, records: int, seconds: float | None, falls: float | None, trend: str
) -> dict[str, Any]:
    return {"slow": True, "in_sync": False, "cause": cause, "lag_records": records,
            "lag_bytes": records * 400, "lag_seconds": seconds, "lag_per_second": falls,
            "trend": trend,
            "catch_up_seconds": 1500.0 if trend == "catching up" else None}  # fmt: skip


def lags(rows: Rows, taken_at: datetime) -> Rows:
    """Two panes of `trends` for each slow follower: half an hour of its lag."""
    found = []
    for row in rows:
        if not row["slow"] or not row.get("lag_records"):
            continue
        now, grows = row["lag_records"], row["trend"] == "falling behind"
        where = {name: row[name] for name in ("topic", "partition", "broker_id", "log_dir")}
        early = now // 5 if grows else now * 2
        half = timedelta(minutes=14)
        found += [
            {**where, "pane": "before", "lag_n": 15, "lag_first_at": taken_at - 2 * half,
             "lag_first": early // 2 if grows else early, "lag_last": early,
             "lag_last_at": taken_at - half - timedelta(minutes=1)},
            {**where, "pane": "running", "lag_n": 15, "lag_first_at": taken_at - half,
             "lag_first": early, "lag_last": now, "lag_last_at": taken_at,
             "lag_before": now - 1500 if grows else now + 2400,
             "before_at": taken_at - timedelta(minutes=1)},
        ]  # fmt: skip
    return found
