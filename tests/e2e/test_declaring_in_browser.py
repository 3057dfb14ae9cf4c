"""Declaring again in a real browser: the popover stays open and shows what stands."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from dashboard.store.snapshots import Store
from tests.support import sample_store
from tests.support.browser import browser_page, dashboard_server, keep_screenshot, rests

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]


def test_what_stands_is_shown_for_the_chosen_topic_and_a_shorter_window_is_said(
    tmp_path: Path,
) -> None:
    sample_store.write(tmp_path / "data")
    store = Store(str(tmp_path / "data")).cluster()
    store.write_declarations([
        {"glob": "clickstream", "owner": "team-web", "readers": "groups", "replay_window": "7d",
         "declared_by": "bob", "declared_at": "2026-01-01", "reason": "r"},
    ])  # fmt: skip
    environ = {
        "LOWWATER_DATA": str(tmp_path / "data"), "LOWWATER_STATE_DIR": str(tmp_path / "state"),
        "LOWWATER_OPERATOR": "ada",
    }  # fmt: skip
    with dashboard_server(environ) as url, browser_page() as page:
        page.goto(f"{url}/reclaimable?topic=clickstream")
        rests(page)
        page.get_by_role("button", name="Declare readers").click()
        rests(page)
        expect(page.get_by_label("Owner of the data")).to_have_value("team-web")
        expect(page.get_by_text("replay window 7 d: bob")).to_be_visible()
        page.locator("[data-testid=stSelectbox]").filter(has_text="Replay window").locator(
            "input"
        ).click()
        page.get_by_role("option", name="none").click()
        rests(page)
        expect(page.get_by_text("clickstream: replay window from 7 d to none")).to_be_visible()
        keep_screenshot(page, "declaring-shorter")
        page.get_by_label("Why you are sure").fill("asked again")
        page.get_by_role("button", name="Declare", exact=True).click()
        rests(page)
        expect(page.get_by_text("Declared 1 topic")).to_be_visible()
    (row,) = store.declarations()
    assert (row["replay_window"], row["owner"], row["declared_by"]) == ("0s", "team-web", "ada")
