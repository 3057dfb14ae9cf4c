"""The shell script meets what another user of the host put in its way: it refuses, by name."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.orphans.shell_host import hook, run, script
from tests.unit.orphans.sweep_acts import whole
from tests.unit.orphans.sweep_host import STRAY, Host

STRANGER = 65534
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can plant another user's folder")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """Its tools lie beside it: those of one test alone."""
    made = Host(tmp_path / "host")
    made.start_broker()
    yield made
    made.stop_broker()


@pytest.fixture
def victim(host: Host) -> Path:
    """A file that root alone may write."""
    made = host.folder / "victim"
    made.write_text("whole")
    return made


def refused(host: Host, text: str, why: str) -> None:
    done = run(host, text, "--apply")
    assert (done.returncode, why in done.stdout) == (3, True), done.stdout + done.stderr
    assert whole(host.stray)


@as_root
def test_a_quarantine_that_another_user_made_first(host: Host, victim: Path) -> None:
    host.quarantine.mkdir()
    (host.quarantine / "sweep-script.log").symlink_to(victim)
    os.chown(host.quarantine, STRANGER, STRANGER)
    text = script(host).script
    refused(host, text, "belongs to another user")
    assert "belongs to another user" in run(host, text).stdout  # told without acting too
    assert victim.read_text() == "whole"


@as_root
def test_a_quarantine_that_others_may_write_to(host: Host, victim: Path) -> None:
    host.quarantine.mkdir()
    for mode in (0o770, 0o1777, 0o702):
        host.quarantine.chmod(mode)
        refused(host, script(host).script, "others may write to")
    (host.quarantine / "sweep-script.log").symlink_to(victim)
    host.quarantine.chmod(0o755)  # too late: what was planted is still there
    refused(host, script(host).script, "is a link, or belongs to somebody else")
    assert victim.read_text() == "whole"


@pytest.mark.further_but("ln {victim} {log}")
@as_root
@pytest.mark.parametrize("plant", ["ln {victim} {log}", "touch {log}; chown 65534 {log}"])
def test_a_log_with_a_second_name_or_another_owner(host: Host, victim: Path, plant: str) -> None:
    host.quarantine.mkdir()
    log = host.quarantine / "sweep-script.log"
    subprocess.run(["sh", "-c", plant.format(victim=victim, log=log)], check=True)
    refused(host, script(host).script, "is a link, or belongs to somebody else")
    assert victim.read_text() == "whole"


@pytest.mark.further
@as_root
def test_a_quarantine_that_is_made_between_the_check_and_its_mkdir(
    host: Host, victim: Path
) -> None:
    place = host.quarantine
    hook(
        host,
        "mkdir",
        f"mkdir {place}; ln -s {victim} {place}/sweep-script.log; chown {STRANGER} {place}",
    )
    refused(host, script(host).script, "belongs to another user")
    assert victim.read_text() == "whole"


@pytest.mark.further
def test_a_link_that_is_made_between_the_check_and_its_mkdir(host: Host) -> None:
    (host.folder / "elsewhere").mkdir(mode=0o700)
    hook(host, "mkdir", f"ln -s {host.folder}/elsewhere {host.quarantine}")
    refused(host, script(host).script, "a link or no folder")
    assert list((host.folder / "elsewhere").iterdir()) == []


@pytest.mark.further
def test_a_quarantine_that_becomes_a_link_before_the_move(host: Host) -> None:
    """What was opened is meant, whatever has its name by then."""
    (host.folder / "elsewhere").mkdir()
    aside = host.folder / "taken"
    hook(host, "mv", f"mv {host.quarantine} {aside}; ln -s elsewhere {host.quarantine}")
    done = run(host, script(host).script, "--apply")
    assert done.returncode == 0, done.stdout + done.stderr
    assert list((host.folder / "elsewhere").iterdir()) == []
    (moved,) = aside.glob(f"*/{STRAY}")
    assert whole(moved)


def test_a_log_dir_that_becomes_a_link_before_the_move(host: Host) -> None:
    """Another broker's folder of that name stays, the one that was checked goes."""
    other = host.folder / "other" / STRAY
    other.mkdir(parents=True)
    (other / "records").touch()
    real = host.folder / "real"
    hook(host, "mv", f"mv {host.log_dir} {real}; ln -s other {host.log_dir}")
    done = run(host, script(host).script, "--apply")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (other / "records").exists()
    assert not (real / STRAY).exists()


@pytest.mark.further
def test_a_folder_that_takes_its_name_before_the_move_goes_back(host: Host) -> None:
    first = host.folder / "first"
    hook(host, "sync", f"mv {host.stray} {first}; cp -a {first} {host.stray}")
    refused(host, script(host).script, "another folder had its name when it was moved: put back")
    assert list(host.quarantine.glob("*/*")) == []


@pytest.mark.further_but("echo more >>{log}-bytes of records, judged were 100: put back")
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("echo more >>{log}", "bytes of records, judged were 100: put back"),
        ("ln -s /etc/passwd {folder}/more", "what a cleaner left: put back"),
    ],
)
def test_a_folder_that_changes_before_the_move_goes_back(host: Host, change: str, why: str) -> None:
    log = host.stray / f"{0:020}.log"
    hook(host, "sync", change.format(log=log, folder=host.stray))
    done = run(host, script(host).script, "--apply")
    assert (done.returncode, why in done.stdout) == (3, True), done.stdout + done.stderr
    assert host.stray.is_dir()
    lines = (host.quarantine / "sweep-script.log").read_text().splitlines()
    assert ["not moved" in line for line in lines] == [False, True]


def test_what_cannot_go_back_is_told_with_its_place(host: Host) -> None:
    """It is swapped before the move, and its name is taken before the way back."""
    aside = host.folder / "aside"
    hook(host, "sync", f"mv {host.stray} {aside}; mkdir {host.stray}")
    hook(host, "mv", f"mkdir {host.stray}", after=True)
    done = run(host, script(host).script, "--apply")
    assert (done.returncode, "could not be put back and lies in" in done.stdout) == (3, True)
    assert whole(aside)


def test_the_words_of_a_file_do_not_steer_the_terminal(host: Host) -> None:
    text = script(host).script
    (host.stray / "partition.metadata").write_bytes(b"topic_id: \x1b]0;evil\x07")
    done = run(host, text, "--apply")
    assert ("0evil" in done.stdout, "\x1b" in done.stdout) == (True, False)
    (host.log_dir / "meta.properties").write_bytes(b"cluster.id=\x1b[2Jevil\nnode.id=1\n")
    done = run(host, text, "--apply")
    assert ("2Jevil" in done.stdout, "\x1b" in done.stdout) == (True, False)


def test_identity_is_not_read_through_a_link(host: Host) -> None:
    meta = host.log_dir / "meta.properties"
    meta.rename(host.folder / "meta")
    meta.symlink_to(host.folder / "meta")
    refused(host, script(host).script, "meta.properties is a link")


@pytest.fixture
def two_disks(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """Two file systems whose files bear the same inode numbers."""
    disks = (tmp_path / "one", tmp_path / "two")
    mounted: list[Path] = []
    try:
        for disk in disks:
            disk.mkdir()
            words = ["mount", "-t", "tmpfs", "none", str(disk)]
            if subprocess.run(words, capture_output=True, check=False).returncode:
                pytest.skip("this user may not mount")
            mounted.append(disk)
        yield disks
    finally:
        for disk in mounted:
            subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.further
def test_a_lock_on_another_disk_with_the_same_inode_proves_nothing(
    two_disks: tuple[Path, Path],
) -> None:
    """A copy of a broker's disk, and anybody's locked file on another one."""
    made = Host(two_disks[0] / "host")
    wanted = (made.log_dir / ".lock").stat().st_ino
    found = two_disks[1] / "0"
    for number in range(4 * wanted):
        found = two_disks[1] / str(number)
        found.touch()
        if found.stat().st_ino == wanted:
            break
    assert found.stat().st_ino == wanted
    code = "import fcntl,sys; f=open(sys.argv[1],'r+'); fcntl.lockf(f,2); print(1,flush=True)"
    words = [sys.executable, "-S", "-c", f"{code}; sys.stdin.read()", str(found)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as locker:
        assert locker.stdout is not None
        locker.stdout.readline()
        refused(made, script(made).script, "no process here holds the lock")
        locker.communicate()
    made.start_broker()
    try:
        assert run(made, script(made).script, "--apply").returncode == 0
    finally:
        made.stop_broker()
