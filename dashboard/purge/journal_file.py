"""The journal's SQLite file: schema, durable transactions, and the hash chain of its entries."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from dashboard.clock import format_time
from dashboard.errors import JournalError
from dashboard.purge.journal_rows import Entry

_FIRST_HASH = "0" * 64

_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
  run_id TEXT PRIMARY KEY, token TEXT NOT NULL UNIQUE, plan_id TEXT NOT NULL,
  plan_sha256 TEXT NOT NULL UNIQUE, plan TEXT NOT NULL, cluster_id TEXT NOT NULL,
  cluster_name TEXT NOT NULL, mode TEXT NOT NULL, state TEXT NOT NULL, who TEXT NOT NULL,
  from_where TEXT NOT NULL, typed TEXT NOT NULL, options TEXT NOT NULL,
  connection TEXT NOT NULL, queued_at TEXT NOT NULL, started_at TEXT, closed_at TEXT,
  heartbeat_at TEXT, watched_until TEXT, wish TEXT, error TEXT, receipt TEXT, baseline TEXT
) STRICT;
CREATE TABLE IF NOT EXISTS run_topics (
  run_id TEXT NOT NULL, cluster_id TEXT NOT NULL, topic TEXT NOT NULL, open INTEGER NOT NULL,
  PRIMARY KEY (run_id, topic)
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS one_open_run_per_topic
  ON run_topics (cluster_id, topic) WHERE open = 1;
CREATE TABLE IF NOT EXISTS run_partitions (
  run_id TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL, state TEXT NOT NULL,
  body TEXT NOT NULL, PRIMARY KEY (run_id, topic, partition)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS reverted_partitions
  ON run_partitions (run_id) WHERE state = 'reverted';
CREATE TABLE IF NOT EXISTS run_moves (
  run_id TEXT NOT NULL, group_id TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL,
  body TEXT NOT NULL, PRIMARY KEY (run_id, group_id, topic, partition)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS entries (
  seq INTEGER PRIMARY KEY, run_id TEXT, at TEXT NOT NULL, kind TEXT NOT NULL,
  body TEXT NOT NULL, previous_hash TEXT NOT NULL, hash TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS entries_of_run ON entries (run_id, seq);
CREATE TABLE IF NOT EXISTS switches (
  name TEXT PRIMARY KEY, value INTEGER NOT NULL, who TEXT NOT NULL, at TEXT NOT NULL
) STRICT;
"""


class JournalFile:
    """One connection for all threads of a process; every transaction is durable when it ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        with self._wrapped():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._db = sqlite3.connect(
                path, timeout=30, isolation_level=None, check_same_thread=False
            )
            self._db.row_factory = sqlite3.Row
            self._db.execute("PRAGMA journal_mode=WAL")
            # FULL: an intent is on the disk before its request leaves.
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.executescript(_SCHEMA)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """A transaction that holds the write lock from its start; JournalError when it fails."""
        with self._lock, self._wrapped():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def rows(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        """All rows of one query."""
        with self._lock, self._wrapped():
            return self._db.execute(sql, values).fetchall()

    def version(self) -> int:
        """A number that changes when another connection has written: cheap to ask often."""
        with self._lock, self._wrapped():
            return int(self._db.execute("PRAGMA data_version").fetchone()[0])

    @contextmanager
    def _wrapped(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.IntegrityError:
            raise  # a taken topic, token or plan: the caller names it
        except (sqlite3.Error, OSError) as error:
            raise JournalError(
                f"the purge journal {self.path} cannot be written or read: {error}",
                "Free disk space or correct its rights; nothing is sent without a journal.",
            ) from error


def append(
    db: sqlite3.Connection, run_id: str | None, kind: str, body: Mapping[str, Any], now: datetime
) -> None:
    """Add one link to the chain, inside the caller's transaction."""
    last = db.execute("SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
    seq, previous = (last["seq"] + 1, last["hash"]) if last else (1, _FIRST_HASH)
    text, at = encode(body), format_time(now)
    link = _hash(previous, seq, run_id, at, kind, text)
    db.execute(
        "INSERT INTO entries VALUES (?,?,?,?,?,?,?)", (seq, run_id, at, kind, text, previous, link)
    )


def entry(row: sqlite3.Row) -> Entry:
    """An entry out of its row."""
    return Entry(
        seq=row["seq"],
        run_id=row["run_id"],
        at=row["at"],
        kind=row["kind"],
        body=json.loads(row["body"]),
        previous_hash=row["previous_hash"],
        hash=row["hash"],
    )


def broken_links(rows: list[sqlite3.Row]) -> list[str]:
    """Each place where the chain does not hold: a gap, a changed entry, a cut link."""
    problems: list[str] = []
    previous, expected = _FIRST_HASH, 1
    for row in rows:
        if row["seq"] != expected:
            problems.append(f"entry {expected} is missing before entry {row['seq']}")
        if row["previous_hash"] != previous:
            problems.append(f"entry {row['seq']} does not follow the one before it")
        link = _hash(
            row["previous_hash"], row["seq"], row["run_id"], row["at"], row["kind"], row["body"]
        )
        if link != row["hash"]:
            problems.append(f"entry {row['seq']} was changed after it was written")
        previous, expected = row["hash"], row["seq"] + 1
    return problems


def encode(value: Any) -> str:
    """Canonical JSON text, as it is hashed."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def _hash(*parts: Any) -> str:
    return hashlib.sha256(encode(list(parts)).encode()).hexdigest()
