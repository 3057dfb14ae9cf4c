"""The journal's tables, made in a new file and added to one of an earlier version."""

from __future__ import annotations

import re
import sqlite3

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


def prepare(db: sqlite3.Connection) -> None:
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
