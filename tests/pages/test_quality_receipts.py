"""Receipts on the page Quality: kept in memory, and read again when the journal has grown."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.core.clock import utc_now
from dashboard.purge.journal.archive import archive
from dashboard.purge.journal.journal import Journal
from tests.pages.conftest import Open, said
from tests.pages.purges import Requests, queued
from tests.unit.purge.outcomes import kept, receipt


@pytest.mark.further
def test_a_receipt_that_became_final_is_in_the_next_rerun(
    open_page: Open, requests: Requests, journal: Journal
) -> None:
    run_id = queued(open_page, journal)
    journal.set_run(run_id, "done", utc_now())
    app = open_page("quality")
    assert "No finished purge yet" in said(app)
    journal.write_receipt(run_id, receipt(kept(100, 95, 90, 110), final=False), utc_now())
    assert "No finished purge yet" in said(app.run())
    journal.write_receipt(run_id, receipt(kept(100, 95, 90, 110)), utc_now())
    assert "No finished purge yet" not in said(app.run())


def test_where_older_purges_are_archived_it_says_since_when_they_count(
    open_page: Open, requests: Requests, journal: Journal, tmp_path: Path
) -> None:
    run_id = queued(open_page, journal)
    journal.set_run(run_id, "done", utc_now())
    journal.write_receipt(run_id, receipt(kept(100, 95, 90, 110)), utc_now())
    assert "are archived" not in said(open_page("quality"))
    later = utc_now() + timedelta(days=100)
    moved = archive(
        journal, tmp_path / "kept", before=later, who="ann", from_where="here", now=later
    )
    assert moved.runs == 1
    assert f"entries before {moved.first_entry} are archived" in said(open_page("quality"))
