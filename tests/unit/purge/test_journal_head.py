"""A journal that was rolled back is named, whatever moment its writers were killed at."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.core.errors import JournalError, UsageError
from dashboard.purge.journal.archive import accept, archive
from dashboard.purge.journal.head import NOTHING, Head, HeadFile
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.requests import Asked
from tests.unit.purge.facts_of import NOW
from tests.unit.purge.room import Room
from tests.unit.purge.test_journal import OPTIONS, free_plan, insert

CODE = "JOURNAL_ROLLED_BACK"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "journal.sqlite"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    made = Journal(path)
    yield made
    made.close()


def tell(journal: Journal, times: int = 1) -> None:
    for n in range(times):
        journal.set_read_only(n % 2 == 1, "ann", NOW)


def backup(path: Path, to: Path) -> Path:
    source, copy = sqlite3.connect(path), sqlite3.connect(to)
    source.backup(copy)
    source.close()
    copy.close()
    return to


def restore(backed_up: Path, path: Path) -> None:
    """As an administrator does: the file alone, and what SQLite keeps beside it away."""
    shutil.copy(backed_up, path)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def refused(journal: Journal) -> JournalError:
    with pytest.raises(JournalError) as error:
        journal.set_read_only(False, "eve", NOW)
    assert error.value.code == CODE
    return error.value


def kept(path: Path) -> Head:
    return HeadFile(path).read()


def killed(work: Callable[[], object]) -> None:
    """Do it in a process that ends by SIGKILL at the latest when it is done."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_the_head_beside_the_file_follows_each_link(journal: Journal, path: Path) -> None:
    assert kept(path) == NOTHING
    for seq in (1, 2, 3):
        tell(journal)
        assert kept(path) == journal.file.head()
        assert kept(path).seq == seq


def test_a_restored_backup_is_named_and_nothing_is_written_to_it(
    path: Path, tmp_path: Path
) -> None:
    first = Journal(path)
    run_id, _ = insert(first, free_plan())
    old = backup(path, tmp_path / "backup.sqlite")
    first.set_wish(run_id, "cancel", "ann", NOW)
    first.close()
    restore(old, path)
    journal = Journal(path)
    assert journal.wish(run_id) is None, "it forgot the cancel"
    error = refused(journal)
    assert "ends with entry 1, but entry 2 was written" in error.message
    assert "lowwater runs --accept-restored 1" in error.next_step
    assert journal.verify().problems == (error.message,)
    for write in (
        lambda: journal.beat(run_id, NOW),  # without a heartbeat no worker works
        lambda: journal.claim(journal.head(run_id), NOW),
        lambda: journal.set_wish(run_id, None, "eve", NOW),
        lambda: insert(journal, free_plan(created_by="bob"), "another"),
    ):
        with pytest.raises(JournalError, match="rolled back"):
            write()
    assert len(journal.entries()) == 1
    journal.close()


def test_a_file_that_is_restored_under_an_open_journal_is_named(
    journal: Journal, path: Path, tmp_path: Path
) -> None:
    tell(journal, 2)
    old = backup(path, tmp_path / "backup.sqlite")
    tell(journal, 2)
    backup(old, path)  # into the same file, as sqlite3's .restore does
    refused(journal)


def test_a_chain_that_went_on_without_its_head_is_named_too(
    journal: Journal, path: Path, tmp_path: Path
) -> None:
    tell(journal, 2)
    old = backup(path, tmp_path / "backup.sqlite")
    tell(journal, 1)
    restored = Journal(old)
    restored.file.rows("DELETE FROM switches WHERE name='head_kept'")
    for _ in range(3):  # by a version that knows no head, elsewhere
        restored.set_read_only(True, "eve", NOW + timedelta(seconds=1))
    restored.close()
    backup(old, path)
    assert "has another entry 3" in refused(journal).message
    assert "has another entry 3" in journal.verify().problems[0]


def test_a_journal_that_is_gone_is_no_new_one(path: Path) -> None:
    first = Journal(path)
    tell(first, 3)
    first.close()
    path.unlink()
    journal = Journal(path)
    assert "ends with entry 0, but entry 3" in refused(journal).message
    journal.close()


def test_a_journal_of_an_earlier_version_gets_its_head_with_the_next_write(
    journal: Journal, path: Path
) -> None:
    tell(journal, 2)
    HeadFile(path).path.unlink()
    journal.file.rows("DELETE FROM switches WHERE name='head_kept'")
    assert journal.verify().ok
    run = insert(journal, free_plan())[0]
    journal.beat(run, NOW)
    assert kept(path) == journal.file.head()


@pytest.mark.parametrize("how", ["moved-alone", "head-removed", "head-emptied"])
def test_a_journal_without_the_head_that_was_kept_is_named(
    path: Path, tmp_path: Path, how: str
) -> None:
    """A cancel may be missing in it, and nothing beside it tells."""
    first = Journal(path)
    tell(first, 2)
    old = backup(path, tmp_path / "backup.sqlite")
    tell(first)
    first.close()
    if how == "moved-alone":
        path = tmp_path / "another-host" / "journal.sqlite"
        path.parent.mkdir()
    elif how == "head-removed":
        HeadFile(path).path.unlink()
    else:
        HeadFile(path).path.write_bytes(b"")
    restore(old, path)
    journal = Journal(path)
    assert len(journal.entries()) == 2, "it can be read"
    error = refused(journal)
    assert "has lost journal.head" in error.message
    assert "lowwater runs --accept-restored 2" in error.next_step
    assert journal.verify().problems == (error.message,)
    accept(journal, 2, who="ann", from_where="here", now=NOW)
    tell(journal)
    assert journal.verify().ok
    journal.close()


def test_the_mark_of_a_head_waits_for_a_head_that_is_kept(journal: Journal, path: Path) -> None:
    """Killed before the first head is written, a new journal is not taken for a restored one."""
    tell(journal)
    HeadFile(path).path.unlink()
    assert journal.verify().ok
    tell(journal, 2)
    HeadFile(path).path.unlink()
    refused(journal)


def test_an_archive_alone_is_no_journal_that_was_rolled_back(path: Path, tmp_path: Path) -> None:
    journal = Journal(path)
    day = timedelta(days=1)
    for n in range(4):
        run_id, _ = insert(journal, free_plan(created_by=f"ann-{n}"), str(n))
        journal.set_run(run_id, "running", NOW)
        journal.set_run(run_id, "refused", NOW)
        moment = NOW + 2 * day * (n + 1)
        archive(
            journal, tmp_path / "a", before=moment - day, who="ann", from_where="here", now=moment
        )
        HeadFile(tmp_path / "a" / path.name).path.unlink(missing_ok=True)
    alone = Journal(tmp_path / "a" / path.name)
    assert len(alone.runs()) == 4
    assert alone.file.rolled_back() is None
    alone.close()
    journal.close()


def test_an_archived_link_is_no_lost_one(path: Path, tmp_path: Path) -> None:
    journal = Journal(path)
    run_id, _ = insert(journal, free_plan())
    journal.set_run(run_id, "running", NOW)
    journal.set_run(run_id, "refused", NOW)
    behind = kept(path)
    tell(journal)
    day = timedelta(days=1)
    archive(
        journal, tmp_path / "a", before=NOW + day, who="ann", from_where="here", now=NOW + 2 * day
    )
    assert journal.first_entry() > behind.seq
    HeadFile(path).replace(behind)  # a process that died right after its commit, before the others
    assert journal.verify().ok
    tell(journal)
    assert kept(path) == journal.file.head()
    journal.close()


@pytest.mark.parametrize("moment", ["before-the-head", "half-a-head", "made-and-empty"])
def test_killed_between_commit_and_head_the_journal_goes_on(
    path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work() -> None:
        journal = Journal(path)
        if moment != "made-and-empty":
            tell(journal, 3)
        if moment == "before-the-head":
            monkeypatch.setattr(HeadFile, "advance", die)
        else:
            write = os.pwrite

            def torn(file: int, data: bytes, offset: int) -> int:
                if moment == "half-a-head":
                    write(file, data[: len(data) // 3], offset)
                die()
                return 0

            monkeypatch.setattr(os, "pwrite", torn)
        tell(journal)

    killed(work)
    journal = Journal(path)
    written = 1 if moment == "made-and-empty" else 4
    assert journal.newest_entry() == written, "it was committed"
    assert kept(path).seq == written - 1
    assert journal.verify().ok
    tell(journal)
    assert kept(path) == journal.file.head() == Head(written + 1, journal.entries()[-1].hash)
    journal.close()


@pytest.mark.further
def test_of_processes_that_are_killed_while_they_append_none_bricks_it(path: Path) -> None:
    Journal(path).close()

    def append_for_ever() -> None:
        journal = Journal(path)
        while True:
            tell(journal)

    seen = 0
    for round_ in range(6):
        children = []
        for _ in range(3):
            if (child := os.fork()) == 0:
                try:
                    append_for_ever()
                finally:
                    os._exit(1)
            children.append(child)
        time.sleep(0.15 + 0.02 * round_)
        for child in children:
            os.kill(child, signal.SIGKILL)
        for child in children:
            os.waitpid(child, 0)
        journal = Journal(path)
        assert 0 <= journal.newest_entry() - kept(path).seq <= 3
        tell(journal)
        assert kept(path) == journal.file.head()
        assert journal.verify().ok
        assert journal.newest_entry() > seen
        seen = journal.newest_entry()
        journal.close()


def test_an_older_head_never_takes_the_place_of_a_newer_one(path: Path) -> None:
    path.parent.mkdir()
    path.touch()
    head = HeadFile(path)
    head.advance(Head(5, "e" * 64))
    head.advance(Head(4, "d" * 64))
    assert head.read() == Head(5, "e" * 64)


def test_a_full_disk_beside_the_journal_costs_only_the_lead(
    journal: Journal, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(journal, 2)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as fault:
        fault.setattr(os, "pwrite", full)
        tell(journal)  # committed: it must not be called failed
    assert (journal.newest_entry(), kept(path).seq) == (3, 2)
    tell(journal)
    assert kept(path).seq == 4


def test_a_head_that_something_else_changed_is_named(journal: Journal, path: Path) -> None:
    tell(journal, 2)
    HeadFile(path).path.write_text("9 nine\n" * 40)
    assert "cannot be read" in refused(journal).message
    assert "cannot be read" in journal.verify().problems[0]
    accept(journal, 2, who="ann", from_where="here", now=NOW)
    tell(journal)
    assert journal.verify().ok


# -- one file is put back, and SQLite's own files beside it are left there

CLUSTER, SHA = "cluster-1", "d" * 64


def beats(journal: Journal, times: int = 1) -> None:
    """Writes that are no links: each goes into the `-wal` all the same."""
    for n in range(times):
        journal.take_lease(
            CLUSTER, "service", host="h", pid=1, ttl=timedelta(seconds=30),
            most_silence=timedelta(days=1), now=NOW + timedelta(seconds=n),
        )  # fmt: skip


def says(journal: Journal, times: int) -> None:
    """Links that change no row, as declarations do."""
    for n in range(times):
        reader = {"glob": f"t{n}", "declared_by": "ann", "reason": "r"}
        journal.declare([reader], cluster_id=CLUSTER, from_where="h", now=NOW)


def checkpoint(path: Path) -> None:
    """As SQLite does every 1,000 pages: what is written next begins the `-wal` anew."""
    db = sqlite3.connect(path)
    (busy, pages, moved) = db.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
    db.close()
    assert (busy, pages) == (0, moved)


def switch(journal: Journal, *, enabled: bool) -> None:
    journal.switch_policy(
        CLUSTER, "trim", SHA, enabled=enabled, who="ann", typed="", from_where="h", now=NOW
    )


def stopped_after_a_backup(room: Room, to: Path, links: int, how: str) -> str:
    """A run is queued and a policy on; backed up; then one of them is stopped."""
    journal, path = room.journal, room.journal.file.path
    run_id = room.queue(room.plan())
    switch(journal, enabled=True)
    backup(path, to)
    says(journal, links)
    if how == "cancel":
        journal.set_wish(run_id, "cancel", "ann", NOW)
    elif how == "policy-off":
        switch(journal, enabled=False)
    elif how == "read-only":
        journal.set_read_only(True, "ann", NOW)
    else:
        journal.set_run(run_id, "running", NOW)
        journal.set_run(run_id, "cancelled", NOW)
    checkpoint(path)
    beats(journal)
    says(journal, 1)
    return run_id


# With so many links since the backup, the newest one is on a page that the older file leads to.
MIXED = [(0, "JOURNAL_BROKEN"), (1, "JOURNAL_BROKEN"), (5, "JOURNAL_BROKEN"), (10, CODE)]


@pytest.mark.further_but(
    "cancel-0-JOURNAL_BROKEN",
    "cancel-5-JOURNAL_BROKEN",
    "policy-off-1-JOURNAL_BROKEN",
    "read-only-0-JOURNAL_BROKEN",
    "read-only-5-JOURNAL_BROKEN",
    "over-1-JOURNAL_BROKEN",
)
@pytest.mark.parametrize(("links", "code"), MIXED)
@pytest.mark.parametrize("how", ["cancel", "policy-off", "read-only", "over"])
def test_killed_and_put_back_beside_its_wal_it_is_named_and_nothing_is_sent(
    tmp_path: Path, how: str, links: int, code: str
) -> None:
    """A cancel, `policies off` or a stop is missing, and the newest link is there."""
    room = Room(tmp_path / "state")
    run_id = stopped_after_a_backup(room, tmp_path / "backup.sqlite", links, how)
    crashed = tmp_path / "crashed"
    shutil.copytree(tmp_path / "state", crashed)  # what a power failure leaves
    room.journal.close()
    path = crashed / "journal.sqlite"
    shutil.copy(tmp_path / "backup.sqlite", path)  # -wal and -shm are left there
    room.journal = Journal(path)
    for write in (
        lambda: room.journal.beat(run_id, NOW),
        lambda: room.execution(run_id).execute(),
    ):
        with pytest.raises(JournalError) as error:
            write()
        assert error.value.code == code
        assert "journal.sqlite-wal and journal.sqlite-shm removed" in error.value.next_step
    assert room.live.sent == []
    room.journal.close()  # SQLite mixes both files for good
    assert not path.with_name("journal.sqlite-wal").exists()
    room.journal = Journal(path)
    with pytest.raises(JournalError) as error:
        switch(room.journal, enabled=True)
    assert error.value.code == code
    room.journal.close()
    restore(tmp_path / "backup.sqlite", path)  # as it says
    room.journal = Journal(path)
    refused(room.journal)
    accept(room.journal, 2, who="ann", from_where="here", now=NOW)
    assert room.journal.verify().ok
    assert room.execution(run_id).execute() == "cancelled"
    room.journal.close()


@pytest.mark.further_but(
    "cancel-0-JOURNAL_BROKEN",
    "cancel-5-JOURNAL_BROKEN",
    "policy-off-1-JOURNAL_BROKEN",
    "read-only-0-JOURNAL_BROKEN",
    "read-only-5-JOURNAL_BROKEN",
    "over-1-JOURNAL_BROKEN",
)
@pytest.mark.parametrize(("links", "code"), MIXED)
@pytest.mark.parametrize("how", ["cancel", "policy-off", "read-only", "over"])
def test_put_back_under_a_page_server_that_has_it_open_it_is_named(
    tmp_path: Path, how: str, links: int, code: str
) -> None:
    page = Journal(tmp_path / "state" / "journal.sqlite")
    room = Room(tmp_path / "state")
    run_id = stopped_after_a_backup(room, tmp_path / "backup.sqlite", links, how)
    room.journal.close()  # the page server keeps -wal and -shm there
    path = page.file.path
    shutil.copy(tmp_path / "backup.sqlite", path)
    later = Journal(path)
    for journal in (later, page):
        with pytest.raises(JournalError) as error:
            journal.beat(run_id, NOW)
        assert error.value.code == code
    later.close()
    page.close()


def test_put_back_under_a_service_that_goes_on_writing_it_is_named(
    path: Path, journal: Journal, tmp_path: Path
) -> None:
    """It read every link itself, and reads only what is new of it."""
    switch(journal, enabled=True)
    old = backup(path, tmp_path / "backup.sqlite")
    switch(journal, enabled=False)
    checkpoint(path)
    says(journal, 1)
    shutil.copy(old, path)
    other = Journal(path)  # the one that wrote has the newest rows in SQLite's cache
    with pytest.raises(JournalError, match="policy trim of cluster cluster-1 is not switched"):
        beats(other)
    other.close()


def test_a_run_that_is_there_without_its_topics_is_named_by_the_first_write(tmp_path: Path) -> None:
    """Queued since the backup: heartbeats brought its row and its links into the `-wal` again, not
    its topics, partitions and index entries. The same plan could be queued a second time.
    """
    room = Room(tmp_path / "state")
    journal, path = room.journal, room.journal.file.path
    switch(journal, enabled=True)
    old = backup(path, tmp_path / "backup.sqlite")
    plan = room.plan()
    run_id = room.queue(plan)
    checkpoint(path)
    journal.set_run(run_id, "running", NOW)
    crashed = tmp_path / "crashed"
    shutil.copytree(tmp_path / "state", crashed)
    journal.close()
    shutil.copy(old, crashed / path.name)
    room.journal = Journal(crashed / path.name)
    assert [run.state for run in room.journal.runs()] == ["running"]
    assert room.journal.busy_topics(CLUSTER) == {}
    with pytest.raises(JournalError, match=f"run {run_id} is not in the state") as error:
        room.queue(plan)
    assert error.value.code == "JOURNAL_BROKEN"
    assert any("missing from index" in problem for problem in room.journal.verify().problems)
    room.journal.close()


@pytest.mark.parametrize("lost", ["run_topics", "run_partitions"])
def test_a_run_and_its_topics_that_do_not_match_are_named(tmp_path: Path, lost: str) -> None:
    room = Room(tmp_path)
    run_id = room.queue(room.plan())
    room.journal.file.rows(f"DELETE FROM {lost}")
    with pytest.raises(JournalError, match=f"run {run_id} and its topics do not match"):
        room.journal.beat(run_id, NOW)
    assert f"run {run_id} and its topics do not match" in room.journal.verify().problems
    room.journal.close()


def test_a_topic_that_a_run_holds_which_is_over_is_named(tmp_path: Path) -> None:
    room = Room(tmp_path)
    run_id = room.carry_out().run.run_id
    room.journal.file.rows("UPDATE run_topics SET open=1")
    with pytest.raises(JournalError, match=f"run {run_id} and its topics do not match"):
        room.queue(room.plan("offset:70"))
    room.journal.close()


@pytest.mark.parametrize("what", ["request", "hold", "taken-out"])
def test_a_decision_or_a_hold_that_a_row_has_forgotten_is_named(
    journal: Journal, what: str
) -> None:
    switch(journal, enabled=True)
    beats(journal)
    if what == "request":
        asked = Asked(
            "click", "wait-all", "bob", "local", (), "h", "t", OPTIONS, {}, NOW + timedelta(days=1)
        )
        request = journal.ask(free_plan(), asked, NOW)
        journal.reject(request.request_id, "ann", "h", NOW)
        forget = "UPDATE purge_requests SET state='asked', decided_by=NULL"
    elif what == "hold":
        journal.take_lease(
            CLUSTER, "another", host="h", pid=2, ttl=timedelta(seconds=30),
            most_silence=timedelta(days=1), now=NOW + timedelta(days=3),
        )  # fmt: skip
        forget = "DELETE FROM policy_holds"
    else:
        assert journal.hold_taken_out(CLUSTER, (), NOW) == ["trim"]
        forget = "DELETE FROM policy_taken_out"
    says(journal, 1)
    journal.file.rows(forget)
    with pytest.raises(JournalError, match="not as its chain tells"):
        says(journal, 1)


def test_links_in_the_middle_that_are_gone_are_named(journal: Journal) -> None:
    says(journal, 5)
    journal.file.rows("DELETE FROM entries WHERE seq=3")
    other = Journal(journal.file.path)
    with pytest.raises(JournalError, match="entries are missing before entry 5"):
        says(other, 1)
    other.close()


def test_a_damaged_file_is_to_be_restored_without_what_lies_beside_it(path: Path) -> None:
    first = Journal(path)
    says(first, 40)
    first.close()
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))
    with pytest.raises(JournalError, match="malformed") as error:
        Journal(path)
    assert error.value.code == "JOURNAL_FAILED"
    assert "journal.sqlite-wal and journal.sqlite-shm removed" in error.value.next_step
    assert "Free disk space" not in error.value.next_step


@pytest.fixture
def restored(tmp_path: Path) -> Iterator[Room]:
    """A run that was begun and then cancelled, in a journal that was restored since."""
    room = Room(tmp_path / "state")
    room.run_id = room.queue(room.plan())  # type: ignore[attr-defined]
    old = backup(room.journal.file.path, tmp_path / "backup.sqlite")
    room.journal.set_wish(room.run_id, "cancel", "ann", NOW)  # type: ignore[attr-defined]
    room.journal.close()
    restore(old, room.journal.file.path)
    room.journal = Journal(room.journal.file.path)
    yield room
    room.journal.close()


def test_whoever_accepts_it_is_chained_and_nothing_of_it_is_sent(restored: Room) -> None:
    journal, run_id = restored.journal, restored.run_id  # type: ignore[attr-defined]
    lost = journal.file.rolled_back()
    assert lost is not None
    assert accept(journal, 1, who="ann", from_where="here", now=NOW) == [run_id]
    link = next(e for e in journal.entries() if e.kind == "restored")
    assert link.body == {"who": "ann", "from_where": "here", "through_seq": 1, "lost": lost.message}
    assert journal.verify().ok
    assert journal.read_only(), "a stop since the backup is forgotten"
    journal.set_read_only(False, "ann", NOW)
    assert restored.execution(run_id).execute() == "cancelled"
    assert restored.live.sent == []


@pytest.mark.parametrize("newest", [0, 2])
def test_another_entry_is_not_accepted(restored: Room, newest: int) -> None:
    with pytest.raises(UsageError) as error:
        accept(restored.journal, newest, who="ann", from_where="here", now=NOW)
    assert error.value.code == "JOURNAL_NOT_ROLLED_BACK"
    refused(restored.journal)


def test_a_journal_that_was_not_rolled_back_is_not_accepted(journal: Journal) -> None:
    tell(journal, 2)
    with pytest.raises(UsageError) as error:
        accept(journal, 2, who="ann", from_where="here", now=NOW)
    assert error.value.code == "JOURNAL_NOT_ROLLED_BACK"
    assert journal.newest_entry() == 2


def test_a_broken_journal_is_not_accepted(restored: Room) -> None:
    restored.journal.file.rows("UPDATE runs SET who='eve'")
    with pytest.raises(JournalError) as error:
        accept(restored.journal, 1, who="ann", from_where="here", now=NOW)
    assert error.value.code == "JOURNAL_BROKEN"


@pytest.mark.parametrize("step", ["unlink", "pwrite", "replace"])
def test_killed_while_it_is_accepted_it_is_accepted_again(
    restored: Room, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = restored.journal.file.path

    def work() -> None:
        where: object = os if step == "pwrite" else Path
        monkeypatch.setattr(where, step, die)
        accept(Journal(path), 1, who="ann", from_where="here", now=NOW)

    killed(work)
    again = Journal(path)
    newest = again.newest_entry()
    assert newest > 1, "its links were committed"
    if again.file.rolled_back():  # one that was rolled back further than these links reach
        accept(again, newest, who="ann", from_where="here", now=NOW)
    tell(again)
    assert again.verify().ok
    assert kept(path) == again.file.head()
    again.close()
