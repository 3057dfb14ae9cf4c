"""The shell script for hosts without this program, run by a POSIX shell on a temporary host."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.core.errors import RefusedError
from dashboard.orphans.sweep.script import write_script
from dashboard.orphans.sweep.site import Options
from tests.support import memory_disk
from tests.unit.inventory.disks import TOPIC_ID, Disk
from tests.unit.orphans.shell_host import run, script
from tests.unit.orphans.sweep_acts import put_back
from tests.unit.orphans.sweep_host import STRAY, Host, topic


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """Its folder's name would run a command if anything were left unquoted."""
    made = Host(tmp_path / "it's $(touch x) `touch y` disk")
    made.start_broker()
    yield made
    made.stop_broker()
    assert not list(tmp_path.rglob("[xy]"))


def test_it_tells_then_moves_and_prints_lines_that_undo(host: Host) -> None:
    text = script(host).script
    told = run(host, text)
    assert told.returncode == 0, told.stderr + told.stdout
    assert "would move" in told.stdout
    assert host.stray.is_dir() and not host.quarantine.exists()
    done = run(host, text, "--apply")
    assert (done.returncode, done.stderr) == (0, "")
    assert not host.stray.exists()
    (aside,) = host.quarantine.glob(f"*/{STRAY}")
    assert len(list(aside.iterdir())) == 4
    log = (host.quarantine / "sweep-script.log").read_text().splitlines()
    assert [line.split()[1] for line in log] == ["move", "moved"]
    assert run(host, text, "--apply").returncode == 3  # it is not there any more
    (undo,) = re.findall(r"undo: +(.*)", done.stdout)
    assert run(host, undo).returncode == 0
    assert host.stray.is_dir()
    again = run(host, text, "--apply")
    assert "somebody put it back" in again.stdout
    assert host.stray.is_dir()
    assert host.one().code == "restored"
    # By a clock that was behind what was seen before it would be newer than the restore.
    host.now += timedelta(minutes=2)
    assert "somebody put it back" in run(host, script(host).script, "--apply").stdout
    left = host.one()
    script_log = host.quarantine / "sweep-script.log"
    assert (left.code, str(script_log) in str(left.reason)) == ("restored", True)
    assert host.stray.is_dir()
    script_log.write_text("")  # somebody decided otherwise
    assert run(host, script(host).script).returncode == 0
    assert host.one(apply=False).state == "would_move"


def test_what_the_program_put_back_is_no_scripts_to_move_again(host: Host) -> None:
    text = script(host).script
    assert host.one().state == "moved"
    assert put_back(host).state == "restored"
    left = run(host, text, "--apply")
    assert "somebody put it back" in left.stdout and host.stray.is_dir()
    host.now += timedelta(minutes=2)
    assert run(host, script(host).script, "--apply").returncode == 3
    assert host.one().state == "moved"


def test_by_a_clock_that_disagrees_with_the_cluster_nothing_is_written(host: Host) -> None:
    for off in (timedelta(seconds=11), timedelta(days=-2)):
        host.live.controller_at = host.now - off
        made = script(host)
        assert (made.folders, [row.code for row in made.left_out]) == (0, ["clock"])


@pytest.mark.further
def test_its_quarantine_is_no_stranger_to_the_program(host: Host) -> None:
    row = host.row()
    run(host, script(host).script, "--apply")
    host.disk.segment(host.disk.folder(STRAY), 0)
    assert host.one(row).code == "restored"  # newer than the verdicts, whoever put it there
    assert not any(o.code == "quarantine" for o in host.sweep().rows)


@pytest.mark.further
def test_what_lies_in_quarantine_counts_for_the_share_too(host: Host) -> None:
    """Script after script would set a whole broker aside, five per cent at a time."""
    text = script(host).script
    host.quarantine.mkdir(mode=0o700)
    (host.quarantine / "sweep-script.log").touch()
    (host.quarantine / "1-1" / "gone-7").mkdir(parents=True)
    told = run(host, text, "--apply")
    assert told.returncode == 0, told.stdout + told.stderr
    assert host.stray.is_dir() is False

    (host.quarantine / "1-2" / "gone-8").mkdir(parents=True)
    (aside,) = host.quarantine.glob(f"*/{STRAY}")
    aside.rename(host.stray)
    host.now += timedelta(seconds=2)
    told = run(host, script(host).script, "--apply")
    assert told.returncode == 3, told.stdout
    assert "with 2 folders of 0 bytes that lie in quarantine it is more than the share" in (
        told.stdout
    )
    assert host.stray.is_dir()


def test_a_partition_that_lives_is_in_no_script_unless_its_log_is_past_the_folder(
    host: Host,
) -> None:
    """No host is seen where a script is made: where records end stands in the verdict, or not."""
    host.live.states["gone"] = topic("gone", TOPIC_ID, replicas=(2,), isr=(2,))
    host.live.ends, row = (10, 500), host.row(log_end_offset=10)
    host.now += timedelta(hours=2)
    assert script(host, row).folders == 1
    for less in (row, replace(row, log_end_offset=None), replace(row, log_end_offset=11)):
        host.live.ends = (0, 500) if less is row else (10, 500)
        made = script(host, less)
        assert (made.folders, [found.code for found in made.left_out]) == (0, ["last-copy"])


def test_bytes_in_quarantine_count_for_the_share_too(host: Host) -> None:
    lying = host.quarantine / "1-1" / "gone-7"
    lying.mkdir(parents=True)
    host.quarantine.chmod(0o700)
    (host.quarantine / "sweep-script.log").touch()
    with (lying / f"{0:020}.log").open("wb") as file:
        file.truncate(2**40)
    told = run(host, script(host).script, "--apply")
    assert told.returncode == 3, told.stdout
    assert f"with 1 folders of {2**40} bytes" in told.stdout
    assert host.stray.is_dir()


def more(host: Host) -> Path:
    return host.stray / f"{0:020}.log"


def as_link(host: Host) -> None:
    host.stray.rename(host.folder / "real")
    host.stray.symlink_to(host.folder / "real")


def later(host: Host) -> None:
    at = more(host).stat().st_mtime + 5
    os.utime(more(host), (at, at))


def foreign(host: Host) -> None:
    (host.quarantine / "something").mkdir(parents=True)


@pytest.mark.further_but(
    "<lambda>-101 bytes",
    "<lambda>-a link, a folder",
    "<lambda>-a link1",
    "<lambda>-holds the lock",
    "<lambda>-not there",
    "<lambda>-topic id is ''",
    "<lambda>-what a cleaner left",
    "foreign-other things",
)
@pytest.mark.parametrize(
    ("break_it", "why"),
    [
        (lambda h: (h.log_dir / "meta.properties").write_text("cluster.id=X\nnode.id=1\n"),
         "of cluster X"),
        (lambda h: h.stop_broker(), "holds the lock"),
        (lambda h: (h.stray / "a").symlink_to("/etc/passwd"), "a link"),
        (lambda h: os.link(more(h), h.folder / "second"), "a link"),
        (lambda h: (h.stray / "nested").mkdir(), "a link, a folder"),
        (lambda h: more(h).with_suffix(".log.swap").touch(), "what a cleaner left"),
        (as_link, "it is a link"),
        (lambda h: shutil.rmtree(h.stray), "not there"),
        (lambda h: (h.stray / "partition.metadata").unlink(), "topic id is ''"),
        (lambda h: (h.stray / "partition.metadata").write_text(f"topic_id: {'z' * 22}"),
         "topic id is 'zzz"),
        (lambda h: more(h).write_bytes(b"x" * 101), "101 bytes"),
        (later, "written to"),
        (foreign, "other things"),
        (lambda h: h.quarantine.symlink_to("/tmp"), "a link or no folder"),
        (lambda h: (h.folder / "meta.properties").touch(), "inside the log dir"),
        (lambda h: (h.quarantine / "lock").mkdir(parents=True) or
         (h.quarantine / "sweep.log").touch(), "another sweep"),
    ],
)  # fmt: skip
def test_what_it_refuses_stays(host: Host, break_it: Callable[[Host], object], why: str) -> None:
    text = script(host).script
    break_it(host)
    before = sorted(map(str, host.log_dir.rglob("*")))
    done = run(host, text, "--apply")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "refused" in done.stdout and why in done.stdout, done.stdout
    assert sorted(map(str, host.log_dir.rglob("*"))) == before


def test_another_brokers_host_is_left_alone(host: Host) -> None:
    text = script(host).script
    (host.log_dir / "meta.properties").write_text("cluster.id=C\nnode.id=2\n")
    done = run(host, text, "--apply")
    assert (done.returncode, host.stray.is_dir()) == (3, True)
    assert "1 are of other brokers" in done.stdout


@pytest.mark.further
def test_it_refuses_open_files_but_for_the_brokers_own_strays(host: Host) -> None:
    text = script(host).script
    code = "import sys; f=open(sys.argv[1]); print(1, flush=True); sys.stdin.read()"
    words = [sys.executable, "-S", "-c", code, str(more(host))]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        reader.stdout.readline()
        done = run(host, text, "--apply")
        assert f"open in process {reader.pid}" in done.stdout
        assert host.stray.is_dir()
        reader.communicate()
    host.broker_opens(more(host))
    done = run(host, text, "--apply")
    assert (done.returncode, "restarts" in done.stdout) == (0, True), done.stdout


def test_it_refuses_files_that_another_path_opened(host: Host) -> None:
    """As a broker's in a container are: what is open is told by device and inode."""
    segment, elsewhere = more(host), host.folder / "seen-by-another-path.log"
    elsewhere.hardlink_to(segment)
    code = "import sys; f=open(sys.argv[1]); print(1, flush=True); sys.stdin.read()"
    words = [sys.executable, "-S", "-c", code, str(elsewhere)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        reader.stdout.readline()
        elsewhere.unlink()
        done = run(host, script(host).script, "--apply")
        assert f"open in process {reader.pid}" in done.stdout
        assert host.stray.is_dir()
        reader.communicate()


def test_it_expires_with_what_the_cluster_said(host: Host) -> None:
    made = script(host)
    assert made.valid_until == host.now + timedelta(hours=1)
    host.now -= timedelta(hours=2)
    for text in (script(host).script, made.script.replace("MADE_AT=1", "MADE_AT=9")):
        done = run(host, text, "--apply")
        assert (done.returncode, host.stray.is_dir()) == (3, True)
        assert done.stderr.startswith("stopped: ")


@pytest.mark.further
def test_a_quarantine_may_be_named_and_is_on_the_same_mount(host: Host) -> None:
    text = script(host).script
    other = memory_disk.elsewhere(host.log_dir)
    if other is not None:
        done = run(host, text, "--apply", QUARANTINE=str(other / f"lowwater-{os.getpid()}"))
        assert "not on the mount" in done.stdout
    for place in (host.log_dir / "q", host.stray / "q", host.folder):
        assert run(host, text, "--apply", QUARANTINE=str(place)).returncode == 3
    assert host.stray.is_dir()
    done = run(host, text, "--apply", QUARANTINE=str(host.folder / "fine"))
    assert done.returncode == 0, done.stdout
    assert list((host.folder / "fine").glob(f"*/{STRAY}"))


@pytest.mark.further
def test_nothing_is_set_aside_elsewhere_while_folders_lie_in_the_default_quarantine(
    host: Host,
) -> None:
    text, fine = script(host).script, str(host.folder / "fine")
    lying = host.quarantine / "1-1" / "gone-7"
    lying.mkdir(parents=True)
    host.quarantine.chmod(0o700)
    (host.quarantine / "sweep-script.log").touch()
    told = run(host, text, "--apply", QUARANTINE=fine)
    assert (told.returncode, f"folders lie in {host.quarantine}: " in told.stdout) == (3, True)
    assert host.stray.is_dir()
    assert run(host, text, QUARANTINE=str(host.quarantine)).returncode == 0, "it is that one"
    lying.rmdir()
    assert run(host, text, "--apply", QUARANTINE=fine).returncode == 0


@pytest.mark.further
def test_default_quarantines_of_all_log_dirs_count_for_the_share(host: Host) -> None:
    """Of two log dirs on one disk: what lies beside the other one is as much gone."""
    second = Disk(host.folder / "two" / "data")
    (second.path / ".lock").touch()
    (second.path / "meta.properties").write_text("cluster.id=C\nnode.id=1\ndirectory.id=E\n")
    host.live.paths.append(str(second.path))
    host.stop_broker()
    host.start_broker(second.path)
    other = STRAY.replace("gone-0", "gone-1")
    row = host.row(log_dir=str(second.path), directory=other, partition=1)
    options = Options((str(host.log_dir), str(second.path)), most_share=0.06)
    made = write_script(host.verdicts(host.row(), row), options, host.live, host.now)
    assert made.folders == 2
    lying = second.path.parent / ".lowwater-quarantine"
    (lying / "1-1" / "gone-7").mkdir(parents=True)
    lying.chmod(0o700)
    (lying / "sweep-script.log").touch()
    told = run(host, made.script, QUARANTINE=str(host.folder / "fine"))
    assert "with 1 folders of 0 bytes" in told.stdout, told.stdout
    shutil.rmtree(lying)
    assert run(host, made.script, QUARANTINE=str(host.folder / "fine")).returncode == 0


def test_what_the_live_cluster_wants_is_not_in_it(host: Host) -> None:
    odd = host.row(directory="gone-0;x")
    host.live.states["gone"] = topic("gone", TOPIC_ID)
    made = script(host, host.row(), odd)
    assert made.folders == 0
    assert [row.code for row in made.left_out] == ["assigned", "name"]
    assert "row 1" not in made.script
    host.live.id = "other"
    with pytest.raises(RefusedError):
        script(host)


def test_wrong_words(host: Host) -> None:
    assert run(host, script(host).script, "--aply").returncode == 1
    assert host.stray.is_dir()
