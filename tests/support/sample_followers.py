"""Followers of the sample cluster: broker 3 falls behind on every fourth topic."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from tests.support.sample_partitions import BROKERS, Rows, SamplePartition

SLOW = 3
RATE = 500  # records that each leader writes in a second


def slow_followers(parts: list[SamplePartition], answered: list[int], taken_at: datetime) -> Rows:
    """A row per replica that does not lead; those on a broker that is missing are unknown."""
    rows = [
        _row(part, broker, broker in answered, taken_at)
        for part in parts for broker in BROKERS if broker != part.leader
    ]  # fmt: skip
    slow = sum(row["slow"] for row in rows)
    total = sum(row["broker_id"] == SLOW for row in rows)
    for row in rows:
        if row["cause"] == "broker":
            row["reason"] = f"broker {SLOW} is slow: {slow} of {total} replicas"
    return rows


def lag_of(part: SamplePartition, broker: int) -> int:
    """Records that a replica lacks, as the snapshot's log ends have it."""
    behind = 4_200 * (1 + part.partition) if broker == SLOW and part.topic_no % 4 == 0 else 0
    return min(behind, part.high_watermark - part.log_start)


def _row(part: SamplePartition, broker: int, answers: bool, taken_at: datetime) -> dict[str, Any]:
    where = {**part.key, "broker_id": broker, "leader_id": part.leader}
    if not answers:
        return {**where, "in_sync": False, "alive": False, "slow": True, "cause": "broker down",
                "reason": f"broker {broker} does not answer", "holds_low_watermark": False,
                "samples": 0}  # fmt: skip
    lag = lag_of(part, broker)
    size = part.bytes_below(part.high_watermark) - part.bytes_below(part.high_watermark - lag)
    return {
        **where, "log_dir": "/d1", "lag_records": lag, "lag_bytes": size, "lag_seconds": lag / RATE,
        "log_start_lag": 0, "trend": "falling behind" if lag else "steady",
        "catch_up_seconds": None if lag else 0.0, "in_sync": not lag, "alive": True,
        "slow": bool(lag), "cause": "broker" if lag else None, "holds_low_watermark": False,
        "append_per_second": float(RATE), "lag_per_second": 25.0 if lag else 0.0, "samples": 15,
        "observed_at": taken_at,
        "behind_since": taken_at - timedelta(minutes=9) if lag else None,
    }  # fmt: skip
