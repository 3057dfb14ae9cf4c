"""Looks at every page of the running dashboard: its HTTP health, and in Chromium what it shows."""

from __future__ import annotations

import threading
import urllib.request

from tests.e2e.test_server import PAGES
from tests.soak.world import World
from tests.support.browser import browser_page

EVERY_SECONDS = 420.0
_SHOWS_WITHIN_MS = 90_000
_SETTLES_MS = 2_500
# What no page may show: our own word for a bug, Streamlit's box for an exception.
BAD_WORDS = ("INTERNAL", "Traceback (most recent call last)")
_BOX = "[data-testid='stException']"


def answers(url: str) -> list[str]:
    """What is wrong with the addresses of the pages and of the server's health."""
    wrong = []
    for name in ("_stcore/health", *PAGES):
        try:
            with urllib.request.urlopen(f"{url}/{name}", timeout=20) as answer:
                if answer.status != 200:
                    wrong.append(f"/{name} answers {answer.status}")
        except OSError as error:
            wrong.append(f"/{name}: {error}")
    return wrong


def look(world: World, shot: str | None = None) -> list[str]:
    """What is wrong on the pages in a browser; with `shot` screenshots are kept."""
    wrong = []
    with browser_page() as page:
        page.set_default_timeout(_SHOWS_WITHIN_MS)
        for name in PAGES:
            try:
                page.goto(f"{world.url}/{name}")
                page.locator(".lw-head").first.wait_for(timeout=_SHOWS_WITHIN_MS)
                page.wait_for_timeout(_SETTLES_MS)
                text = page.locator("body").inner_text()
                wrong += [f"/{name} shows {word}" for word in BAD_WORDS if word in text]
                wrong += [f"/{name} shows an exception"] * bool(page.locator(_BOX).count())
                if shot:
                    file = world.place.folder / f"{shot}-{name or 'overview'}.png"
                    page.screenshot(path=file)
            except Exception as error:
                wrong.append(f"/{name}: {str(error)[:300]}")
    return wrong


class Visitor(threading.Thread):
    """Opens every page now and then: a page server without visitors grows no memory."""

    def __init__(self, world: World, ended: threading.Event) -> None:
        super().__init__(name="visitor", daemon=True)
        self._world, self._ended = world, ended

    def run(self) -> None:
        while True:
            self._world.place.note("visit", wrong=self._visited())
            if self._ended.wait(EVERY_SECONDS):
                return

    def _visited(self) -> list[str]:
        try:
            return answers(self._world.url) + look(self._world)
        except Exception as error:
            return [f"no look was possible: {str(error)[:300]}"]
