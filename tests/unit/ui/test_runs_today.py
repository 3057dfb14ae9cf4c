"""A run of today in one line: what was freed is told as far as it is known."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.purge.journal.journal import Journal
from dashboard.purge.receipt.model import Receipt
from dashboard.ui.purge.runs import freed_said, said
from tests.unit.purge.facts_of import NOW
from tests.unit.purge.test_journal_archive import begin

MINUTE = timedelta(minutes=1)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path / "journal.sqlite")
    yield made
    made.close()


def test_what_was_freed_is_so_far_until_the_receipt_is_final(journal: Journal) -> None:
    run_id = begin(journal, 0)
    assert said(journal.head(run_id), (), NOW + MINUTE) == "1 min ago by ann"
    journal.write_receipt(run_id, Receipt(freed_bytes=0), NOW)
    assert said(journal.head(run_id), (), NOW + MINUTE) == "1 min ago by ann, freed 0 B so far"
    journal.write_receipt(run_id, Receipt(freed_bytes=2**20, final=True), NOW)
    assert said(journal.head(run_id), (), NOW + MINUTE) == "1 min ago by ann, freed 1.0 MiB"


def test_it_says_of_which_topics(journal: Journal) -> None:
    run_id = begin(journal, 0)
    topics = journal.topics_of([run_id, "no-run"])
    assert topics == {run_id: ("orders",), "no-run": ()}
    assert said(journal.head(run_id), topics[run_id], NOW).startswith("orders, ")
    assert said(journal.head(run_id), ("a_b", "c", "d"), NOW).startswith(r"a\_b and 2 more, ")
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
    assert freed_said(journal.runs(), NOW + timedelta(days=90)) == freed_said([], NOW) == ""
