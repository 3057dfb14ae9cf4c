"""Each thing that may be missing on this machine is named, with its cost and the next step."""

from __future__ import annotations

import errno
import os
import shutil
from collections import namedtuple
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dashboard.core.clock import utc_now
from dashboard.doctor import doctor
from dashboard.doctor.doctor import Check
from dashboard.purge.journal.journal import open_default
from dashboard.settings.settings import Settings

_Usage = namedtuple("_Usage", "total used free")


def _java_home(folder: Path) -> dict[str, str]:
    (folder / "bin").mkdir()
    (folder / "bin" / "java").write_text("#!/bin/sh\n")
    (folder / "bin" / "java").chmod(0o755)
    return {"JAVA_HOME": str(folder)}


def _failed(check: Check, named: str) -> None:
    assert check.ok is False
    assert named in check.detail
    assert check.costs
    assert check.next


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', "17"),
        ('java version "21" 2023-09-19', "21"),
        ('openjdk version "25-ea" 2025-09-16', "25"),
    ],
)
def test_java_17_or_newer_is_enough(tmp_path: Path, answer: str, version: str) -> None:
    check = doctor.java(_java_home(tmp_path), lambda _command: answer)
    assert (check.ok, check.detail.rsplit(" ", 1)[-1]) == (True, version)


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ('java version "1.8.0_402"', "version 8"),
        ('openjdk version "11.0.2"', "version 11"),
        ("The operation couldn't be completed.", "couldn't"),
    ],
)
def test_an_older_or_broken_java_is_named(tmp_path: Path, answer: str, named: str) -> None:
    _failed(doctor.java(_java_home(tmp_path), lambda _command: answer), named)


def test_missing_java_says_where_it_was_looked_for(tmp_path: Path) -> None:
    _failed(doctor.java({"PATH": str(tmp_path)}), "java on the path")
    _failed(doctor.java({"JAVA_HOME": str(tmp_path)}), "JAVA_HOME")


def test_a_java_that_cannot_be_run_is_named(tmp_path: Path) -> None:
    environ = _java_home(tmp_path)
    (tmp_path / "bin" / "java").write_text("no program")
    _failed(doctor.java(environ), "-version says")


def test_a_missing_package_is_named_with_its_cost() -> None:
    _failed(doctor.package("no-such-package", "nothing works"), "not installed")
    assert doctor.package("kafka-python", "").ok


def test_a_folder_is_tried_and_left_as_it_was(tmp_path: Path) -> None:
    check = doctor.folder("state-dir", tmp_path / "a" / "b", "no purge")
    assert check.ok
    assert "not made yet" in check.detail
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    _failed(doctor.folder("state-dir", tmp_path / "file" / "state", "no purge"), "file/state")


def test_a_folder_behind_a_closed_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, honest = tmp_path / "closed", Path.stat

    def asked(self: Path, **options: Any) -> os.stat_result:
        if closed in self.parents:
            raise PermissionError(errno.EACCES, "Permission denied", str(self))
        return honest(self, **options)

    monkeypatch.setattr(Path, "stat", asked)
    settings = Settings(state_dir=closed / "state")
    _failed(doctor.state_folder(settings), "closed/state cannot be written: Permission denied")
    _failed(doctor.data_folder(str(closed / "data")), "Permission denied")
    space = doctor.free_space(str(closed / "data"))
    assert space.ok is None and "Permission denied" in space.detail


@pytest.mark.parametrize(
    ("name", "costs"), [("journal.sqlite", "none can run"), ("journal.head", "rolled back")]
)
def test_a_journal_whose_file_cannot_be_written_is_named(
    tmp_path: Path, name: str, costs: str
) -> None:
    assert doctor.state_folder(Settings(state_dir=tmp_path)).ok
    (tmp_path / name).symlink_to(tmp_path / "elsewhere")

    check = doctor.state_folder(Settings(state_dir=tmp_path))

    _failed(check, name)
    assert costs in check.costs


def test_a_copy_of_a_state_folder_is_named(tmp_path: Path) -> None:
    settings = Settings(state_dir=tmp_path / "state")
    with closing(open_default(settings)) as journal:
        journal.set_read_only(True, "ann", utc_now())
    assert doctor.state_folder(settings).ok
    shutil.copytree(tmp_path / "state", tmp_path / "copy")

    _failed(doctor.state_folder(Settings(state_dir=tmp_path / "copy")), "is a copy")


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: _Usage(10, 5, 5 * 1024**2))
    _failed(doctor.free_space(str(tmp_path)), "0.0 GiB")


def test_a_url_is_opened_but_has_no_free_space() -> None:
    assert doctor.data_folder("memory://somewhere").ok
    assert doctor.free_space("memory://somewhere").ok is None
    _failed(doctor.data_folder("gopher://x"), "gopher")


def test_a_read_only_switch_is_told() -> None:
    assert "read_only" in doctor.settings_file(Settings(read_only=True)).detail
    assert "lowwater.toml" in doctor.settings_file(Settings()).detail


def test_all_local_checks_are_made(tmp_path: Path) -> None:
    settings = Settings(state_dir=tmp_path / "state")
    names = [c.name for c in doctor.local_checks(settings, str(tmp_path), {"PATH": ""})]
    assert names[:3] == ["settings", "java", "pyspark"]
    assert len(set(names)) == len(names)
