"""The `orphans` findings: suspects that outlived a look, each with its verdict and evidence.

A suspect becomes an orphan when a second look, made after a snapshot that had shown it already,
shows it again. A `-stray` folder is the broker's own word and needs no second look; a `-delete`
folder must outlive the broker's delay, an entry its rewriting. docs/orphans.md says why.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from analytics import orphan_evidence, sightings
from analytics.broker_facts import Brokers
from analytics.orphan_verdicts import Facts, verdict
from analytics.tables import Tables
from dashboard.orphans.last_copy import Living
from dashboard.orphans.words import CHECKPOINT_ENTRY, LATE_DELETE, LEAST_SNAPSHOTS
from dashboard.settings import Settings
from dashboard.snapshot_clocks import wrong_clock
from dashboard.snapshot_files import Manifest
from dashboard.tables import FINDING_TABLES

Row = dict[str, Any]
# Kafka acts when the interval is over, in a thread that runs once in an interval itself.
_SLACK = timedelta(seconds=60)


@dataclass(frozen=True)
class Found:
    """What one analysis says of orphans: the two tables, and the rows of `judged`."""

    orphans: pa.Table
    sightings: pa.Table
    rows: Sequence[Row]


def find(
    tables: Tables,
    snapshot: Manifest,
    base: Manifest | None,
    known: Brokers,
    *,
    settings: Settings,
    unassigned: Collection[str],
) -> Found:
    """The orphans of a snapshot, going on from the sightings of `base`.

    `known` is what the brokers said, `unassigned` as `sightings.fold` has it.
    """
    seen, now = sightings.fold(tables, snapshot, base, unassigned)
    rows = judged(
        seen,
        now,
        known,
        snapshot.taken_at,
        delay=settings.orphan_delay,
        most_share=settings.orphan_most_share,
        clock=wrong_clock(snapshot),
    )
    return Found(to_table(rows), sightings.to_table(seen), rows)


def judged(
    seen: Sequence[Row],
    now: Sequence[Row],
    known: Brokers,
    taken_at: datetime,
    *,
    delay: timedelta,
    most_share: float,
    clock: str = "",
) -> list[Row]:
    """The orphans: columns of the table, and `folder`, `seen_now`, `told_bytes` (null: not listed).

    `seen` are the rows of `sightings`, `now` the suspects of this snapshot, taken at `taken_at`;
    `known` is what the brokers said; `delay`, `most_share` and `clock` are as `verdict` has them.
    """
    today = {sightings.key_of(row): row for row in now}
    told = [row for row in seen if _outlived(row, known)]
    shares = _shares(told, known)
    settings = known.topic_settings(row["topic"] for row in told)
    rows = []
    for row in told:
        current = today.get(sightings.key_of(row))
        facts = _facts(row, current, known, shares, settings)
        said = verdict(facts, now=taken_at, delay=delay, most_share=most_share, clock=clock)
        rows.append({
            **{name: row[name] for name in _CARRIED},
            # An entry has no folder: its name in the sightings is where one would be.
            "directory": None if row["kind"] == CHECKPOINT_ENTRY else row["directory"],
            "current_topic_id": current["name_id"] if current else None,
            "verdict": said.verdict, "reason": said.reason, "check_at": said.check_at,
            "evidence": orphan_evidence.told(row, current, taken_at),
            "folder": row["folder"], "seen_now": current is not None,
            "told_bytes": current["told_bytes"] if current else None,
        })  # fmt: skip
    return rows


def to_table(rows: Sequence[Row]) -> pa.Table:
    """The findings table without its stamps."""
    schema = FINDING_TABLES["orphans"].schema
    kept = pa.schema([field for field in schema if field.name not in _STAMP])
    return pa.Table.from_pylist(list(rows), schema=kept)


_STAMP = ("snapshot_id", "taken_at")
_CARRIED = (
    "broker_id", "log_dir", "directory", "topic", "partition", "topic_id", "kind", "size_bytes",
    "index_bytes", "allocated_bytes", "newest_at", "first_seen_at", "last_seen_at",
    "snapshots_seen", "log_end_offset",
)  # fmt: skip


def _outlived(row: Row, known: Brokers) -> bool:
    if row["folder"] == "stray":
        return True
    wait = timedelta(0)
    if row["kind"] == LATE_DELETE:
        wait = known.delete_delay(row["broker_id"]) + _SLACK
    elif row["kind"] == CHECKPOINT_ENTRY:
        wait = known.rewrite_interval(row["broker_id"]) + _SLACK
    enough = row["snapshots_seen"] >= LEAST_SNAPSHOTS
    return bool(enough and row["last_seen_at"] - row["first_seen_at"] > wait)


def _shares(rows: Sequence[Row], known: Brokers) -> dict[int, float | None]:
    """Broker -> the larger share of its folders and of its bytes that are orphans."""
    found: dict[int, float | None] = {}
    for broker in {row["broker_id"] for row in rows}:
        mine = [r for r in rows if r["broker_id"] == broker and r["kind"] != CHECKPOINT_ENTRY]
        found[broker] = known.share(broker, len(mine), sum(r["size_bytes"] or 0 for r in mine))
    return found


def _facts(
    row: Row,
    today: Row | None,
    known: Brokers,
    shares: Mapping[int, float | None],
    settings: Mapping[str, Mapping[str, str]],
) -> Facts:
    broker = row["broker_id"]
    return Facts(
        kind=row["kind"],
        directory=row["directory"],
        topic_id=row["topic_id"],
        assigned=bool(today and today["assigned"]),
        answered=known.answered(broker, row["log_dir"]),
        seen_now=today is not None,
        same_name=_health(today),
        share=shares[broker],
        first_seen_at=row["first_seen_at"],
        last_seen_at=row["last_seen_at"],
        snapshots_seen=row["snapshots_seen"],
        newest_at=row["newest_at"],
        retention=known.retention(broker),
        log_bytes=row["size_bytes"],
        log_end_offset=row["log_end_offset"],
        living=_living(row, today, settings),
    )


def _living(
    row: Row, today: Row | None, settings: Mapping[str, Mapping[str, str]]
) -> Living | None:
    """The partition that has the folder's topic id today."""
    if today is None or not today["has_topic"]:
        return None
    return Living(
        row["topic"], row["partition"], settings.get(row["topic"], {}),
        today["living_start"], today["living_end"],
    )  # fmt: skip


def _health(today: Row | None) -> str | None:
    """Of the partition that has the folder's name today."""
    if today is None or today["replicas"] is None:
        return None
    if today["leader_id"] is None:
        return "offline"
    behind = set(today["replicas"]) - set(today["isr"] or ())
    return "under-replicated" if behind else "healthy"
