"""A sweep as root meets what another user of the host put in its way: it refuses, by name."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest

from dashboard.core.errors import LowwaterError
from dashboard.orphans.sweep import quarantine, sweep
from dashboard.orphans.sweep.places import quarantine_of
from dashboard.orphans.sweep.report import Refusal
from dashboard.orphans.sweep.site import Options, verify
from tests.unit.orphans.sweep_acts import kinds, put_back, whole
from tests.unit.orphans.sweep_host import STRAY, Host

STRANGER = 65534
DAY = timedelta(hours=24)
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can plant another user's folder")


def give(path: Path) -> None:
    os.chown(path, STRANGER, STRANGER, follow_symlinks=False)


@as_root
@pytest.mark.parametrize(
    ("plant", "why"),
    [
        (lambda q: (q.mkdir(), give(q)), f"belongs to uid {STRANGER}"),
        (lambda q: (q.mkdir(), q.chmod(0o1777)), "others may write to"),
        (lambda q: (q.mkdir(), q.chmod(0o770)), "others may write to"),
        (lambda q: ((q.parent / "own").mkdir(), q.symlink_to("own")), "is a link or no folder"),
        (lambda q: q.write_text(""), "is a link or no folder"),
    ],
)
def test_a_quarantine_that_is_not_ours_alone(
    host: Host, plant: Callable[[Path], object], why: str
) -> None:
    plant(host.quarantine)
    for apply in (False, True):
        outcome = host.one(apply=apply)
        assert (outcome.code, why in (outcome.reason or "")) == ("quarantine", True), outcome
    assert whole(host.stray)


@as_root
def test_a_quarantine_that_was_given_away_is_neither_emptied_nor_restored(host: Host) -> None:
    """Its log's chain is no secret: who owns the folder can write one that holds."""
    aside = Path(host.one().quarantined_as or "")
    give(host.quarantine)
    host.now += 2 * DAY
    report = host.sweep(host.verdicts(host.row(broker_id=2, newest_at=host.now)))
    assert report.rows == ()
    assert any(f"belongs to uid {STRANGER}" in note for note in report.notes)
    with pytest.raises(LowwaterError) as caught:
        put_back(host)
    assert caught.value.code == "QUARANTINED_UNKNOWN"
    assert f"belongs to uid {STRANGER}" in caught.value.next_step
    assert whole(aside)


@as_root
def test_a_quarantine_of_root_is_told_to_the_brokers_user() -> None:
    """It cannot even be opened; the reason says whose it is, not only that."""
    with TemporaryDirectory() as name:
        above = Path(name)
        above.chmod(0o755)
        place = above / "q"
        place.mkdir(mode=0o700)
        log_dir = SimpleNamespace(path=name, real=above / "data", device=above.stat().st_dev)
        os.seteuid(STRANGER)
        try:
            with pytest.raises(Refusal, match=f"belongs to uid 0, not to uid {STRANGER}"):
                quarantine_of(log_dir, (str(place),), ())  # type: ignore[arg-type]
        finally:
            os.seteuid(0)


@as_root
@pytest.mark.parametrize("plant", ["link", "second name", "pipe", "another user's"])
def test_a_log_that_is_not_ours_alone(host: Host, plant: str) -> None:
    """Planted while others might still write there: all of it is told, none of it is followed."""
    host.quarantine.mkdir()
    victim, log = host.folder / "victim", host.quarantine / "sweep.log"
    victim.write_text("")
    if plant == "link":
        log.symlink_to(victim)
    elif plant == "second name":
        os.link(victim, log)
    elif plant == "pipe":
        os.mkfifo(log)
    else:
        log.touch()
        give(log)
    for apply in (False, True):
        with pytest.raises(LowwaterError) as caught:
            host.sweep(apply=apply)
        assert caught.value.code == "SWEEP_LOG_UNWRITABLE"
    with pytest.raises(LowwaterError):
        verify(Options((str(host.log_dir),)))
    assert victim.read_text() == ""
    assert whole(host.stray)


def on_open(host: Host, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """`act` comes between the quarantine's check and its opening."""
    real, done = quarantine.opened_quarantine, []

    def opened(*words: object, **more: object) -> object:
        if not done:
            done.append(act())
        return real(*words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(quarantine, "opened_quarantine", opened)
    assert host.stray.is_dir()


@as_root
def test_a_quarantine_that_another_user_makes_after_the_check(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = host.row()
    victim = host.folder / "victim"
    victim.write_text("whole")

    def plant() -> None:
        host.quarantine.mkdir()
        (host.quarantine / "sweep.log").symlink_to(victim)
        give(host.quarantine)

    on_open(host, monkeypatch, plant)
    with pytest.raises(LowwaterError) as caught:
        host.sweep(host.verdicts(row))
    assert caught.value.code == "QUARANTINE_UNWRITABLE"
    assert victim.read_text() == "whole"
    assert whole(host.stray)


@pytest.mark.parametrize("inside", [True, False])
def test_a_path_that_leads_elsewhere_after_the_check(
    host: Host, monkeypatch: pytest.MonkeyPatch, inside: bool
) -> None:
    """The folder above the quarantine becomes a link: into a log dir, or anywhere."""
    row, above = host.row(), host.folder / "above"
    above.mkdir()
    target = host.log_dir if inside else host.folder / "elsewhere"
    target.mkdir(exist_ok=True)

    def swap() -> None:
        above.rename(host.folder / "taken")
        above.symlink_to(target)

    on_open(host, monkeypatch, swap)
    if inside:
        with pytest.raises(LowwaterError) as caught:
            host.sweep(host.verdicts(row), quarantine_dirs=(str(above / "q"),))
        assert caught.value.code == "QUARANTINE_UNWRITABLE"
        assert not (host.log_dir / "q").exists()
        assert whole(host.stray)
    else:
        assert host.one(row, quarantine_dirs=(str(above / "q"),)).state == "moved"


def test_a_log_dir_that_becomes_a_link_while_it_is_swept(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another folder of that name stays, the one that was checked goes."""
    row, real = host.row(), quarantine.rename
    other = host.folder / "other" / STRAY
    other.mkdir(parents=True)

    def swapped(*words: object) -> None:
        if not host.log_dir.is_symlink():
            host.log_dir.rename(host.folder / "real")
            host.log_dir.symlink_to("other")
        real(*words)  # type: ignore[arg-type]

    monkeypatch.setattr(quarantine, "rename", swapped)
    assert host.one(row).state == "moved"
    assert other.is_dir()
    assert not (host.folder / "real" / STRAY).exists()


def test_a_folder_in_quarantine_that_is_swapped_before_its_deletion(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    aside = Path(host.one().quarantined_as or "")
    kept, real = host.folder / "kept", quarantine.Quarantine.delete

    def swapped(*words: object) -> object:
        aside.rename(kept)
        aside.mkdir()
        (aside / "wanted").touch()
        return real(*words)  # type: ignore[arg-type]

    monkeypatch.setattr(quarantine.Quarantine, "delete", swapped)
    host.now += DAY
    (outcome,) = host.sweep(host.verdicts(host.row(broker_id=2, newest_at=host.now))).rows
    assert (outcome.state, outcome.code) == ("refused", "changed")
    assert whole(kept)
    assert (aside / "wanted").exists()
    assert kinds(host) == ["moving", "moved"]


def test_a_folder_that_takes_the_name_while_one_is_deleted_is_not_emptied(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is emptied is the folder that was opened; the name goes only when it is empty."""
    aside = Path(host.one().quarantined_as or "")
    real = quarantine.remove

    def swapped(name: str, folder: int, opened: int) -> None:
        begun = aside.with_name(name)
        begun.rename(host.folder / "first")
        begun.mkdir()
        (begun / "wanted").touch()
        real(name, folder, opened)

    monkeypatch.setattr(quarantine, "remove", swapped)
    host.now += DAY
    (outcome,) = host.sweep(host.verdicts(host.row(broker_id=2, newest_at=host.now))).rows
    assert (outcome.state, outcome.code) == ("refused", "failed")
    assert [p.name for p in aside.parent.rglob("wanted")] == ["wanted"]


def test_a_folder_in_quarantine_that_is_swapped_before_it_is_put_back(host: Host) -> None:
    aside = Path(host.one().quarantined_as or "")
    aside.rename(host.folder / "kept")
    aside.mkdir()
    refused = put_back(host)
    assert (refused.state, refused.code) == ("refused", "changed")
    assert not host.stray.exists()


def test_a_metadata_file_that_is_a_pipe_does_not_stop_a_sweep(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is swapped after the folder was measured: opening it must not wait for a writer."""
    row, measured = host.row(), sweep.measure

    def swapped(folder: int, device: int) -> object:
        found = measured(folder, device)
        metadata = host.stray / "partition.metadata"
        if metadata.is_file():
            metadata.unlink()
            os.mkfifo(metadata)
        return found

    monkeypatch.setattr(sweep, "measure", swapped)
    assert host.one(row).code == "topic-id"
