"""A journal that an earlier version wrote opens as it is, verifies, and its purges count."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.core.errors import LowwaterError, RefusedError
from dashboard.domain.model import TopicPartition
from dashboard.purge.journal import file as journal_file
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.pack import unpack
from tests.unit.purge.facts_of import NOW, TOPIC
from tests.unit.purge.test_journal_policies import CLUSTER, insert, ready
from tests.unit.purge.test_plan import free_plan

# As released before policies.
_EARLIER = """
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
_TABLES = ("runs", "run_topics", "run_partitions", "run_moves", "entries", "switches")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """One run of a person, sent a minute after it was queued, in tables of the earlier version."""
    made = Journal(tmp_path / "now.sqlite")
    run_id = insert(made, free_plan(), None)
    row = made.partitions(run_id)[0]
    sent_at = NOW + timedelta(minutes=1)
    made.record(run_id, "intent", [replace(row, state="sent", sent_at=sent_at)], sent_at)
    made.set_run(run_id, "done", sent_at)
    made.close()
    earlier = sqlite3.connect(tmp_path / "journal.sqlite")
    earlier.executescript(_EARLIER)
    earlier.execute("ATTACH ? AS made", (str(tmp_path / "now.sqlite"),))
    for table in _TABLES:
        earlier.execute(f"INSERT INTO {table} SELECT * FROM made.{table}")
    earlier.execute("DELETE FROM switches WHERE name='head_kept'")
    for table, name in (("runs", "plan"), ("run_partitions", "body"), ("entries", "body")):
        for (stored,) in earlier.execute(f"SELECT {name} FROM {table}").fetchall():
            plain = (unpack(stored), stored)
            earlier.execute(f"UPDATE {table} SET {name}=? WHERE {name}=?", plain)
    earlier.commit()
    earlier.close()
    return tmp_path / "journal.sqlite"


def test_it_opens_and_verifies_with_all_its_runs(path: Path) -> None:
    journal = Journal(path)
    (run,) = journal.runs()
    assert (run.policy, run.state) == (None, "done")
    assert journal.plan(run.run_id) == free_plan()
    assert [row.state for row in journal.partitions(run.run_id)] == ["sent"]
    assert journal.verify().ok
    journal.close()


def test_what_it_purged_counts_as_a_last_start(path: Path) -> None:
    journal, sent_at = Journal(path), NOW + timedelta(minutes=1)
    assert journal.last_starts(CLUSTER, [TOPIC]) == {TopicPartition(TOPIC, 0): sent_at}
    ready(journal)
    with pytest.raises(RefusedError) as refused:
        insert(journal, free_plan(created_by="again"))
    assert refused.value.code == "TOO_SOON"
    journal.close()
    assert Journal(path).last_starts(CLUSTER, [TOPIC])  # opened again: nothing is done twice


def test_opening_a_journal_of_this_version_writes_nothing(path: Path) -> None:
    first = Journal(path)
    version = first.file.version()
    second = Journal(path)
    assert first.file.version() == version
    first.close()
    second.close()


def test_a_journal_is_made_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a disk that is full half-way through."""
    new = tmp_path / "journal.sqlite"
    with monkeypatch.context() as full:
        tables = (*journal_file._TABLES[:5], "CREATE TABLE runs (x)")
        full.setattr(journal_file, "_TABLES", tables)
        with pytest.raises(LowwaterError):
            Journal(new)
    there = sqlite3.connect(new)
    assert there.execute("SELECT name FROM sqlite_master").fetchall() == []
    there.close()
    Journal(new).close()
    assert Journal(new).verify().ok
