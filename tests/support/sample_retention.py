"""Which retention fits the sample cluster's topics whose readers are declared."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from dashboard.topics.retention_fit import SHORTER, RetentionFit
from tests.support.sample_partitions import Rows, SamplePartition

_HOUR, _DAY = 3_600_000, 86_400_000
MARGIN = 2.0
# The longest lag of its readers, for how many days that was watched, and its retention.
_LAGS: dict[str, tuple[int, int, int]] = {
    "orders": (20 * _HOUR, 21, 7 * _DAY),
    "payments": (_HOUR // 4, 21, 7 * _DAY),
    "tiny-events": (_HOUR, 2, 7 * _DAY),
    "skewed": (60 * _HOUR, 21, 5 * _DAY),
    "reports-old": (41 * _DAY, 21, 30 * _DAY),
}


def retention_fit(parts: list[SamplePartition], answered: list[int], taken_at: datetime) -> Rows:
    rows = []
    for topic, (lag, days, retention) in _LAGS.items():
        own = [p for p in parts if p.topic.topic == topic and p.committed]
        if own:
            size = sum(p.size_bytes for p in own) * len(answered)
            rows.append(_row(topic, own, size, (lag, days, retention), taken_at))
    return rows


def _row(
    topic: str,
    own: list[SamplePartition],
    size: int,
    told: tuple[int, int, int],
    taken_at: datetime,
) -> dict[str, Any]:
    lag, days, retention = told
    row: dict[str, Any] = {
        "topic": topic, "owner": own[0].topic.owner, "partitions": len(own),
        "unknown_partitions": 0, "lag_since": taken_at - timedelta(days=days),
        "groups_since": taken_at - timedelta(days=days),
        "lag_low_ms": lag * 9 // 10, "lag_high_ms": lag, "margin": MARGIN, "replay_window_ms": 0,
        "retention_ms": retention, "size_bytes": size, "guards": [], "gone_groups": [],
    }  # fmt: skip
    found = RetentionFit(**row, taken_at=taken_at).judged()
    shorter = found.verdict == SHORTER
    freed = {"low": size // 4, "likely": size // 3, "high": size // 2}
    return asdict(found) | {
        f"freed_{end}_bytes": n if shorter else None for end, n in freed.items()
    }


def reader_lags(parts: list[SamplePartition], taken_at: datetime) -> Rows:
    return [
        {**p.key, "topic_id": f"{p.topic_no:022d}", "position": min(p.committed.values()),
         "knot_times": [taken_at - timedelta(days=days), taken_at],
         "knot_ends": [p.log_start, p.high_watermark], "pane_from": taken_at - timedelta(days=3),
         "lag_low_ms": lag * 9 // 10, "lag_high_ms": lag, "seen_at": taken_at,
         "since": taken_at - timedelta(days=days), "groups": sorted(p.committed),
         "groups_since": taken_at - timedelta(days=days)}
        for p in parts if p.topic.topic in _LAGS and p.committed
        for lag, days, _ in [_LAGS[p.topic.topic]]
    ]  # fmt: skip
