"""Rows of the findings table `slow_followers` for a page: which are slow, which are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dashboard.core import words
from dashboard.views import formats

Row = Mapping[str, Any]
FURTHEST = [
    ("lag_seconds", "descending"), ("lag_records", "descending"), ("topic", "ascending"),
    ("partition", "ascending"), ("broker_id", "ascending"),
]  # fmt: skip
TREND_WORDS = {
    "falling behind": "↘ falling behind", "catching up": "↗ catching up", "steady": "→ steady",
    "stuck": "■ stuck",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the reader chose above the table; None means everything."""

    topic: str | None = None
    broker: str | None = None
    cause: str | None = None

    def kept(self, followers: pa.Table) -> pa.Table:
        """The rows that pass all of them."""
        found = followers
        for column, value in (("topic", self.topic), ("cause", self.cause)):
            if value is not None:
                found = found.filter(pc.fill_null(pc.equal(found[column], value), False))
        if self.broker is not None:
            found = found.filter(pc.equal(found["broker_id"], int(self.broker)))
        return found


def slow(followers: pa.Table) -> pa.Table:
    """The slow ones, furthest behind first; those whose lag is unknown come last."""
    return followers.filter(pc.fill_null(followers["slow"], False)).sort_by(FURTHEST)


def furthest(followers: pa.Table) -> Row | None:
    """The follower with the longest known lag, slow or not."""
    known = followers.filter(pc.is_valid(followers["lag_seconds"])).sort_by(FURTHEST)
    rows: Sequence[Row] = known.slice(0, 1).to_pylist()
    return rows[0] if rows else None


def name(row: Row) -> str:
    """`orders-4 on broker 3`."""
    return f"{row['topic']}-{row['partition']} on broker {row['broker_id']}"


def behind(row: Row) -> str:
    """`41 s behind (12 000 records)`; where the lag is unknown, why."""
    if row["lag_records"] is None:
        return f"lag unknown: {why_unknown(row)}"
    return words.behind(row["lag_records"], row["lag_seconds"])


def why_unknown(row: Row) -> str:
    """The reason for a lag that is not known."""
    if not row["alive"]:
        return f"broker {row['broker_id']} does not answer, and no earlier answer is known"
    if row["lag_records"] is not None:
        return "its leader wrote nothing in the window, so only records are known"
    return "its log end, or its leader's, was not read"


def trend(row: Row) -> str:
    """How it goes on, with an arrow; nothing is known of one that does not answer."""
    if not row["alive"]:
        return "? no answer"
    return TREND_WORDS.get(row["trend"] or "", formats.UNKNOWN)
