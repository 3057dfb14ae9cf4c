"""Which retention fits each topic's declared readers, and what a shorter one would free."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dashboard.estimate.expiring import kept
from dashboard.store.tables import FINDING_TABLES
from dashboard.topics.retention_fit import SHORTER, RetentionFit

_HOUR = 3_600_000
_TIME = pa.timestamp("us", tz="UTC")
_FREED = ("freed_low_bytes", "freed_likely_bytes", "freed_high_bytes")
_SIDES = ("soonest", "likely", "latest")  # what most stays, and so least is freed, comes first
_SCHEMA = pa.schema(
    [f for f in FINDING_TABLES["retention_fit"].schema if f.name not in ("snapshot_id", "taken_at")]
)


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
    lags = found.filter(found["guard"].is_null()).to_pylist()
    guards: dict[str, list[str]] = {}
    for row in found.filter(found["guard"].is_valid()).to_pylist():
        guards.setdefault(row["topic"], []).append(row["guard"])
    named = _by_topic(topics.filter(judged_ones))
    gone = _gone(sums["held"].filter(judged_ones), taken_at)
    sizes = _by_topic(sums["last_writes"].filter(judged_ones))
    rates = _by_topic(growth.filter(judged_ones & pc.field("broker_id").is_null()))
    rows = []
    for lag in sorted(lags, key=lambda row: str(row["topic"])):
        topic = named[lag["topic"]]
        held = sizes[lag["topic"]]
        row = RetentionFit(
            **_known(lag, topic),
            taken_at=taken_at,
            margin=margin,
            guards=sorted(guards.get(lag["topic"], ())),
            gone_groups=sorted(gone.get(lag["topic"], ())),
            size_bytes=None if held["unmeasured"] else held["size_bytes"],
        ).judged()
        rows.append({**asdict(row), **_freed(row, topic, rates.get(lag["topic"]))})
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


def _gone(held: pa.Table, taken_at: datetime) -> dict[str, set[str]]:
    """Groups that a snapshot showed on a topic and the newest does not: they may come back."""
    found: dict[str, set[str]] = {}
    missed = held.filter(pc.less(held["last_seen_at_min"], pa.scalar(taken_at, _TIME)))
    for row in missed.select(["topic", "group_id"]).to_pylist():
        found.setdefault(row["topic"], set()).add(row["group_id"])
    return found


def _by_topic(table: pa.Table) -> dict[str, dict[str, Any]]:
    return {row["topic"]: row for row in table.to_pylist()}


def _known(lag: Mapping[str, Any], topic: Mapping[str, Any]) -> dict[str, Any]:
    known = not lag["unknown"]
    return {
        **{name: topic[name] for name in ("topic", "topic_id", "owner", "retention_ms")},
        "replay_window_ms": topic["replay_window_ms"],
        "partitions": lag["partitions"],
        "unknown_partitions": lag["unknown"],
        "lag_since": lag["since"] if known else None,
        "groups_since": lag["groups_since"] if known else None,
        "lag_low_ms": lag["lag_low_ms"],
        "lag_high_ms": lag["lag_high_ms"] if known else None,
    }


def _freed(
    row: RetentionFit, topic: Mapping[str, Any], rate: Mapping[str, Any] | None
) -> dict[str, int | None]:
    """Bytes that leave under the shorter retention, on all replicas."""
    come = None if rate is None else rate["bytes_in_per_hour"]
    size = row.size_bytes
    fits = row.fits_ms if row.verdict == SHORTER else None
    if fits is None or rate is None or come is None or size is None:
        return dict.fromkeys(_FREED)
    segment = min(size, topic["segment_bytes"] * rate["replicas"])
    stays = kept(
        np.array([max(come, 0.0)]),
        np.array([rate["window_seconds"] / 3600]),
        fits / _HOUR,
        np.array([float(segment)]),
    )
    return {
        name: max(size - round(float(stays[side][0])), 0)
        for name, side in zip(_FREED, _SIDES, strict=True)
    }
