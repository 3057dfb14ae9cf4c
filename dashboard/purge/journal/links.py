"""The links of the journal's chain: how each is written and sealed, and what it tells.

What a link tells is never changed: those of earlier versions may lack some of it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict

from dashboard.core.canonical import canonical, digest
from dashboard.core.clock import format_time
from dashboard.core.errors import JournalError
from dashboard.purge.journal.pack import pack, readable, unpack
from dashboard.purge.journal.rows import Entry

FIRST_HASH = "0" * 64


def append(
    db: sqlite3.Connection, run_id: str | None, kind: str, body: Mapping[str, object], now: datetime
) -> None:
    """Add one link to the chain, inside the caller's transaction."""
    last = db.execute("SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
    seq, previous = (last["seq"] + 1, last["hash"]) if last else (1, FIRST_HASH)
    text, at = canonical(body), format_time(now)
    link = hash_of(previous, seq, run_id, at, kind, text)
    db.execute(
        "INSERT INTO entries VALUES (?,?,?,?,?,?,?)",
        (seq, run_id, at, kind, pack(text), previous, link),
    )


@readable
def entry(row: sqlite3.Row) -> Entry:
    """An entry out of its row."""
    return Entry(
        seq=row["seq"],
        run_id=row["run_id"],
        at=row["at"],
        kind=row["kind"],
        body=json.loads(unpack(row["body"])),
        previous_hash=row["previous_hash"],
        hash=row["hash"],
    )


def link(row: sqlite3.Row) -> str | None:
    """The hash that an entry should have; None: its text cannot even be read."""
    try:
        text = unpack(row["body"])
    except JournalError:
        return None
    return hash_of(row["previous_hash"], row["seq"], row["run_id"], row["at"], row["kind"], text)


def hash_of(*parts: Any) -> str:
    """The hash of a link, over these parts in order."""
    return digest(list(parts))


class QueuedLink(TypedDict, total=False):
    """What the link `queued` tells: of an earlier version, not all of it. Columns of a run, its
    partitions (topic, partition, target) and moves (group, topic, partition, from, to).
    """

    state: str
    plan_id: str
    plan_sha256: str
    cluster_id: str
    cluster_name: str
    mode: str
    who: str
    from_where: str
    typed: str
    options: str
    connection: str
    queued_at: str
    policy: str | None
    definition_sha256: str | None
    partitions: list[tuple[str, int, int]]
    moves: list[tuple[str, str, int, int | None, int]]


class MovedLink(TypedDict, total=False):
    """What the link `archived` tells: which links were moved where, and the switches that they
    told; with the hash of the last one and how many runs left once they are gone from here. All
    were written before `before`, which earlier versions do not tell.
    """

    folder: str
    who: str
    from_where: str
    before: str
    through_seq: int
    hash: str
    runs: int
    read_only: tuple[bool, str | None]
    policies: list[tuple[str, str, bool, str]]


class Link(TypedDict, total=False):
    """What the other links tell that are read here."""

    state: str
    wish: str
    cluster_id: str
    policy: str
    enabled: bool
    definition_sha256: str
    seen_at: str | None
    code: str
    read_only: bool
    who: str | None
    request_id: str
    plan_sha256: str
    mode: str
