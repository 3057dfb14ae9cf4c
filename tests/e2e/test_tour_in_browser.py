"""A newcomer's way through a fresh demo to a receipt; on it the documentation's pictures are made.

`make pictures` runs it and takes the pictures over.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from dashboard.ui import tour
from tests.support.browser import browser_page, keep_screenshot, rests

pytestmark = [
    pytest.mark.browser,
    pytest.mark.brokers,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]
PATIENCE_MS = 240_000  # a whole demo beside other tests


@contextmanager
def demo(folder: Path) -> Iterator[str]:
    """`lowwater demo up` as its users start it: the address of its pages."""
    environ = {**os.environ, "LOWWATER_STATE_DIR": str(folder), "LOWWATER_OPERATOR": "ada"}
    process = subprocess.Popen(
        [sys.executable, "-m", "dashboard.cli.main", "demo", "up", "--json"],
        env=environ, text=True, stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"]
        process.send_signal(signal.SIGINT)
        assert process.wait(90) == 130
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


def step(page: Page, number: int) -> None:
    expect(page.get_by_role("note").get_by_text(f"Tour, {number} of 5")).to_be_visible(
        timeout=PATIENCE_MS
    )


def test_five_clicks_and_one_typed_line_lead_from_the_demo_to_a_receipt(tmp_path: Path) -> None:
    clicks: list[str] = []

    def click(target: Locator, what: str) -> None:
        target.click()
        clicks.append(what)

    with demo(tmp_path) as url, browser_page() as page:
        page.set_viewport_size({"width": 1280, "height": 1000})
        page.goto(url)
        step(page, 1)
        expect(page.get_by_role("button", name="Plan the safest")).to_be_visible(
            timeout=PATIENCE_MS
        )
        keep_screenshot(page, "tour-1")
        click(page.get_by_role("link", name="Next: who holds the rest"), "next")
        step(page, 2)
        expect(page.get_by_text("billing-old").first).to_be_visible()
        rests(page)
        keep_screenshot(page, "tour-2")
        click(page.get_by_role("link", name=f"Next: preview a purge of {tour.TOPIC}"), "next")
        step(page, 3)
        expect(page.get_by_text("Type this sentence to confirm")).to_be_visible(timeout=PATIENCE_MS)
        rests(page)
        keep_screenshot(page, "tour-3")
        click(page.get_by_label("Confirmation", exact=True), "field")
        page.keyboard.type(f"purge {tour.TOPIC} on demo", delay=15)
        purge = page.get_by_role("button", name="Purge 1 topic")
        expect(purge).to_be_enabled()
        click(purge, "purge")
        step(page, 4)
        expect(page.get_by_text("✔ done · run")).to_be_visible(timeout=PATIENCE_MS)
        receipt = page.locator(".lw-state").filter(has_text="✔ Receipt")
        expect(receipt).to_be_visible(timeout=PATIENCE_MS)
        freed = receipt.locator(".lw-counts div").filter(has_text="freed")
        expect(freed).not_to_contain_text("0 B")
        assert len(clicks) <= 5, clicks
        run = page.url

        page.get_by_role("link", name="Next: what is kept of it").click()
        step(page, 5)
        rests(page)
        keep_screenshot(page, "tour-5")
        page.get_by_role("button", name="End the tour").click()
        expect(page.get_by_role("note")).to_have_count(0)

        page.goto(run)
        rests(page)
        keep_screenshot(page, "tour-receipt")
        page.goto(url)
        expect(page.get_by_role("note")).to_have_count(0)
        rests(page)
        keep_screenshot(page, "tour-overview")
        picture_of_the_report(page, tmp_path / "report.html")


def picture_of_the_report(page: Page, file: Path) -> None:
    """The report of what the page shows, as its reader opens it."""
    page.get_by_role("button", name="Report", exact=True).click()
    with page.expect_download() as handed_out:
        page.get_by_role("button", name="Page (HTML)").click()
    handed_out.value.save_as(file)
    page.goto(file.as_uri())
    page.locator(".screen .main-svg .bars path").first.wait_for()
    keep_screenshot(page, "tour-report")
