"""How the journal's tables hold runs and partitions, and who was there first."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import asdict
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, NoReturn

from dashboard.core.canonical import canonical
from dashboard.core.clock import format_time, parse_time
from dashboard.core.errors import RefusedError
from dashboard.purge.journal.journal_pack import Stored, pack_row, readable, unpack
from dashboard.purge.journal.journal_rows import (
    Follower,
    Options,
    PartitionRow,
    RunRow,
    WaitForecast,
)
from dashboard.purge.plan.moves import MoveRow
from dashboard.purge.plan.plan import Plan
from dashboard.purge.receipt.model import Receipt

_ROW = tuple(PartitionRow.__dataclass_fields__)
_FOLLOWER = tuple(Follower.__dataclass_fields__)
_row_values, _follower_values = attrgetter(*_ROW), attrgetter(*_FOLLOWER)


def watching(run: RunRow, now: datetime) -> bool:
    """Whether a closed run's replicas and receipt are still to be followed."""
    return run.watched_until is not None and now < run.watched_until and not run.receipt_final


def put(
    db: sqlite3.Connection, run_id: str, rows: Iterable[PartitionRow], *, new: bool
) -> list[dict[str, object]]:
    """Write partition rows of a run; their bodies."""
    verb = "INSERT" if new else "REPLACE"
    bodies = [body_of(row) for row in rows]
    db.executemany(
        f"{verb} INTO run_partitions VALUES (?,?,?,?,?)",
        [(run_id, b["topic"], b["partition"], b["state"], pack_row(canonical(b))) for b in bodies],
    )
    return bodies


def body_of(row: PartitionRow) -> dict[str, object]:
    """A partition row as the journal keeps it (`asdict` copies every value: ten times slower)."""
    body = dict(zip(_ROW, _row_values(row), strict=True))
    body["followers"] = [
        dict(zip(_FOLLOWER, _follower_values(f), strict=True)) for f in row.followers
    ]
    body["sent_at"] = format_time(row.sent_at) if row.sent_at else None
    body["wait_forecast"] = asdict(row.wait_forecast) if row.wait_forecast else None
    return body


def put_moves(db: sqlite3.Connection, run_id: str, moves: Iterable[MoveRow]) -> None:
    """Write moves of waived groups' offsets, new ones and changed ones alike."""
    db.executemany(
        "REPLACE INTO run_moves VALUES (?,?,?,?,?)",
        [(run_id, m.group_id, m.topic, m.partition, canonical(asdict(m))) for m in moves],
    )


@readable
def move_row(row: sqlite3.Row) -> MoveRow:
    """A move out of its row."""
    return MoveRow(**json.loads(row["body"]))


def targets_of(rows: Iterable[PartitionRow]) -> list[list[Any]]:
    """Topic, partition and target of each row."""
    return [[r.topic, r.partition, r.target_offset] for r in rows]


@readable
def partition_row(row: sqlite3.Row) -> PartitionRow:
    """A partition out of its row."""
    body = json.loads(unpack(row["body"]))
    body["followers"] = tuple(Follower(**f) for f in body["followers"])
    body["sent_at"] = _time(body["sent_at"])
    if body.get("wait_forecast"):
        body["wait_forecast"] = WaitForecast(**body["wait_forecast"])
    return PartitionRow(**body)


@readable
def run_row(row: sqlite3.Row) -> RunRow:
    """A run out of its row."""
    plain = ("run_id", "plan_id", "plan_sha256", "cluster_id", "cluster_name", "mode", "state",
             "who", "from_where", "typed", "wish", "policy", "approved_by")  # fmt: skip
    times = ("queued_at", "started_at", "closed_at", "heartbeat_at", "watched_until")
    values: dict[str, Any] = {name: row[name] for name in plain}
    values.update({name: _time(row[name]) for name in times})
    for name in ("connection", "error"):
        values[name] = json.loads(row[name]) if row[name] else None
    values["none_done"] = bool(row["none_done"])
    receipt = row["receipt"]
    values["kept_receipt"] = Stored(receipt, Receipt.from_json) if receipt else None
    return RunRow(**values, options=Options(**json.loads(row["options"])))


@lru_cache(maxsize=256)  # the rows of one request were all sent at the same moment
def _time(text: str | None) -> datetime | None:
    return parse_time(text) if text else None


def refuse_again(plan: Plan, run_id: str) -> NoReturn:
    """The plan ran already: name the run."""
    raise RefusedError(
        f"plan {plan.plan_id} was applied already, as run {run_id}",
        f"See what it did with: lowwater run {run_id}; to purge more, plan again.",
        code="PLAN_ALREADY_APPLIED",
    )


def refuse_busy(db: sqlite3.Connection, plan: Plan, topic: str) -> NoReturn:
    """Another run holds the topic: name it."""
    row = db.execute(
        "SELECT run_id FROM run_topics WHERE cluster_id=? AND topic=? AND open=1",
        (plan.cluster_id, topic),
    ).fetchone()
    raise RefusedError(
        f"topic {topic} is being purged by run {row['run_id']}",
        f"Wait for it with: lowwater run {row['run_id']} --wait, then plan again.",
        code="TOPIC_BUSY",
    )
