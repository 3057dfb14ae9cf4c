"""What an operator would say of slow followers: a sentence per thing that is at fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core import words

Row = Mapping[str, Any]
# Their reason already counts the replicas of what stands out.
_COUNTED = ("rack", "broker", "log dir")
_LEAST_PACE = 0.5  # seconds a minute: below it nobody would call it falling


@dataclass(frozen=True, slots=True)
class SlowUnit:
    """Slow followers with one reason. `replicas` of them; `text` is the whole sentence.

    `lag_seconds` is their median (None: unknown), `falls` by how many seconds it grows a minute.
    """

    cause: str
    reason: str
    replicas: int
    lag_seconds: float | None
    falls: float | None
    text: str


def slow_units(followers: pa.Table) -> list[SlowUnit]:
    """The slow rows of the findings table `slow_followers` by reason, most replicas first."""
    slow = followers.filter(pc.fill_null(followers["slow"], False)).to_pylist()
    by_reason: dict[tuple[str, str], list[Row]] = {}
    for row in slow:
        by_reason.setdefault((row["cause"], row["reason"]), []).append(row)
    found = [_unit(cause, reason, rows) for (cause, reason), rows in by_reason.items()]
    return sorted(found, key=lambda unit: (-unit.replicas, unit.reason))


def _unit(cause: str, reason: str, rows: Sequence[Row]) -> SlowUnit:
    seconds = _median(row["lag_seconds"] for row in rows)
    falls = _median(_falls(row) for row in rows)
    said = reason if cause in _COUNTED else f"{reason}: {_replicas(rows)}"
    parts = [said, _behind(rows, seconds), _pace(rows, falls)]
    text = ", ".join(part for part in parts if part)
    return SlowUnit(cause, reason, len(rows), seconds, falls, text)


def _replicas(rows: Sequence[Row]) -> str:
    if len(rows) > 1:
        return words.plural(len(rows), "replica")
    (row,) = rows
    return f"{row['topic']}-{row['partition']} on broker {row['broker_id']}"


def _behind(rows: Sequence[Row], seconds: float | None) -> str:
    if seconds is not None:
        return f"{words.duration(seconds)} behind"
    records = _median(row["lag_records"] for row in rows)
    return "" if records is None else f"{words.plural(round(records), 'record')} behind"


def _pace(rows: Sequence[Row], falls: float | None) -> str:
    """How it goes on; nothing of replicas that do not answer: their lag is a guess already."""
    alive = [row for row in rows if row["alive"]]
    if not alive:
        return ""
    if 2 * sum(row["trend"] == "stuck" for row in alive) > len(alive):
        return "standing still"
    if falls is None:
        return ""
    if abs(falls) < _LEAST_PACE:
        return "steady"
    if falls > 0:
        return f"falling {words.duration(falls)} a minute"
    left = _median(row["catch_up_seconds"] for row in alive)
    level = "" if left is None else f", level in {words.duration(left)}"
    return f"catching up {words.duration(-falls)} a minute{level}"


def _falls(row: Row) -> float | None:
    """Seconds of lag that a minute adds; None where the leader writes nothing."""
    if row["lag_per_second"] is None or not row["append_per_second"]:
        return None
    return float(60 * row["lag_per_second"] / row["append_per_second"])


def _median(values: Any) -> float | None:
    known = [value for value in values if value is not None]
    return float(median(known)) if known else None
