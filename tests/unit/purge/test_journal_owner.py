"""Who does not own a journal may read it, and leaves nothing there that locks its owner out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dashboard.cli import main as command_line
from dashboard.core.errors import JournalError
from dashboard.doctor import doctor
from dashboard.domain.acts import RemovalOn
from dashboard.purge.jobs.queue import STALE_AFTER, respawn_stale
from dashboard.purge.journal import head
from dashboard.purge.journal.archive import accept
from dashboard.purge.journal.head import HeadFile
from dashboard.purge.journal.journal import Journal
from dashboard.settings.settings import Settings
from tests.unit.purge.facts_of import NOW
from tests.unit.purge.room import Room

OWNER = 65534  # nobody: an account that every system has
NAME = head._name(OWNER)


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Room]:
    """A service account's folder with a run that lost its worker, and another user at work."""
    made = Room(tmp_path / "state")
    made.run_id = made.queue(made.plan())  # type: ignore[attr-defined]
    stat = Path.stat

    def of_owner(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        found = stat(path, follow_symlinks=follow_symlinks)
        if not path.is_relative_to(tmp_path / "state"):
            return found
        return os.stat_result((*found[:4], OWNER, *found[5:]))

    monkeypatch.setattr(Path, "stat", of_owner)
    yield made
    made.journal.close()


def refused(write: Callable[[], object]) -> JournalError:
    with pytest.raises(JournalError) as error:
        write()
    assert error.value.code == "JOURNAL_OF_ANOTHER"
    return error.value


def test_who_looks_starts_nobody_and_leaves_nothing(room: Room, tmp_path: Path) -> None:
    before = sorted(path.name for path in (tmp_path / "state").iterdir())
    settings = Settings(state_dir=tmp_path / "state")
    error = refused(lambda: respawn_stale(settings, room.journal, now=NOW + 2 * STALE_AFTER))
    assert f"is {NAME}'s" in error.message
    assert f"sudo -u {NAME} lowwater" in error.next_step
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == before
    assert room.journal.run(room.run_id).run.state == "queued"  # type: ignore[attr-defined]
    assert room.journal.verify().ok
    check = doctor.state_folder(settings)
    assert (check.ok, f"sudo -u {NAME}" in check.next) == (False, True)


def test_whatever_lets_a_purge_go_on_is_refused(room: Room) -> None:
    journal, run_id = room.journal, room.run_id  # type: ignore[attr-defined]
    refused(lambda: room.queue(room.plan("offset:70")))
    refused(lambda: journal.set_wish(run_id, None, "ann", NOW))
    refused(lambda: journal.set_read_only(False, "ann", NOW))
    refused(lambda: journal.beat(run_id, NOW))
    entry = journal.newest_entry()
    HeadFile(journal.file.path).path.unlink()
    refused(lambda: accept(journal, entry, who="ann", from_where="h", now=NOW))
    assert journal.newest_entry() == entry


def test_what_stops_one_is_not(room: Room) -> None:
    """It starts no worker; at night in a pod nobody has sudo."""
    journal, run_id = room.journal, room.run_id  # type: ignore[attr-defined]
    journal.set_read_only(True, "ann", NOW)
    journal.set_wish(run_id, "pause", "ann", NOW)
    journal.set_wish(run_id, "cancel", "ann", NOW)
    assert (journal.read_only(), journal.wish(run_id)) == (True, "cancel")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_journal_that_root_makes_is_its_folders_owners(tmp_path: Path) -> None:
    """A service that removes orphans, as root, comes first to the folder that the pages share."""
    os.chown(tmp_path, OWNER, OWNER)
    with closing(Journal(tmp_path / "state" / "deep" / "journal.sqlite")) as made:
        files = [made.file.path, *made.file.path.parents[:2], *made.file.path.parent.iterdir()]
        assert {path.stat().st_uid for path in files} == {OWNER}
    again = tmp_path / "state" / "again.sqlite"
    again.touch()
    with closing(Journal(again)):
        assert again.stat().st_uid == 0, "what is there stays whose it is"


def test_its_owner_goes_on(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: OWNER)
    assert room.execution(room.run_id).execute() == "done"  # type: ignore[attr-defined]


def test_where_a_file_system_keeps_no_owner_nobody_is_refused(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head, "keeps_files", lambda _: False)
    room.journal.set_read_only(True, "ann", NOW)
    assert room.journal.read_only()


def test_the_folder_may_be_anybodys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the root of a volume is: the file in it is ours."""
    state = tmp_path / "state"
    stat = Path.stat
    monkeypatch.setattr(
        Path, "stat",
        lambda path, **given: os.stat_result((*stat(path, **given)[:4], OWNER, *stat(path)[5:]))
        if path == state else stat(path, **given),
    )  # fmt: skip
    room = Room(state)
    run_id = room.queue(room.plan())
    assert room.journal.head(run_id).open
    room.journal.close()


def test_sweeps_tell_the_journal_of_another_what_they_did(room: Room) -> None:
    """They run as root or the brokers' user, and are stopped by this journal's switch."""
    told = RemovalOn(
        cluster_id="c", broker_id=1, who="root", typed=None, from_where="h", log_dirs=("/a",),
    )  # fmt: skip
    room.journal.tell_of_orphans(told, NOW)
    assert room.journal.entries()[-1].kind == RemovalOn.kind


def test_an_unforeseen_error_is_written_elsewhere(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(room.journal.file.path.parent))
    monkeypatch.setattr(command_line, "gettempdir", lambda: str(tmp_path / "tmp"))
    written = command_line._write_traceback(ValueError("x"))
    assert written is not None
    assert written.parent == tmp_path / "tmp"
    assert not (tmp_path / "state" / "logs").exists()


def test_a_uid_without_a_name_is_called_as_sudo_takes_it() -> None:
    assert head._name(2**31 - 7) == f"#{2**31 - 7}"
