"""A journal on a network file system is refused by name, unless somebody knows better."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dashboard.cli.main import main
from dashboard.core import network_folders
from dashboard.core.errors import JournalError
from dashboard.core.network_folders import is_local, network_type
from dashboard.doctor.doctor import state_folder
from dashboard.purge.journal.journal import Journal, open_default
from dashboard.settings.settings import Settings, load


def mounts(folder: Path, *lines: tuple[Path, str]) -> Path:
    file = folder / "mountinfo"
    text = "".join(
        f"{n} 1 0:{n} / {str(point).replace(' ', chr(92) + '040')} rw,relatime shared:{n} - {kind} "
        "server:/x rw\n"
        for n, (point, kind) in enumerate([(Path("/"), "ext4"), *lines], 20)
    )
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("kind", "refused"),
    [
        ("nfs", True), ("nfs4", True), ("cifs", True), ("smb3", True), ("fuse.sshfs", True),
        ("ceph", True), ("fuse.glusterfs", True), ("lustre", True), ("9p", True), ("afs", True),
        ("virtiofs", True), ("fuse.ossfs", True),
        ("ext4", False), ("xfs", False), ("tmpfs", False), ("overlay", False),
        ("fuse.fuse-overlayfs", False), ("fuseblk", False), ("btrfs", False), ("zfs", False),
    ],
)  # fmt: skip
def test_the_type_of_the_mount_counts(tmp_path: Path, kind: str, refused: bool) -> None:
    file = mounts(tmp_path, (tmp_path, kind))
    found = network_type(tmp_path / "not" / "yet" / "made", file)
    assert found == (f"{kind} at {tmp_path}" if refused else None)


@pytest.mark.parametrize(
    ("kind", "local"),
    [("ext4", True), ("tmpfs", True), ("overlay", True), ("nfs4", False), ("virtiofs", False),
     ("fuse.gocryptfs", False), ("of-tomorrow", False)],
)  # fmt: skip
def test_times_are_this_hosts_own_on_known_local_disks_alone(
    tmp_path: Path, kind: str, local: bool
) -> None:
    assert is_local(tmp_path / "lowwater.toml", mounts(tmp_path, (tmp_path, kind))) == local


def test_the_longest_mount_point_counts_and_of_two_the_later(tmp_path: Path) -> None:
    inner, near = tmp_path / "a b", tmp_path / "a bc"
    file = mounts(tmp_path, (inner, "ext4"), (tmp_path, "nfs4"))
    assert network_type(inner / "state", file) is None
    assert network_type(near, file) == f"nfs4 at {tmp_path}"
    assert network_type(inner, mounts(tmp_path, (inner, "ext4"), (inner, "nfs"))) is not None
    assert network_type(inner, mounts(tmp_path, (inner, "nfs"), (inner, "ext4"))) is None


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "near").symlink_to(tmp_path / "far")
    file = mounts(tmp_path, (tmp_path / "far", "nfs"))
    assert network_type(tmp_path / "near" / "state", file) is not None


def test_a_machine_that_does_not_tell_is_believed(tmp_path: Path) -> None:
    assert network_type(tmp_path, tmp_path / "none") is None
    (tmp_path / "odd").write_text("nonsense\n\n1 2 3 - \n")
    assert network_type(tmp_path, tmp_path / "odd") is None


@pytest.fixture
def on_nfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    state = tmp_path / "state"
    monkeypatch.setattr(network_folders, "MOUNTINFO", mounts(tmp_path, (state, "nfs4")))
    return state


def test_the_journal_is_refused_by_name_and_nothing_is_made(on_nfs: Path) -> None:
    with pytest.raises(JournalError) as refused:
        open_default(Settings(state_dir=on_nfs))
    assert refused.value.code == "JOURNAL_ON_NETWORK"
    assert f"nfs4 at {on_nfs}" in refused.value.message
    assert "state_dir_on_network" in refused.value.next_step
    assert not on_nfs.exists()


def test_who_knows_better_says_so_in_settings_or_by_a_variable(on_nfs: Path) -> None:
    by_variable = load(environ={"LOWWATER_STATE_DIR_ON_NETWORK": "true"})
    assert by_variable.state_dir_on_network
    settings = Settings(state_dir=on_nfs, state_dir_on_network=True)
    journal = open_default(settings)
    assert journal.newest_entry() == 0
    journal.close()


def test_the_command_line_says_it(
    on_nfs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(on_nfs))
    assert main(["runs", "--json"]) == 70
    assert '"JOURNAL_ON_NETWORK"' in capsys.readouterr().out
    monkeypatch.setenv("LOWWATER_STATE_DIR_ON_NETWORK", "true")
    assert main(["runs", "--json"]) == 0


def test_doctor_says_it_before_anything_is_journalled(on_nfs: Path) -> None:
    check = state_folder(Settings(state_dir=on_nfs))
    assert (check.ok, "nfs4" in check.detail) == (False, True)
    known = state_folder(Settings(state_dir=on_nfs, state_dir_on_network=True))
    assert known.ok
    assert "nfs4" in known.detail


def test_a_file_that_takes_no_write_ahead_log_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite answers with the mode that it stays in, and no error."""

    class Stays(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            return super().execute(sql.replace("=WAL", "=DELETE"), *values)

    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: real(*a, **k, factory=Stays))
    with pytest.raises(JournalError, match="'delete'"):
        Journal(tmp_path / "journal.sqlite")


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """A real mount; what this kernel can mount is told by trying."""
    point = tmp_path / "mounted"
    point.mkdir()
    command = ["mount", "-t", "tmpfs", "none", str(point)]
    if os.geteuid() or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    yield point
    subprocess.run(["umount", str(point)], check=True)


def test_a_real_mount_is_found_where_the_kernel_tells_it(
    mounted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = mounted
    assert network_type(point / "state") is None
    monkeypatch.setattr(network_folders, "NETWORK_TYPES", frozenset({"tmpfs"}))
    assert network_type(point / "state") == f"tmpfs at {point}"
