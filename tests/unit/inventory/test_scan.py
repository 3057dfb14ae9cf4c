"""A scan gives one row per segment, follows no link, and names what it could not count."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dashboard.core.errors import InventoryError, LogDirError
from dashboard.inventory import scan as scan_module
from dashboard.inventory.loading import Gap
from dashboard.inventory.names import CHECKPOINTS
from dashboard.inventory.recorder import Recorder
from tests.unit.inventory.disks import (
    NOW,
    TOPIC_ID,
    Disk,
    gaps,
    listed,
    read,
    scanned,
    segments,
)

KINDS = {
    "a-0": "live",
    "a-1.0f-delete": "delete",
    "a-2.0f-future": "future",
    "a-3.0f-stray": "stray",
}


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path / "data")


def test_each_segment_is_a_row(disk: Disk, tmp_path: Path) -> None:
    for name in KINDS:
        folder = disk.folder(name)
        disk.segment(folder, 0, 100)
        disk.segment(folder, 70, 30)
    rows = segments(scanned(tmp_path / "out", disk.path))
    assert {row["directory"]: row["kind"] for row in rows} == KINDS
    live = [row for row in rows if row["kind"] == "live"]
    assert [(r["base_offset"], r["log_bytes"], r["index_bytes"]) for r in live] == [
        (0, 100, 0), (70, 30, 0),
    ]  # fmt: skip
    assert (live[0]["topic"], live[0]["partition"], live[0]["topic_id"]) == ("a", 0, TOPIC_ID)
    assert [r["log_end_offset"] for r in live] == [None, None]  # the last one holds no batch
    assert live[0]["scanned_at"] == NOW
    assert {row["broker_id"] for row in rows} == {1}


def test_where_records_end_stands_in_a_folders_last_row(disk: Disk, tmp_path: Path) -> None:
    folder = disk.folder("a-0")
    disk.segment(folder, 0)
    disk.segment(folder, 70)
    rows = segments(scanned(tmp_path / "out", disk.path))
    assert [(r["base_offset"], r["log_end_offset"]) for r in rows] == [(0, None), (70, 80)]
    listing = segments(read(tmp_path / "listed", listed([disk.path])))
    assert [r["log_end_offset"] for r in listing] == [None, None]


def test_a_sparse_index_counts_by_size_and_by_block(disk: Disk, tmp_path: Path) -> None:
    folder = disk.folder("a-0", topic_id=None)
    index = disk.segment(folder, 0, 5000)
    os.truncate(index, 10_485_756)
    row = segments(scanned(tmp_path / "out", disk.path))[0]
    assert (row["log_bytes"], row["index_bytes"]) == (5000, 10_485_756)
    blocks = sum(file.stat().st_blocks for file in folder.iterdir())
    assert row["allocated_bytes"] == blocks * 512 < 10_485_756


def test_other_files_count_on_disk_only_and_once(disk: Disk, tmp_path: Path) -> None:
    folder = disk.folder("a-0")
    disk.segment(folder, 5)
    disk.segment(folder, 9)
    for name in ("00000000000000000000.log.deleted", "00000000000000000009.snapshot", "x y\n"):
        (folder / name).write_bytes(b"z" * 9000)
    rows = segments(scanned(tmp_path / "out", disk.path))
    assert [(r["base_offset"], r["log_bytes"], r["index_bytes"]) for r in rows] == [
        (5, 100, 0), (9, 100, 0),
    ]  # fmt: skip
    blocks = sum(file.stat().st_blocks for file in folder.iterdir())
    assert sum(row["allocated_bytes"] for row in rows) == blocks * 512
    assert rows[1]["allocated_bytes"] < rows[0]["allocated_bytes"]


def test_a_folder_without_a_segment_still_has_its_row(disk: Disk, tmp_path: Path) -> None:
    disk.folder("a-0", topic_id=None)
    rows = segments(scanned(tmp_path / "out", disk.path))
    assert [(r["directory"], r["base_offset"], r["log_bytes"]) for r in rows] == [("a-0", None, 0)]


@pytest.mark.parametrize("behind", [0, 1, 7, 100_000])
def test_newest_is_the_last_time_index_entry_when_it_is_later(
    disk: Disk, tmp_path: Path, behind: int
) -> None:
    """With zeros behind it: the index of an open segment is preallocated."""
    index = disk.segment(disk.folder("a-0"), 0)
    newest = 1_800_000_000_000
    entries = b"".join(struct.pack(">qi", newest - 9 + n, n) for n in range(10))
    index.write_bytes(entries + bytes(12 * behind))
    os.utime(index.with_suffix(".log"), (1_700_000_000, 1_700_000_000))
    row = segments(scanned(tmp_path / "out", disk.path))[0]
    assert row["newest_at"] == datetime.fromtimestamp(newest / 1000, UTC)


def test_newest_is_the_mtime_when_that_is_later_or_alone(disk: Disk, tmp_path: Path) -> None:
    folder = disk.folder("a-0")
    disk.segment(folder, 0).write_bytes(struct.pack(">qi", 1000, 0))
    disk.segment(folder, 1).write_bytes(bytes(24))
    disk.segment(folder, 2).write_bytes(struct.pack(">qi", 2**62, 0))
    for base_offset in (0, 1, 2):
        os.utime(folder / f"{base_offset:020}.log", (1_700_000_000, 1_700_000_000))
    rows = segments(scanned(tmp_path / "out", disk.path))
    at = datetime.fromtimestamp(1_700_000_000, UTC)
    assert [row["newest_at"] for row in rows][:2] == [at, at]
    assert rows[2]["newest_at"].year == 9999  # a producer's wild timestamp, cut to a calendar's


def test_links_and_foreign_folders_are_named_and_not_followed(disk: Disk, tmp_path: Path) -> None:
    elsewhere = Disk(tmp_path / "elsewhere")
    disk.segment(elsewhere.folder("b-0"), 0)
    folder = disk.folder("a-0", topic_id=None)
    disk.segment(folder, 0)
    (disk.path / "b-0").symlink_to(elsewhere.path / "b-0")
    (folder / "00000000000000000007.log").symlink_to("/etc/passwd")
    (folder / "partition.metadata").symlink_to(elsewhere.path / "b-0" / "partition.metadata")
    (folder / "inner").mkdir()
    os.mkfifo(folder / "00000000000000000008.log")
    (disk.path / "lost+found").mkdir()
    (disk.path / "two\nlines-0").mkdir()
    (disk.path / "__cluster_metadata-0").mkdir()
    (disk.path / "remote-log-index-cache").mkdir()
    os.mkfifo(disk.path / CHECKPOINTS[0])
    (disk.path / CHECKPOINTS[1]).symlink_to("/etc/passwd")
    found = scanned(tmp_path / "out", disk.path)
    assert [(r["directory"], r["base_offset"], r["topic_id"]) for r in segments(found)] == [
        ("a-0", 0, None)
    ]
    told = gaps(found)
    assert set(told) == {
        "b-0", "a-0/00000000000000000007.log", "a-0/partition.metadata", "a-0/inner",
        "a-0/00000000000000000008.log", "lost+found", "two\\nlines-0", *CHECKPOINTS[:2],
    }  # fmt: skip
    assert "link" in told["b-0"] and "link" in told[CHECKPOINTS[1]]


def test_a_log_dir_may_itself_be_a_link(disk: Disk, tmp_path: Path) -> None:
    disk.segment(disk.folder("a-0"), 0)
    (tmp_path / "link").symlink_to(disk.path)
    rows = segments(scanned(tmp_path / "out", tmp_path / "link"))
    assert [row["log_dir"] for row in rows] == [str(tmp_path / "link")]
    with pytest.raises(InventoryError, match="same folder"):
        scanned(tmp_path / "out", disk.path, tmp_path / "link")


def test_checkpoints_are_read_under_all_their_names(disk: Disk, tmp_path: Path) -> None:
    for number, name in enumerate(CHECKPOINTS):
        (disk.path / name).write_text(f"0\n1\na {number} {number * 10}\n")
    found = scanned(tmp_path / "out", disk.path)
    rows = found.tables["checkpoints"].to_pylist()
    assert [(r["file"], r["topic"], r["partition"], r["offset"]) for r in rows] == [
        (name, "a", number, number * 10) for number, name in enumerate(CHECKPOINTS)
    ]
    assert found.summary.gaps_total == 0


def test_damaged_small_files_are_gaps(disk: Disk, tmp_path: Path) -> None:
    (disk.path / CHECKPOINTS[0]).write_text("0\n2\na 0 1\n")
    disk.folder("a-0", topic_id="short")
    (disk.folder("a-1", topic_id=None) / "partition.metadata").write_bytes(b"x" * 5000)
    found = scanned(tmp_path / "out", disk.path)
    assert set(gaps(found)) == {CHECKPOINTS[0], "a-0/partition.metadata", "a-1/partition.metadata"}
    assert {row["topic_id"] for row in segments(found)} == {None}


def test_what_vanishes_meanwhile_is_no_gap(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = disk.segment(disk.folder("a-0"), 0)
    doomed = disk.folder("b-0", topic_id=None)
    honest = os.scandir
    deletions = [doomed.rmdir, index.unlink]  # after the log dir was listed, and after a-0 was

    def scandir(path: Any) -> Any:
        with honest(path) as entries:
            found = _Entries(entries)
        deletions.pop(0)()
        return found

    monkeypatch.setattr(scan_module.os, "scandir", scandir)
    found = scanned(tmp_path / "out", disk.path)
    assert deletions == []
    assert [row["directory"] for row in segments(found)] == ["a-0"]
    assert found.summary.gaps == ()


def test_a_folder_that_becomes_a_link_meanwhile_is_not_followed(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = Disk(tmp_path / "elsewhere")
    disk.segment(elsewhere.folder("a-0"), 0)
    folder = disk.folder("a-0", topic_id=None)
    honest = os.scandir

    def scandir(path: Any) -> Any:
        with honest(path) as entries:
            found = _Entries(entries)
        if not folder.is_symlink():
            folder.rmdir()
            folder.symlink_to(elsewhere.path / "a-0")
        return found

    monkeypatch.setattr(scan_module.os, "scandir", scandir)
    found = scanned(tmp_path / "out", disk.path)
    assert segments(found) == []
    assert set(gaps(found)) == {"a-0"}


class _Entries(list[Any]):
    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def test_a_folder_that_may_not_be_read_is_a_gap(tmp_path: Path) -> None:
    """As a user without rights, in a process of its own: root may read everything."""
    script = (
        "import os, sys, tempfile\n"
        "from pathlib import Path\n"
        "from tests.unit.inventory.disks import Disk, gaps, listed, read, scanned, segments\n"
        "if os.getuid() == 0:\n"
        "    os.setgid(65534); os.setuid(65534)\n"
        "with tempfile.TemporaryDirectory() as name:\n"
        "    disk = Disk(Path(name) / 'data')\n"
        "    for folder in ('a-0', 'b-0', 'c-0'):\n"
        "        disk.segment(disk.folder(folder), 0)\n"
        "    (disk.path / 'b-0').chmod(0)\n"
        "    (disk.path / 'c-0' / 'partition.metadata').chmod(0)\n"
        "    out = Path(name) / 'out'\n"
        "    found = [scanned(out, disk.path), read(out, listed([disk.path]))]\n"
        "    (disk.path / 'b-0').chmod(0o700)\n"
        "for one in found:\n"
        "    assert [r['directory'] for r in segments(one)] == ['a-0', 'c-0'], segments(one)\n"
        "    assert set(gaps(one)) == {'b-0', 'c-0/partition.metadata'}, gaps(one)\n"
        "    assert gaps(one)['b-0'] == 'permission denied'\n"
    )
    root = Path(__file__).parents[3]
    command = [sys.executable, "-B", "-c", script]
    done = subprocess.run(
        command, cwd=root, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_missing_log_dir_is_a_gap_and_all_missing_is_an_error(disk: Disk, tmp_path: Path) -> None:
    found = scanned(tmp_path / "out", disk.path, tmp_path / "gone")
    assert found.summary.gaps == (Gap(str(tmp_path / "gone"), "", "no such file or directory"),)
    with pytest.raises(LogDirError, match="gone: no such file"):
        scanned(tmp_path / "other", tmp_path / "gone")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ("cluster.id=C\nnode.id=2\n", "BROKER_MISMATCH"),
        ("cluster.id=B\nnode.id=1\n", "CLUSTER_MISMATCH"),
    ],
)
def test_another_brokers_log_dir_is_refused_and_leaves_nothing(
    disk: Disk, tmp_path: Path, meta: str, code: str
) -> None:
    other = Disk(tmp_path / "other")
    (other.path / "meta.properties").write_text(meta)
    with pytest.raises(InventoryError) as refused:
        scanned(tmp_path / "out", disk.path, other.path)
    assert refused.value.code == code
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data", "other"]


def test_a_folder_that_is_no_log_dir_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with pytest.raises(InventoryError) as refused:
        scanned(tmp_path / "out", tmp_path / "data")
    assert refused.value.code == "NOT_A_LOG_DIR"


def test_rows_of_many_batches_are_all_there_and_gaps_are_bounded(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.inventory.recorder._BATCH", 7)
    for number in range(20):
        disk.segment(disk.folder(f"a-{number}"), 0)
    for number in range(130):
        (disk.path / f"foreign{number}").mkdir()
    found = scanned(tmp_path / "out", disk.path)
    assert len(segments(found)) == found.summary.segments == 20
    assert (len(found.summary.gaps), found.summary.gaps_total) == (100, 130)


def test_gaps_inside_folders_leave_room_for_the_others(disk: Disk, tmp_path: Path) -> None:
    for number in range(130):
        (disk.folder(f"a-{number}") / "nested").mkdir()
        (disk.path / f"foreign{number}").mkdir()
    found = scanned(tmp_path / "out", disk.path).summary
    assert (len(found.gaps), found.gaps_total) == (200, 260)
    assert sum("/" in gap.path for gap in found.gaps) == 100


def test_a_log_dir_that_could_not_be_opened_is_named_after_any_number_of_gaps(
    disk: Disk, tmp_path: Path
) -> None:
    for number in range(130):
        (disk.path / f"not a partition {number}").mkdir()
    gone = str(tmp_path / "gone")
    found = scanned(tmp_path / "out", disk.path, Path(gone))
    assert (len(found.summary.gaps), found.summary.gaps_total) == (101, 131)
    assert found.summary.gaps[-1] == Gap(gone, "", "no such file or directory")


def test_nothing_in_the_log_dir_is_touched(disk: Disk, tmp_path: Path) -> None:
    disk.segment(disk.folder("a-0"), 0)
    before = {p: (p.lstat().st_mtime_ns, p.lstat().st_ctime_ns) for p in disk.path.rglob("*")}
    scanned(tmp_path / "out", disk.path)
    assert {p: (p.lstat().st_mtime_ns, p.lstat().st_ctime_ns) for p in disk.path.rglob("*")} == (
        before
    )


def test_an_interrupted_scan_leaves_no_file(disk: Disk, tmp_path: Path) -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        Recorder(str(tmp_path / "out"), 1, [str(disk.path)], newest_from="x"),
    ):
        raise KeyboardInterrupt
    assert [p.name for p in tmp_path.iterdir()] == ["data"]
