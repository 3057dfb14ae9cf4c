"""Two clusters in one data folder, and every page on narrow screens: addresses, links, room."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from playwright.sync_api import Page, expect

from dashboard.ui.session.routes import TITLES
from tests.support import axe, sample_store
from tests.support.browser import Theme, browser_page, dashboard_server, keep_screenshot, rests

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600), pytest.mark.further]
THEMES: tuple[Theme, ...] = get_args(Theme)
NARROW = {"a phone": (390, 844), "200 % zoom": (640, 450)}  # CSS pixels of 1280 by 900 at 200 %
# Parts that scroll by themselves (tables, the row of pages) may be wider than the page, it not.
_TOO_WIDE = """() => {
  const main = document.querySelector('[data-testid=stMain]');
  return [main, document.scrollingElement].map(of => of.scrollWidth - of.clientWidth);
}"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of `prod-eu` and `staging`."""
    folder: Path = tmp_path_factory.mktemp("clusters")
    sample_store.write(folder / "data", "rich")
    sample_store.write(
        folder / "data", "broker-missing", cluster_id="aNoTheRCLusTer000000x2", name="staging"
    )
    environ = {
        "LOWWATER_DATA": str(folder / "data"),
        "LOWWATER_STATE_DIR": str(folder / "state"),
    }
    with dashboard_server(environ) as url:
        yield url


def shows(page: Page, cluster: str, title: str) -> None:
    expect(page.locator(".lw-head h1").first).to_have_text(cluster)
    expect(page).to_have_title(f"{title} · {cluster} · Lowwater")


def test_the_row_of_pages_keeps_the_cluster_and_back_is_one_step(pages: str) -> None:
    with browser_page() as page:
        page.goto(f"{pages}/growth?cluster=staging")
        rests(page)
        shows(page, "staging", "Growth")
        link = page.get_by_role("link", name="Reclaimable", exact=True)
        assert (link.get_attribute("href") or "").endswith("reclaimable?cluster=staging")
        link.click()
        expect(page).to_have_url(f"{pages}/reclaimable?cluster=staging")
        shows(page, "staging", "Reclaimable")
        rests(page)
        page.go_back()
        expect(page).to_have_url(f"{pages}/growth?cluster=staging")
        shows(page, "staging", "Growth")


def test_the_switch_leads_to_the_same_page_of_another_cluster_by_keyboard(pages: str) -> None:
    with browser_page() as page:
        page.goto(f"{pages}/topic?cluster=staging&name=orders")
        rests(page)
        page.locator(".lw-switch summary").focus()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        keep_screenshot(page, "clusters-switch")
        page.keyboard.press("Enter")
        expect(page).to_have_url(f"{pages}/topic?cluster=prod-eu&name=orders")
        rests(page)
        shows(page, "prod-eu", "orders")


def test_what_was_chosen_for_one_cluster_is_not_chosen_in_another(pages: str) -> None:
    with browser_page() as page:
        page.goto(f"{pages}/reclaimable?cluster=prod-eu&topic=orders")
        rests(page)
        expect(page.get_by_label("Topic", exact=True)).to_have_value("orders")
        page.locator(".lw-switch summary").click()
        page.locator(".lw-switch a", has_text="staging").click()
        expect(page).to_have_url(f"{pages}/reclaimable?cluster=staging")
        rests(page)
        expect(page.get_by_label("Topic", exact=True)).to_have_value("")


def test_an_address_without_a_cluster_asks_which_and_leads_on(pages: str) -> None:
    with browser_page() as page:
        page.goto(f"{pages}/growth")
        expect(page.get_by_text("Which cluster? (CLUSTER_AMBIGUOUS)")).to_be_visible()
        page.get_by_role("link", name="prod-eu").last.click()
        expect(page).to_have_url(f"{pages}/growth?cluster=prod-eu")
        rests(page)
        shows(page, "prod-eu", "Growth")


@pytest.mark.parametrize("theme", THEMES)
def test_the_fleet_leads_to_each_cluster_and_breaks_no_rule(pages: str, theme: Theme) -> None:
    with browser_page(theme=theme) as page:
        page.goto(f"{pages}/fleet")
        rests(page)
        expect(page.locator(".lw-fleet")).to_contain_text("broker 3 did not answer")
        page.locator(".lw-switch summary").click()
        assert axe.violations(page) == []
        page.locator(".lw-switch summary").click()
        keep_screenshot(page, f"fleet-{theme}")
        page.locator(".lw-fleet").get_by_role("link", name="staging", exact=True).click()
        expect(page).to_have_url(f"{pages}/?cluster=staging")
        rests(page)
        shows(page, "staging", "Overview")


@pytest.mark.parametrize("screen", NARROW)
def test_no_page_is_wider_than_a_narrow_screen(pages: str, screen: str) -> None:
    width, height = NARROW[screen]
    wide: dict[str, list[int]] = {}
    with browser_page() as page:
        page.set_viewport_size({"width": width, "height": height})
        for name in TITLES:
            address = "" if name == "overview" else name
            thing = {"topic": "orders", "group": "billing-replay", "broker": "3"}.get(name, "")
            page.goto(f"{pages}/{address}?cluster=prod-eu{thing and f'&name={thing}'}")
            rests(page)
            keep_screenshot(page, f"narrow-{width}-{name}")
            wide[name] = page.evaluate(_TOO_WIDE)
    assert {name: over for name, over in wide.items() if max(over) > 0} == {}
