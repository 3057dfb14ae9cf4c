"""Audit: the chain's verdict, the timeline with its filters, and the switch for all purges."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.core.clock import utc_now
from dashboard.purge.journal.journal import Journal
from dashboard.purge.upkeep.journal_archive import archive
from tests.pages.conftest import Open, said
from tests.pages.purges import SENTENCE, Requests, queued


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
    app.button(key="stop-every-purge").click().run()
    journal = Journal(tmp_path / "state" / "journal.sqlite")

    assert journal.read_only()
    assert "Every purge is switched off, by ada at 20" in said(app)
    assert app.button(key="stop-every-purge").disabled
    journal.close()


def test_who_stops_every_purge_twice_allows_none(open_page: Open, journal: Journal) -> None:
    """A second click of a double click, or of an approver whose page was drawn before."""
    app = open_page("audit")
    stop = app.button(key="stop-every-purge")
    stop.click().run()
    stop.click().run()
    assert journal.read_only()

    journal.set_read_only(False, "ada", utc_now())
    app.run()
    stop = app.button(key="stop-every-purge")
    journal.set_read_only(True, "ann", utc_now())
    app.run()
    stop.click().run()
    assert journal.read_only()


def test_purges_are_allowed_again_by_a_tick_that_belongs_to_one_stop(
    open_page: Open, journal: Journal
) -> None:
    app = open_page("audit")
    app.button(key="stop-every-purge").click().run()
    assert app.button(key="allow-purges-again").disabled

    app.checkbox[0].check().run()
    journal.set_read_only(False, "ann", utc_now())
    journal.set_read_only(True, "ann", utc_now())
    app.button(key="allow-purges-again").click().run()
    assert journal.read_only()
    assert not app.checkbox[0].value

    app.checkbox[0].check().run()
    app.button(key="allow-purges-again").click().run()
    assert not journal.read_only()
    assert "allow-purges-again" not in {button.key for button in app.button}


def test_a_run_shows_who_from_where_by_which_plan_and_what_was_typed(
    open_page: Open, requests: Requests, journal: Journal
) -> None:
    run_id = queued(open_page, journal)
    run = journal.run(run_id).run
    table = open_page("audit").dataframe[0].value

    assert list(table["Run"]) == [f"purge?run={run_id}"]
    assert list(table["Who"]) == ["ada"]
    assert list(table["From"]) == [run.from_where]
    assert run.from_where.startswith("dashboard on ")
    assert list(table["Mode"]) == ["wait-all"]
    assert list(table["Typed"]) == [SENTENCE]
    assert list(table["Plan"]) == [run.plan_id]
    assert list(table["Topics"]) == ["orders"]


def test_runs_and_entries_follow_the_state_and_the_topic(
    open_page: Open, requests: Requests, journal: Journal
) -> None:
    first = queued(open_page, journal)
    journal.set_run(first, "done", utc_now())
    second = queued(open_page, journal)
    app = open_page("audit")
    assert len(app.dataframe[0].value) == 2

    app.selectbox(key="state").select("done").run()
    assert list(app.dataframe[0].value["Run"]) == [f"purge?run={first}"]
    assert second not in " ".join(app.dataframe[1].value["Run"])

    app.selectbox(key="topic").select("orders").run()
    assert list(app.dataframe[0].value["Run"]) == [f"purge?run={first}"]


def test_the_journal_can_be_exported(open_page: Open, tmp_path: Path) -> None:
    switches(tmp_path).close()
    labels = [button.proto.label for button in open_page("audit").get("download_button")]

    assert labels == ["Export CSV", "Export JSON"]


@pytest.mark.parametrize("store", ["without snapshots", "that cannot be read"])
def test_without_a_snapshot_the_journal_is_shown_and_its_switch_works(
    open_page: Open, tmp_path: Path, store: str
) -> None:
    """When the store is gone, purges must be stopped no less than before."""
    if store == "that cannot be read":
        (tmp_path / "data").write_text("no folder")
    switches(tmp_path).close()
    app = open_page("audit", None)

    assert ("NO_SNAPSHOT" if store == "without snapshots" else "STORE_") in said(app)
    assert "chain verified to entry <b>2</b>" in said(app)
    assert list(app.dataframe[0].value["Who"]) == ["grace", "ada"]
    app.button(key="stop-every-purge").click().run()
    assert "Every purge is switched off" in said(app)


def test_of_a_long_journal_it_says_which_runs_are_shown(
    open_page: Open, requests: Requests, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    queued(open_page, journal)
    assert "The newest" not in said(open_page("audit"))
    monkeypatch.setattr("dashboard.ui.purge.runs.MOST_RUNS", 0)
    assert "The newest 0 of 1 runs" in said(open_page("audit"))


def test_what_was_archived_is_told_and_verifies(
    open_page: Open, journal: Journal, tmp_path: Path
) -> None:
    now = utc_now()
    for days in (9, 8, 1):
        journal.set_read_only(days == 9, "ada", now - timedelta(days=days))
    archive(
        journal, tmp_path / "kept", before=now - timedelta(days=5), who="ada",
        from_where="here", now=now,
    )  # fmt: skip
    app = open_page("audit")
    assert "chain verified to entry <b>4</b> <small>entries before 3 are archived" in said(app)
    assert app.dataframe[0].value["Said"].iloc[0] == (
        f"entries to 2 with 0 runs moved to {tmp_path / 'kept'}"
    )
