"""What was queued and confirmed stands in the chain: a run that was changed since is found."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace

import pytest

from dashboard.domain.model import TopicPartition
from dashboard.purge.journal import tables
from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.links import append
from dashboard.purge.journal.pack import pack_row, unpack
from dashboard.purge.plan.guards import Waiver
from dashboard.purge.plan.resolve import ResolvedTarget
from dashboard.purge.receipt.model import Receipt, Sample
from dashboard.ui.purge.runs import WHOLE_LOOK, JournalMemory
from tests.unit.purge.facts_of import KEY, NOW, TOPIC, facts, partition
from tests.unit.purge.test_journal import insert
from tests.unit.purge.test_plan import free_plan, plan_of


@pytest.fixture
def run_id(journal: Journal) -> str:
    """A run of two partitions that moves one waived group, done."""
    found = facts(partition(), partition(number=1), claims={0: {"a": 40, "dead": 3}, 1: {"a": 40}})
    targets = {KEY: ResolvedTarget(40), TopicPartition(TOPIC, 1): ResolvedTarget(40)}
    waiver = Waiver("dead", "gone", "ann", NOW, move=True)
    made, _ = insert(journal, plan_of(found, targets, waivers=[waiver]))
    journal.set_run(made, "running", NOW)
    journal.set_wish(made, "pause", "ann", NOW)
    rows = [replace(r, state="done", low_watermark=40) for r in journal.partitions(made)]
    journal.record(made, "read", rows, NOW)
    journal.record_moves(made, "moves-read", [replace(m, state="moved") for m in
                                              journal.moves(made)], NOW)  # fmt: skip
    journal.set_run(made, "done", NOW)
    journal.write_baseline(made, Sample(NOW, ()), NOW)
    journal.write_receipt(made, Receipt(final=True), NOW)
    journal.beat(made, NOW)
    assert [len(journal.partitions(made)), len(journal.moves(made))] == [2, 1]
    assert journal.verify().problems == ()
    return made


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("who", "eve"), ("typed", "yes"), ("mode", "leader-only"), ("from_where", "elsewhere"),
        ("options", '{"timeout_ms":1}'), ("connection", '{"data":"/e"}'), ("plan_id", "0" * 16),
        ("cluster_id", "other"), ("cluster_name", "dev"), ("queued_at", "2020-01-01T00:00:00.000Z"),
    ],
)  # fmt: skip
def test_a_column_that_was_changed_is_named(
    journal: Journal, run_id: str, column: str, value: str
) -> None:
    journal.file.rows(f"UPDATE runs SET {column}=?", value)
    assert journal.verify().problems == (f"run {run_id} was queued with another {column}",)


def _rewrite(journal: Journal, change: Callable[[str], str]) -> None:
    stored = journal.file.rows("SELECT body FROM run_partitions WHERE partition=1")[0]["body"]
    body = pack_row(change(unpack(stored)))
    journal.file.rows("UPDATE run_partitions SET body=? WHERE partition=1", body)


def test_a_target_that_was_changed_is_named(journal: Journal, run_id: str) -> None:
    _rewrite(journal, lambda text: text.replace('"target_offset":40', '"target_offset":100'))
    assert journal.partitions(run_id)[1].target_offset == 100
    told = f"{TOPIC}-1 of run {run_id} was queued with another target"
    assert journal.verify().problems == (told,)


@pytest.mark.parametrize(
    "second", ['"target_offset":41', '"target_offset" : 41', '"\\u0074arget_offset":41']
)
def test_of_a_target_that_stands_twice_the_one_that_is_sent_counts(
    journal: Journal, run_id: str, second: str
) -> None:
    _rewrite(journal, lambda text: f"{text[:-1]},{second}}}")
    assert journal.partitions(run_id)[1].target_offset == 41
    told = f"{TOPIC}-1 of run {run_id} was queued with another target"
    assert journal.verify().problems == (told,)


@pytest.mark.parametrize("message", ['beyond "target_offset":7,', "a\\b", "ü"])
def test_words_in_a_message_are_no_target(journal: Journal, run_id: str, message: str) -> None:
    journal.note(run_id, [replace(journal.partitions(run_id)[1], message=message)])
    assert journal.verify().problems == ()


@pytest.mark.parametrize("body", ["{", "[]", "r1:AAAA"])
def test_a_row_that_cannot_be_read_is_named(journal: Journal, run_id: str, body: str) -> None:
    journal.file.rows("UPDATE run_partitions SET body=? WHERE partition=0", body)
    told = f"{TOPIC}-0 of run {run_id} was queued with another target"
    assert journal.verify().problems == (told,)


def test_a_row_that_is_gone_or_was_added_is_named(journal: Journal, run_id: str) -> None:
    journal.file.rows("UPDATE run_partitions SET partition=7 WHERE partition=1")
    assert journal.verify().problems == (
        f"{TOPIC}-7 of run {run_id} was queued with another target",
        f"{TOPIC}-1 of run {run_id} is missing",
    )


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE run_moves SET body=replace(body, '\"to_offset\":40', '\"to_offset\":90')",
        "UPDATE run_moves SET body=replace(body, '\"from_offset\":3', '\"from_offset\":2')",
        "DELETE FROM run_moves",
    ],
)
def test_a_move_that_was_changed_is_named(journal: Journal, run_id: str, sql: str) -> None:
    journal.file.rows(sql)
    told = f"the move of group dead on {TOPIC}-0 of run {run_id} is not as it was queued"
    assert journal.verify().problems == (told,)


def test_another_plan_in_its_place_is_found(journal: Journal, run_id: str) -> None:
    told = (f"the plan of run {run_id} was changed after it was queued",)
    stored = journal.file.rows("SELECT plan FROM runs")[0]["plan"]
    plans = (free_plan().to_json_text(), unpack(stored).replace('"ann"', '"eve"'), "z1:AAAA", "{}")
    for plan in plans:
        journal.file.rows("UPDATE runs SET plan=?", plan)
        assert journal.verify().problems == told
    journal.file.rows("UPDATE runs SET plan=?", unpack(stored))  # plain is the same
    assert journal.verify().ok


def test_a_run_of_many_partitions_is_compared_to_the_last(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_PAGE", tables._PAGE.replace("2000", "2"))
    keys = [TopicPartition(TOPIC, number) for number in range(5)]
    found = facts(*(partition(number=n) for n in range(5)), claims={n: {"a": 40} for n in range(5)})
    run_id, _ = insert(journal, plan_of(found, {key: ResolvedTarget(40) for key in keys}))
    assert journal.verify().ok
    journal.note(run_id, [replace(journal.partitions(run_id)[4], target_offset=41)])
    told = f"{TOPIC}-4 of run {run_id} was queued with another target"
    assert journal.verify().problems == (told,)


def test_what_a_link_of_an_earlier_version_does_not_tell_is_not_compared(
    journal: Journal, run_id: str
) -> None:
    told = {"state": "done", "plan_sha256": journal.head(run_id).plan_sha256, "who": "ann"}
    with journal.file.accepting() as db:
        db.execute("DELETE FROM entries")
        db.execute("DELETE FROM run_moves")
        append(db, run_id, "queued", told, NOW)
    journal.file.rows("UPDATE runs SET typed='another'")
    assert journal.verify().problems == ()
    journal.file.rows("UPDATE runs SET who='eve'")
    assert journal.verify().problems == (f"run {run_id} was queued with another who",)


def test_a_link_of_other_shapes_is_a_problem_and_no_crash(journal: Journal, run_id: str) -> None:
    told = {"state": "done", "plan_sha256": journal.head(run_id).plan_sha256, "partitions": [5]}
    with journal.file.accepting() as db:
        db.execute("DELETE FROM entries")
        append(db, run_id, "queued", told, NOW)
    assert journal.verify().problems == (f"what run {run_id} was queued with cannot be read",)


def test_the_switch_that_stops_every_purge_is_compared_at_each_look(journal: Journal) -> None:
    memory = JournalMemory(journal)
    told = ("the read-only switch is not as the chain tells",)
    journal.set_read_only(True, "ann", NOW)
    assert memory.verify(NOW).ok
    for sql in ("UPDATE switches SET value=0", "UPDATE switches SET value=1, who='eve'",
                "DELETE FROM switches"):  # fmt: skip
        journal.file.rows(sql)
        assert memory.verify(NOW).problems == told
    journal.file.rows("INSERT INTO switches VALUES ('read_only',1,'ann','now')")
    assert memory.verify(NOW).ok


def test_a_switch_that_no_link_tells_is_found(journal: Journal, run_id: str) -> None:
    journal.file.rows("INSERT INTO switches VALUES ('read_only',0,'eve','now')")
    assert journal.verify().problems == ("the read-only switch is not as the chain tells",)


def test_a_look_compares_the_runs_that_are_new_and_a_whole_look_all(
    journal: Journal, run_id: str
) -> None:
    memory, asked = JournalMemory(journal), []
    assert memory.verify(NOW).ok
    db = journal.file._db
    db.set_trace_callback(
        lambda sql: asked.append(sql) if "body FROM run_partitions" in sql else None
    )
    journal.file.rows("UPDATE runs SET who='eve'")
    assert memory.verify(NOW).ok
    assert asked == []
    second, _ = insert(journal, free_plan(created_by="bob"), "another click")
    assert memory.verify(NOW).ok
    assert asked and all(f"'{second}'" in sql for sql in asked)
    journal.file.rows("UPDATE runs SET who='eve' WHERE run_id=?", second)
    assert [p.split(" ")[1] for p in memory.verify(NOW + WHOLE_LOOK).problems] == [run_id, second]


def test_a_run_that_is_archived_while_it_is_compared_is_no_problem(
    journal: Journal, run_id: str
) -> None:
    told = json.loads(unpack(journal.file.rows("SELECT body FROM entries")[0]["body"]))
    other = sqlite3.connect(journal.file.path)

    def leaves(sql: str) -> None:
        if "FROM run_moves" in sql and "DELETE" not in sql:
            other.executescript("DELETE FROM run_moves; DELETE FROM runs;")

    journal.file._db.set_trace_callback(leaves)
    assert tables.not_as_queued(journal.file, run_id, told) == []
    journal.file._db.set_trace_callback(None)
    assert journal.verify().problems == (f"run {run_id} is missing",)
    other.close()
