"""The HTML report in a browser without any network: plots draw, nothing is asked, nothing fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboard.reports.page import html_page
from dashboard.reports.storage import storage_report
from tests.support import odd_store
from tests.support.browser import browser_page, keep_screenshot
from tests.unit.reports.sources import of_store

pytestmark = [pytest.mark.browser, pytest.mark.further]


def test_the_report_opens_without_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = odd_store.write(tmp_path / "data", monkeypatch)
    path = tmp_path / "report.html"
    path.write_text(html_page(storage_report(of_store(cluster))), encoding="utf-8")
    asked: list[str] = []
    said: list[str] = []

    with browser_page(asked) as page:
        page.context.set_offline(True)
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(path.as_uri())
        charts = page.locator(".screen").count()
        for at in range(charts):
            page.locator(".screen").nth(at).locator(".main-svg .bars path").first.wait_for()
        keep_screenshot(page, "report")
        wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert page.locator(".screen").first.is_visible()
        assert not page.locator(".paper").first.is_visible()
        page.emulate_media(media="print")
        assert not page.locator(".screen").first.is_visible()
        assert page.locator(".paper svg").first.is_visible()

    assert charts == 5
    assert wide <= 0
    assert said == []
    assert asked == [path.as_uri()]
