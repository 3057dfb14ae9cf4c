"""A sweep of the wrong disk, cluster or time ends before anything; a quarantine has its place."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.core.errors import LowwaterError
from dashboard.orphans.sweep.script import write_script
from dashboard.orphans.sweep.site import Options
from tests.support import memory_disk
from tests.unit.inventory.disks import Disk
from tests.unit.orphans.sweep_acts import put_back
from tests.unit.orphans.sweep_host import STRAY, Host


@pytest.mark.parametrize(
    ("break_it", "code"),
    [
        (lambda host: setattr(host.live, "id", "other"), "CLUSTER_MISMATCH"),
        (lambda host: setattr(host.live, "alive", (2, 3)), "NODE_MISMATCH"),
        (lambda host: setattr(host.live, "dir_errors", {1: "CLUSTER_AUTHORIZATION_FAILED"}),
         "LOG_DIRS_UNKNOWN"),
        (lambda host: setattr(host.live, "paths", ["/other"]), "LOG_DIR_UNKNOWN"),
        (lambda host: host.stop_broker(), "NOT_ITS_DISK"),
        (lambda host: (host.log_dir / "meta.properties").unlink(), "LOG_DIR_UNREADABLE"),
        (lambda host: (host.log_dir / "meta.properties").write_text("cluster.id=X\nnode.id=1\n"),
         "CLUSTER_MISMATCH"),
        (lambda host: (host.log_dir / "meta.properties").write_text("cluster.id=C\nnode.id=9\n"),
         "NODE_MISMATCH"),
        (lambda host: setattr(host, "now", host.now - timedelta(hours=1)),
         None),
    ],
)  # fmt: skip
def test_a_disk_or_cluster_that_is_not_the_one(
    host: Host, break_it: Callable[[Host], None], code: str | None
) -> None:
    verdicts = host.verdicts()
    break_it(host)
    with pytest.raises(LowwaterError) as caught:
        host.sweep(verdicts)
    assert caught.value.code == (code or "VERDICTS_FROM_THE_FUTURE")
    assert host.stray.is_dir()
    assert not host.quarantine.exists()


def test_verdicts_of_a_snapshot_of_a_time_still_to_come_are_refused(host: Host) -> None:
    """The collector's clock ran ahead for it, and is right by now: what was young looked old."""
    seen = host.verdicts()
    for ahead, code in ((timedelta(minutes=4), None), (timedelta(minutes=7), "snapshot")):
        early = replace(seen, taken_at=host.now + ahead)
        options = Options((str(host.log_dir),))
        for act in (
            lambda v=early: host.sweep(v, apply=False),
            lambda v=early, o=options: write_script(v, o, host.live, host.now),
        ):
            if code is None:
                act()
                continue
            with pytest.raises(LowwaterError, match="snapshot that was taken at") as caught:
                act()
            assert caught.value.code == "VERDICTS_FROM_THE_FUTURE"


def test_log_dirs_of_two_brokers_or_one_copied_are_not_one_brokers(host: Host) -> None:
    other = Disk(host.folder / "b")
    meta = other.path / "meta.properties"
    places = (str(host.log_dir), str(other.path))
    host.live.paths = list(places)
    for text, code in (
        ("cluster.id=C\nnode.id=2\n", "NODE_MISMATCH"),
        ("cluster.id=C\nnode.id=1\ndirectory.id=D\n", "DIRECTORY_MISMATCH"),
        ("cluster.id=C\nnode.id=1\ndirectory.id=E\n", "NOT_ITS_DISK"),
    ):
        meta.write_text(text)
        with pytest.raises(LowwaterError) as caught:
            host.sweep(log_dirs=places)
        assert caught.value.code == code
    (host.folder / "again").symlink_to(host.log_dir)
    with pytest.raises(LowwaterError) as caught:
        host.sweep(log_dirs=(str(host.log_dir), str(host.folder / "again")))
    assert caught.value.code == "LOG_DIR_TWICE"
    assert host.stray.is_dir()


def test_verdicts_of_another_broker_are_left_to_its_host(host: Host) -> None:
    report = host.sweep(host.verdicts(host.row(broker_id=2)))
    assert report.rows == ()
    assert "1 verdicts are for other brokers" in report.notes[0]
    assert report.exit_code == 0


def test_verdicts_that_expire_while_the_sweep_goes_on(host: Host) -> None:
    verdicts = host.verdicts()
    host.now = verdicts.expires_at
    (outcome,) = host.sweep(verdicts).rows
    assert (outcome.state, outcome.code) == ("refused", "expired")
    assert host.stray.is_dir()


def test_the_read_only_switch(host: Host) -> None:
    host.stopped = "the settings are read-only"
    assert host.one(apply=False).state == "would_move"
    with pytest.raises(LowwaterError) as caught:
        host.sweep()
    assert caught.value.code == "READ_ONLY"
    assert host.stray.is_dir()


def test_a_quarantine_inside_a_log_dir_or_around_one(host: Host) -> None:
    other = host.folder / "b"
    other.mkdir()
    host.live.paths.append(str(other))
    within = host.folder / "foreign"
    (within / "deep").mkdir(parents=True)
    (within / "meta.properties").touch()
    (host.folder / "link").symlink_to(host.log_dir)
    for place, why in (
        (host.log_dir, "inside the log dir"),
        (host.log_dir / "q", "inside the log dir"),
        (host.stray / "q", "inside the log dir"),
        (other / "q", f"inside the log dir {other}"),
        (host.folder, "holds the log dir"),
        (within / "deep" / "q", "has a meta.properties"),
        (host.folder / "link" / "q", "inside the log dir"),
        (host.folder / "link", "a link"),
    ):
        outcome = host.one(quarantine_dirs=(str(place),))
        assert outcome.code == "quarantine", place
        assert why in (outcome.reason or "")
    assert host.stray.is_dir()
    full = host.folder / "full"
    (full / "something").mkdir(parents=True)
    assert host.one(quarantine_dirs=(str(full),)).code == "quarantine"
    assert host.one(quarantine_dirs=(str(host.folder / "fine"),)).state == "moved"


def test_nothing_is_set_aside_elsewhere_while_folders_lie_in_the_default_quarantine(
    host: Host,
) -> None:
    aside = Path(host.one().quarantined_as or "")
    name = STRAY.replace("gone-0", "gone-1")
    host.disk.segment(host.disk.folder(name), 0)
    row = host.row(directory=name, partition=1, newest_at=host.now)
    elsewhere = (str(host.folder / "elsewhere"),)
    for apply in (False, True):
        outcome = host.one(row, quarantine_dirs=elsewhere, apply=apply)
        assert (outcome.state, outcome.code) == ("refused", "quarantine")
        assert str(host.quarantine) in (outcome.reason or "")
    assert put_back(host).state == "restored"
    assert not aside.exists()
    assert host.one(row, quarantine_dirs=elsewhere).state == "moved"
    assert put_back(host, name, elsewhere).state == "restored"


def test_what_lies_elsewhere_is_restored_and_deleted_though_more_lies_in_the_default_one(
    host: Host,
) -> None:
    elsewhere = (str(host.folder / "elsewhere"),)
    host.one(quarantine_dirs=elsewhere)
    lying = host.quarantine / "by-hand" / "gone-7"
    lying.mkdir(parents=True)
    host.quarantine.chmod(0o700)
    (host.quarantine / "sweep-script.log").touch()
    host.now += timedelta(hours=25)
    none = host.verdicts(host.row(broker_id=2, newest_at=host.now))
    assert [r.state for r in host.sweep(none, quarantine_dirs=elsewhere, apply=False).rows] == [
        "would_delete"
    ]
    assert put_back(host, quarantine_dirs=elsewhere).state == "restored"


def test_default_quarantines_of_all_log_dirs_count_for_the_share(host: Host) -> None:
    """Of two log dirs on one disk: what lies beside the other one is as much gone."""
    second = Disk(host.folder / "two" / "data")
    (second.path / ".lock").touch()
    (second.path / "meta.properties").write_text("cluster.id=C\nnode.id=1\ndirectory.id=E\n")
    host.live.paths.append(str(second.path))
    lying = second.path.parent / ".lowwater-quarantine"
    for number in range(3):
        (lying / str(number) / f"gone-{number + 5}").mkdir(parents=True)
    lying.chmod(0o700)
    (lying / "sweep-script.log").touch()
    both = (str(host.log_dir), str(second.path))
    host.stop_broker()
    host.start_broker(second.path)
    elsewhere = (str(host.folder / "elsewhere"),)
    outcome = host.one(log_dirs=both, quarantine_dirs=elsewhere)
    assert outcome.code == "share", outcome
    for number in range(3):
        shutil.rmtree(lying / str(number))
    assert host.one(log_dirs=both, quarantine_dirs=elsewhere).state == "moved"


def test_a_quarantine_on_another_mount(host: Host, tmp_path: Path) -> None:
    other = memory_disk.elsewhere(tmp_path)
    if other is None:
        pytest.skip("there is no second file system on this machine")
    place = other / f"lowwater-test-{os.getpid()}"
    for apply in (False, True):
        outcome = host.one(quarantine_dirs=(str(place),), apply=apply)
        assert outcome.code == "quarantine"
        assert "--quarantine-dir" in (outcome.reason or "")
    assert not place.exists()
    assert host.one(quarantine_dirs=(str(place), str(host.folder / "q"))).state == "moved"


def test_a_log_dir_that_is_a_mount_of_its_own(host: Host) -> None:
    """The default place, beside the log dir, is then on another disk."""
    row = host.row()
    mounted = subprocess.run(
        ["mount", "--bind", str(host.log_dir), str(host.log_dir)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("this user may not mount")
    try:
        # The same device, but a rename cannot cross it: told when it is tried.
        outcome = host.one(row)
        assert (outcome.state, outcome.code) == ("refused", "quarantine"), outcome
        assert "--quarantine-dir" in (outcome.reason or "")
        assert host.stray.is_dir()
    finally:
        subprocess.run(["umount", str(host.log_dir)], check=True)
