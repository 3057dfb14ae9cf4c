"""A copy of a state folder can be read, and nothing acts by it: a cancel may be missing there."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dashboard.core.errors import JournalError, UsageError
from dashboard.purge.jobs import queue
from dashboard.purge.jobs.queue import STALE_AFTER
from dashboard.purge.journal import head
from dashboard.purge.journal.archive import accept
from dashboard.purge.journal.head import FileIdentity, HeadFile
from dashboard.purge.journal.journal import Journal
from dashboard.settings.settings import Settings
from tests.support.journals import unbind
from tests.support.memory_disk import elsewhere
from tests.unit.purge.facts_of import NOW
from tests.unit.purge.room import Room

CODE = "JOURNAL_ROLLED_BACK"


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    """A run that waits for its worker."""
    made = Room(tmp_path / "state")
    made.run_id = made.queue(made.plan())  # type: ignore[attr-defined]
    yield made
    made.journal.close()


def refused(write: Callable[[], object]) -> JournalError:
    with pytest.raises(JournalError) as error:
        write()
    assert error.value.code == CODE
    return error.value


def copied(room: Room, to: Path) -> Journal:
    """As `cp -a`, rsync, tar and backups do: with times, owners and attributes."""
    shutil.copytree(room.journal.file.path.parent, to)
    return Journal(to / "journal.sqlite")


def test_a_run_that_was_cancelled_since_is_not_sent_by_its_copy(room: Room, tmp_path: Path) -> None:
    run_id = room.run_id  # type: ignore[attr-defined]
    evidence = copied(room, tmp_path / "evidence")
    room.journal.set_wish(run_id, "cancel", "ann", NOW)
    room.journal.close()
    room.journal = evidence
    error = refused(lambda: room.execution(run_id).execute())
    assert "is a copy" in error.message
    assert f"--accept-restored {evidence.newest_entry()}" in error.next_step
    assert room.live.sent == []


def test_who_looks_at_a_copy_reads_it_and_starts_nobody(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setattr(queue, "spawn", lambda _, run_id, **__: started.append(run_id))
    run_id = room.run_id  # type: ignore[attr-defined]
    evidence = copied(room, tmp_path / "evidence")
    settings, later = Settings(state_dir=tmp_path / "evidence"), NOW + 2 * STALE_AFTER
    refused(lambda: queue.respawn_stale(settings, evidence, now=later))
    assert started == []
    assert evidence.run(run_id).run.state == "queued"
    assert evidence.verify().ok, "its chain is whole"
    assert evidence.file.doubt() is not None, "no sweep goes by it"
    evidence.close()
    assert queue.respawn_stale(Settings(), room.journal, now=later) == started == [run_id]


def test_a_copy_that_a_person_accepts_goes_on_without_what_was_open(
    room: Room, tmp_path: Path
) -> None:
    run_id = room.run_id  # type: ignore[attr-defined]
    kept = copied(room, tmp_path / "another-disk")
    with pytest.raises(UsageError):
        accept(kept, kept.newest_entry() + 1, who="ann", from_where="here", now=NOW)
    newest = kept.newest_entry()
    assert accept(kept, newest, who="ann", from_where="here", now=NOW) == [run_id]
    assert kept.read_only()
    assert kept.file.rolled_back() is None
    kept.set_read_only(False, "ann", NOW)
    kept.close()
    again = copied(room, tmp_path / "third")
    refused(lambda: again.set_read_only(True, "eve", NOW))
    again.close()


def test_a_folder_that_is_moved_or_opened_again_is_the_same(room: Room, tmp_path: Path) -> None:
    run_id = room.run_id  # type: ignore[attr-defined]
    room.journal.file.shrink()
    room.journal.close()
    moved = (tmp_path / "state").rename(tmp_path / "moved")
    (tmp_path / "linked").symlink_to(moved)
    room.journal = Journal(tmp_path / "linked" / "journal.sqlite")
    assert room.execution(run_id).execute() == "done"


def test_a_reboot_that_numbers_devices_anew_changes_nothing(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = room.journal.file.path
    found = path.stat()
    other = type(found)([found.st_mode, found.st_ino, found.st_dev + 1, *found[3:]])
    monkeypatch.setattr(Path, "stat", lambda *_, **__: other)
    assert not HeadFile(path).is_of_another()


@pytest.mark.parametrize(
    ("was", "now", "same"),
    [
        ((7, 5), (7, 5), True),
        ((7, 5), (7, 6), False),  # removed and put back: ext4 gave it the number anew
        ((7, 5), (8, 5), False),
        ((7, 0), (7, 6), True),  # a kernel that tells births now
        ((7, 5), (7, 0), True),
        ((7, 0), (8, 0), False),
    ],
)
def test_number_and_birth_are_compared_as_far_as_both_are_told(
    was: tuple[int, int], now: tuple[int, int], same: bool
) -> None:
    assert FileIdentity(*was).may_be(FileIdentity(*now)) is same


def test_the_birth_of_a_file_is_told_here(tmp_path: Path) -> None:
    """Also after it was written to, renamed and given other times."""
    file = tmp_path / "a"
    file.touch()
    first = head.identity(file)
    assert first.born_ns
    file.write_text("more")
    os.utime(file, ns=(1, 1))
    file = file.rename(tmp_path / "b")
    assert head.identity(file) == first


def test_a_restored_file_with_the_number_of_the_removed_one_is_told(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = room.journal.file.path
    found = head.identity(path)
    later = found._replace(born_ns=found.born_ns + 1)
    monkeypatch.setattr(head, "identity", lambda _: later)
    refused(lambda: room.journal.set_read_only(True, "eve", NOW))


def test_where_nothing_keeps_numbers_nothing_is_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A FUSE mount may number its files anew at each start: it would lock everybody out."""
    monkeypatch.setattr(head, "keeps_files", lambda _: False)
    room = Room(tmp_path / "state")
    room.queue(room.plan())
    evidence = copied(room, tmp_path / "evidence")
    evidence.set_read_only(True, "ann", NOW)
    evidence.close()
    monkeypatch.undo()
    assert not HeadFile(room.journal.file.path).is_of_another()
    room.journal.set_read_only(True, "ann", NOW)  # bound from here on
    again = copied(room, tmp_path / "again")
    monkeypatch.setattr(head, "keeps_files", lambda _: False)
    refused(lambda: again.set_read_only(True, "eve", NOW))
    again.close()
    room.journal.close()


def test_a_journal_of_an_earlier_version_is_bound_with_its_next_entry(
    room: Room, tmp_path: Path
) -> None:
    unbind(room.journal.file.path)
    copy = copied(room, tmp_path / "early")
    copy.set_read_only(True, "ann", NOW)
    copy.close()
    room.journal.set_read_only(True, "ann", NOW)
    late = copied(room, tmp_path / "late")
    refused(lambda: late.set_read_only(False, "eve", NOW))
    late.close()


def test_a_copy_on_another_disk_is_told(room: Room, tmp_path: Path) -> None:
    disk = elsewhere(tmp_path)
    if disk is None:
        pytest.skip("one file system alone")
    with tempfile.TemporaryDirectory(dir=disk) as folder:
        copy = copied(room, Path(folder) / "state")
        refused(lambda: copy.set_read_only(True, "eve", NOW))
        copy.close()
