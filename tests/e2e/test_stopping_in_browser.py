"""Stop every purge, in a real browser: two hasty clicks stop, and a tick allows them again."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from dashboard.purge.journal.journal import Journal
from tests.support import sample_store
from tests.support.browser import browser_page, dashboard_server, keep_screenshot

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
TWICE = "button => { button.click(); setTimeout(() => button.click(), 150) }"


def test_a_double_click_stops_every_purge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample_store.write(tmp_path / "data", "plain")
    settings = f'data = "{tmp_path}/data"\nstate_dir = "{tmp_path}/state"\noperator = "ada"\n'
    (tmp_path / "lowwater.toml").write_text(settings)
    monkeypatch.setenv("LOWWATER_SETTINGS", str(tmp_path / "lowwater.toml"))

    with dashboard_server({}) as url, browser_page() as page:
        page.goto(f"{url}/audit")
        page.get_by_role("button", name="Stop every purge").evaluate(TWICE)
        expect(page.get_by_text("Every purge is switched off, by ada")).to_be_visible()
        allow = page.get_by_role("button", name="Allow purges again")
        expect(allow).to_be_disabled()
        keep_screenshot(page, "stopped")
        journal = Journal(tmp_path / "state" / "journal.sqlite")
        assert journal.read_only()
        assert {e.body["read_only"] for e in journal.entries() if e.kind == "read-only"} == {True}

        page.get_by_text("What it was stopped for is over").click()
        expect(allow).to_be_enabled()
        allow.click()
        expect(allow).to_be_hidden()
        assert not journal.read_only()
        journal.close()
