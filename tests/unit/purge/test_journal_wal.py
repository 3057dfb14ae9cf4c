"""What is brought from the `-wal` into the journal's file, and that nobody commits meanwhile."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dashboard.purge.journal import file as journal_file
from dashboard.purge.journal.file import JournalFile


@pytest.fixture
def file(tmp_path: Path) -> Iterator[JournalFile]:
    with closing(JournalFile(tmp_path / "journal.sqlite")) as made:
        yield made


def write(file: JournalFile, size_bytes: int) -> None:
    with file.write() as db:
        db.execute("INSERT INTO switches VALUES (hex(randomblob(8)), 1, '', hex(zeroblob(?)))",
                   (size_bytes // 2,))  # fmt: skip


def wal_bytes(file: JournalFile) -> int:
    return file.path.with_name(f"{file.path.name}-wal").stat().st_size


def test_a_long_wal_is_folded_in_and_begun_anew(file: JournalFile) -> None:
    before = file.path.stat().st_size
    for _ in range(30):
        write(file, 1 << 20)
        assert wal_bytes(file) < journal_file._WAL_BYTES + (2 << 20)
    assert file.path.stat().st_size > before + (20 << 20)
    assert len(file.rows("SELECT 1 FROM switches WHERE length(at)=?", 1 << 20)) == 30


def test_nobody_can_commit_while_it_is(file: JournalFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite before 3.51.3 damages the file where somebody does."""
    seen: list[str] = []

    class Watched:
        def __init__(self, whole: sqlite3.Connection) -> None:
            self.whole = whole

        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            if "wal_checkpoint" in sql:
                other = sqlite3.connect(file.path, timeout=0, isolation_level=None)
                with closing(other), pytest.raises(sqlite3.OperationalError, match="locked"):
                    other.execute("BEGIN IMMEDIATE")
                seen.append(sql)
            return self.whole.execute(sql, *values)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.whole, name)

    write(file, 5 << 20)
    monkeypatch.setattr(file, "_db", Watched(file._db))
    write(file, 5 << 20)
    assert seen == ["PRAGMA wal_checkpoint(PASSIVE)"]


def test_where_another_writes_its_next_commit_tries(file: JournalFile) -> None:
    with closing(sqlite3.connect(file.path, isolation_level=None)) as other:
        other.execute("PRAGMA wal_autocheckpoint=0")
        other.execute("INSERT INTO switches VALUES ('long', 1, '', hex(zeroblob(?)))", (5 << 19,))
        other.execute("BEGIN IMMEDIATE")
        file._checkpoint()
        assert file.path.stat().st_size < 1 << 20, "it waits for nobody, and breaks in on nobody"
        other.execute("ROLLBACK")
    write(file, 10)
    assert file.path.stat().st_size > 5 << 20


def test_no_connection_folds_it_in_by_itself(file: JournalFile) -> None:
    assert file.rows("PRAGMA wal_autocheckpoint")[0][0] == 0
