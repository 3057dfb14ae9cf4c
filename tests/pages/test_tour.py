"""The tour of a demo: five steps, each with the way to the next; and none anywhere else."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dashboard.core import demo_faults
from dashboard.demo.truth import TOPICS
from dashboard.purge.journal.journal import Journal
from dashboard.ui import tour
from dashboard.ui.session import routes
from tests.pages.conftest import Open, read, said
from tests.pages.purges import Requests, queued


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The pages are those of a demo."""
    made = tmp_path / "room"
    made.mkdir()
    monkeypatch.setenv(demo_faults.MARK, str(made))
    return made


def onward(app: AppTest) -> list[tuple[str, str]]:
    """Where the step leads: label and query."""
    return [
        (read(link.label), link.proto.query_string)
        for link in app.page_link
        if read(link.label) in {step.onward for step in tour.STEPS.values()} - {"Overview"}
    ]


@pytest.mark.further
@pytest.mark.usefixtures("room", "requests")
def test_five_steps_lead_from_the_first_number_to_what_is_kept_of_a_purge(
    open_page: Open, journal: Journal
) -> None:
    app = open_page()
    assert "Tour, 1 of 5: how much can go." in said(app)
    assert onward(app) == [("Next: who holds the rest", "")]

    app = open_page("reclaimable")
    assert "Tour, 2 of 5: who holds the rest." in said(app)
    assert onward(app) == [("Next: preview a purge of web-sessions", "topics=web-sessions")]

    assert "Tour, 3 of 5: what exactly would happen." in said(open_page("purge", topics="orders"))

    app = open_page("purge", run=queued(open_page, journal))
    assert "Tour, 4 of 5: what happened." in said(app)
    assert onward(app) == [("Next: what is kept of it", "")]

    assert "Tour, 5 of 5: who did what." in said(open_page("audit"))
    assert all("Tour, " not in said(open_page(page)) for page in ("growth", "quality", "fleet"))


@pytest.mark.further
@pytest.mark.usefixtures("room")
def test_who_ends_it_sees_it_on_no_page_until_they_want_it_again(open_page: Open) -> None:
    app = open_page("reclaimable")
    assert "Tour, " not in said(app.button(key="tour-end").click().run())
    app = open_page()
    assert "Tour, " not in said(app)
    assert "Tour, 1 of 5" in said(app.button(key="tour-again").click().run())


@pytest.mark.further_but("overview")
@pytest.mark.parametrize("page", routes.LISTED)
def test_outside_of_a_demo_there_is_none(open_page: Open, requests: Requests, page: str) -> None:
    app = open_page(page)
    assert "Tour, " not in said(app)
    assert not {"tour-end", "tour-again"} & {str(button.key) for button in app.button}


def test_the_topic_that_is_purged_is_one_of_which_the_demo_knows_that_it_may_go() -> None:
    (topic,) = [topic for topic in TOPICS if topic.name == tour.TOPIC]
    assert topic.expected == "consumed" and topic.owner and not topic.reads_without_commit
    dead = {group.group_id for topic in TOPICS for group in topic.groups if not group.per_second}
    assert "billing-old" in dead, "whom the second step names"
