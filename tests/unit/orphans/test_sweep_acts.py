"""Moved, put back, deleted in time; one sweep acts at once, and what changed goes back."""

from __future__ import annotations

import errno
import os
import signal
import stat
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.core.errors import LowwaterError, UsageError
from dashboard.domain import acts as words
from dashboard.domain.model import ReplicaSize
from dashboard.orphans.sweep import quarantine, sweep
from dashboard.orphans.sweep.aside import delete, find
from dashboard.orphans.sweep.report import Refusal
from tests.unit.inventory.disks import TOPIC_ID
from tests.unit.orphans.sweep_acts import kinds, put_back, site, whole
from tests.unit.orphans.sweep_host import STRAY, Host, topic

DAY = timedelta(hours=24)


def test_a_folder_moves_stays_its_time_and_is_deleted_by_a_later_sweep(host: Host) -> None:
    moved = host.one()
    assert (moved.action, moved.state, moved.bytes) == ("move", "moved", 8192)
    aside = Path(moved.quarantined_as or "")
    assert aside.parent.parent == host.quarantine
    assert whole(aside)
    host.now += DAY - timedelta(seconds=1)
    lying = host.one(host.row(size_bytes=100, newest_at=host.now))
    assert (lying.state, lying.quarantined_as) == ("quarantined", str(aside))
    host.now += timedelta(seconds=2)
    verdicts = host.verdicts(host.row(broker_id=2, newest_at=host.now))
    assert host.sweep(verdicts, apply=False).rows[0].state == "would_delete"
    assert whole(aside)
    (deleted,) = host.sweep(verdicts).rows
    assert (deleted.state, deleted.quarantined_as) == ("deleted", None)
    assert sorted(p.name for p in host.quarantine.iterdir()) == ["sweep.log"]
    assert kinds(host) == ["moving", "moved", "deleting", "deleted"]


def test_a_dry_run_writes_nothing_at_all(host: Host) -> None:
    before = sorted(map(str, host.folder.rglob("*")))
    outcome = host.one(apply=False)
    assert (outcome.state, outcome.quarantined_as) == ("would_move", str(host.quarantine))
    assert sorted(map(str, host.folder.rglob("*"))) == before
    assert host.said == []


def test_a_restored_folder_is_whole_and_may_be_swept_again_by_newer_verdicts(host: Host) -> None:
    row = host.row()
    before = host.verdicts(row)
    aside = host.one(row).quarantined_as or ""
    restored = put_back(host, aside)
    assert (restored.state, restored.reason) == ("restored", None)
    assert whole(host.stray)
    host.now += timedelta(minutes=5)
    for verdicts in (before, replace(before, analysis_id="a2")):  # of a look before it was restored
        (left,) = host.sweep(verdicts).rows
        assert (left.state, left.code) == ("refused", "restored")
    assert whole(host.stray)
    assert host.one(row).state == "moved"
    assert kinds(host) == ["moving", "moved", "restoring", "restored", "moving", "moved"]


@pytest.mark.parametrize("by_hand", [False, True], ids=["restored", "moved by hand"])
def test_a_restore_by_a_clock_that_was_behind_is_newer_than_what_was_seen_before(
    host: Host, by_hand: bool
) -> None:
    """Two files of verdicts of the morning; the restore of the evening bore a time before both."""
    row, real = host.row(), host.now
    first = host.verdicts(row)
    second = replace(first, analysis_id="a2", taken_at=first.taken_at + timedelta(seconds=20))
    host.live.controller_at = real
    (moved,) = host.sweep(first).rows
    host.now -= timedelta(hours=1)  # behind from here on
    if by_hand:
        Path(moved.quarantined_as or "").rename(host.stray)
        assert host.sweep(host.verdicts(row)).rows[0].code == "clock"  # it writes the restore down
    else:
        assert put_back(host).state == "restored"
    host.now = host.live.controller_at = real + timedelta(seconds=30)  # somebody set it right
    for apply in (False, True):
        (left,) = host.sweep(second, apply=apply).rows
        assert (left.state, left.code) == ("refused", "restored")
    assert whole(host.stray)
    assert kinds(host)[-2:] == ["restored", "seen-restored"]
    host.now = host.live.controller_at = real + timedelta(minutes=5)
    assert host.one(row).state == "moved"  # by verdicts of what was seen since


def test_a_restore_by_a_clock_that_is_proved_counts_from_then_on(host: Host) -> None:
    host.live.controller_at = host.now
    row = host.row()
    assert host.one(row).state == "moved"
    assert put_back(host).state == "restored"
    host.now = host.live.controller_at = host.now + timedelta(minutes=2)
    assert host.one(row).state == "moved"
    assert "seen-restored" not in kinds(host)


@pytest.mark.parametrize(("seconds", "state"), [(1, "refused"), (19, "refused"), (21, "moved")])
def test_verdicts_are_newer_than_a_restore_only_beyond_what_two_clocks_that_agree_may_differ(
    host: Host, seconds: int, state: str
) -> None:
    """The restoring host's clock may be 10 s behind, and the collector's as much ahead."""
    row, host.live.controller_at = host.row(), host.now
    host.one(row)
    back = host.now
    assert put_back(host).state == "restored"
    host.now = host.live.controller_at = back + timedelta(minutes=1)
    newer = replace(host.verdicts(row), taken_at=back + timedelta(seconds=seconds))
    assert [outcome.state for outcome in host.sweep(newer).rows] == [state]


def test_a_restore_replaces_nothing(host: Host) -> None:
    host.one()
    host.stray.mkdir()  # empty, as a broker makes one for a new partition
    refused = put_back(host)
    assert (refused.state, refused.code) == ("refused", "taken")
    assert list(host.stray.iterdir()) == []
    host.stray.rmdir()
    host.live.states["gone"] = topic("gone", TOPIC_ID)
    assert put_back(host).code == "hosted"
    host.live.states["gone"] = topic("gone", "z" * 22)  # the name alone is no clash for a stray
    assert put_back(host).state == "restored"


def test_a_restore_of_a_live_name_never_meets_the_brokers_own_folder(host: Host) -> None:
    folder = host.disk.folder("gone-0")
    host.disk.segment(folder, 0)
    later = host.now + timedelta(minutes=1)
    host.one(host.row(directory="gone-0", kind=words.DELETED_TOPIC, newest_at=later))
    assert not folder.exists()
    host.live.states["gone"] = topic("gone", "z" * 22)
    assert put_back(host, "gone-0").code == "hosted"
    del host.live.states["gone"]
    assert put_back(host, "gone-0").state == "restored"


def test_a_restore_works_while_the_broker_is_down(host: Host) -> None:
    host.one()
    host.stop_broker()
    host.live.alive = {2}
    assert put_back(host).state == "restored"


def test_what_is_not_there_cannot_be_restored(host: Host) -> None:
    with pytest.raises(UsageError) as caught:
        put_back(host)
    assert caught.value.code == "QUARANTINED_UNKNOWN"


def test_a_folder_that_changes_while_it_moves_goes_back(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, real = host.row(), sweep.measure

    def written_to(folder: int, device: int) -> object:
        if not host.stray.exists():  # it has just been moved: the broker writes to it now
            (aside,) = host.quarantine.glob(f"*/{STRAY}")
            with (aside / f"{0:020}.log").open("ab") as log:
                log.write(b"more")
        return real(folder, device)

    monkeypatch.setattr(sweep, "measure", written_to)
    outcome = host.one(row)
    assert (outcome.state, outcome.code) == ("refused", "changed")
    assert whole(host.stray)
    assert kinds(host) == ["moving", "put-back"]
    assert host.sweep().exit_code != 0


def test_a_folder_that_is_opened_while_it_moves_goes_back(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def opened(*_: object, **__: object) -> bool:
        asked.append(host.stray.exists())
        if not host.stray.exists():
            raise Refusal("open-file", "somebody opened it")
        return False

    monkeypatch.setattr(sweep, "refuse_if_open", opened)
    assert host.one().code == "open-file"
    assert asked == [True, False]
    assert whole(host.stray)
    assert kinds(host) == ["moving", "put-back"]


def test_what_could_not_go_back_is_kept_until_somebody_looks(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, real = host.row(), sweep.measure

    def taken(folder: int, device: int) -> object:
        if not host.stray.exists():  # just moved: its name is taken, and it was opened
            host.stray.mkdir()
            raise Refusal("open-file", "somebody opened it")
        return real(folder, device)

    monkeypatch.setattr(sweep, "measure", taken)
    outcome = host.one(row)
    monkeypatch.undo()
    (aside,) = host.quarantine.glob(f"*/{STRAY}")
    assert (outcome.code, str(aside) in (outcome.reason or "")) == ("open-file", True)
    assert whole(aside)
    host.now += 2 * DAY
    (kept,) = host.sweep(host.verdicts(host.row(broker_id=2))).rows
    assert (kept.state, kept.code) == ("refused", "changed")
    host.stray.rmdir()
    assert put_back(host).state == "restored"


def test_a_folder_that_takes_anothers_name_at_the_last_moment_goes_back(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, real = host.row(), quarantine.rename

    def swapped(name: str, *words: object) -> None:
        if host.stray.exists() and not (host.folder / "first").exists():
            host.stray.rename(host.folder / "first")
            host.stray.mkdir()
        real(name, *words)  # type: ignore[arg-type]

    monkeypatch.setattr(quarantine, "rename", swapped)
    assert host.one(row).code == "changed"
    assert list(host.stray.iterdir()) == []
    assert kinds(host) == ["moving", "put-back"]


def test_ctrl_c_waits_for_the_folder_at_hand(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    row, real = host.row(), quarantine.rename

    def interrupted(*words: object) -> None:
        signal.raise_signal(signal.SIGINT)
        real(*words)  # type: ignore[arg-type]

    monkeypatch.setattr(quarantine, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        host.one(row)
    monkeypatch.undo()
    assert kinds(host) == ["moving", "moved"]
    assert host.one(row).state == "quarantined"


def test_a_folder_that_somebody_took_out_of_quarantine_is_not_forgotten(host: Host) -> None:
    aside = Path(host.one().quarantined_as or "")
    aside.rename(host.folder / "taken")
    others = host.verdicts(host.row(broker_id=2))
    for wait, apply in ((timedelta(), False), (DAY, True)):  # also while it seemed to lie there
        host.now += wait
        report = host.sweep(others, apply=apply)
        (outcome,) = report.rows
        assert (outcome.state, outcome.quarantined_as, outcome.bytes) == ("gone", None, None)
        assert "lowwater has not deleted it" in str(outcome.reason)
        assert (report.to_json()["totals"]["gone"]["bytes"], report.exit_code) == (0, 0)
    with site(host) as opened:  # told, and no more in the way of others by its share
        assert opened.lying_bytes() == []
    assert kinds(host) == ["moving", "moved", "lost"]
    assert host.sweep(others).rows == ()  # told once, not by each sweep from then on
    (host.folder / "taken").rename(host.stray)  # it is still the one that somebody put back
    assert host.one().code == "restored"
    assert kinds(host)[-1] == "restored"


def test_a_folder_that_is_laid_back_into_quarantine_lies_there_anew(host: Host) -> None:
    aside = Path(host.one().quarantined_as or "")
    parent = aside.parent
    aside.rename(host.folder / "taken")
    others = host.verdicts(host.row(broker_id=2))
    host.sweep(others)
    parent.mkdir(exist_ok=True)
    (host.folder / "taken").rename(aside)
    host.now += DAY
    (outcome,) = host.sweep(host.verdicts(host.row(broker_id=2, newest_at=host.now))).rows
    assert (outcome.state, aside.exists()) == ("quarantined", True), "its day begins anew"
    assert kinds(host)[2:4] == ["lost", "moved"]
    assert put_back(host).state == "restored"
    assert whole(host.stray)


def test_a_folder_that_somebody_put_back_by_hand_lies_in_no_quarantine_any_more(host: Host) -> None:
    """Where no broker is up there is no --restore; each sweep told it as gone from then on."""
    row = host.row()
    aside = Path(host.one(row).quarantined_as or "")
    aside.rename(host.stray)
    host.now += DAY - timedelta(hours=1)
    for apply in (False, True):
        (left,) = host.sweep(host.verdicts(row), apply=apply).rows
        assert (left.action, left.code) == ("none", "restored")
    assert whole(host.stray)
    assert kinds(host) == ["moving", "moved", "restored"]


def test_the_last_copy_is_not_deleted(host: Host) -> None:
    aside = Path(host.one().quarantined_as or "")
    host.now += DAY
    host.live.states["gone"] = topic("gone", TOPIC_ID, replicas=(2, 3), isr=(2,))
    (outcome,) = host.sweep(host.verdicts(host.row(broker_id=2))).rows
    assert (outcome.state, outcome.code) == ("refused", "under-replicated")
    with (aside / f"{0:020}.log").open("ab") as log:
        log.write(b"more")
    del host.live.states["gone"]
    (outcome,) = host.sweep(host.verdicts(host.row(broker_id=2))).rows
    assert (outcome.state, outcome.code) == ("refused", "changed")
    assert aside.exists()


def test_deleted_before_its_time_only_by_name(host: Host) -> None:
    aside = host.one().quarantined_as or ""
    with site(host) as opened:
        assert delete(opened, *find(opened, aside), lambda: None).state == "deleted"
    assert not Path(aside).exists()


def test_of_two_sweeps_at_once_one_acts(host: Host) -> None:
    row = host.row()
    with site(host), pytest.raises(LowwaterError) as caught:
        host.one(row)
    assert caught.value.code == "SWEEP_BUSY"
    assert host.stray.is_dir()
    with site(host):
        assert host.one(row, apply=False).state == "would_move"
    assert host.one(row).state == "moved"


def test_a_disk_that_does_not_take_a_move_has_it_undone(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, real = host.row(), os.fsync

    def failing(file: int) -> None:
        if not host.stray.exists() and stat.S_ISDIR(os.fstat(file).st_mode):
            raise OSError(errno.EIO, "Input/output error")
        real(file)

    monkeypatch.setattr(os, "fsync", failing)
    outcome = host.one(row)
    assert (outcome.state, outcome.code) == ("refused", "failed")
    assert whole(host.stray)
    assert kinds(host) == ["moving", "put-back"]


def test_the_switch_stops_a_sweep_between_two_folders(host: Host) -> None:
    name = f"gone-1.{1:032x}-stray"
    host.disk.segment(host.disk.folder(name), 0)
    later = host.now + timedelta(minutes=1)
    rows = [host.row(), host.row(directory=name, partition=1, newest_at=later)]

    class Listener(list[str]):
        def append(self, _said: str) -> None:
            host.stopped = "an approver stopped it"

    host.said = Listener()
    report = host.sweep(host.verdicts(*rows))
    assert [row.code for row in report.rows] == [None, "read-only"]
    assert report.exit_code == 2


def test_two_brokers_of_one_host_share_a_quarantine_and_leave_each_others_folders(
    host: Host,
) -> None:
    host.one()
    text = (host.log_dir / "meta.properties").read_text()
    (host.log_dir / "meta.properties").write_text(text.replace("node.id=1", "node.id=2"))
    host.live.hosted = [ReplicaSize(2, str(host.log_dir), "live", 0, 100, 0, False)]
    host.now += 2 * DAY
    assert host.sweep(host.verdicts(host.row(broker_id=1))).rows == ()
    with site(host) as opened:
        assert delete(opened, *find(opened, STRAY), lambda: None).code == "other-broker"
