"""What a browser that has nothing of the pages must fetch before it shows one, and what it shows
until it has fetched that.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
import streamlit as st
from playwright.sync_api import expect

from tests.bench.bench_first_visit import first_and_second
from tests.support import sample_store
from tests.support.browser import Theme, dashboard_server, fresh_page, launched, rests

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
MOST_BYTES = 1_500_000
HEAVIEST = ("", "reclaimable", "orphans", "followers", "growth")  # charts, tables, command lines
STATIC = Path(st.__file__).parent / "static" / "static"
# What is large, and how large it may be once it has been made small.
LARGE = {
    "js/EChartsChart*.js": 325_000,
    "media/MaterialSymbols-Rounded*.woff2": 30_000, "media/SourceSansVF-Upright*.woff2": 80_000,
    "media/SourceCodeVF-Upright*.woff2": 50_000, "media/SourceSansVF-Italic*.woff2": 70_000,
}  # fmt: skip
# An icon is drawn from its name: where the font has none, that stands there, many letters wide.
WIDE_ICONS = """() => [...document.querySelectorAll("[data-testid=stIconMaterial]")]
    .filter(it => it.scrollWidth > 2 * parseFloat(getComputedStyle(it).fontSize))
    .map(it => it.textContent)"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of a rich store, that has made small what is large."""
    folder = tmp_path_factory.mktemp("first-visit")
    sample_store.write(folder / "data", "rich")
    environ = {"LOWWATER_DATA": str(folder / "data"), "LOWWATER_STATE_DIR": str(folder / "state")}
    with dashboard_server(environ) as url:
        for pattern, most in LARGE.items():
            (file,) = STATIC.glob(pattern)
            _made_small(f"{url}/static/{file.relative_to(STATIC)}", most)
        yield url


def _made_small(address: str, most: int) -> None:
    asked, deadline = Request(address, headers={"Accept-Encoding": "br"}), time.monotonic() + 180
    while len(urlopen(asked).read()) > most:
        assert time.monotonic() < deadline, f"{address} stays large"
        time.sleep(0.5)


def test_no_first_visit_carries_more_than_a_tunnel_bears_and_the_next_one_next_to_nothing(
    pages: str,
) -> None:
    carried: dict[str, int] = {}
    again: dict[str, int] = {}
    with launched() as browser:
        for name in HEAVIEST:
            first, second = first_and_second(browser, f"{pages}/{name}")
            carried[name], again[name] = first.size_bytes, second.size_bytes
    assert {name: size for name, size in carried.items() if size > MOST_BYTES} == {}
    assert min(carried.values()) > 300_000, "what is counted is what a page is made of"
    assert {name: size for name, size in again.items() if size > 500_000} == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_first_numbers_stand_there_without_any_script_and_go_when_the_page_is_drawn(
    pages: str, theme: Theme
) -> None:
    with launched() as browser:
        page = fresh_page(browser, theme)
        page.route("**/static/js/**", lambda route: route.abort())
        page.goto(f"{pages}/growth")
        first = page.locator("#lw-first")
        expect(first).to_be_visible()
        box = first.bounding_box()
        assert box is not None and (box["width"], box["y"]) == (1280, 0) and box["height"] > 80
        colour = first.evaluate("it => getComputedStyle(it).backgroundColor")
        assert colour == {"light": "rgb(255, 255, 255)", "dark": "rgb(14, 20, 32)"}[theme]

        page.unroute("**/static/js/**")
        page.goto(f"{pages}/growth")
        expect(first).to_be_attached()
        rests(page)
        expect(first).to_be_hidden()
        assert page.evaluate(WIDE_ICONS) == []
        assert page.locator("[data-testid=stIconMaterial]").count() > 0, "there are icons"
