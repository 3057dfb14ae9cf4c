"""A run of today in one line: what was freed is told as far as it is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.purge.journal.journal import Journal
from dashboard.purge.journal.rows import RunRow
from dashboard.purge.receipt.model import Receipt
from dashboard.settings.sections import Price
from dashboard.ui.purge.runs import each, fold, freed_said, said
from tests.unit.purge.facts_of import NOW
from tests.unit.purge.test_journal_archive import begin

MINUTE = timedelta(minutes=1)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path / "journal.sqlite")
    yield made
    made.close()


def one(journal: Journal, run_id: str) -> str:
    (line,) = each([journal.head(run_id)])
    return said(line, (), NOW + MINUTE)


def test_what_was_freed_is_so_far_until_the_receipt_is_final(journal: Journal) -> None:
    run_id = begin(journal, 0)
    assert one(journal, run_id) == "1 min ago by ann"
    journal.write_receipt(run_id, Receipt(freed_bytes=0), NOW)
    assert one(journal, run_id) == "1 min ago by ann, freed 0 B so far"
    journal.write_receipt(run_id, Receipt(freed_bytes=2**20, final=True), NOW)
    assert one(journal, run_id) == "1 min ago by ann, freed 1.0 MiB"


def test_it_says_of_which_topics(journal: Journal) -> None:
    run_id = begin(journal, 0)
    topics = journal.topics_of([run_id, "no-run"])
    assert topics == {run_id: ("orders",), "no-run": ()}
    (line,) = each([journal.head(run_id)])
    assert said(line, topics[run_id], NOW).startswith("orders, ")
    assert said(line, ("a_b", "c", "d"), NOW).startswith(r"a\_b and 2 more, ")
    assert journal.topics_of([]) == {}


def test_a_months_final_receipts_add_up_to_what_was_freed(journal: Journal) -> None:
    ids = [begin(journal, day, f"c{day}") for day in range(4)]
    for run_id, receipt in zip(
        ids,
        [Receipt(freed_bytes=5 << 20, final=True), Receipt(freed_bytes=2 << 20),
         Receipt(freed_bytes=None, final=True), Receipt(freed_bytes=1 << 20, final=True)],
        strict=True,
    ):  # fmt: skip
        journal.write_receipt(run_id, receipt, NOW)
    told = "Freed in the last 30 days: 6.0 MiB by 2 purges; of 1 more it is not known."
    assert freed_said(journal.runs(), NOW + timedelta(days=10)) == told
    costs = freed_said(journal.runs(), NOW + timedelta(days=10), price=Price(1024.0, "EUR"))
    assert "6.0 MiB (6.00 EUR a month) by 2 purges" in costs
    assert freed_said(journal.runs(), NOW + timedelta(days=90)) == freed_said([], NOW) == ""


def of_policy(
    journal: Journal,
    day: int,
    outcome: str = "done",
    policy: str | None = "tidy",
    cluster_id: str = "c",
) -> RunRow:
    """A run that is over, as a policy queued it; the newest first is who asks for them."""
    journal.set_run(run_id := begin(journal, day, f"c{day}"), outcome, NOW)
    journal.write_receipt(run_id, Receipt(freed_bytes=1 << 20, final=True), NOW)
    return replace(journal.head(run_id), cluster_id=cluster_id, policy=policy)


def test_runs_of_a_policy_that_went_alike_are_one_line(journal: Journal) -> None:
    alike = [of_policy(journal, day) for day in (5, 4, 3)]
    refused = of_policy(journal, 2, "refused")
    mine = of_policy(journal, 1, policy=None)
    elsewhere = of_policy(journal, 0, cluster_id="d")
    lines = fold([alike[0], refused, alike[1], mine, alike[2], elsewhere])
    assert [(line.run.run_id, line.count) for line in lines] == [
        (alike[0].run_id, 3), (refused.run_id, 1), (mine.run_id, 1), (elsewhere.run_id, 1),
    ]  # fmt: skip
    told = said(lines[0], ("orders",), NOW + timedelta(days=5, minutes=1))
    assert told == "3 purges of policy tidy, the newest 1 min ago, freed 3.0 MiB"


def test_a_run_that_is_open_has_its_own_line(journal: Journal) -> None:
    runs = [replace(of_policy(journal, day), state="running") for day in (2, 1)]
    assert [line.count for line in fold(runs)] == [1, 1]


def test_a_sum_over_a_part_of_the_runs_says_so(journal: Journal) -> None:
    run = of_policy(journal, 0)
    told = "Freed in the last 30 days: 1.0 MiB by the newest 1 purge."
    assert freed_said([run], NOW, cut=True) == told
    older = replace(run, run_id="older", queued_at=NOW - timedelta(days=31))
    assert "by 1 purge." in freed_said([run, older], NOW, cut=True), "all of the month is there"
