"""What somebody put back stays, whatever became of the logs: the folder's own ctime tells."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dashboard.core.clock import CLOCKS_AGREE, format_time
from dashboard.orphans.sweep.script import write_script
from dashboard.orphans.sweep.site import Options
from dashboard.orphans.verdicts import Verdicts
from tests.support import memory_disk
from tests.unit.orphans.dying_sweep import killed
from tests.unit.orphans.shell_host import hook, run
from tests.unit.orphans.sweep_acts import put_back, whole
from tests.unit.orphans.sweep_host import STRAY, Host

Way = Callable[[Host, Verdicts], object]


@pytest.fixture(params=["the default", "another"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Host]:
    """On both file systems of this machine: each sets the ctime of what is renamed."""
    folder = tmp_path
    if request.param == "another":
        other = memory_disk.elsewhere(tmp_path)
        if other is None:
            pytest.skip("there is no second file system on this machine")
        folder = other / f"lowwater-test-{os.getpid()}"
        folder.mkdir()
    made = Host(folder / "host")
    made.start_broker()
    yield made
    made.stop_broker()
    shutil.rmtree(folder)


def just_seen(host: Host) -> Verdicts:
    """Verdicts of what was seen when the stray lay there, and nobody had touched it since.

    They are 20 s later than its ctime, as clocks that agree may say; in whole seconds, as `stat`
    tells it. What touches it from now on is later.
    """
    after = int(host.stray.stat().st_ctime) + 1
    time.sleep(max(0, after + 0.02 - time.time()))
    taken_at = datetime.fromtimestamp(after, UTC) + 2 * CLOCKS_AGREE
    return replace(host.verdicts(), taken_at=taken_at)


def script(host: Host, verdicts: Verdicts) -> str:
    return write_script(verdicts, Options((str(host.log_dir),)), host.live, host.now).script


def mv_back(host: Host) -> None:
    """The operator, who found it in whatever quarantine."""
    (aside,) = host.folder.glob(f"*/*/{STRAY}")
    aside.rename(host.stray)


def killed_before_its_line(host: Host, verdicts: Verdicts) -> None:
    killed(lambda: host.sweep(verdicts), "after:rename")
    mv_back(host)


def script_killed_before_its_line(host: Host, verdicts: Verdicts) -> None:
    hook(host, "mv", "kill -KILL 0", after=True)
    assert run(host, script(host, verdicts), "--apply").returncode == -9
    mv_back(host)
    (host.quarantine / "lock").rmdir()


def in_another_quarantine(host: Host, verdicts: Verdicts) -> None:
    elsewhere = (str(host.folder / "elsewhere"),)
    assert [row.state for row in host.sweep(verdicts, quarantine_dirs=elsewhere).rows] == ["moved"]
    assert put_back(host, quarantine_dirs=elsewhere).state == "restored"


def by_a_script_in_another_quarantine(host: Host, verdicts: Verdicts) -> None:
    aside = str(host.folder / "elsewhere")
    assert run(host, script(host, verdicts), "--apply", QUARANTINE=aside).returncode == 0
    mv_back(host)


def copied_back(host: Host, verdicts: Verdicts) -> None:
    (moved,) = host.sweep(verdicts).rows
    subprocess.run(["cp", "-a", str(moved.quarantined_as), str(host.stray)], check=True)


def copied_back_and_the_rest_removed(host: Host, verdicts: Verdicts) -> None:
    copied_back(host, verdicts)
    shutil.rmtree(host.quarantine)


def log_removed(host: Host, verdicts: Verdicts) -> None:
    host.sweep(verdicts)
    assert put_back(host).state == "restored"
    (host.quarantine / "sweep.log").unlink()


def log_rolled_back(host: Host, verdicts: Verdicts) -> None:
    """To what it was before the folder was moved."""
    host.sweep(verdicts)
    assert put_back(host).state == "restored"
    (host.quarantine / "sweep.log").write_bytes(b"")


BY_PROGRAM = [
    killed_before_its_line, script_killed_before_its_line, in_another_quarantine,
    by_a_script_in_another_quarantine, copied_back, copied_back_and_the_rest_removed, log_removed,
    log_rolled_back,
]  # fmt: skip
BY_SCRIPT = [
    script_killed_before_its_line, in_another_quarantine, by_a_script_in_another_quarantine,
    copied_back_and_the_rest_removed, log_removed, log_rolled_back,
]  # fmt: skip


@pytest.mark.further_but("the default-killed_before_its_line", "another-in_another_quarantine")
@pytest.mark.parametrize("way", BY_PROGRAM)
def test_a_sweep_leaves_what_was_put_back_until_verdicts_are_newer(host: Host, way: Way) -> None:
    verdicts = just_seen(host)
    way(host, verdicts)
    assert whole(host.stray)
    for apply in (False, True):
        rows = host.sweep(verdicts, apply=apply).rows
        assert [row.code for row in rows if row.state != "quarantined"] == ["touched"]
    assert whole(host.stray)
    host.now += timedelta(minutes=5)
    (moved,) = [row for row in host.sweep().rows if row.action == "move"]
    assert (moved.state, host.stray.exists()) == ("moved", False)


@pytest.mark.further_but("the default-log_removed", "another-by_a_script_in_another_quarantine")
@pytest.mark.parametrize("way", BY_SCRIPT)
def test_a_script_leaves_what_was_put_back(host: Host, way: Way) -> None:
    verdicts = just_seen(host)
    text = script(host, verdicts)
    way(host, verdicts)
    for words in ((), ("--apply",)):
        told = run(host, text, *words)
        assert told.returncode == 3, told.stdout + told.stderr
        assert "it was put back, renamed or changed after" in told.stdout, told.stdout
    assert whole(host.stray)


@pytest.mark.further_but("the default")
def test_newer_verdicts_by_an_inventory_of_before_leave_it(host: Host) -> None:
    """`collect --inventory FILE` takes a file in again and again, however old it is."""
    before = just_seen(host)
    scanned_at = before.taken_at
    assert [row.state for row in host.sweep(before).rows] == ["moved"]
    assert put_back(host).state == "restored"
    host.now += timedelta(hours=1)
    for known, code in ((scanned_at, "restored"), (None, "touched")):
        later = host.verdicts(host.row(scanned_at=known))
        assert later.taken_at > scanned_at + timedelta(minutes=50)
        (row,) = host.sweep(later).rows
        assert (row.state, row.code) == ("refused", code), row.reason
    shutil.rmtree(host.quarantine)  # no log tells of it any more
    later = host.verdicts(host.row(scanned_at=scanned_at))
    (row,) = host.sweep(later).rows
    assert (row.state, row.code) == ("refused", "touched"), row.reason
    assert f"an inventory saw at {format_time(scanned_at)}" in row.reason
    told = run(host, script(host, later), "--apply")
    assert (told.returncode, whole(host.stray)) == (3, True), told.stdout + told.stderr
    (row,) = host.sweep().rows
    assert row.state == "moved", "a new inventory shows it"


def test_a_script_is_not_made_of_verdicts_that_do_not_tell_when_it_was_scanned(host: Host) -> None:
    """Those of earlier releases."""
    found = host.verdicts(host.row(scanned_at=None))
    made = write_script(found, Options((str(host.log_dir),)), host.live, host.now)
    assert (made.folders, [row.code for row in made.left_out]) == (0, ["touched"])


@pytest.mark.further_but("the default")
def test_what_nobody_touched_goes(host: Host) -> None:
    """By program and script: the ways above are refused for what they did, not for their time."""
    verdicts = just_seen(host)
    assert run(host, script(host, verdicts)).returncode == 0
    (moved,) = host.sweep(verdicts).rows
    assert moved.state == "moved"
