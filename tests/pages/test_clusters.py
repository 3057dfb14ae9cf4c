"""Several clusters in one data folder: each address says of which it is, and links stay with it."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from dashboard.purge.journal.journal import Journal
from dashboard.purge.plan.drafts import PlanRequest
from dashboard.purge.plan.targets import Target
from dashboard.store.snapshots import Store
from dashboard.ui.purge import drafting
from dashboard.ui.session import routes
from dashboard.ui.session.context import Screen
from tests.pages.conftest import OTHER, Open, said
from tests.pages.purges import SENTENCE, Requests, a_plan, confirmation
from tests.support import sample_store


def hrefs(app: AppTest) -> list[str]:
    """Where all links in HTML lead."""
    return re.findall(r'href="([^"]+)"', said(app))


def named(app: AppTest) -> str:
    """Of which cluster the address says it is."""
    value = app.query_params.get("cluster", "")
    return value if isinstance(value, str) else value[-1]


def heading(app: AppTest) -> str:
    return "".join(re.findall(r"<h1>(.*?)</h1>", said(app)))


def test_one_cluster_needs_no_name_and_nothing_to_switch(open_page: Open) -> None:
    app = open_page()
    assert not any("cluster=" in href for href in hrefs(app))
    assert not any("cluster" in link.proto.query_string for link in app.page_link)
    assert "<details" not in said(app)


@pytest.mark.further_but("overview")
@pytest.mark.parametrize("page", ["overview", "growth", "topic"])
def test_each_link_of_a_page_stays_with_its_cluster(open_page: Open, two: Path, page: str) -> None:
    app = open_page(page, None, cluster="staging", name="orders")
    assert heading(app) == "staging"
    inner = [link.proto.query_string for link in app.page_link]
    assert len(inner) >= len(routes.LISTED) - 1
    assert [query for query in inner if not query.startswith("cluster=staging")] == []
    switches = re.findall(r'<details class="lw lw-switch">.*?</details>', said(app))[0]
    kept = "&amp;name=orders" if page == "topic" else ""
    to = "./" if page == "overview" else page
    assert f'<a href="{to}?cluster=prod-eu{kept}" target="_self">prod-eu</a>' in switches
    assert "cluster=staging" in switches  # the fleet's link keeps it
    others = [href for href in hrefs(app) if f'"{href}"' not in switches]
    assert [href for href in others if "cluster=staging" not in href] == []


def test_one_that_is_closed_makes_no_other_the_only_one(
    open_page: Open, two: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collect as root left the other's folder closed: who named none had been asked which."""
    honest = Store._is_cluster
    monkeypatch.setattr(
        Store, "_is_cluster", lambda held, name: None if name == OTHER else honest(held, name)
    )
    app = open_page("purge", None, topics="orders")
    assert heading(app) == "" and not app.multiselect
    (link,) = [href for href in hrefs(app) if "cluster=" in href and "topics=orders" in href]
    app = open_page("purge", None, cluster=link.split("cluster=")[1].split("&")[0])
    assert heading(app) != ""
    assert all("cluster=" in page.proto.query_string for page in app.page_link)
    assert 'href="reclaimable?cluster=prod-eu"' in said(open_page("fleet", None))


def test_where_none_is_named_each_is_a_link_to_this_very_place(open_page: Open, two: Path) -> None:
    app = open_page("purge", None, topics="orders")
    text = said(app)
    assert "Which cluster?" in text and heading(app) == ""
    assert '<a href="purge?cluster=staging&amp;topics=orders" target="_self">staging</a>' in text
    assert not app.multiselect


def test_a_cluster_that_is_not_here_is_never_replaced_by_another(open_page: Open) -> None:
    app = open_page("overview", cluster="prod-us")
    text = said(app)
    assert "That cluster is not here (CLUSTER_NOT_FOUND)" in text
    assert heading(app) == "" and "are consumed by every known group" not in text
    assert '<a href="./?cluster=prod-eu" target="_self">prod-eu</a>' in text


@pytest.mark.further
def test_a_browser_stays_with_its_cluster_when_a_second_one_comes(
    open_page: Open, tmp_path: Path
) -> None:
    app = open_page()
    assert heading(app) == "prod-eu" and "cluster" not in app.query_params
    sample_store.write(tmp_path / "data", "rich", cluster_id=OTHER, name="staging")
    st.cache_resource.clear()
    app.run()
    assert heading(app) == "prod-eu"
    assert named(app) == "prod-eu"


@pytest.mark.further
def test_clusters_of_one_name_are_told_apart_by_their_ids(open_page: Open, tmp_path: Path) -> None:
    for cluster_id in (sample_store.CLUSTER_ID, OTHER):
        sample_store.write(tmp_path / "data", cluster_id=cluster_id)
    app = open_page("overview", None, cluster=OTHER)
    assert f"<b>prod-eu ({OTHER})</b>" in said(app)
    assert f'<a href="./?cluster={sample_store.CLUSTER_ID}" target="_self">' in said(app)


@pytest.mark.further
def test_a_callback_that_leaves_a_run_keeps_the_cluster(open_page: Open, two: Path) -> None:
    app = open_page("purge", None, cluster="staging", request="none")
    assert "REQUEST_NOT_FOUND" in said(app)
    app = open_page("overview", None, cluster="staging")
    app.button(key="plan-safest").click().run()
    assert named(app) == "staging"
    assert "orders" in app.multiselect(key="plan-topics").value


def test_nothing_drafted_or_typed_for_one_cluster_goes_on_in_another(
    open_page: Open, two: Path, requests: Requests, journal: Journal
) -> None:
    """The switch loads the page anew; a session that comes to another cluster by itself forgets."""
    app = open_page("purge", None, cluster="prod-eu", topics="orders")
    confirmation(app)(SENTENCE)
    app.query_params["cluster"] = "staging"
    app.run()
    assert heading(app) == "staging"
    assert len(requests) == 2, "the plan of the first is not shown as one of the second"
    assert app.session_state["lw-draft"].plan.cluster_id == OTHER
    assert SENTENCE not in said(app)
    assert SENTENCE not in [field.value for field in app.text_input]
    confirmation(app)(SENTENCE.replace("prod-eu", "staging"))
    app.button(key="queue-run").click().run()
    assert [(run.cluster_id, run.cluster_name) for run in journal.runs()] == [(OTHER, "staging")]


def test_a_draft_is_of_its_plans_cluster_alone(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[str, object] = {}
    monkeypatch.setattr(drafting.st, "session_state", kept)
    here, there = (
        cast(Screen, SimpleNamespace(cluster=Store(str(two / "data")).cluster(name)))
        for name in ("prod-eu", "staging")
    )
    asked = PlanRequest(("orders",), Target("committed"), by="ada")
    request = drafting.Request(asked.topics, asked.target, origin="a triage")
    drafting.hand_over(request, a_plan(asked, here.cluster))
    assert drafting.handed(here) == request
    assert drafting.current(here, request) is not None
    assert drafting.handed(there) is None
    assert drafting.current(there, request) is None
