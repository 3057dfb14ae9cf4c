"""Between two looks pages read only what is new, and see the same as a whole look."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.purge.journal.archive import archive
from dashboard.purge.journal.journal import Journal
from dashboard.purge.receipt.model import Receipt, ReplicaReceipt
from dashboard.ui.purge import runs as journal_memory
from dashboard.ui.purge.runs import WHOLE_LOOK, JournalMemory
from tests.unit.purge.facts_of import NOW
from tests.unit.purge.test_journal_archive import begin, end


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path / "journal.sqlite")
    yield made
    made.close()


def ids(memory: JournalMemory, cluster: str | None = None) -> list[str]:
    return [run.run_id for run in memory.runs(cluster)]


def test_runs_are_those_of_the_journal_after_every_change(journal: Journal, tmp_path: Path) -> None:
    memory = JournalMemory(journal)
    assert memory.runs() == []
    first, other = begin(journal, 0), begin(journal, 1, "c2")
    assert ids(memory) == [other, first]
    end(journal, first, 2)
    end(journal, other, 2)
    second = begin(journal, 3)
    assert [run.state for run in memory.runs()] == ["queued", "done", "done"]
    assert memory.runs() == journal.runs()
    assert ids(memory, "c1") == [second, first]
    later = NOW + timedelta(days=3)
    archive(
        journal, tmp_path / "a", before=later, who="ann", from_where="host", now=later
    )  # fmt: skip
    assert ids(memory) == [r.run_id for r in journal.runs()] == [second]


def test_only_what_changed_is_read_again(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, asked = JournalMemory(journal), []
    since = journal.runs_since
    monkeypatch.setattr(journal, "runs_since", lambda entry: asked.append(entry) or since(entry))
    for day in range(3):
        end(journal, begin(journal, day), day)
        memory.runs()
        memory.runs()
    assert asked == [3, 6], "the first look reads the newest runs"


def test_of_a_long_journal_the_newest_runs_are_kept(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_memory, "MOST_RUNS", 3)
    grown = JournalMemory(journal)
    runs = []
    for day in range(5):
        runs.append(end(journal, begin(journal, day), day))
        assert ids(grown) == runs[::-1][:3]
    assert ids(JournalMemory(journal)) == runs[::-1][:3]
    assert (journal.run_count(), [r.run_id for r in journal.runs(most=2)]) == (5, runs[:2:-1])


def test_receipts_are_kept_without_the_sizes_of_replicas(journal: Journal) -> None:
    run_id = begin(journal, 0)
    part = ReplicaReceipt("orders", 0, 1, 9, 0, 9, before_bytes=9, start_before=0)
    receipt = Receipt(final=True, freed_bytes=1, replicas=(part,))
    journal.write_receipt(run_id, receipt, NOW)
    memory = JournalMemory(journal)
    for _ in range(2):  # when it is decoded, and after that
        (run,) = memory.runs()
        assert run.receipt_final
        assert run.receipt == replace(receipt, replicas=())
    assert journal.head(run_id).receipt == receipt


def test_the_chain_is_folded_on_and_looked_at_whole_in_time(journal: Journal) -> None:
    memory = JournalMemory(journal)
    end(journal, begin(journal, 0), 0)
    assert memory.verify(NOW).entries == 3
    end(journal, begin(journal, 1), 1)
    assert memory.verify(NOW).entries == 6
    journal.file.rows("UPDATE entries SET body='{}' WHERE seq=2")
    assert memory.verify(NOW + WHOLE_LOOK / 2).ok
    assert not memory.verify(NOW + WHOLE_LOOK).ok


@pytest.mark.parametrize(
    "sql",
    ["UPDATE runs SET state='refused'", "DELETE FROM entries WHERE seq=3", "DELETE FROM runs"],
)
def test_a_change_of_what_is_told_is_seen_at_once(journal: Journal, sql: str) -> None:
    memory = JournalMemory(journal)
    end(journal, begin(journal, 0), 0)
    assert memory.verify(NOW).ok
    journal.file.rows(sql)
    assert not memory.verify(NOW).ok
    assert not memory.verify(NOW).ok  # nor at the next look
