"""The real server: the entry works outside the test harness and asks nobody but this machine."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest
from playwright.sync_api import ConsoleMessage, Page

from dashboard.cli.main import main
from tests.support import sample_store
from tests.support.browser import browser_page, dashboard_process, dashboard_server

pytestmark = pytest.mark.browser
PAGES = ("", "reclaimable", "purge", "orphans", "followers", "audit", "quality")


# Streamlit looks for itself below a page's address first, and is told 404.
_PROBE = "/_stcore/"


def open_all(page: Page, url: str) -> None:
    errors: list[str] = []
    page.on("console", lambda said: errors.append(said.text) if _is_error(said) else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    for name in PAGES:
        page.goto(f"{url}/{name}")
        page.locator(".lw-head").first.wait_for(timeout=60_000)
        page.wait_for_timeout(1000)
        assert "INTERNAL" not in page.content()
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert errors == []


def _is_error(said: ConsoleMessage) -> bool:
    return said.type == "error" and _PROBE not in said.location.get("url", "")


def test_every_page_opens_and_no_request_leaves_this_machine(tmp_path: Path) -> None:
    sample_store.write(tmp_path / "data", "rich")
    environ = {
        "LOWWATER_DATA": str(tmp_path / "data"),
        "LOWWATER_STATE_DIR": str(tmp_path / "state"),
    }
    outside: list[str] = []

    with dashboard_server(environ) as url, browser_page(outside) as page:
        open_all(page, url)

    assert outside == []


def test_ctrl_c_ends_the_server_and_its_command(tmp_path: Path) -> None:
    environ = {"LOWWATER_DATA": str(tmp_path / "data"), "LOWWATER_STATE_DIR": str(tmp_path)}

    with dashboard_process(environ) as (process, url):
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        port = int(url.rsplit(":", 1)[1])
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_a_taken_port_is_a_named_error(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code = main(["dashboard", "--port", str(taken.getsockname()[1]), "--json"])

    assert code == 1
    assert '"PORT_TAKEN"' in capsys.readouterr().out
