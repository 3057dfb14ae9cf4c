"""Nothing is lost whenever a sweep is killed: what happened is read from the disk."""

from __future__ import annotations

import errno
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.core.errors import JournalError
from dashboard.orphans.sweep import quarantine
from dashboard.orphans.sweep.report import Report
from tests.unit.orphans.dying_sweep import killed
from tests.unit.orphans.sweep_acts import kinds, put_back, whole
from tests.unit.orphans.sweep_host import STRAY, Host

DAY = timedelta(hours=24)


@pytest.mark.further_but("before:moving", "after:moving", "after:rename", "torn:moved")
@pytest.mark.parametrize(
    "point",
    ["before:moving", "torn:moving", "after:moving", "before:rename", "after:rename",
     "before:moved", "torn:moved", "after:moved"],
)  # fmt: skip
def test_a_sweep_killed_while_it_moves_loses_nothing(host: Host, point: str) -> None:
    row = host.row()
    killed(host.sweep, point)
    # Seen without acting first: the same states, and nothing written.
    dry = host.one(row, apply=False)
    again = host.one(row)
    aside = [p for p in host.quarantine.iterdir() if p.is_dir()]
    assert len(aside) == 1
    assert whole(aside[0] / STRAY)
    assert not host.stray.exists()
    expected = (
        "moved" if point in ("after:rename", "before:moved", "torn:moved", "after:moved") else "not"
    )
    assert (again.state, dry.state) == (
        ("quarantined", "quarantined") if expected == "moved" else ("moved", "would_move")
    )
    assert ("repaired" in kinds(host)) == point.startswith("torn")
    assert put_back(host).state == "restored"
    assert whole(host.stray)


@pytest.mark.parametrize(
    "point", ["before:restoring", "after:restoring", "after:rename", "torn:restored"]
)
def test_a_restore_killed_at_any_step_can_be_repeated(host: Host, point: str) -> None:
    host.one()
    killed(lambda: put_back(host), point)
    if not host.stray.exists():
        assert put_back(host).state == "restored"
    assert whole(host.stray)
    host.sweep(host.verdicts(host.row(broker_id=2)))  # settles what was left
    assert kinds(host)[-1] == "restored"


@pytest.mark.further_but("after:deleted", "after:remove", "before:deleting", "torn:deleted")
@pytest.mark.parametrize(
    "point",
    ["before:deleting", "torn:deleting", "after:deleting", "after:rename", "half:remove",
     "after:remove", "torn:deleted", "after:deleted"],
)  # fmt: skip
def test_a_deletion_killed_at_any_step_goes_on(host: Host, point: str) -> None:
    aside = Path(host.one().quarantined_as or "")
    killed(lambda: host.sweep(keep=timedelta(0)), point)
    if point in ("after:rename", "half:remove"):
        assert put_back(host).code == "deleting"  # it is not whole any more
    elif aside.exists():
        assert whole(aside)
    host.now += DAY
    host.sweep(host.verdicts(host.row(broker_id=2)))
    assert not aside.exists()
    assert point == "after:deleted" or not aside.parent.exists()
    unsaid = point in ("after:remove", "torn:deleted")  # a person may have taken it as well
    assert kinds(host)[-1] == ("lost" if unsaid else "deleted")
    assert host.sweep(host.verdicts(host.row(broker_id=2))).rows == ()


@pytest.mark.parametrize("whole_item", [False, True])
def test_the_rest_of_a_killed_deletion_that_somebody_rescued_is_not_deleted(
    host: Host, whole_item: bool
) -> None:
    aside = Path(host.one().quarantined_as or "")
    killed(lambda: host.sweep(keep=timedelta(0)), "half:remove")
    (left,) = aside.parent.iterdir()
    (aside.parent if whole_item else left).rename(host.folder / "rescued")
    assert of_another_broker(host).rows == ()
    assert kinds(host)[-2:] == ["deleting", "lost"]


def test_another_folder_under_the_old_name_is_not_taken_for_the_one_that_was_meant(
    host: Host,
) -> None:
    row = host.row()
    killed(host.sweep, "after:moving")
    host.stray.rename(host.folder / "elsewhere")
    host.disk.segment(host.disk.folder(STRAY), 0)
    host.sweep(host.verdicts(host.row(broker_id=2)))
    assert kinds(host) == ["moving", "lost"]
    assert host.one(row).code in (None, "changed")


def of_another_broker(host: Host) -> Report:
    """A sweep that has nothing to move: it settles what was left, and deletes what is due."""
    return host.sweep(host.verdicts(host.row(broker_id=2, newest_at=host.now)))


def unreadable_once(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The disk gives one I/O error at the first look at a path that ends so."""
    stat, left = os.stat, [name]

    def flaky(path: Any, *words: Any, **more: Any) -> os.stat_result:
        if left and "dir_fd" in more and str(path).endswith(left[0]):
            left.clear()
            raise OSError(errno.EIO, "Input/output error")
        return stat(path, *words, **more)

    monkeypatch.setattr(os, "stat", flaky)


@pytest.mark.further_but(
    "delete after:rename-.deleting-deleted",
    "move after:rename-gone-0.0123456789abcdef0123456789abcdef-stray-moved",
)
@pytest.mark.parametrize(
    ("died", "name", "then"),
    [
        ("delete after:rename", ".deleting", "deleted"),
        ("delete half:remove", ".deleting", "deleted"),
        ("delete after:deleting", STRAY, "deleted"),
        ("move after:rename", STRAY, "moved"),
        ("move after:moving", f"data/{STRAY}", "not-moved"),
        ("restore after:rename", f"data/{STRAY}", "restored"),
    ],
)
def test_a_disk_that_errs_tells_no_outcome_and_a_later_sweep_goes_on(
    host: Host, monkeypatch: pytest.MonkeyPatch, died: str, name: str, then: str
) -> None:
    act, point = died.split()
    if act == "move":
        killed(host.sweep, point)
    else:
        host.one()
        host.now += DAY
        acts = {"delete": lambda: of_another_broker(host), "restore": lambda: put_back(host)}
        killed(acts[act], point)
    before = kinds(host)
    unreadable_once(monkeypatch, name)
    with pytest.raises(JournalError) as caught:
        of_another_broker(host)
    assert caught.value.code == "QUARANTINE_UNSETTLED"
    assert str(host.folder) in caught.value.message and "Input/output" in caught.value.message
    assert kinds(host) == before
    of_another_broker(host)
    assert then in kinds(host)[len(before) :]
    assert "lost" not in kinds(host)


def test_a_folder_that_took_the_place_of_one_in_quarantine_stops_its_sweep(host: Host) -> None:
    host.one()
    host.now += DAY
    killed(lambda: of_another_broker(host), "after:rename")
    (begun,) = host.quarantine.glob("*/*.deleting")
    begun.rename(host.folder / "elsewhere")
    begun.mkdir()
    for _ in range(2):
        with pytest.raises(JournalError) as caught:
            of_another_broker(host)
        assert caught.value.code == "QUARANTINE_UNSETTLED" and str(begun) in caught.value.message
    begun.rmdir()
    (host.folder / "elsewhere").rename(begun)
    of_another_broker(host)
    assert (kinds(host)[-1], begun.exists()) == ("deleted", False)


def test_a_deletion_that_fails_midway_does_not_sound_as_if_all_were_there(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.one()
    host.now += DAY

    def fails(name: str, folder: int, opened: int) -> None:
        os.unlink(sorted(os.listdir(opened))[0], dir_fd=opened)
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(quarantine, "remove", fails)
        (told,) = of_another_broker(host).rows
    assert (told.state, told.code) == ("refused", "failed")
    assert "in part" in (told.reason or "") and "may be gone" in (told.reason or "")
    (done,) = of_another_broker(host).rows
    assert done.state == "deleted"
