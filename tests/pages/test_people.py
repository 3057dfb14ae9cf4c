"""Roles on the pages: what each sees, and that a callback asks again, whatever its page shows."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from dashboard.core.errors import LowwaterError, RefusedError
from dashboard.purge.journal.journal import Journal
from dashboard.purge.plan.guards import Lift
from dashboard.store.snapshots import Store
from dashboard.ui.components import states
from tests.pages.conftest import APPROVER, OPERATOR, VIEWER, Open, Sign, new_server, said
from tests.pages.purges import SENTENCE, Requests, confirmation, queued


def labels(app: AppTest) -> set[str]:
    return {button.label for button in app.button}


@pytest.mark.parametrize("page", ["overview", "purge", "audit"])
def test_who_is_not_signed_in_sees_the_way_in_and_no_data(
    open_page: Open, sign: Sign, page: str
) -> None:
    app = open_page(page)
    assert "Sign in to Lowwater" in said(app)
    assert labels(app) == {"Sign in"}
    assert "prod-eu" not in said(app)
    assert not app.dataframe


def test_who_has_no_role_sees_whom_to_ask_and_no_data(open_page: Open, sign: Sign) -> None:
    sign("mallory@example.org")
    text = said(open_page())
    assert "mallory@example.org has no role here and may not look at these pages" in text
    assert "Ask ann@example.org" in text
    assert "prod-eu" not in text


def test_the_header_says_who_one_is(open_page: Open, sign: Sign) -> None:
    sign(APPROVER)
    app = open_page()
    assert "ann@example.org (approver)" in said(app)
    assert "Sign out" in labels(app)


def test_a_viewer_previews_and_finds_no_button_that_changes_anything(
    open_page: Open, sign: Sign, requests: Requests
) -> None:
    sign(VIEWER)
    app = open_page("purge", topics="orders")
    assert [request.by for request in requests] == [VIEWER]
    assert "Purging takes an operator; eve@example.org is a viewer here." in said(app)
    assert not {"Purge 1 topic", "Confirmation"} & labels(app)
    assert all(field.label != "Confirmation" for field in app.text_input)
    assert not app.multiselect(key="plan-topics").disabled
    assert all(field.key not in ("plan-waive", "plan-lift") for field in app.multiselect)


def test_an_operator_purges_in_their_own_name_alone(
    open_page: Open, sign: Sign, requests: Requests, journal: Journal
) -> None:
    sign(OPERATOR)
    app = open_page("purge", topics="orders")
    who = app.text_input(key="confirm-who")
    assert (who.value, who.disabled) == (OPERATOR, True)
    app.session_state["confirm-who"] = APPROVER  # as a message made by hand would
    confirmation(app)(SENTENCE)
    app.button(key="queue-run").click().run()
    assert [run.who for run in journal.runs()] == [OPERATOR]


def test_a_role_taken_away_before_the_click_queues_nothing(
    open_page: Open,
    sign: Sign,
    file: Callable[..., None],
    requests: Requests,
    journal: Journal,
) -> None:
    sign(OPERATOR)
    app = open_page("purge", topics="orders")
    confirmation(app)(SENTENCE)
    button = app.button(key="queue-run")
    assert not button.disabled
    file([])
    button.click().run()
    assert journal.runs() == []
    assert "may not look at these pages" in said(app)


def test_a_viewer_stops_no_run_and_moves_no_switch(
    open_page: Open, sign: Sign, requests: Requests, journal: Journal
) -> None:
    sign(OPERATOR)
    run_id = queued(open_page, journal)
    app = open_page("purge", run=run_id)
    pause = app.button(key="run-pause")
    sign(VIEWER)
    pause.click().run()
    assert "eve@example.org is a viewer and may not pause run" in said(app) or (
        "Pausing or cancelling takes an operator" in said(app)
    )
    assert journal.run(run_id).run.wish is None

    sign(OPERATOR)
    assert "Stop every purge" not in labels(open_page("audit"))
    sign(APPROVER)
    app = open_page("audit")
    switch = app.button(key="stop-every-purge")
    sign(OPERATOR)
    switch.click().run()
    assert not journal.read_only()
    sign(APPROVER)
    app = open_page("audit")
    app.button(key="stop-every-purge").click().run()
    assert journal.read_only()
    assert journal.entries()[-1].body["who"] == APPROVER


def test_a_viewer_declares_nothing(
    open_page: Open, sign: Sign, tmp_path: Path, journal: Journal
) -> None:
    sign(VIEWER)
    app = open_page("reclaimable")
    assert "Declaring readers takes an operator" in said(app)
    assert not app.form_submit_button

    sign(OPERATOR)
    app = open_page("reclaimable")
    app.multiselect(key="declare-topics").set_value(["clickstream"]).run()
    app.text_input(key="declare-owner").set_value("team-web")
    app.text_input(key="declare-reason").set_value("asked both teams")
    sign(VIEWER)
    app.form_submit_button[0].click().run()
    assert Store(str(tmp_path / "data")).cluster().declarations() == []
    assert journal.entries() == []

    sign(OPERATOR)
    app = open_page("reclaimable")
    app.multiselect(key="declare-topics").set_value(["clickstream"]).run()
    app.text_input(key="declare-owner").set_value("team-web")
    app.text_input(key="declare-reason").set_value("asked both teams")
    app.form_submit_button[0].click().run()
    assert [entry.body["who"] for entry in journal.entries()] == [OPERATOR]


def test_a_viewer_lifts_and_waives_nothing(open_page: Open, sign: Sign, requests: Requests) -> None:
    sign(OPERATOR)
    app = open_page("purge", topics="orders")
    app.multiselect(key="plan-lift").set_value(["over-limit"])
    app.text_input(key="plan-reason").set_value("agreed").run()
    app.button(key="preview").click().run()
    assert requests[-1].override == (Lift("over-limit", "agreed"),)
    requests.clear()
    measure = app.button(key="refine")
    sign(VIEWER)
    measure.click().run()
    open_page("purge", topics="orders", waive="billing-replay")
    assert requests  # a viewer previews, without any of it
    assert not [r for r in requests if r.waive or r.override or r.sample]


def test_a_viewer_switches_no_policy(
    open_page: Open, sign: Sign, file: Callable[..., None], journal: Journal
) -> None:
    file([OPERATOR], '[policies.orders]\ntopics = ["orders*"]')
    sign(OPERATOR)
    app = open_page("policies")
    assert app.text_input(key="policy-who").value == OPERATOR
    confirmation(app)("switch on policy orders on prod-eu as 8e5dd2e37f01")
    sign(VIEWER)
    app.button(key="policy-on").click().run()
    assert journal.entries() == []
    assert "Switching a policy on takes an operator" in said(open_page("policies"))

    file([OPERATOR], 'second_person = true\n[policies.orders]\ntopics = ["orders*"]')
    sign(OPERATOR)
    assert "Switching a policy on takes an approver" in said(open_page("policies"))


def test_one_asks_and_another_approves(
    open_page: Open,
    sign: Sign,
    file: Callable[..., None],
    requests: Requests,
    journal: Journal,
) -> None:
    file([OPERATOR], "second_person = true")
    sign(OPERATOR)
    app = open_page("purge", topics="orders")
    confirmation(app)(SENTENCE)
    assert "Ask to purge 1 topic" in labels(app)
    app.button(key="queue-run").click().run()
    (request,) = journal.requests()
    assert journal.runs() == []
    assert app.query_params["request"] == request.request_id
    assert "You asked for it: somebody else approves." in said(app)
    assert "Approve and purge" not in labels(app)

    sign(APPROVER)
    assert "bob@example.org** asks to purge: wait-all" in said(open_page("purge"))
    app = open_page("purge", request=request.request_id)
    assert "mode wait-all, time-out 30000 ms, over the connection that the store knows" in said(app)
    button = app.button(key="approve")
    assert button.disabled
    confirmation(app)(SENTENCE)
    sign(VIEWER)
    app.button(key="approve").click().run()
    assert journal.runs() == []
    sign(APPROVER)
    app = open_page("purge", request=request.request_id)
    confirmation(app)(SENTENCE)
    app.button(key="approve").click().run()
    (run,) = journal.runs()
    assert (run.who, run.approved_by) == (OPERATOR, APPROVER)
    assert "by bob@example.org from dashboard on" in said(app)
    assert "approved by ann@example.org" in said(app)


@pytest.mark.further
def test_a_request_is_rejected(
    open_page: Open, sign: Sign, file: Callable[..., None], requests: Requests, journal: Journal
) -> None:
    file([OPERATOR], "second_person = true")
    sign(OPERATOR)
    app = open_page("purge", topics="orders")
    confirmation(app)(SENTENCE)
    app.button(key="queue-run").click().run()
    (request,) = journal.requests()
    sign(APPROVER)
    app = open_page("purge", request=request.request_id)
    app.button(key="reject").click().run()
    assert journal.request(request.request_id).state == "rejected"
    assert "rejected by ann@example.org" in said(app)


def test_a_name_is_never_markup(open_page: Open, sign: Sign, requests: Requests) -> None:
    sign("![x](https://evil.example)<img src=x>@example.org")
    text = said(open_page())
    assert "&lt;img src=x&gt;@example.org has no role" in text
    assert "<img" not in text


def test_a_part_that_redraws_itself_asks_again(sign: Sign, monkeypatch: pytest.MonkeyPatch) -> None:
    new_server()
    told: list[LowwaterError] = []
    drawn: list[str] = []
    monkeypatch.setattr(states, "show_error", told.append)
    part = states.guarded(lambda: drawn.append("data"))
    for name in (None, "mallory@example.org", VIEWER):
        sign(name)
        part()
    assert [error.code for error in told] == ["NOT_SIGNED_IN", "ROLE_TOO_LOW"]
    assert drawn == ["data"]
    new_server()


@pytest.mark.further_but("purge")
@pytest.mark.usefixtures("requests")
@pytest.mark.parametrize("page", ["audit", "orphans", "purge"])
def test_a_download_asks_again_who_clicks(
    open_page: Open,
    sign: Sign,
    file: Callable[..., None],
    page: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server makes the file without the page: who had it open read on when nobody any more."""
    handed: dict[str, Callable[[], object]] = {}

    def button(label: str, data: Callable[[], object], **_: object) -> bool:
        handed[label] = data
        return False

    monkeypatch.setattr(st, "download_button", button)
    sign(OPERATOR)
    app = open_page(page, topics="orders")
    app.button(key="report").click().run()
    assert len(handed) >= 6 and all(make() for label, make in handed.items() if "PDF" not in label)
    file([])
    for make in handed.values():
        with pytest.raises(RefusedError, match="may not look at these pages"):
            make()


def test_a_section_that_is_gone_lets_nobody_through(
    open_page: Open, sign: Sign, tmp_path: Path
) -> None:
    sign(APPROVER)
    app = open_page()
    (tmp_path / "lowwater.toml").write_text("")
    text = said(app.run())
    assert "PEOPLE_GONE" in text
    assert "Nobody&#x27;s role is known" in text or "Nobody's role is known" in text


@pytest.mark.further
def test_a_section_that_came_while_a_page_was_open_counts_for_its_buttons(
    open_page: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A button keeps what its page was drawn with; whoever had it open was asked for no role."""
    file, policy = tmp_path / "lowwater.toml", '[policies.early]\ntopics = ["orders*"]\n'
    file.write_text(policy)
    monkeypatch.setenv("LOWWATER_SETTINGS", str(file))
    app = open_page("policies")
    (sentence,) = re.findall("switch on policy early on prod-eu as [0-9a-f]+", said(app))
    app.text_input(key="policy-confirm-early").set_value(sentence).run()
    file.write_text(f'{policy}[people]\nviewers = ["ada"]\napprovers = ["ann"]\n')
    text = said(app.button(key="policy-on").click().run())
    assert "ada is a viewer and may not switch on policy early" in text
    assert list(Journal(tmp_path / "state" / "journal.sqlite").entries()) == []


def test_a_section_in_a_file_that_was_not_there_when_the_server_began_counts(
    open_page: Open, journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOWWATER_SETTINGS", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    app = open_page("audit")
    assert "Stop every purge" in labels(app)
    (tmp_path / "lowwater").mkdir()
    (tmp_path / "lowwater" / "lowwater.toml").write_text(
        '[people]\nviewers = ["ada"]\napprovers = ["ann"]\n'
    )
    app.button(key="stop-every-purge").click().run()
    assert not journal.read_only()
    assert "Stop every purge" not in labels(app)
    assert "ada (viewer)" in said(app)


def test_a_cache_that_a_browser_clears_forgets_no_sign_in(
    open_page: Open, sign: Sign, tmp_path: Path
) -> None:
    app = open_page()
    (tmp_path / "lowwater.toml").write_text("")
    st.cache_resource.clear()  # as the message clear_cache does, which any browser may send
    text = said(app.run())
    assert "PEOPLE_GONE" in text
    assert "prod-eu" not in text
