"""What ended long ago moves into an archive: nothing is lost, and both chains verify."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.core.clock import format_time
from dashboard.core.errors import JournalError, LowwaterError, RefusedError, UsageError
from dashboard.purge.journal import archive as journal_archive
from dashboard.purge.journal.archive import Archived, archive
from dashboard.purge.journal.chain import Chain
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.requests import Approval, Asked
from dashboard.purge.journal.rows import Begins, Options
from dashboard.purge.receipt.model import Receipt
from tests.support.examples import examples
from tests.unit.purge.facts_of import NOW
from tests.unit.purge.test_plan import free_plan

DAY = timedelta(days=1)
OPTIONS = Options(30_000, 500, 2, 3_600_000)


def begin(journal: Journal, day: int, cluster: str = "c1", approval: Approval | None = None) -> str:
    """Queue a run on this day; one may be open in each cluster."""
    now = NOW + day * DAY
    plan = replace(free_plan(now=now), cluster_id=cluster)
    run_id, _ = journal.insert(
        plan, token=f"{cluster}{day}", mode="wait-all", who="ann", from_where="host", typed="t",
        options=OPTIONS, connection={}, now=now, approval=approval,
    )  # fmt: skip
    return run_id


def end(journal: Journal, run_id: str, day: int) -> str:
    """Close a run, and watch its replicas for an hour."""
    now = NOW + day * DAY
    journal.set_run(run_id, "done", now, watched_until=now + timedelta(hours=1))
    journal.write_receipt(run_id, Receipt(freed_bytes=day, final=True), now)
    return run_id


def ask(journal: Journal, day: int, cluster: str = "c1") -> str:
    now = NOW + day * DAY
    asked = Asked(
        f"click {cluster}{day}", "wait-all", "bob", "local", (), "host", "t", OPTIONS, {}, now + DAY
    )
    return journal.ask(replace(free_plan(now=now), cluster_id=cluster), asked, now).request_id


def move(journal: Journal, folder: Path, day: int, at_once: int = 3) -> Archived:
    """Archive what was over before this day."""
    return archive(
        journal, folder, before=NOW + day * DAY, who="ann", from_where="host",
        now=NOW + day * DAY, at_once=at_once,
    )  # fmt: skip


def telling(journal: Journal) -> dict[str, object]:
    """All that the journal tells of its runs."""
    return {
        run.run_id: (journal.run(run.run_id).to_json(), journal.plan(run.run_id))
        for run in journal.runs()
    }


def opened(folder: Path) -> Journal:
    return Journal(folder / "journal.sqlite")


def test_what_is_old_moves_and_both_journals_verify(journal: Journal, tmp_path: Path) -> None:
    old = [end(journal, begin(journal, day), day) for day in range(4)]
    young = end(journal, begin(journal, 10), 10)
    before = telling(journal)
    newest = journal.newest_entry()

    assert journal.begins() is None
    moved = move(journal, tmp_path / "archive", 5)
    assert journal.begins() == Begins(13, NOW + 10 * DAY)
    assert (moved.runs, moved.entries, moved.first_entry, moved.held_by) == (4, 12, 13, None)
    kept = opened(tmp_path / "archive")
    assert {r.run_id for r in kept.runs()} == set(old)
    assert [r.run_id for r in journal.runs()] == [young]
    assert {**telling(kept), **telling(journal)} == before
    found = kept.verify(as_archive=True)
    assert (found.problems, journal.verify().problems) == ((), ())
    assert (found.first_entry, found.entries) == (1, 12)
    assert journal.verify().first_entry == 13
    assert {e.kind for e in journal.entries(after=newest)} == {"archived"}
    assert kept.read_only()
    end(journal, begin(journal, 20), 20)  # the chain goes on
    assert journal.verify().ok
    kept.close()


def test_an_archive_grows_and_a_new_folder_begins_where_it_ended(
    journal: Journal, tmp_path: Path
) -> None:
    for day in range(9):
        end(journal, begin(journal, day), day)
    before = telling(journal)
    assert [move(journal, tmp_path / "a", day).runs for day in (3, 6, 6)] == [3, 3, 0]
    assert move(journal, tmp_path / "b", 8).runs == 2
    first, second = opened(tmp_path / "a"), opened(tmp_path / "b")
    assert {**telling(first), **telling(second), **telling(journal)} == before
    assert [j.verify(as_archive=True).problems for j in (first, second)] == [()] * 2
    assert journal.verify().problems == ()
    assert second.verify(as_archive=True).first_entry == first.newest_entry() + 1
    assert [e.hash for e in first.entries()][-1] == second.entries()[0].previous_hash
    first.close()
    second.close()


def test_an_open_run_holds_back_what_is_younger(journal: Journal, tmp_path: Path) -> None:
    first = end(journal, begin(journal, 0), 0)
    slow = begin(journal, 1, "c2")
    end(journal, begin(journal, 2), 2)
    assert move(journal, tmp_path / "a", 50) == Archived(1, 3, 4, slow)
    assert first not in telling(journal)
    end(journal, slow, 3)
    assert move(journal, tmp_path / "a", 51).held_by is None
    assert telling(journal) == {}
    assert journal.verify().ok


def test_a_run_that_is_watched_or_young_stays_whole(journal: Journal, tmp_path: Path) -> None:
    run_id = begin(journal, 0)
    end(journal, run_id, 10)
    assert move(journal, tmp_path / "a", 10) == Archived(0, 0, 1, run_id)
    assert not (tmp_path / "a").exists()
    moment = NOW + 10 * DAY + timedelta(minutes=30)
    held = archive(
        journal, tmp_path / "a", before=moment, who="ann", from_where="host", now=moment
    )  # fmt: skip
    assert held.held_by == run_id


def test_requests_leave_with_their_runs_or_when_they_expired(
    journal: Journal, tmp_path: Path
) -> None:
    ask(journal, 0, "never decided")
    rejected = ask(journal, 1, "rejected")
    journal.reject(rejected, "ann", "host", NOW + 1 * DAY)
    asked = ask(journal, 2)
    approval = Approval(asked, "ann", "local", "t", "host")
    end(journal, begin(journal, 2, approval=approval), 2)
    waiting = ask(journal, 20)
    moved = move(journal, tmp_path / "a", 10)
    assert moved.runs == 1
    assert [r.request_id for r in journal.requests()] == [waiting]
    kept = opened(tmp_path / "a")
    assert len(kept.requests()) == 3
    assert (kept.verify(as_archive=True).problems, journal.verify().problems) == ((), ())
    kept.close()
    assert move(journal, tmp_path / "a", 21).held_by == waiting


def test_the_switch_of_a_policy_is_carried_on(journal: Journal, tmp_path: Path) -> None:
    def switch(name: str, day: int, *, enabled: bool) -> None:
        journal.switch_policy(
            "c1", name, "d" * 64, enabled=enabled, who="ann", typed="t", from_where="host",
            now=NOW + day * DAY,
        )  # fmt: skip

    switch("on", 0, enabled=True)
    switch("off", 1, enabled=True)
    switch("off", 2, enabled=False)
    switch("late", 3, enabled=False)
    switch("late", 30, enabled=True)
    for day in (2, 3, 4, 31):
        move(journal, tmp_path / "a", day, at_once=1)
        assert journal.verify().problems == ()
    assert {n: s.enabled for n, s in journal.policy_states("c1").items()} == {
        "on": True, "off": False, "late": True,
    }  # fmt: skip
    journal.file.rows("UPDATE policy_switches SET enabled=1 WHERE name='off'")
    assert journal.verify().problems == (
        "policy off of cluster c1 is not switched as the chain tells",
    )


def test_the_read_only_switch_is_carried_on(journal: Journal, tmp_path: Path) -> None:
    journal.set_read_only(True, "eve", NOW)
    journal.set_read_only(False, "ann", NOW + 1 * DAY)
    for day in (2, 3):
        end(journal, begin(journal, day), day)
    for day in (1, 3, 9):
        move(journal, tmp_path / "a", day, at_once=1)
        assert journal.verify().problems == ()
    assert not [e for e in journal.entries() if e.kind == "read-only"]
    journal.file.rows("UPDATE switches SET value=1, who='eve'")
    assert journal.verify().problems == ("the read-only switch is not as the chain tells",)
    with pytest.raises(JournalError, match="the read-only switch is not as the chain tells"):
        journal.set_read_only(True, "ann", NOW + 10 * DAY)
    journal.file.rows("UPDATE switches SET value=0, who='ann'")
    journal.set_read_only(True, "ann", NOW + 10 * DAY)
    assert journal.verify().ok


def test_what_an_archive_of_an_earlier_version_does_not_carry_is_not_compared(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Chain, "read_only", None)
    journal.set_read_only(True, "ann", NOW)
    move(journal, tmp_path / "a", 1)
    monkeypatch.undo()
    (archived,) = journal.entries()
    assert "read_only" not in archived.body
    assert journal.verify().ok
    journal.set_read_only(False, "ann", NOW + 2 * DAY)
    journal.file.rows("UPDATE switches SET value=1")
    assert journal.verify().problems == ("the read-only switch is not as the chain tells",)


def test_a_journal_that_was_made_an_archive_of_does_not_verify(
    journal: Journal, tmp_path: Path
) -> None:
    for day in range(3):
        end(journal, begin(journal, day), day)
    newest = journal.entries()[-1].seq
    journal.set_read_only(False, "ann", NOW)
    journal.file.rows("DELETE FROM entries WHERE seq<=?", newest)
    for table in ("runs", "run_partitions", "run_topics"):
        journal.file.rows(f"DELETE FROM {table}")
    missing = f"entry {newest} is missing before entry {newest + 1}"
    assert journal.verify().problems == (missing,)
    journal.file.rows("INSERT INTO switches VALUES ('archive',1,'eve','2026-01-01T00:00:00.000Z')")
    marked = "it is marked as an archive: if it is one, verify it with --as-archive"
    assert journal.verify().problems == (marked, missing)


def test_an_archive_verifies_only_for_who_says_that_it_is_one(
    journal: Journal, tmp_path: Path
) -> None:
    end(journal, begin(journal, 0), 0)
    move(journal, tmp_path / "a", 5)
    kept = opened(tmp_path / "a")
    assert kept.verify(as_archive=True).ok
    assert "marked as an archive" in kept.verify().problems[0]
    assert journal.verify(as_archive=True).problems == ("it is not marked as an archive",)
    kept.close()


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("DELETE FROM entries WHERE seq=(SELECT min(seq) FROM entries)", "is missing before"),
        ("UPDATE entries SET previous_hash='0' WHERE seq=7", "does not follow|was changed"),
        ("DELETE FROM entries WHERE kind='archived'", "is missing"),
        ("DELETE FROM runs", "is missing"),
    ],
)
def test_a_start_that_no_link_tells_is_found(
    journal: Journal, tmp_path: Path, sql: str, told: str
) -> None:
    end(journal, begin(journal, 0), 0)
    end(journal, begin(journal, 1), 1)
    end(journal, begin(journal, 9), 9)
    move(journal, tmp_path / "a", 5)
    assert journal.verify().ok
    journal.file.rows(sql)
    with pytest.raises(AssertionError, match=told):
        raise AssertionError("; ".join(journal.verify().problems) or "verified")


def test_a_changed_journal_moves_nothing(journal: Journal, tmp_path: Path) -> None:
    end(journal, begin(journal, 0), 0)
    journal.file.rows("UPDATE runs SET state='refused'")
    with pytest.raises(JournalError) as refused:
        move(journal, tmp_path / "a", 5)
    assert refused.value.code == "JOURNAL_BROKEN"
    assert not (tmp_path / "a").exists()


@pytest.mark.further_but("other")
@pytest.mark.parametrize("folder", ["state", "other", "elsewhere", "differs"])
def test_only_its_own_archive_takes_it(journal: Journal, tmp_path: Path, folder: str) -> None:
    for name in ("other", "elsewhere"):
        other = opened(tmp_path / name)
        end(other, begin(other, 0, name), 0)
        if name == "elsewhere":
            move(other, tmp_path / "moved", 5)
        other.close()
    if folder == "elsewhere":
        folder = "moved"
    for day in (0, 1):
        end(journal, begin(journal, day), day)
    if folder == "differs":
        move(journal, tmp_path / folder, 1)
        kept = opened(tmp_path / folder)
        kept.file.rows("UPDATE entries SET hash='0' WHERE seq=3")
        kept.close()
    before = telling(journal)
    with pytest.raises(LowwaterError) as refused:
        move(journal, tmp_path / folder, 5)
    wanted = "ARCHIVE_FOLDER_INVALID" if folder == "state" else "ARCHIVE_MISMATCH"
    assert refused.value.code == wanted
    assert telling(journal) == before


@pytest.mark.further_but("between copy and removal")
@pytest.mark.parametrize("moment", ["between two steps", "between copy and removal"])
def test_two_that_archive_into_two_folders_leave_no_gap(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    for day in range(9):
        end(journal, begin(journal, day), day)
    journal.switch_policy(
        "c1", "p", "d" * 64, enabled=True, who="ann", typed="t", from_where="host", now=NOW
    )
    before, copy = telling(journal), journal_archive._copy
    others = [Journal(journal.file.path)]

    def another_moves_one_run() -> None:
        if others:
            other = others.pop()
            assert move(other, tmp_path / "b", day=4).runs == 1
            other.close()

    def copied(*words: Any) -> None:
        copy(*words)
        if words[-1] == 18 and moment == "between copy and removal":
            another_moves_one_run()

    def tell(*_: int) -> None:
        if moment == "between two steps":
            another_moves_one_run()

    monkeypatch.setattr(journal_archive, "_copy", copied)
    with pytest.raises(RefusedError, match="entry 10 was moved meanwhile") as refused:
        archive(
            journal, tmp_path / "a", before=NOW + 50 * DAY, who="ann", from_where="host",
            now=NOW + 50 * DAY, tell=tell, at_once=9,
        )  # fmt: skip
    assert refused.value.code == "ARCHIVE_MISMATCH"
    first, second = opened(tmp_path / "a"), opened(tmp_path / "b")
    assert {**telling(first), **telling(second), **telling(journal)} == before
    assert [j.verify(as_archive=True).problems for j in (first, second)] == [()] * 2
    assert journal.verify().problems == ()
    first.close()
    second.close()


def test_an_archive_is_archived_nowhere(journal: Journal, tmp_path: Path) -> None:
    end(journal, begin(journal, 0), 0)
    move(journal, tmp_path / "a", 5)
    kept = opened(tmp_path / "a")
    with pytest.raises(UsageError):
        move(kept, tmp_path / "b", 5)
    kept.close()


def test_what_differs_in_the_archive_is_not_removed(journal: Journal, tmp_path: Path) -> None:
    end(journal, begin(journal, 0), 0)
    end(journal, begin(journal, 9), 9)
    kept = opened(tmp_path / "a")  # a step that was cut off, and changed since
    now = format_time(NOW)
    kept.file.rows("INSERT INTO switches VALUES ('archive',1,'ann',?)", now)
    run_id = journal.runs()[-1].run_id
    with journal.file.attached(tmp_path / "a" / "journal.sqlite"):
        journal.file.rows("INSERT INTO archive.runs SELECT * FROM runs WHERE run_id=?", run_id)
        journal.file.rows("UPDATE archive.runs SET receipt='{}'")
    kept.close()
    with pytest.raises(RefusedError, match="table runs differs"):
        move(journal, tmp_path / "a", 5)
    assert run_id in telling(journal)


def killed_at(statement: int, state: Path, folder: Path) -> bool:
    """Archive in a process that kills itself before its Nth SQL statement; False: it ended."""
    if child := os.fork():
        status = os.waitpid(child, 0)[1]
        assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0
        return os.WIFSIGNALED(status)
    left = [statement]

    def count(_sql: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        made = opened(state)
        made.file._db.set_trace_callback(count)
        move(made, folder, 50, at_once=4)
        os._exit(0)
    finally:
        os._exit(1)


@pytest.mark.further
@pytest.mark.parametrize("offset", range(4))
def test_killed_before_any_statement_nothing_is_lost(tmp_path: Path, offset: int) -> None:
    state, folder = tmp_path / "state", tmp_path / "a"
    made = opened(state)
    for day in range(4):
        end(made, begin(made, day), day)
    before = telling(made)
    made.close()
    kills = 0
    # What was moved stays moved, so that each kill comes later in what is left.
    while killed_at(offset + 4 * kills, state, folder):
        kills += 1
        journal, kept = opened(state), opened(folder)
        assert {**telling(kept), **telling(journal)} == before
        # Killed before it was marked, it is an empty journal.
        told = kept.verify(as_archive=kept.is_archive()).problems
        assert (journal.verify().problems, told) == ((), ())
        journal.close()
        kept.close()
    journal, kept = opened(state), opened(folder)
    assert (telling(journal), telling(kept)) == ({}, before)
    assert (journal.verify().problems, kept.verify(as_archive=True).problems) == ((), ())
    assert kills > 10
    journal.close()
    kept.close()


STEPS = st.lists(
    st.tuples(st.sampled_from(["begin", "end", "ask", "approve", "policy", "move"]),
              st.sampled_from(["c1", "c2", "c3"]), st.integers(1, 6)),
    max_size=40,
)  # fmt: skip


@examples(30)
@given(steps=STEPS)
def test_whatever_interleaves_nothing_is_lost(
    steps: list[tuple[str, str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("archive")
    journal, told = opened(place / "state"), {}
    running: dict[str, str] = {}
    waiting: dict[str, str] = {}
    for day, (step, cluster, size) in enumerate(steps):
        if step == "begin" and cluster not in running:
            running[cluster] = begin(journal, day, cluster)
        elif step == "end" and cluster in running:
            end(journal, running.pop(cluster), day)
        elif step == "ask":
            waiting[cluster] = ask(journal, day, cluster)
        elif step == "policy":
            journal.switch_policy(
                cluster, "p", str(size), enabled=size > 3, who="ann", typed="t",
                from_where="host", now=NOW + day * DAY,
            )  # fmt: skip
        elif step == "move":
            told |= telling(journal)
            move(journal, place / "a", day - size, at_once=size)
            assert journal.verify().problems == ()
    told |= telling(journal)
    kept = opened(place / "a")
    assert telling(kept).keys().isdisjoint(telling(journal).keys())
    assert {**told, **telling(kept), **telling(journal)} == told
    assert {*telling(kept), *telling(journal)} == told.keys()
    if kept.is_archive():
        assert kept.verify(as_archive=True).problems == ()
    kept.close()
    journal.close()
