"""Stop every purge, from where purges are made: on Purge, and beside each run that is open."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dashboard.core.clock import utc_now
from dashboard.purge.journal.journal import Journal
from tests.pages.conftest import APPROVER, OPERATOR, Open, Sign, said
from tests.pages.purges import Requests, queued

SWITCH = "stop-every-purge"


def keys(app: AppTest) -> set[str]:
    return {str(button.key) for button in app.button}


def stop(app: AppTest) -> AppTest:
    return app.button(key=SWITCH).click().run()


@pytest.mark.further
def test_it_is_on_purge_and_says_what_it_would_stop(
    open_page: Open, requests: Requests, journal: Journal
) -> None:
    queued(open_page, journal)
    app = open_page("purge")
    text = said(app)
    assert "1 purge of this journal is open now." in text
    assert "of every cluster, and policies stop before their next request" in text
    assert not journal.read_only(), "the first click opens, and stops nothing"

    text = said(stop(app))
    assert journal.read_only()
    assert "an approver switched every purge off" in text
    assert "allow them again on Audit" in text and SWITCH not in keys(app)
    assert "stop-every-purge" in keys(open_page("audit"))


def test_it_stands_beside_each_run_that_is_open_and_no_other(
    open_page: Open, requests: Requests, journal: Journal
) -> None:
    run_id = queued(open_page, journal)
    app = stop(open_page("purge", run=run_id))
    assert journal.read_only() and "allow them again on Audit" in said(app)
    assert journal.run(run_id).run.wish is None, "the run itself may go on afterwards"

    journal.set_read_only(False, "ada", utc_now())
    journal.set_run(run_id, "cancelled", utc_now())
    assert SWITCH not in keys(open_page("purge", run=run_id))


def test_a_second_click_of_a_page_that_was_drawn_before_allows_nothing(
    open_page: Open, journal: Journal
) -> None:
    button = open_page("purge").button(key=SWITCH)
    journal.set_read_only(True, "ann", utc_now())
    button.click().run()
    assert journal.read_only()


def test_only_approvers_find_it_and_the_click_asks_again(
    open_page: Open, sign: Sign, journal: Journal
) -> None:
    sign(OPERATOR)
    assert SWITCH not in keys(open_page("purge"))
    sign(APPROVER)
    button = open_page("purge").button(key=SWITCH)
    sign(OPERATOR)
    button.click().run()
    assert not journal.read_only()


def test_where_the_settings_stop_every_purge_there_is_nothing_to_press(
    open_page: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "lowwater.toml"
    file.write_text("read_only = true\n")
    monkeypatch.setenv("LOWWATER_SETTINGS", str(file))
    app = open_page("purge")
    assert SWITCH not in keys(app)
    assert "every purge is stopped" in said(app)
