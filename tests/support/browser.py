"""Debian's Chromium over a real dashboard server, with every request that leaves the machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, expect, sync_playwright

from dashboard.demo import processes
from dashboard.demo.kafka.brokers import free_ports

Theme = Literal["light", "dark"]

CHROMIUM_ARGUMENTS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
)  # fmt: skip
# Streamlit's script has run, and no script of an element is still fetched.
_RESTS = """() => !document.querySelector(
    '[data-testid=stStatusWidget], [data-testid=stSkeleton], [data-stale=true]')"""
_SHOWS_WITHIN_MS = 60_000
expect.set_options(timeout=_SHOWS_WITHIN_MS)
ARTIFACTS = Path(__file__).parent.parent.parent / "artifacts"


@contextmanager
def dashboard_server(
    environ: Mapping[str, str],
    lowwater: Sequence[str] = (sys.executable, "-m", "dashboard.cli.main"),
    cwd: Path | None = None,
    log: Path | None = None,
    flags: Sequence[str] = (),
) -> Iterator[str]:
    """`lowwater dashboard` as its users start it; the address it printed."""
    with dashboard_process(environ, lowwater, cwd, log, flags) as (_, url):
        yield url


@contextmanager
def dashboard_process(
    environ: Mapping[str, str],
    lowwater: Sequence[str] = (sys.executable, "-m", "dashboard.cli.main"),
    cwd: Path | None = None,
    log: Path | None = None,
    flags: Sequence[str] = (),
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command's process, and the address it printed once the pages answered.

    What the command and its server say goes to the file `log`.
    """
    said = log.open("ab") if log else None
    server = subprocess.Popen(
        [*lowwater, "dashboard", "--port", str(free_ports(1)[0]), *flags],
        env={**os.environ, **environ},
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=said or subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )
    try:
        assert server.stdout is not None
        yield server, server.stdout.readline().split()[0]
    finally:
        processes.stop(server, 10)  # type: ignore[arg-type]
        if server.stdout:
            server.stdout.close()
        if said:
            said.close()


@contextmanager
def browser_page(outside: list[str] | None = None, theme: Theme = "light") -> Iterator[Page]:
    """A fresh page of 1280 by 900; addresses beyond this machine are added to `outside`."""
    with launched() as browser:
        page = fresh_page(browser, theme)
        if outside is not None:
            page.on("request", lambda request: _note(request.url, outside))
        yield page


@contextmanager
def launched() -> Iterator[Browser]:
    """Debian's Chromium, without a page yet."""
    executable = shutil.which("chromium")
    assert executable, "Chromium is missing: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=CHROMIUM_ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


def fresh_page(browser: Browser, theme: Theme = "light") -> Page:
    """Another page of that size, with no cookie of anybody else."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=theme)
    context.set_default_timeout(_SHOWS_WITHIN_MS)
    return context.new_page()


def rests(page: Page) -> None:
    """Wait until the page is drawn and no part of it is on its way."""
    page.locator(".lw-head").first.wait_for()
    page.wait_for_timeout(300)
    page.wait_for_function(_RESTS)
    page.wait_for_timeout(500)  # colours fade in


def keep_screenshot(page: Page, name: str) -> None:
    """Save what is seen to artifacts/, for a person to look at."""
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / f"{name}.png")


def _note(url: str, outside: list[str]) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("data", "blob") and parts.hostname != "127.0.0.1":
        outside.append(url)
