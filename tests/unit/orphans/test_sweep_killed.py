"""Nothing is lost whenever a sweep is killed: what happened is read from the disk."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.unit.orphans.dying_sweep import killed
from tests.unit.orphans.sweep_acts import kinds, put_back, whole
from tests.unit.orphans.sweep_host import STRAY, Host

DAY = timedelta(hours=24)


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
    assert kinds(host)[-1] == "deleted"
    assert host.sweep(host.verdicts(host.row(broker_id=2))).rows == ()


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
