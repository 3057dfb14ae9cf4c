"""A policy is switched on in a real browser: its sentence typed, one click, and it is on."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from dashboard.purge.journal.journal import Journal
from tests.support import sample_store
from tests.support.browser import browser_page, dashboard_server, keep_screenshot

pytestmark = pytest.mark.browser
SETTINGS = """
data = "{folder}/data"
state_dir = "{folder}/state"
operator = "ada"

[policies.orders]
topics = ["orders*"]
"""


def test_a_policy_is_switched_on_by_its_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample_store.write(tmp_path / "data", "rich")
    (tmp_path / "lowwater.toml").write_text(SETTINGS.format(folder=tmp_path))
    monkeypatch.setenv("LOWWATER_SETTINGS", str(tmp_path / "lowwater.toml"))
    outside: list[str] = []

    with dashboard_server({}) as url, browser_page(outside) as page:
        page.goto(f"{url}/policies")
        expect(page.get_by_text("What it would have done")).to_be_visible()
        button = page.get_by_role("button", name="Switch on")
        expect(button).to_be_disabled()
        page.get_by_label("Confirmation", exact=True).click()
        page.keyboard.type("switch on policy orders on prod-eu as 8e5dd2e37f01", delay=15)
        expect(button).to_be_enabled()
        keep_screenshot(page, "policy-confirm")
        button.click()
        expect(page.get_by_role("button", name="Switch off")).to_be_visible()
        expect(page.get_by_text("by ada from dashboard on")).to_be_visible()
        keep_screenshot(page, "policy-on")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    assert outside == []
    journal = Journal(tmp_path / "state" / "journal.sqlite")
    state = journal.policy_states(sample_store.CLUSTER_ID)["orders"]
    assert (state.enabled, state.who) == (True, "ada")
    assert journal.verify().ok
    journal.close()
