"""The shell line says what a scan says; a torn or damaged listing is noticed."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.core.errors import InventoryError, LogDirError, LowwaterError
from dashboard.inventory import listing
from dashboard.inventory.names import CHECKPOINTS
from tests.support.examples import examples
from tests.unit.inventory.disks import Disk, comparable, gaps, listed, read, scanned, segments

_NAMES = st.sampled_from(
    ["a-0", "a-1", "b.c-7", "a-0.0f-delete", "b-2.0f-future", "a-9.0f-stray", "lost+found",
     "__cluster_metadata-0", "remote-log-index-cache", "odd name-0", "two\nlines-0", "-x-0", "é-1"]
)  # fmt: skip
_FILES = st.sampled_from(
    [f"{offset:020}{suffix}" for offset in (0, 7, 2**62)
     for suffix in (".log", ".index", ".timeindex", ".txnindex", ".log.deleted", ".snapshot")]
    + ["leader-epoch-checkpoint", "partition.metadata", "f\t1\t1\t1\tx-0", "#end\n", "*", "'\"$(x)",
       "\udcff\udcfe", ":12"]
)  # fmt: skip
_CONTENT = st.one_of(
    st.binary(max_size=40),
    st.just(b"version: 0\ntopic_id: abcdefghijklmnopqrstuv\n"),
    st.integers(0, 20_000).map(lambda size: b"x" * size),
)
_TREES = st.dictionaries(_NAMES, st.dictionaries(_FILES, _CONTENT, max_size=6), max_size=6)
_ENTRIES = st.lists(st.tuples(st.sampled_from(["a", "b.c"]), st.integers(0, 9)), unique=True)


def test_what_a_broker_of_0_11_has_left_is_read_both_ways(tmp_path: Path) -> None:
    """As OffsetCheckpointFile wrote: a version, a count, and lines in the order of a hash map.
    Topics had no ids, folders no partition.metadata, and a deleted one an id of 32 digits.
    """
    disk = Disk(tmp_path / "data")
    files = {
        "replication-offset-checkpoint": "0\n3\n__offsets 12 240\norders 1 77\norders 0 81\n",
        "recovery-point-offset-checkpoint": "0\n2\norders 1 70\norders 0 80\n",
        "log-start-offset-checkpoint": "0\n1\norders 0 60\n",
        "cleaner-offset-checkpoint": "0\n1\n__offsets 12 9\n",  # the log cleaner's own: not ours
        ".kafka_cleanshutdown": "",
    }
    for name, text in files.items():
        (disk.path / name).write_text(text)
    gone = f"orders-1.{'5' * 32}-delete"
    for name in ("orders-0", gone):
        folder = disk.folder(name, topic_id=None)
        disk.segment(folder, 40)
        (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    here = scanned(tmp_path / "scan", disk.path)
    there = read(tmp_path / "read", listed([disk.path]))
    assert comparable(there) == comparable(here)
    rows = here.tables["checkpoints"].to_pylist()
    assert {(r["file"], r["topic"], r["partition"], r["offset"]) for r in rows} == {
        ("log-start-offset-checkpoint", "orders", 0, 60),
        ("recovery-point-offset-checkpoint", "orders", 0, 80),
        ("recovery-point-offset-checkpoint", "orders", 1, 70),
        ("replication-offset-checkpoint", "__offsets", 12, 240),
        ("replication-offset-checkpoint", "orders", 0, 81),
        ("replication-offset-checkpoint", "orders", 1, 77),
    }
    assert [(r["directory"], r["kind"], r["topic_id"]) for r in segments(here)] == [
        ("orders-0", "live", None), (gone, "delete", None),
    ]  # fmt: skip
    assert here.summary.gaps == ()


@examples(60)
@given(_TREES, st.dictionaries(st.sampled_from(CHECKPOINTS), _ENTRIES, max_size=2))
def test_scan_and_listing_of_any_tree_are_equal(
    tree: dict[str, dict[str, bytes]], checkpoints: dict[str, list[tuple[str, int]]]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        disk = Disk(Path(name) / "log dir's $HOME")
        for folder, found in tree.items():
            (disk.path / folder).mkdir()
            for file, content in found.items():
                (disk.path / folder / file).write_bytes(content)
        (disk.path / CHECKPOINTS[4]).touch()
        for file, entries in checkpoints.items():
            lines = [f"{topic} {partition} 5\n" for topic, partition in entries]
            (disk.path / file).write_text(f"0\n{len(lines)}\n" + "".join(lines))
        here = scanned(Path(name) / "scan", disk.path)
        there = read(Path(name) / "read", listed([disk.path]))
    assert comparable(there) == comparable(here)
    assert there.summary.log_dirs == here.summary.log_dirs
    assert there.summary.gaps_total == here.summary.gaps_total


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    made = Disk(tmp_path / "data")
    made.segment(made.folder("a-0"), 0, 5000)
    made.segment(made.folder("b-0.0f-stray"), 7, 30)
    (made.path / CHECKPOINTS[0]).write_text("0\n1\na 0 3\n")
    return made


def test_two_log_dirs_links_pipes_and_sparse_files(disk: Disk, tmp_path: Path) -> None:
    second = Disk(tmp_path / "second")
    (second.folder("d-0") / "partition.metadata").write_bytes(b"topic_id: " + b"x\n" * 3000)
    os.truncate(second.segment(second.folder("c-0"), 0), 1_000_000)
    (second.path / "a-0").symlink_to(disk.path / "a-0")
    os.mkfifo(second.path / "c-0" / "00000000000000000009.log")
    (second.path / "c-0" / "00000000000000000008.log").symlink_to("/etc/passwd")
    (second.path / "c-0" / "inner").mkdir()
    (second.path / CHECKPOINTS[1]).symlink_to("/etc/passwd")
    here = scanned(tmp_path / "scan", disk.path, second.path)
    there = read(tmp_path / "read", listed([disk.path, second.path]))
    assert comparable(there) == comparable(here)
    assert set(gaps(there)) == set(gaps(here))
    assert len(gaps(here)) == 6
    assert b"d-0/partition.metadata:" not in listed([second.path])  # too large to be one


def test_times_before_1970_and_far_ahead_are_the_same_to_the_microsecond(
    disk: Disk, tmp_path: Path
) -> None:
    for at in (-750_000_000, -315_619_199_750_000_000, 1_700_000_000_123_456_789, 2**33 * 10**9):
        os.utime(disk.path / "a-0" / f"{0:020}.log", ns=(at, at))
        here = segments(scanned(tmp_path / "scan", disk.path))[0]
        there = segments(read(tmp_path / "read", listed([disk.path])))[0]
        assert there["newest_at"] == here["newest_at"]


def test_a_listing_knows_mtime_only_and_says_so(disk: Disk, tmp_path: Path) -> None:
    assert read(tmp_path / "out", listed([disk.path])).summary.newest_from == "mtime"


def test_a_missing_log_dir_is_a_gap_and_all_missing_is_an_error(disk: Disk, tmp_path: Path) -> None:
    found = read(tmp_path / "out", listed([tmp_path / "gone", disk.path]))
    assert found.summary.gaps_total == 1
    assert len(segments(found)) == 2
    with pytest.raises(LogDirError, match="gone"):
        read(tmp_path / "out", listed([tmp_path / "gone"]))


def test_every_cut_is_noticed(disk: Disk, tmp_path: Path) -> None:
    whole = listed([disk.path])
    for end in range(len(whole) - 1):
        with pytest.raises(InventoryError) as refused:
            read(tmp_path / "out", whole[:end])
        assert refused.value.code in ("LISTING_CUT_SHORT", "LISTING_INVALID")
    assert not (tmp_path / "out").exists()


def test_a_cut_is_named_with_its_line(disk: Disk, tmp_path: Path) -> None:
    lines = listed([disk.path]).splitlines(True)
    with pytest.raises(InventoryError, match="line 9:") as refused:
        read(tmp_path / "out", b"".join(lines[:9]))
    assert refused.value.code == "LISTING_CUT_SHORT"


def test_a_find_that_was_killed_is_noticed(disk: Disk, tmp_path: Path) -> None:
    killed = listed([disk.path]).replace(b"#files 0", b"#files 137")
    with pytest.raises(InventoryError, match="137"):
        read(tmp_path / "out", killed)


def test_a_find_without_printf_is_told_with_the_way_out(disk: Disk, tmp_path: Path) -> None:
    """As busybox does: an error, and nothing printed."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = 'case "$*" in *printf*) echo "find: unrecognized: -printf" >&2; exit 1;; esac\n'
    (folder / "find").write_text(f'#!/bin/sh\n{script}exec /usr/bin/find "$@"\n')
    (folder / "find").chmod(0o755)
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    with pytest.raises(InventoryError, match="printed no file") as refused:
        read(tmp_path / "out", listed([disk.path], env=env))
    assert refused.value.code == "LISTING_WITHOUT_FILES"
    assert "findutils" in refused.value.next_step


def test_damaged_lines_are_gaps_with_their_number(disk: Disk, tmp_path: Path) -> None:
    lines = listed([disk.path]).splitlines(True)
    # find lists a folder as the file system does: whose line comes first is not for us to say.
    at = lines.index(next(line for line in lines if line.endswith(b"\ta-0/%020d.log\n" % 0)))
    lines[at : at + 1] = [
        b"\xff\x00 torn\n",
        b"f\t12x\t8\t17.0\ta-0/00000000000000000000.log\n",
        b"f\t12\t8\t17.0\tc-0/00000000000000000000.log\n",  # of no folder above
    ]
    found = read(tmp_path / "out", b"".join(lines))
    assert list(gaps(found)) == [f"line {at + n}" for n in (1, 2, 3)]
    assert sum(row["log_bytes"] for row in segments(found)) == 30


def test_a_line_without_an_end_costs_no_memory_and_is_one_gap(disk: Disk, tmp_path: Path) -> None:
    lines = listed([disk.path]).splitlines(True)
    lines.insert(5, b"x" * 200_000 + b"\n")
    found = read(tmp_path / "out", b"".join(lines))
    assert list(gaps(found)) == ["line 6"]


def test_greetings_and_a_terminals_line_ends_do_no_harm(disk: Disk, tmp_path: Path) -> None:
    text = listed([disk.path])
    noisy = b"Welcome to broker-1\n\n" + text.replace(b"\n", b"\r\n")
    assert comparable(read(tmp_path / "a", noisy)) == comparable(read(tmp_path / "b", text))


@pytest.mark.parametrize(
    "text",
    [
        b"", b"hello\n" * 2000, b"#lowwater-listing 2 [\"/a\"]\n", b"#lowwater-listing 1 {}\n",
        b"#lowwater-listing 1 [\"a\"]\n", b"#lowwater-listing 1 [\"/a\", \"/a\"]\n",
        b"#lowwater-listing 1 [\"/a\"]\n#at yesterday\n",
    ],
)  # fmt: skip
def test_what_is_no_listing_is_refused(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(InventoryError) as refused:
        read(tmp_path / "out", text)
    assert refused.value.code == "LISTING_INVALID"


def test_contents_that_could_not_be_read_are_gaps(disk: Disk, tmp_path: Path) -> None:
    lines = listed([disk.path]).splitlines(True)
    kept = [line for line in lines if not line.startswith((b"./a-0/", b"./log-start"))]
    found = read(tmp_path / "out", b"".join(kept))
    assert set(gaps(found)) == {"a-0/partition.metadata", CHECKPOINTS[0]}
    assert [row["topic_id"] is None for row in segments(found)] == [True, False]


@given(st.data())
@examples(150)
def test_no_listing_crashes_the_reader(data: st.DataObject) -> None:
    """Whole lines dropped, doubled, moved and torn: an inventory or a named error."""
    lines = data.draw(st.lists(st.sampled_from(_LINES), max_size=40))
    torn = data.draw(st.binary(max_size=30))
    with tempfile.TemporaryDirectory() as name, suppress(LowwaterError):
        read(Path(name) / "out", b"\n".join([*_LINES[:3], *lines, torn, *_LINES[-2:]]))


_LINES = [
    b'#lowwater-listing 1 ["/d"]', b"#at 2026-03-01T10:00:00Z", b"#dir 0",
    b"./meta.properties:cluster.id=C", b"./meta.properties:node.id=1",
    b"./a-0/partition.metadata:topic_id: abcdefghijklmnopqrstuv",
    b"./log-start-offset-checkpoint:0", b"./log-start-offset-checkpoint:a 0 5",
    b"#contents 0", b"d\t4096\t8\t1.0\t", b"d\t4096\t8\t1.0\ta-0",
    b"f\t5\t8\t1.5\ta-0/00000000000000000000.log", b"f\t5\t8\t-1.5\t./a-0/:77",
    b"u\t4096\t8\t1.0\tb-0", b"l\t4\t0\t1.0\tc-0", b"d\t4096\t8\t1.0\t./:78",
    b"f\t99999999999999999999\t8\t1.0\ta-0/x", b"f\t5\t8\t99999999999999\ta-0/partition.metadata",
    b"#missing 0", b"#files 0", b"#end",
]  # fmt: skip


def test_lines_are_counted(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"a\nb\r\n#c 1\nd")
    with (tmp_path / "x").open("rb") as file:
        lines = listing.Lines(file)
        assert list(lines.until_marker()) == [b"a", b"b"]
        assert (lines.number, lines.marker) == (3, ("#c", "1"))
        assert list(lines.until_marker()) == [b"d"]
        assert lines.marker is None
