"""Which parts of an archive become rows, and which task reads them; Spark itself: tests/spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
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
    (ended / "orders" / "1" / "partition.json").unlink()
    with pytest.raises(ArchiveError, match=r"1/partition\.json is not there any more"):
        archived.pieces(open_archive(str(ended)), None)


def test_a_time_that_spark_has_none_for_is_none_and_ends_no_query(tmp_path: Path) -> None:
    """Somebody writes nanoseconds for milliseconds."""
    times = [-1, -5, 0, 1_700_000_000_000, 1_700_000_000_000_000_000, -(2**62)]
    rows = [(at, (None, b"", ms, None)) for at, ms in enumerate(times)]
    archive = open_archive(str(archives.write(tmp_path, {"orders": {0: rows}})))
    ((key, part),) = archived.pieces(archive, None)
    (batch,) = [archived._row(key, found) for found in archive.batches(key, part)]
    found = batch.column("timestamp").cast(pa.int64()).to_pylist()
    assert found == [None, -5000, 0, 1_700_000_000_000_000, None, None]
