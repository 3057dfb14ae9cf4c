"""What a first visit of each page carries over the wire, and how long its first number takes.

`python -m tests.bench.bench_first_visit [REPETITIONS]`. A real server of 15,000 replica rows and
Debian's Chromium on one machine. *Cold*: a browser that has nothing of these pages; *warm*: the
same browser again, by a new session. The server has served each page once before, and had time to
make scripts and fonts small. The first number is painted as part of the page that is served;
*drawn* is the page's own first table or sentence.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Page

from dashboard.ui.session.routes import TITLES
from tests.support import sample_store
from tests.support.browser import dashboard_server, launched, rests

PACKS_WITHIN_SECONDS = 60
GOAL_BYTES, COLD_SECONDS, WARM_SECONDS = 1_500_000, 1.2, 0.5
_PAINTED = """() => document.getElementById("lw-first") ?
    performance.getEntriesByName("first-contentful-paint")[0].startTime / 1000 : Infinity"""
# What a page tells first of its own, below the header.
_FIRST = ".lw-sentence, .lw-state, .lw-table, .lw h2, .lw-list, [data-testid=stDataFrame]"
THINGS = {"topic": "?name=topic-0000", "group": "?name=nobody", "broker": "?name=1"}


@dataclass(frozen=True, slots=True)
class Visit:
    """Bytes on the wire, of files and of the WebSocket; seconds until the first number is painted,
    and until the page tells something of its own.
    """

    size_bytes: int
    seconds: float
    drawn_seconds: float


def visit(context: BrowserContext, address: str) -> Visit:
    """One visit by a new tab."""
    page = context.new_page()
    sizes: list[int] = []
    wire = context.new_cdp_session(page)
    wire.send("Network.enable")
    wire.on("Network.loadingFinished", lambda it: sizes.append(int(it["encodedDataLength"])))
    wire.on(
        "Network.webSocketFrameReceived",
        lambda it: sizes.append(len(it["response"]["payloadData"])),
    )
    began = time.perf_counter()
    page.goto(address, wait_until="commit")
    page.locator(_FIRST).first.wait_for()
    drawn = time.perf_counter() - began
    painted = float(page.evaluate(_PAINTED))
    _settles(page, sizes)
    page.close()
    return Visit(sum(sizes), min(painted, drawn), drawn)


def _settles(page: Page, sizes: list[int]) -> None:
    """Nothing comes any more: charts and tables fetch their scripts once they are drawn."""
    come = -1
    while come != len(sizes):
        come = len(sizes)
        rests(page)
        page.wait_for_load_state("networkidle")
        page.wait_for_timeout(1000)


def first_and_second(browser: Browser, address: str) -> tuple[Visit, Visit]:
    """Of a browser that has nothing of these pages, and of the same one again."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(120_000)
    try:
        return visit(context, address), visit(context, address)
    finally:
        context.close()


def _middle(visits: Sequence[Visit]) -> Visit:
    """The most bytes, and the medians of the seconds."""
    return Visit(
        max(visit.size_bytes for visit in visits),
        statistics.median(visit.seconds for visit in visits),
        statistics.median(visit.drawn_seconds for visit in visits),
    )


def main(repetitions: int = 5) -> int:
    """Print the table; 1 when a page misses a goal."""
    missed = False
    heads = ("kB", "cold s", "drawn", "warm s", "drawn", "warm kB")
    print(f"{'page':12}" + "".join(f"{head:>10}" for head in heads))
    with tempfile.TemporaryDirectory(prefix="lowwater-bench-") as folder, launched() as browser:
        sample_store.write(Path(folder) / "data", "large")
        environ = {"LOWWATER_DATA": f"{folder}/data", "LOWWATER_STATE_DIR": f"{folder}/state"}
        with dashboard_server(environ) as url:
            addresses = {
                name: f"{url}/{'' if name == 'overview' else name}{THINGS.get(name, '')}"
                for name in TITLES
            }
            for address in addresses.values():
                first_and_second(browser, address)
            time.sleep(PACKS_WITHIN_SECONDS)
            for name, address in addresses.items():
                found = [first_and_second(browser, address) for _ in range(repetitions)]
                cold, warm = (_middle(visits) for visits in zip(*found, strict=True))
                shown = (cold.seconds, cold.drawn_seconds, warm.seconds, warm.drawn_seconds)
                print(
                    f"{name:12}{cold.size_bytes / 1000:>10.0f}"
                    + "".join(f"{seconds:>10.2f}" for seconds in shown)
                    + f"{warm.size_bytes / 1000:>10.0f}",
                    flush=True,
                )
                missed |= cold.size_bytes > GOAL_BYTES
                missed |= cold.seconds > COLD_SECONDS or warm.seconds > WARM_SECONDS
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(*(int(word) for word in sys.argv[1:2])))
