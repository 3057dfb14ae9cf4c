"""Choosing topics as an operator does it: typed, Enter; no name comes that was not asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support import sample_store
from tests.support.browser import browser_page, dashboard_server, keep_screenshot, rests
from tests.support.sample_topics import TOPICS

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300), pytest.mark.further]

NAMES = ("all-orders", "old-readers", "orders-dlq")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of a store with topics that hold `orders`, or its letters."""
    folder = tmp_path_factory.mktemp("picking")
    names = [f"{front}-{number}" for front in NAMES for number in range(40)]
    more = tuple(replace(TOPICS[0], topic=name) for name in names)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sample_store, "TOPICS", (*more, *TOPICS))
        sample_store.write(folder / "data")
    environ = {"LOWWATER_DATA": str(folder / "data"), "LOWWATER_STATE_DIR": str(folder / "state")}
    with dashboard_server(environ) as url:
        yield url


def box(page: Page, label: str) -> Locator:
    return page.locator("[data-testid=stMultiSelect]").filter(has_text=label)


def chips(found: Locator) -> list[str]:
    tags = found.locator("[data-tag]").all()
    return [tag.get_attribute("aria-label") or "" for tag in tags]


def typed(page: Page, found: Locator, text: str) -> None:
    found.locator("input").click()
    page.keyboard.type(text, delay=20)
    page.wait_for_timeout(500)
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    rests(page)


def test_a_typed_name_and_enter_choose_that_topic_alone(pages: str) -> None:
    with browser_page() as page:
        page.goto(f"{pages}/purge")
        rests(page)
        topics = box(page, "Topics")
        typed(page, topics, "orders")
        assert chips(topics) == ["orders"]
        typed(page, topics, "ordrs")  # letters in order are no name
        assert chips(topics) == ["orders"]
        typed(page, topics, "PAYMENTS")
        assert chips(topics) == ["orders", "payments"]
        keep_screenshot(page, "purge-picking")


def test_nothing_offers_all_matches_at_once(pages: str) -> None:
    with browser_page() as page:
        for label in ("Topics", "Waive groups", "Lift guards"):
            page.goto(f"{pages}/purge?topics=orders&waive=billing-replay")
            rests(page)
            found = box(page, label)
            found.locator("input").click()
            expect(page.get_by_role("option").first).to_be_visible()
            assert page.get_by_role("option").filter(has_text="Select").count() == 0
            page.keyboard.type("e")
            page.wait_for_timeout(500)
            assert page.get_by_role("option").filter(has_text="Select").count() == 0


def test_many_topics_are_counted_and_named(pages: str) -> None:
    with browser_page() as page:
        page.goto(pages)
        rests(page)
        page.get_by_role("button", name="Plan the safest").click()
        said = page.locator("[role=status]").filter(has_text="topics: ")
        expect(said).to_be_visible()
        text = said.inner_text()
        count = int(text.split()[0].replace("\u2009", "").replace(" ", ""))
        said.locator("summary").click()
        names = said.inner_text()
        assert count > 20
        assert names.count(",") >= count - 2
        keep_screenshot(page, "purge-picked-many")
