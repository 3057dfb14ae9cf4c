"""Which retention fits each topic's declared readers, and what a shorter one would free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core.arrow import records
from dashboard.estimate.curves import kept
from dashboard.store.tables import FINDING_TABLES
from dashboard.topics.retention_fit import SHORTER, RetentionFit

_HOUR = 3_600_000
_TIME = pa.timestamp("us", tz="UTC")
_FREED = ("freed_low_bytes", "freed_likely_bytes", "freed_high_bytes")
_SIDES = ("soonest", "likely", "latest")  # what most stays, and so least is freed, comes first
_SCHEMA = pa.schema(
    [f for f in FINDING_TABLES["retention_fit"].schema if f.name not in ("snapshot_id", "taken_at")]
)


@dataclass(frozen=True, slots=True)
class _Lag:
    """What is known of how far behind a topic's readers were; a row of the sums."""

    topic: str
    partitions: int
    unknown: int
    since: datetime | None
    groups_since: datetime | None
    lag_low_ms: int | None
    lag_high_ms: int | None


@dataclass(frozen=True, slots=True)
class _Topic:
    topic: str
    topic_id: str | None
    owner: str | None
    retention_ms: int | None
    replay_window_ms: int | None
    segment_bytes: int


@dataclass(frozen=True, slots=True)
class _Rate:
    topic: str
    bytes_in_per_hour: int | None
    replicas: int | None
    window_seconds: int | None


def retention_fit(
    sums: Mapping[str, pa.Table],
    topics: pa.Table,
    growth: pa.Table,
    *,
    taken_at: datetime,
    margin: float,
) -> pa.Table:
    """The `retention_fit` table, without snapshot_id and taken_at.

    `sums`: reader_lags, last_writes and held of all buckets; `topics`: `topics.known`; `growth`:
    the table of that name. Bytes are freed by the rate of what came, as the page Growth has it:
    null where no rate is known.
    """
    found = sums["reader_lags"]
    # Mostly few topics are declared, and a row of each other one would be made for nothing.
    judged_ones = pc.field("topic").isin(found["topic"].unique())
    lags = records(found.filter(found["guard"].is_null()), _Lag)
    guards: dict[str, list[str]] = {}
    for row in found.filter(found["guard"].is_valid()).to_pylist():
        guards.setdefault(row["topic"], []).append(row["guard"])
    named = {topic.topic: topic for topic in records(topics.filter(judged_ones), _Topic)}
    gone = _gone(sums["held"].filter(judged_ones), taken_at)
    sizes = {
        row["topic"]: None if row["unmeasured"] else row["size_bytes"]
        for row in sums["last_writes"].filter(judged_ones).to_pylist()
    }
    whole = growth.filter(judged_ones & pc.field("broker_id").is_null())
    rates = {rate.topic: rate for rate in records(whole, _Rate)}
    rows = []
    for lag in sorted(lags, key=lambda lag: lag.topic):
        topic, known = named[lag.topic], not lag.unknown
        row = RetentionFit(
            topic=topic.topic, topic_id=topic.topic_id, owner=topic.owner,
            retention_ms=topic.retention_ms, replay_window_ms=topic.replay_window_ms,
            partitions=lag.partitions, unknown_partitions=lag.unknown,
            lag_since=lag.since if known else None,
            groups_since=lag.groups_since if known else None,
            lag_low_ms=lag.lag_low_ms, lag_high_ms=lag.lag_high_ms if known else None,
            taken_at=taken_at, margin=margin,
            guards=sorted(guards.get(lag.topic, ())), gone_groups=sorted(gone.get(lag.topic, ())),
            size_bytes=sizes[lag.topic],
        ).judged()  # fmt: skip
        rows.append({**asdict(row), **_freed(row, topic, rates.get(lag.topic))})
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


def _gone(held: pa.Table, taken_at: datetime) -> dict[str, set[str]]:
    """Groups that a snapshot showed on a topic and the newest does not: they may come back."""
    found: dict[str, set[str]] = {}
    missed = held.filter(pc.less(held["last_seen_at_min"], pa.scalar(taken_at, _TIME)))
    for row in missed.select(["topic", "group_id"]).to_pylist():
        found.setdefault(row["topic"], set()).add(row["group_id"])
    return found


def _freed(row: RetentionFit, topic: _Topic, rate: _Rate | None) -> dict[str, int | None]:
    """Bytes that leave under the shorter retention, on all replicas."""
    come = None if rate is None else rate.bytes_in_per_hour
    size = row.size_bytes
    fits = row.fits_ms if row.verdict == SHORTER else None
    if fits is None or rate is None or come is None or size is None or rate.window_seconds is None:
        return dict.fromkeys(_FREED)
    segment = min(size, topic.segment_bytes * (rate.replicas or 0))
    stays = kept(
        np.array([max(come, 0.0)]),
        np.array([rate.window_seconds / 3600]),
        fits / _HOUR,
        np.array([float(segment)]),
    )
    return {
        name: max(size - round(float(stays[side][0])), 0)
        for name, side in zip(_FREED, _SIDES, strict=True)
    }
