"""The journal keeps what happened, shows what was changed in it, and lets one run in."""

from __future__ import annotations

import secrets
import sqlite3
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard.core.clock import format_time
from dashboard.core.errors import JournalError, RefusedError, UsageError
from dashboard.purge.journal import reads
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.rows import Follower, Options
from dashboard.purge.plan.guards import Override, Waiver
from dashboard.purge.plan.plan import Plan
from dashboard.purge.plan.resolve import ResolvedTarget
from dashboard.purge.receipt.model import Receipt
from tests.unit.purge.facts_of import KEY, NOW, TOPIC, declared, facts
from tests.unit.purge.test_plan import free_plan, plan_of

OPTIONS = Options(30_000, 500, 2, 3_600_000)


def insert(journal: Journal, plan: Plan, token: str = "click", **change: Any) -> tuple[str, bool]:
    given: dict[str, Any] = {
        "mode": "wait-all", "who": "ann", "from_where": "host", "typed": plan.confirmation,
        "options": OPTIONS, "connection": {"data": "/d", "client_config": None}, "now": NOW,
        **change,
    }  # fmt: skip
    return journal.insert(plan, token=token, **given)


def test_a_run_is_kept_with_all_that_was_confirmed(journal: Journal) -> None:
    plan = free_plan()
    run_id, is_new = insert(journal, plan)
    run = journal.run(run_id).run
    assert is_new
    assert (run.state, run.who, run.from_where, run.typed) == (
        "queued", "ann", "host", plan.confirmation,
    )  # fmt: skip
    assert run.options == OPTIONS
    assert journal.plan(run_id) == plan
    assert [r.target_offset for r in journal.partitions(run_id)] == [40]
    assert [e.kind for e in journal.entries(run_id)] == ["queued"]


def test_the_chain_tells_who_waived_lifted_and_declared_what_and_why(journal: Journal) -> None:
    found = facts(claims={0: {"a": 40, "b": 5, "dead": 1}})
    plan = plan_of(
        found, {KEY: ResolvedTarget(40)}, waivers=[Waiver("dead", "gone since May", "ann", NOW)],
        overrides=[Override("unread-by-group", "b", "old data", "bob", NOW)],
        declarations={TOPIC: replace(declared(), reason="asked every team")},
    )  # fmt: skip
    run_id, _ = insert(journal, plan)
    (entry,) = journal.entries(run_id)
    (waiver,), (override,), (told,) = (
        entry.body[name] for name in ("waivers", "overrides", "declarations")
    )
    assert [waiver[k] for k in ("group_id", "by", "reason")] == ["dead", "ann", "gone since May"]
    assert [override[k] for k in ("name", "group_id", "by", "reason")] == [
        "unread-by-group", "b", "bob", "old data",
    ]  # fmt: skip
    assert waiver["at"] == override["at"] == format_time(NOW)
    assert (told["declared_by"], told["reason"]) == ("ann", "asked every team")
    assert journal.verify().ok
    journal.file.rows("UPDATE entries SET body = replace(body, 'old data', 'new data')")
    assert not journal.verify().ok


def test_a_declaration_is_a_link_of_the_chain(journal: Journal) -> None:
    row = {
        "owner": "team", "readers": "groups", "replay_window": "24h", "declared_by": "ann",
        "declared_at": format_time(NOW), "reason": "asked every team",
    }  # fmt: skip
    rows = [{"glob": topic, **row} for topic in ("orders", "payments")]
    journal.declare(rows, cluster_id="c1", from_where="host", now=NOW)
    (entry,) = journal.entries()
    assert (entry.kind, entry.run_id, entry.body["topics"]) == (
        "declared", None, ["orders", "payments"],
    )  # fmt: skip
    told = ("who", "from_where", "cluster_id", "reason", "readers", "replay_window", "owner")
    assert [entry.body[key] for key in told] == [
        "ann", "host", "c1", "asked every team", "groups", "24h", "team",
    ]  # fmt: skip
    assert journal.verify().ok
    journal.file.rows("UPDATE entries SET body = replace(body, 'every', 'no')")
    assert not journal.verify().ok


def test_a_long_chain_is_read_a_few_links_at_a_time(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(5):
        journal.set_read_only(at % 2 == 0, "ann", NOW)
    monkeypatch.setattr(reads, "_AT_ONCE", 2)
    assert list(journal.each_entry()) == journal.entries()
    assert [entry.seq for entry in journal.each_entry(3)] == [4, 5]
    read = journal.each_entry()
    assert next(read).seq == 1
    journal.set_read_only(False, "ann", NOW)
    assert [entry.seq for entry in read] == [2, 3, 4, 5, 6]


def test_the_same_click_is_the_same_run(journal: Journal) -> None:
    first = insert(journal, free_plan())
    assert insert(journal, free_plan()) == (first[0], False)


def test_a_plan_runs_once_even_after_its_run_closed(journal: Journal) -> None:
    run_id, _ = insert(journal, free_plan())
    journal.set_run(run_id, "done", NOW)
    with pytest.raises(RefusedError, match=run_id) as refused:
        insert(journal, free_plan(), "another click")
    assert refused.value.code == "PLAN_ALREADY_APPLIED"


def test_a_topic_has_one_open_run_and_is_free_again_when_it_closed(journal: Journal) -> None:
    run_id, _ = insert(journal, free_plan())
    other = free_plan(created_by="bob")
    with pytest.raises(RefusedError, match=run_id) as refused:
        insert(journal, other, "bob's click")
    assert refused.value.code == "TOPIC_BUSY"
    assert len(journal.runs()) == 1
    journal.set_run(run_id, "partial", NOW)
    assert insert(journal, other, "bob's click")[1]


def test_of_many_racers_one_gets_in(journal: Journal) -> None:
    outcomes: list[str] = []
    together = threading.Barrier(5)

    def race(number: int) -> None:
        own = Journal(journal.file.path)
        together.wait()
        try:
            insert(own, free_plan(created_by=f"racer {number}"), f"click {number}")
            outcomes.append("in")
        except RefusedError as error:
            outcomes.append(error.code)
        own.close()

    racers = [threading.Thread(target=race, args=(n,)) for n in range(5)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert sorted(outcomes) == ["TOPIC_BUSY"] * 4 + ["in"]
    assert journal.verify().ok


def test_partitions_survive_the_way_into_the_journal_and_back(journal: Journal) -> None:
    run_id, _ = insert(journal, free_plan())
    row = replace(
        journal.partitions(run_id)[0],
        state="leader_done", attempts=2, sent_leader_id=1, sent_leader_epoch=0, sent_at=NOW,
        answer_error_code=7, low_watermark=0, leader_log_start_offset=40, error="E",
        message="ü", followers=(Follower(2, None, True, False, "silent"),),
    )  # fmt: skip
    journal.record(run_id, "read", [row], NOW)
    assert journal.partitions(run_id) == (row,)


def _tamper(journal: Journal, sql: str) -> None:
    db = sqlite3.connect(journal.file.path)
    with db:
        db.execute(sql)
    db.close()


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE entries SET body=replace(body, 'ann', 'eve') WHERE seq=1",
        "UPDATE entries SET at='2020-01-01T00:00:00.000Z' WHERE seq=2",
        "DELETE FROM entries WHERE seq=2",
        "DELETE FROM entries WHERE seq=(SELECT max(seq) FROM entries)",
        "UPDATE runs SET state='refused'",
        "UPDATE runs SET plan_sha256='0'",
    ],
)
def test_a_change_behind_its_back_is_found(journal: Journal, sql: str) -> None:
    run_id, _ = insert(journal, free_plan())
    journal.set_run(run_id, "running", NOW)
    journal.set_run(run_id, "done", NOW)
    assert journal.verify().ok
    assert journal.verify().entries == 3
    _tamper(journal, sql)
    assert not journal.verify().ok


def test_a_plan_that_is_another_one_than_was_queued_is_refused(journal: Journal) -> None:
    run_id, _ = insert(journal, free_plan())
    other = free_plan(created_by="eve").to_json_text()  # whole, with its own right hash
    journal.file.rows("UPDATE runs SET plan=?", other)
    with pytest.raises(JournalError) as refused:
        journal.plan(run_id)
    assert refused.value.code == "JOURNAL_BROKEN"


def test_an_unknown_run_is_named(journal: Journal) -> None:
    with pytest.raises(UsageError, match="no run x1") as refused:
        journal.run("x1")
    assert refused.value.code == "RUN_NOT_FOUND"


def test_a_journal_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the folder should be")
    with pytest.raises(JournalError):
        Journal(tmp_path / "state" / "journal.sqlite")


def test_a_file_that_is_no_journal_says_so(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(JournalError, match="journal"):
        Journal(path)


def test_tables_whose_definition_is_no_text_are_named(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    Journal(path).close()
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"CREATE TABLE runs", b"CREATE TABL\xff runs"))
    assert path.read_bytes() != whole
    with pytest.raises(JournalError, match="cannot be written or read") as error:
        Journal(path)
    assert "start a new state_dir" in error.value.next_step


def test_a_full_disk_leaves_the_state_as_it_was(journal: Journal) -> None:
    run_id, _ = insert(journal, free_plan())
    pages = journal.file.rows("PRAGMA page_count")[0][0]
    journal.file.rows(f"PRAGMA max_page_count={pages}")
    row = replace(journal.partitions(run_id)[0], state="sent", message=secrets.token_hex(100_000))
    with pytest.raises(JournalError, match="full"):
        journal.record(run_id, "intent", [row], NOW)
    assert journal.partitions(run_id)[0].state == "pending"
    assert journal.verify().ok


def test_a_run_without_a_sign_of_life_is_stale(journal: Journal) -> None:
    run_id, _ = insert(journal, free_plan())
    patience = timedelta(seconds=15)
    assert journal.stale(patience, NOW + timedelta(seconds=14)) == []
    late = NOW + timedelta(seconds=20)
    assert [r.run_id for r in journal.stale(patience, late)] == [run_id]
    journal.beat(run_id, late)
    assert journal.stale(patience, late) == []


def test_a_sign_of_life_from_the_future_is_none(journal: Journal) -> None:
    """The clock was set back: a worker that died then would have counted as alive for hours."""
    run_id, _ = insert(journal, free_plan())
    journal.beat(run_id, NOW + timedelta(hours=3))
    assert [r.run_id for r in journal.stale(timedelta(seconds=15), NOW)] == [run_id]


def test_the_newest_entry_tells_that_the_chain_has_grown(journal: Journal) -> None:
    assert journal.newest_entry() == 0
    run_id, _ = insert(journal, free_plan())
    queued = journal.newest_entry()
    assert queued == journal.entries()[-1].seq
    journal.beat(run_id, NOW)
    journal.write_receipt(run_id, Receipt(), NOW)
    assert journal.newest_entry() == queued
    journal.write_receipt(run_id, Receipt(final=True), NOW)
    assert journal.newest_entry() == queued + 1


def test_of_many_who_find_a_silent_worker_one_replaces_it(journal: Journal) -> None:
    insert(journal, free_plan())
    patience, late = timedelta(seconds=15), NOW + timedelta(seconds=20)
    found = [journal.stale(patience, late)[0] for _ in range(3)]
    assert [journal.claim(run, late) for run in found] == [True, False, False]
    assert journal.stale(patience, late) == []


def test_a_closed_run_is_watched_until_its_receipt_is_final(journal: Journal) -> None:
    run_id, _ = insert(journal, free_plan())
    journal.set_run(run_id, "done", NOW, watched_until=NOW + timedelta(hours=1))
    patience, late = timedelta(seconds=15), NOW + timedelta(minutes=5)
    assert len(journal.stale(patience, late)) == 1
    assert journal.stale(patience, NOW + timedelta(hours=2)) == []
    journal.write_receipt(run_id, Receipt(final=True), late)
    assert journal.stale(patience, late) == []


def test_the_read_only_switch_is_kept_with_who_set_it(journal: Journal) -> None:
    assert not journal.read_only()
    journal.set_read_only(True, "eve", NOW)
    assert journal.read_only()
    journal.set_read_only(False, "ann", NOW)
    assert not journal.read_only()
    assert [e.body["who"] for e in journal.entries()] == ["eve", "ann"]


def test_a_run_as_json_has_the_contracts_keys(journal: Journal) -> None:
    run_id, _ = insert(journal, free_plan())
    body = journal.run(run_id).to_json()
    assert {"run_id", "state", "mode", "partitions", "receipt"} <= body.keys()
    assert "error" not in body
    assert {
        "topic", "partition", "target_offset", "state", "low_watermark",
        "leader_log_start_offset", "error", "followers_behind",
    } <= body["partitions"][0].keys()  # fmt: skip


def test_a_click_that_asks_for_another_mode_gets_no_run_of_the_first_one(journal: Journal) -> None:
    """Its worker could not be started, and the button was still there."""
    plan = free_plan()
    run_id, _ = insert(journal, plan)
    assert insert(journal, plan) == (run_id, False)
    for change in ({"mode": "leader-only"}, {"options": replace(OPTIONS, canary=True)}):
        with pytest.raises(RefusedError) as refused:
            insert(journal, plan, **change)
        assert refused.value.code == "PLAN_ALREADY_APPLIED"
        assert run_id in refused.value.message
