"""`lowwater inventory`: each action has its flags, a printed line that sh understands, one file."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dashboard.cli.main import main
from dashboard.inventory.loading import load
from tests.unit.inventory.disks import Disk


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    made = Disk(tmp_path / "it's a disk")
    made.segment(made.folder("a-0"), 0, 5000)
    return made


def _printed(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(capsys.readouterr().out)
    return value


def test_scan_writes_one_file_and_says_what_is_in_it(
    disk: Disk, capsys: pytest.CaptureFixture[str]
) -> None:
    (disk.path / "lost+found").mkdir()
    words = ["inventory", "scan", "--log-dirs", str(disk.path), "--broker", "1", "--out", "f"]
    assert main([*words, "--json"]) == 0
    value = _printed(capsys)
    assert (value["file"], value["broker_id"], value["cluster_id"]) == ("f", 1, "C")
    assert (value["segments"], value["gaps_total"]) == (1, 1)
    assert value["log_dirs"][0]["log_bytes"] == 5000
    assert value["newest_from"] == "time index and mtime"
    assert load("f").broker_id == 1
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "4.9 KiB" in out
    assert "lost+found: not a partition folder" in out


def test_the_printed_line_goes_through_sh_and_back(
    disk: Disk, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["inventory", "command", "--log-dirs", f"{disk.path}/ , /gone"]) == 0
    line = capsys.readouterr().out
    assert line.count("\n") == 1
    listing = subprocess.run(["sh", "-c", line], capture_output=True, check=True).stdout
    Path("listing").write_bytes(listing)
    assert main(["inventory", "read", "listing", "--broker", "1", "--out", "a", "--json"]) == 0
    value = _printed(capsys)
    assert (value["segments"], value["newest_from"]) == (1, "mtime")
    assert [gap["log_dir"] for gap in value["gaps"]] == ["/gone"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(listing)))
    assert main(["inventory", "read", "-", "--broker", "1", "--out", "b"]) == 0
    assert load("b").tables["segments"].equals(load("a").tables["segments"])


def test_command_as_json_holds_the_line(disk: Disk, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inventory", "command", "--log-dirs", "/a", "--json"]) == 0
    assert _printed(capsys)["command"].startswith("(LC_ALL=C")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([], "USAGE"),
        (["look"], "USAGE"),
        (["scan", "--log-dirs", "/a", "--out", "f"], "USAGE"),
        (["scan", "--log-dirs", "/a", "--broker", "-1", "--out", "f"], "USAGE"),
        (["scan", "x", "--log-dirs", "/a", "--broker", "1", "--out", "f"], "USAGE"),
        (["command", "--log-dirs", "/a", "--broker", "1"], "USAGE"),
        (["command", "--log-dirs", "a"], "LOG_DIRS_INVALID"),
        (["command", "--log-dirs", "/a,,/b"], "LOG_DIRS_INVALID"),
        (["command", "--log-dirs", "/a,//a/"], "LOG_DIRS_INVALID"),
        (["command", "--log-dirs", "/a\nb"], "LOG_DIRS_INVALID"),
        (["command", "--log-dirs", "/a\udcff"], "LOG_DIRS_INVALID"),
        (["read", "--broker", "1", "--out", "f"], "USAGE"),
        (["read", "none", "--broker", "1", "--out", "f"], "FILE_UNREADABLE"),
        (["read", "none", "--broker", "1", "--out", "no/f"], "FILE_UNWRITABLE"),
        (["scan", "--log-dirs", "data", "--broker", "1", "--out", "data/f"], "OUT_IN_LOG_DIR"),
    ],
)
def test_wrong_words_are_refused_by_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: list[str], code: str
) -> None:
    Disk(tmp_path / "data")
    assert main(["inventory", *words, "--json"]) == 1
    assert _printed(capsys)["error"]["code"] == code
    assert not Path("f").exists()


def test_no_log_dir_at_all_is_exit_4(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["scan", "--log-dirs", "/gone", "--broker", "1", "--out", "f"]
    assert main(["inventory", *words, "--json"]) == 4
    assert _printed(capsys)["error"]["code"] == "LOG_DIR_UNREADABLE"


def test_relative_log_dirs_start_from_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Disk(tmp_path / "data")
    words = ["scan", "--log-dirs", "./data/", "--broker", "1", "--out", "f"]
    assert main(["inventory", *words, "--json"]) == 0
    assert _printed(capsys)["log_dirs"][0]["log_dir"] == str(tmp_path / "data")


def test_help_says_that_busybox_find_will_not_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inventory", "--help"]) == 0
    assert "busybox's find has no -printf" in capsys.readouterr().out
