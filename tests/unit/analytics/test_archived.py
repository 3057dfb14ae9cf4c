"""Which parts of an archive become rows, and which task reads them; Spark itself: tests/spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from analytics import archived
from dashboard.archive.opened import open_archive
from dashboard.core.errors import ArchiveError
from tests.support import archives

ROWS = {0: archives.records(130, first=1000, step=2), 1: archives.records(57)}


def test_each_part_is_read_by_one_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = open_archive(str(archives.write(tmp_path, {"orders": ROWS, "clicks": ROWS})))
    every = archived.pieces(archive, None)
    assert [(key.topic, key.partition) for key, _ in every] == [
        (topic, number) for topic in ("clicks", "orders") for number in (0, 0, 0, 0, 1, 1)
    ]
    assert archived.pieces(archive, "clicks") == every[:6]
    assert len(archived.grouped(every)) == 1, "small ones together"
    monkeypatch.setattr(archived, "_TASK_BYTES", 1)
    assert archived.grouped(every) == [[each] for each in every]
    assert archived.grouped([]) == []


def test_what_is_not_whole_would_lack_rows(tmp_path: Path) -> None:
    folder = archives.write(tmp_path / "kept", {"orders": {**ROWS, 2: []}}, state="open")
    with pytest.raises(ArchiveError, match="nothing commits orders-2") as part:
        archived.pieces(open_archive(str(folder)), None)
    assert part.value.code == "ARCHIVE_NOT_WHOLE"
    ended = archives.write(tmp_path / "ended", {"orders": {**ROWS, 2: []}}, state="incomplete")
    assert len(archived.pieces(open_archive(str(ended)), None)) == 6
