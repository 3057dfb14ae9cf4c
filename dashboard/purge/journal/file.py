"""The journal's SQLite file: durable transactions, and whether it is the one written last."""

from __future__ import annotations

import os
import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from dashboard.core.errors import JournalError
from dashboard.core.network_folders import network_type
from dashboard.purge.journal import head as journal_head
from dashboard.purge.journal.chain import ARCHIVE, AsTold
from dashboard.purge.journal.head import NOTHING, Head, HeadFile
from dashboard.purge.journal.pack import unpack

# A mark in the file that a head is kept beside it: written where one is, so that a crash between
# the two leaves none. An archive is handed out alone, and has none.
_MARK = f"""INSERT OR IGNORE INTO switches SELECT 'head_kept', 1, '', ''
  WHERE NOT EXISTS ({ARCHIVE})"""
_MARKED = "SELECT 1 FROM switches WHERE name='head_kept'"
_WAL_BYTES = 4 << 20  # as SQLite itself does: 1000 pages


@contextmanager
def _of_the_folders_owner(path: Path) -> Iterator[None]:
    """What root makes within, it gives to whom the folder belongs that is there already: the pages'
    account could else not stop the service of root's that came first.
    """
    missing = [path, *(above for above in path.parents if not above.exists())]
    made = os.geteuid() == 0 and not path.exists()
    yield
    if made:
        owner = missing[-1].parent.stat()
        for each in (*missing, *(path.with_name(f"{path.name}-{end}") for end in ("wal", "shm"))):
            with suppress(FileNotFoundError):
                os.chown(each, owner.st_uid, owner.st_gid)


class JournalFile:
    """One connection for all threads of a process; every transaction is durable when it ends.

    Raises JournalError JOURNAL_ON_NETWORK unless `on_network` says that somebody answers for it.
    """

    def __init__(self, path: Path, *, on_network: bool = False) -> None:
        self.path = path
        self.on_network = on_network
        self._head_file = HeadFile(path)
        self._lock = threading.RLock()
        self._as_told = AsTold(self.rows)
        with self._wrapped():
            if not on_network and (kind := network_type(path.parent)) is not None:
                raise journal_head.on_network(path, kind)
            with _of_the_folders_owner(path):
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._db = self._opened()
                _prepare(self._db)

    def _opened(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=30, isolation_level=None, check_same_thread=False)
        db.row_factory = sqlite3.Row
        mode = db.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        if mode != "wal":  # SQLite stays in another mode without an error
            raise sqlite3.OperationalError(f"its journal mode stays '{mode}', not 'wal'")
        # FULL: an intent is on the disk before its request leaves.
        db.execute("PRAGMA synchronous=FULL")
        db.execute("PRAGMA wal_autocheckpoint=0")  # see `_checkpoint`
        db.execute("PRAGMA journal_size_limit=0")
        # For reads that look into a partition's row: json_extract(plain(body), …).
        db.create_function("plain", 1, unpack, deterministic=True)
        return db

    def close(self) -> None:
        with self._lock:
            self._db.close()

    @contextmanager
    def write(self, *, by_anybody: bool = False) -> Iterator[sqlite3.Connection]:
        """A transaction that holds the write lock from its start; JournalError when it fails.

        JOURNAL_OF_ANOTHER unless we own the file, or `by_anybody`: for what starts no worker.

        Before anything is written JOURNAL_ROLLED_BACK where links are gone that were there, or the
        file is a copy; JOURNAL_BROKEN where the tables are not as the links tell.
        """
        if not by_anybody:
            self._refuse_another()
        with self.reading():
            self._as_told.catch_up()  # not while others wait for the write lock
        with self._transaction() as db:
            kept = self._head_file.read()
            if (error := self._doubt(kept)) is not None:
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
        self._refuse_another()
        with self._transaction() as db:
            yield db
            head = self.head()
        with self._wrapped():
            self._head_file.replace(head)

    def _refuse_another(self) -> None:
        with self._wrapped():
            if (error := journal_head.not_ours(self.path)) is not None:
                raise error

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
            self._checkpoint()

    def _checkpoint(self) -> None:
        """Bring a long `-wal` into the file, while nobody can commit.

        SQLite before 3.51.3 does so beside commits, and one that begins the `-wal` anew in that
        moment damages the file (https://sqlite.org/wal.html#walresetbug). So a connection of its
        own holds the write lock meanwhile; where another process does, its next commit tries.
        """
        wal = self.path.with_name(f"{self.path.name}-wal")
        with suppress(OSError, sqlite3.Error):
            if wal.stat().st_size < _WAL_BYTES:
                return
            with closing(sqlite3.connect(self.path, timeout=0, isolation_level=None)) as gate:
                gate.execute("BEGIN IMMEDIATE")
                self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")
                gate.execute("ROLLBACK")

    def head(self) -> Head:
        """The newest link in the file itself."""
        newest = self.rows("SELECT seq, hash FROM entries ORDER BY seq DESC LIMIT 1")
        return Head(newest[0]["seq"], newest[0]["hash"]) if newest else NOTHING

    def kept_head(self) -> Head:
        """The newest link as it is kept beside the file. Raises JournalError."""
        with self._wrapped():
            return self._head_file.read()

    def lost(self) -> JournalError | None:
        """That the file has lost links which were there, and what to do; None: it has not."""
        try:
            return self._lost_since(self.kept_head())
        except JournalError as error:
            return error

    def rolled_back(self) -> JournalError | None:
        """That it has lost links, or is a copy: one that verifies, and that nothing acts by."""
        return self.lost() or self._copied()

    def doubt(self) -> JournalError | None:
        """Why a cancel or a stop may be missing in it, by what each write asks; None: none is.

        For who acts by what it tells, and writes nothing to it.
        """
        try:
            kept = self.kept_head()
            with self.reading():
                return self._doubt(kept)
        except JournalError as error:
            return error

    def _doubt(self, kept: Head) -> JournalError | None:
        if (error := self._lost_since(kept)) is not None:
            return error
        if (wrong := self._as_told.wrong()) is not None:
            return journal_head.mixed(self.path, wrong)
        return self._copied()

    def _copied(self) -> JournalError | None:
        with self._wrapped():
            if not self._head_file.is_of_another():
                return None
        if self.is_archive():  # it is handed out, and moved to where archives are kept
            return None
        return journal_head.a_copy(self.path, self.head().seq)

    def _lost_since(self, kept: Head) -> JournalError | None:
        newest = self.head()
        if kept == NOTHING:
            if newest == NOTHING or not self.rows(_MARKED):  # a new one, or of an earlier version
                return None
            return journal_head.rolled_back(
                self.path,
                newest.seq,
                f"has lost {self._head_file.path.name}, its newest entry's number",
            )
        first = self.rows("SELECT min(seq) AS seq FROM entries")[0]["seq"]
        if kept.seq > newest.seq:
            return journal_head.rolled_back(
                self.path,
                newest.seq,
                f"ends with entry {newest.seq}, but entry {kept.seq} was written",
            )
        found = self.rows("SELECT hash FROM entries WHERE seq=?", kept.seq)
        archived = first is not None and kept.seq < first
        if archived or [row["hash"] for row in found] == [kept.hash]:
            return None
        return journal_head.rolled_back(
            self.path, newest.seq, f"has another entry {kept.seq} than the one that was written"
        )

    def is_archive(self) -> bool:
        """Whether it holds what another journal has archived: nothing is purged from it."""
        return bool(self.rows(ARCHIVE))

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
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            raise JournalError(
                f"the purge journal {self.path} cannot be written or read: {error}",
                # SQLite's word for a damaged file is this class itself, for all else one below it;
                # of bytes that are no text Python cannot even repeat what SQLite said.
                f"{journal_head.restore(self.path)} or start a new state_dir."
                if type(error) in (sqlite3.DatabaseError, UnicodeDecodeError)
                else "Free disk space or correct its rights; nothing is sent without a journal.",
            ) from error


# The journal's tables, made in a new file and added to one of an earlier version.

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
CREATE TABLE IF NOT EXISTS run_policies (
  run_id TEXT PRIMARY KEY, cluster_id TEXT NOT NULL, policy TEXT NOT NULL,
  definition_sha256 TEXT NOT NULL, queued_at TEXT NOT NULL, partitions INTEGER NOT NULL,
  bytes INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS runs_of_policy ON run_policies (cluster_id, policy, queued_at);
CREATE TABLE IF NOT EXISTS run_budgets (
  run_id TEXT PRIMARY KEY, unmeasured INTEGER NOT NULL, sent_at TEXT, freed_bytes INTEGER
) STRICT;
CREATE TABLE IF NOT EXISTS run_archives (run_id TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS run_claims (run_id TEXT PRIMARY KEY, since TEXT NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS runs_by_sending ON run_budgets (sent_at);
CREATE TABLE IF NOT EXISTS policy_switches (
  cluster_id TEXT NOT NULL, name TEXT NOT NULL, enabled INTEGER NOT NULL,
  definition_sha256 TEXT NOT NULL, who TEXT NOT NULL, at TEXT NOT NULL, from_where TEXT NOT NULL,
  PRIMARY KEY (cluster_id, name)
) STRICT;
CREATE TABLE IF NOT EXISTS policy_seen (
  cluster_id TEXT NOT NULL, name TEXT NOT NULL, at TEXT NOT NULL, seen_at TEXT,
  PRIMARY KEY (cluster_id, name)
) STRICT;
CREATE TABLE IF NOT EXISTS policy_leases (
  cluster_id TEXT PRIMARY KEY, holder TEXT NOT NULL, host TEXT NOT NULL, pid INTEGER NOT NULL,
  taken_at TEXT NOT NULL, renewed_at TEXT NOT NULL, expires_at TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS policy_signs (cluster_id TEXT PRIMARY KEY, at TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS policy_holds (
  cluster_id TEXT NOT NULL, name TEXT NOT NULL, since TEXT NOT NULL, until TEXT NOT NULL,
  PRIMARY KEY (cluster_id, name)
) STRICT;
CREATE TABLE IF NOT EXISTS policy_taken_out (
  cluster_id TEXT NOT NULL, name TEXT NOT NULL, at TEXT NOT NULL, PRIMARY KEY (cluster_id, name)
) STRICT;
CREATE TABLE IF NOT EXISTS purge_requests (
  request_id TEXT PRIMARY KEY, token TEXT NOT NULL UNIQUE, plan_id TEXT NOT NULL,
  plan_sha256 TEXT NOT NULL, plan TEXT NOT NULL, cluster_id TEXT NOT NULL,
  cluster_name TEXT NOT NULL, mode TEXT NOT NULL, requester TEXT NOT NULL, how TEXT NOT NULL,
  role_values TEXT NOT NULL, from_where TEXT NOT NULL, typed TEXT NOT NULL, options TEXT NOT NULL,
  connection TEXT NOT NULL, asked_at TEXT NOT NULL, expires_at TEXT NOT NULL, state TEXT NOT NULL,
  decided_by TEXT, decided_at TEXT, run_id TEXT
) STRICT;
CREATE INDEX IF NOT EXISTS open_requests ON purge_requests (cluster_id) WHERE state = 'asked';
CREATE INDEX IF NOT EXISTS request_of_run ON purge_requests (run_id) WHERE run_id IS NOT NULL;
CREATE TABLE IF NOT EXISTS alerts_sent (
  cluster_id TEXT NOT NULL, event TEXT NOT NULL, subject TEXT NOT NULL, text TEXT NOT NULL,
  details TEXT NOT NULL, first_seen_at TEXT NOT NULL, last_seen_at TEXT NOT NULL, told_at TEXT,
  attempts INTEGER NOT NULL, retry_at TEXT NOT NULL, error TEXT,
  PRIMARY KEY (cluster_id, event, subject)
) STRICT;
CREATE INDEX IF NOT EXISTS open_runs ON runs (run_id) WHERE closed_at IS NULL;
CREATE INDEX IF NOT EXISTS watched_runs ON runs (watched_until);
CREATE INDEX IF NOT EXISTS runs_of_cluster ON runs (cluster_id, queued_at);
CREATE TABLE IF NOT EXISTS policy_status (
  cluster_id TEXT NOT NULL, name TEXT NOT NULL, at TEXT NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (cluster_id, name)
) STRICT;
"""

_STARTS = """
CREATE TABLE partition_starts (
  cluster_id TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL,
  started_at TEXT NOT NULL, run_id TEXT NOT NULL, PRIMARY KEY (cluster_id, topic, partition)
) STRICT, WITHOUT ROWID
"""

# What an earlier version purged counts too. SQLite takes run_id from the row of the outer max().
_EARLIER_STARTS = """
INSERT INTO partition_starts
SELECT r.cluster_id, p.topic, p.partition,
  max(max(r.queued_at, coalesce(json_extract(p.body, '$.sent_at'), r.queued_at))), r.run_id
FROM runs r JOIN run_partitions p ON p.run_id = r.run_id
GROUP BY r.cluster_id, p.topic, p.partition
"""


_TABLES = tuple(text for text in _SCHEMA.split(";") if text.strip())
_NAMES = re.compile(r"IF NOT EXISTS (\w+)")


def _prepare(db: sqlite3.Connection) -> None:
    """Make what the file lacks, all of it or nothing; nothing is written to one that has it all."""
    if _is_whole(db):
        return
    db.execute("BEGIN IMMEDIATE")  # of two that start at once the second finds all of it there
    try:
        for table in _TABLES:
            db.execute(table)
        if not _has_starts(db):
            db.execute(_STARTS)
            db.execute(_EARLIER_STARTS)
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _is_whole(db: sqlite3.Connection) -> bool:
    there = {row[0] for row in db.execute("SELECT name FROM sqlite_master")}
    return there.issuperset(_NAMES.findall(_SCHEMA)) and "partition_starts" in there


def _has_starts(db: sqlite3.Connection) -> bool:
    found = db.execute("SELECT 1 FROM sqlite_master WHERE name='partition_starts'")
    return found.fetchone() is not None
