"""Audit: the chain's verdict, the timeline with its filters, and the switch for all purges."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from dashboard.clock import utc_now
from dashboard.purge.journal import Journal
from tests.pages.conftest import Open, said


def switches(tmp_path: Path) -> Journal:
    journal = Journal(tmp_path / "state" / "journal.sqlite")
    journal.set_read_only(True, "ada", utc_now())
    journal.set_read_only(False, "grace", utc_now())
    return journal


def test_an_empty_journal_says_how_a_purge_starts(open_page: Open) -> None:
    assert "No purge yet" in said(open_page("audit"))


def test_entries_are_listed_newest_first_and_the_chain_verifies(
    open_page: Open, tmp_path: Path
) -> None:
    switches(tmp_path).close()
    app = open_page("audit")

    assert "chain verified to entry <b>2</b>" in said(app)
    assert list(app.dataframe[0].value["Who"]) == ["grace", "ada"]
    assert list(app.dataframe[0].value["Said"]) == [
        "purges allowed again",
        "every purge switched off",
    ]


def test_the_timeline_follows_its_filters(open_page: Open, tmp_path: Path) -> None:
    switches(tmp_path).close()
    app = open_page("audit")
    app.selectbox(key="who").select("ada").run()

    assert list(app.dataframe[0].value["Entry"]) == [1]


def test_a_changed_entry_is_found(open_page: Open, tmp_path: Path) -> None:
    switches(tmp_path).close()
    with sqlite3.connect(tmp_path / "state" / "journal.sqlite") as db:
        db.execute("UPDATE entries SET body = replace(body, 'ada', 'eve') WHERE seq = 1")
    db.close()

    assert "The chain is broken" in said(open_page("audit"))


def test_the_switch_stops_every_purge(open_page: Open, tmp_path: Path) -> None:
    app = open_page("audit")
    app.button(key="read-only-switch").click().run()
    journal = Journal(tmp_path / "state" / "journal.sqlite")

    assert journal.read_only()
    assert "Every purge is switched off." in said(app)
    journal.close()
