"""What the journal names by id, opened where another cluster is shown: it says so, and acts not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dashboard.core.clock import utc_now
from dashboard.purge.journal.journal import Journal
from dashboard.ui.purge import run_view
from tests.pages.conftest import APPROVER, OPERATOR, OTHER, Open, Sign, said
from tests.pages.purges import SENTENCE, confirmation, queued
from tests.pages.test_clusters import heading, hrefs
from tests.support import sample_store

FIRST = sample_store.CLUSTER_ID
ASIDE = {"Back", "Help", "Report", "Show newer data", "Sign out"}  # none acts on what is named
File = Callable[..., None]


def labels(app: AppTest) -> set[str]:
    return {button.label for button in app.button}


def asked_for(open_page: Open, sign: Sign, file: File, journal: Journal, sentence: str) -> str:
    """The id of a request of the first cluster, which an approver then looks at."""
    file([OPERATOR], "second_person = true")
    sign(OPERATOR)
    app = open_page("purge", None, topics="orders", cluster=FIRST)
    confirmation(app)(sentence)
    app.button(key="queue-run").click().run()
    (request,) = journal.requests()
    sign(APPROVER)
    return request.request_id


@pytest.mark.usefixtures("two", "requests")
def test_a_request_of_another_cluster_is_decided_there_alone(
    open_page: Open,
    sign: Sign,
    file: File,
    journal: Journal,
) -> None:
    request_id = asked_for(open_page, sign, file, journal, SENTENCE)
    app = open_page("purge", None, request=request_id, cluster="staging")
    text = said(app)
    assert heading(app) == "staging"
    its = f"purge?cluster=prod-eu&amp;request={request_id}"
    assert f'request is of another cluster: <b><a href="{its}" target="_self">prod-eu</a>' in text
    by_hand = f"<code>lowwater approvals --show {request_id}</code>"
    assert f"It is approved or rejected there, or from the command line: {by_hand}." in text
    assert labels(app) <= ASIDE
    assert not [field for field in app.text_input if field.label == "Confirmation"]
    assert not app.get("download_button"), "offsets name no cluster: a tool would take them here"
    assert not [each.label for each in app.expander if "Look at" in each.label]

    app = open_page("purge", None, request=request_id, cluster="prod-eu")
    assert "is of another cluster" not in said(app)
    assert {"Approve and purge", "Reject"} <= labels(app)


@pytest.mark.further
@pytest.mark.usefixtures("requests")
def test_clusters_of_one_name_are_told_apart_in_the_sentence_and_the_header(
    open_page: Open,
    tmp_path: Path,
    sign: Sign,
    file: File,
    journal: Journal,
) -> None:
    for cluster_id in (FIRST, OTHER):
        sample_store.write(tmp_path / "data", cluster_id=cluster_id, name="prod-eu")
    request_id = asked_for(open_page, sign, file, journal, f"{SENTENCE} ({FIRST})")
    app = open_page("purge", None, request=request_id, cluster=OTHER)
    assert heading(app) == f"prod-eu ({OTHER})"
    assert f'target="_self">prod-eu ({FIRST})</a>' in said(app)
    assert "Approve and purge" not in labels(app)
    app = open_page("purge", None, request=request_id, cluster=FIRST)
    assert confirmation(app)(SENTENCE).button(key="approve").disabled
    confirmation(app)(f"{SENTENCE} ({FIRST})")
    app.button(key="approve").click().run()
    assert [run.cluster_id for run in journal.runs()] == [FIRST]


@pytest.mark.further_but("running")
@pytest.mark.usefixtures("two", "requests")
@pytest.mark.parametrize("state", ["running", "reverted", "failed"])
def test_a_run_of_another_cluster_is_acted_on_there_alone(
    open_page: Open,
    journal: Journal,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
) -> None:
    run_id = queued(lambda page, **q: open_page(page, None, cluster="prod-eu", **q), journal)
    (row,) = journal.partitions(run_id)
    now = utc_now()
    sent = replace(row, state="sent", sent_leader_id=1, leader_id=1, sent_at=now)
    closed = {"state": "reverted"} if state == "reverted" else {"state": "not_done", "error": "X"}
    journal.record(run_id, "intent", [sent], now)
    if state != "running":
        journal.record(run_id, "read", [replace(sent, **closed)], now)  # type: ignore[arg-type]
        journal.set_run(run_id, "partial", now)
    asked: list[str] = []
    monkeypatch.setattr(run_view, "sources_of", lambda _, name, __: asked.append(name))

    app = open_page("purge", None, cluster="staging", run=run_id)
    its = f"purge?cluster=prod-eu&amp;run={run_id}"
    assert f'run is of another cluster: <b><a href="{its}" target="_self">prod-eu</a>' in said(app)
    assert "resumed, cancelled or planned again there, or from the command line: " in said(app)
    assert labels(app) <= ASIDE
    assert asked == [], "its leaders are brokers of its own cluster, not those of this id here"

    app = open_page("purge", None, cluster="prod-eu", run=run_id)
    acts = {"Pause", "Cancel what is not sent yet"} if state == "running" else {"Plan again"}
    assert acts <= labels(app)
    assert asked == (["prod-eu"] if state == "running" else [])


@pytest.mark.further
@pytest.mark.usefixtures("requests")
def test_a_run_whose_cluster_is_not_in_the_folder_names_the_verb_that_acts_on_it(
    open_page: Open, journal: Journal, tmp_path: Path
) -> None:
    run_id = queued(open_page, journal)
    (tmp_path / "data").rename(tmp_path / "was")
    sample_store.write(tmp_path / "data", cluster_id=OTHER, name="prod-eu")
    app = open_page("purge", run=run_id)
    assert f"<b>prod-eu ({FIRST})</b>, of which this data folder has nothing" in said(app)
    assert f"<code>lowwater run {run_id}</code>" in said(app)
    assert labels(app) <= ASIDE


@pytest.mark.further
@pytest.mark.usefixtures("two", "requests")
def test_which_cluster_is_no_question_where_the_journal_knows_it(
    open_page: Open,
    journal: Journal,
) -> None:
    run_id = queued(lambda page, **q: open_page(page, None, cluster="prod-eu", **q), journal)
    for given in ({}, {"cluster": "prod-us"}):
        app = open_page("purge", None, run=run_id, **given)
        led = [href for href in hrefs(app) if run_id in href]
        assert led == [f"purge?cluster=prod-eu&amp;run={run_id}"]
        assert "Which cluster?" in said(app)
        assert not app.dataframe
    assert "There is no such run (RUN_NOT_FOUND)" in said(open_page("purge", None, run="nope"))
