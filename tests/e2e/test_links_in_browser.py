"""Links are seen as links, by keyboard too; newer data neither moves a page nor takes its place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support import sample_store
from tests.support.browser import Theme, browser_page, dashboard_server, keep_screenshot, rests

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300), pytest.mark.further]

_LOOK = """() => {
  const link = document.activeElement, text = link.querySelector('p') || link;
  const of = getComputedStyle(link);
  return [getComputedStyle(text).textDecorationLine, of.outlineStyle, parseInt(of.outlineWidth)];
}"""


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[str]:
    """The address of a server of a store that may grow: `tmp_path/data`."""
    sample_store.write(tmp_path / "data", "rich")
    environ = {
        "LOWWATER_DATA": str(tmp_path / "data"),
        "LOWWATER_STATE_DIR": str(tmp_path / "state"),
    }
    with dashboard_server(environ) as url:
        yield url


def tab_to(page: Page, text: str) -> None:
    link = page.get_by_role("link", name=text).first
    for _ in range(60):
        page.keyboard.press("Tab")
        if link.evaluate("link => link === document.activeElement"):
            return
    raise AssertionError(f"Tab does not reach {text}")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_link_is_underlined_and_has_a_focus_mark(pages: str, theme: Theme) -> None:
    with browser_page(theme=theme) as page:
        page.goto(pages)
        rests(page)
        tab_to(page, "Growth")
        assert page.evaluate(_LOOK)[1:] == ["solid", 3], "the navigation"
        tab_to(page, "What fills them")
        assert page.evaluate(_LOOK) == ["underline", "solid", 3]
        keep_screenshot(page, f"links-{theme}")


def test_a_button_copies_the_lines_beside_it(pages: str) -> None:
    with browser_page() as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.goto(f"{pages}/orphans")
        rests(page)
        box = page.locator(".lw-copy").first
        box.get_by_role("button", name="Copy").click()
        expect(box.get_by_role("button")).to_have_text("Copied")
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied == box.locator("code").text_content()
        assert len(copied.splitlines()) == 2, "as they stand there"
        page.evaluate("delete Navigator.prototype.clipboard")  # as a page over HTTP elsewhere
        expect(box.get_by_role("button")).to_have_text("Copy")
        box.get_by_role("button", name="Copy").click()
        expect(box.get_by_role("button")).to_have_text("Marked: press Ctrl+C")
        assert page.evaluate("getSelection().toString()").splitlines() == copied.splitlines()


def test_show_newer_data_does_not_move_the_page(pages: str, tmp_path: Path) -> None:
    with browser_page() as page:
        page.goto(f"{pages}/reclaimable")
        rests(page)
        newer = page.get_by_role("button", name="Show newer data")
        expect(newer).to_be_disabled()
        table = page.get_by_text("Select rows by the box at their left")
        expect(table).to_be_visible()
        rests(page)
        before = table.bounding_box()
        sample_store.write(tmp_path / "data", "rich")
        expect(newer).to_be_enabled()
        rests(page)
        assert table.bounding_box() == before
        newer.click()
        expect(newer).to_be_disabled()
        rests(page)
        assert table.bounding_box() == before


def test_a_page_that_follows_keeps_its_place(pages: str, tmp_path: Path) -> None:
    with browser_page() as page:
        page.set_viewport_size({"width": 1280, "height": 400})
        page.goto(pages)
        rests(page)
        link = page.get_by_role("link", name="What fills them").first
        link.scroll_into_view_if_needed()
        link.focus()
        before = link.bounding_box()
        sample_store.write(tmp_path / "data", "calm")
        expect(page.get_by_text("No follower is slow.")).to_be_attached()
        rests(page)
        after = link.bounding_box()
        assert before and after and abs(after["y"] - before["y"]) < 2
        assert link.evaluate("link => link === document.activeElement")


def test_newer_data_does_not_close_an_open_report(pages: str, tmp_path: Path) -> None:
    with browser_page() as page:
        page.goto(pages)
        rests(page)
        page.get_by_role("button", name="Report", exact=True).click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_be_visible()
        sample_store.write(tmp_path / "data", "calm")
        page.wait_for_timeout(8000)  # the header looks every five seconds
        expect(dialog).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_text("No follower is slow.")).to_be_attached()


def slash_to(page: Page, find: Locator) -> None:
    """Its script comes behind the page's own."""
    for _ in range(60):
        page.keyboard.press("/")
        with suppress(AssertionError):
            expect(find).to_be_focused(timeout=1000)
            return
    raise AssertionError("/ does not lead to the search")


def test_a_slash_leads_to_the_search_from_anywhere_but_another_field(pages: str) -> None:
    with browser_page() as page:
        page.goto(f"{pages}/reclaimable")
        rests(page)
        find = page.get_by_label("Find a topic, group or broker")
        slash_to(page, find)
        expect(find).to_have_value("")

        topic = page.get_by_label("Topic", exact=True)
        topic.click()
        page.keyboard.type("a/b")
        expect(topic).to_have_value("a/b")

        page.goto(pages)
        rests(page)
        page.get_by_role("button", name="Help", exact=True).click()
        expect(page.get_by_role("dialog")).to_be_visible()
        page.keyboard.press("/")
        expect(find).not_to_be_focused()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        slash_to(page, find)
        page.keyboard.type("billing-replay")
        page.keyboard.press("Enter")
        expect(page).to_have_url(f"{pages}/group?name=billing-replay")
