"""The journal's SQLite file: durable transactions, and the hash chain of its entries."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from dashboard.clock import format_time
from dashboard.errors import JournalError
from dashboard.network_folders import network_type
from dashboard.purge.journal_head import NOTHING, Head, HeadFile
from dashboard.purge.journal_pack import pack, readable, unpack
from dashboard.purge.journal_rows import Entry
from dashboard.purge.journal_schema import prepare

FIRST_HASH = "0" * 64
# A mark in the file that a head is kept beside it: written where one is, so that a crash between
# the two leaves none. An archive is handed out alone, and has none.
_MARK = """INSERT OR IGNORE INTO switches SELECT 'head_kept', 1, '', ''
  WHERE NOT EXISTS (SELECT 1 FROM switches WHERE name='archive')"""
_MARKED = "SELECT 1 FROM switches WHERE name='head_kept'"


class JournalFile:
    """One connection for all threads of a process; every transaction is durable when it ends.

    Raises JournalError JOURNAL_ON_NETWORK unless `on_network` says that somebody answers for it.
    """

    def __init__(self, path: Path, *, on_network: bool = False) -> None:
        self.path = path
        self.on_network = on_network
        self._head_file = HeadFile(path)
        self._lock = threading.RLock()
        with self._wrapped():
            if not on_network and (kind := network_type(path.parent)) is not None:
                raise _on_network(path, kind)
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._db = sqlite3.connect(
                path, timeout=30, isolation_level=None, check_same_thread=False
            )
            self._db.row_factory = sqlite3.Row
            mode = self._db.execute("PRAGMA journal_mode=WAL").fetchone()[0]
            if mode != "wal":  # SQLite stays in another mode without an error
                raise sqlite3.OperationalError(f"its journal mode stays '{mode}', not 'wal'")
            # FULL: an intent is on the disk before its request leaves.
            self._db.execute("PRAGMA synchronous=FULL")
            # For reads that look into a partition's row: json_extract(plain(body), …).
            self._db.create_function("plain", 1, unpack, deterministic=True)
            prepare(self._db)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """A transaction that holds the write lock from its start; JournalError when it fails.

        JOURNAL_ROLLED_BACK before anything is written where links are gone that were there.
        """
        with self._transaction() as db:
            kept = self._head_file.read()
            if (error := self._lost_since(kept)) is not None:
                raise error
            yield db
            if kept != NOTHING:
                db.execute(_MARK)
            head = self.head()
        if head != kept:
            # Committed is committed: behind, the file beside it is caught up by the next write.
            with suppress(OSError, JournalError):
                self._head_file.advance(head)

    @contextmanager
    def accepting(self) -> Iterator[sqlite3.Connection]:
        """The same for a person's word that a journal which was rolled back is to go on."""
        with self._transaction() as db:
            yield db
            head = self.head()
        with self._wrapped():
            self._head_file.replace(head)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._wrapped():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def head(self) -> Head:
        """The newest link in the file itself."""
        newest = self.rows("SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1")
        return Head(newest[0]["seq"], newest[0]["hash"]) if newest else NOTHING

    def kept_head(self) -> Head:
        """The newest link as it is kept beside the file. Raises JournalError."""
        with self._wrapped():
            return self._head_file.read()

    def rolled_back(self) -> JournalError | None:
        """That the file has lost links which were there, and what to do; None: it has not."""
        try:
            return self._lost_since(self.kept_head())
        except JournalError as error:
            return error

    def _lost_since(self, kept: Head) -> JournalError | None:
        newest = self.head()
        if kept == NOTHING:
            if newest == NOTHING or not self.rows(_MARKED):  # a new one, or of an earlier version
                return None
            return _rolled_back(
                self.path,
                newest,
                f"has lost {self._head_file.path.name}, its newest entry's number",
            )
        first = self.rows("SELECT min(seq) AS seq FROM entries")[0]["seq"]
        if kept.seq > newest.seq:
            return _rolled_back(
                self.path, newest, f"ends with entry {newest.seq}, but entry {kept.seq} was written"
            )
        found = self.rows("SELECT hash FROM entries WHERE seq=?", kept.seq)
        archived = first is not None and kept.seq < first
        if archived or [row["hash"] for row in found] == [kept.hash]:
            return None
        return _rolled_back(
            self.path, newest, f"has another entry {kept.seq} than the one that was written"
        )

    def rows(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        """All rows of one query; its values by position, or one mapping by name."""
        named = values[0] if len(values) == 1 and isinstance(values[0], dict) else values
        with self._lock, self._wrapped():
            return self._db.execute(sql, named).fetchall()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """All reads inside see one moment, whatever others write meanwhile."""
        with self._lock, self._wrapped():
            self._db.execute("BEGIN")
            try:
                yield
            finally:
                self._db.execute("ROLLBACK")

    @contextmanager
    def attached(self, other: Path) -> Iterator[None]:
        """Another journal's file as the database `archive` of this connection, as durable."""
        with self._lock:
            with self._wrapped():
                self._db.execute("ATTACH DATABASE ? AS archive", (str(other),))
                self._db.execute("PRAGMA archive.synchronous=FULL")
            try:
                yield
            finally:
                self._db.execute("DETACH DATABASE archive")

    def shrink(self) -> bool:
        """Give the room of removed rows back to the disk; False: busy, or no room to copy it."""
        with self._lock:
            try:
                self._db.execute("VACUUM")
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            except sqlite3.OperationalError:
                return False
        return True

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


def _on_network(path: Path, kind: str) -> JournalError:
    return JournalError(
        f"the purge journal {path} would lie on a network file system ({kind}), where SQLite's "
        "write-ahead log does not hold: two machines could each take a topic for free",
        "Choose a state_dir on a local disk. Who knows that one machine alone ever opens it sets "
        "state_dir_on_network = true.",
        code="JOURNAL_ON_NETWORK",
    )


def _rolled_back(path: Path, newest: Head, what: str) -> JournalError:
    return JournalError(
        f"the purge journal {path} {what}: it was rolled back, as by a backup that was restored, "
        "and what was asked and sent since is missing",
        f"Put the newer one back, with journal.head if the folder was moved. If there is none: "
        f"lowwater runs --accept-restored {newest.seq} "
        "cancels what is open in this one, and stops every purge until an approver allows them.",
        code="JOURNAL_ROLLED_BACK",
    )


def append(
    db: sqlite3.Connection, run_id: str | None, kind: str, body: Mapping[str, Any], now: datetime
) -> None:
    """Add one link to the chain, inside the caller's transaction."""
    last = db.execute("SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
    seq, previous = (last["seq"] + 1, last["hash"]) if last else (1, FIRST_HASH)
    text, at = encode(body), format_time(now)
    link = _hash(previous, seq, run_id, at, kind, text)
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
    return _hash(row["previous_hash"], row["seq"], row["run_id"], row["at"], row["kind"], text)


def encode(value: Any) -> str:
    """Canonical JSON text, as it is hashed."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def _hash(*parts: Any) -> str:
    return hashlib.sha256(encode(list(parts)).encode()).hexdigest()
