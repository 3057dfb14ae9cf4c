"""The real server: the entry works outside the test harness and asks nobody but this machine."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import ConsoleMessage, Page

from dashboard.cli.main import main
from dashboard.ui.session.routes import TITLES
from tests.support import marked, sample_store
from tests.support.browser import browser_page, dashboard_process, dashboard_server

pytestmark = pytest.mark.browser
PAGES = tuple("" if name == "overview" else name for name in TITLES)


# Streamlit looks for itself below a page's address first, and is told 404.
_PROBE = "/_stcore/"


def open_all(page: Page, url: str) -> list[str]:
    """Every page without an error: where a planted secret was seen in its DOM or its frames."""
    errors: list[str] = []
    told: list[str] = []
    page.on("websocket", lambda socket: socket.on("framereceived", lambda it: _search(it, told)))
    page.on("console", lambda said: errors.append(said.text) if _is_error(said) else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    for name in PAGES:
        page.goto(f"{url}/{name}")
        page.locator(".lw-head").first.wait_for()
        page.wait_for_timeout(1000)
        assert "INTERNAL" not in page.content()
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
        told += marked.marks_in(page.content())
    assert errors == []
    return told


def _search(frame: str | bytes, told: list[str]) -> None:
    told += marked.marks_in(frame)


def _is_error(said: ConsoleMessage) -> bool:
    return said.type == "error" and _PROBE not in said.location.get("url", "")


class Served(NamedTuple):
    """One server of a rich store, whose settings hold every secret there can be."""

    url: str
    folder: Path


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """For all checks here."""
    folder = tmp_path_factory.mktemp("served")
    sample_store.write(folder / "data", "rich")
    environ = {
        **marked.TOKEN_VARIABLE,
        "LOWWATER_SETTINGS": str(marked.settings_file(folder, "prod-eu", "127.0.0.1:9")),
        "STREAMLIT_SERVER_ENABLE_CORS": "false",
        "STREAMLIT_SERVER_ENABLE_AGENT_API": "true",
    }
    with dashboard_server(environ, log=folder / "server.log") as url:
        yield Served(url, folder)


@pytest.mark.further
def test_every_page_opens_no_request_leaves_and_no_secret_is_told(served: Served) -> None:
    outside: list[str] = []

    with browser_page(outside) as page:
        told = open_all(page, served.url)

    assert outside == []
    assert told == []
    assert marked.marked_files(served.folder) == {}
    assert marked.marked_processes(served.folder) == []


def status_of(url: str, path: str, *headers: str) -> int:
    """The status of a request with exactly these headers; a WebSocket's handshake if asked."""
    at = urlsplit(url)
    lines = [f"GET {path} HTTP/1.1", *headers]
    if path.endswith("/stream"):
        lines += [
            "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        ]  # fmt: skip
    with socket.create_connection((at.hostname or "", at.port or 0), timeout=20) as connection:
        connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        return int(connection.recv(4096).split()[1])


@pytest.mark.further
@pytest.mark.parametrize(
    ("path", "taken"), [("/_stcore/stream", 101), ("/_stcore/host-config", 200), ("/", 200)]
)
def test_foreign_hosts_and_origins_are_refused_by_the_real_server(
    served: Served, path: str, taken: int
) -> None:
    here = urlsplit(served.url).netloc
    port = here.rsplit(":", 1)[1]

    assert status_of(served.url, path, f"Host: {here}") == taken
    assert status_of(served.url, path, f"Host: {here}", f"Origin: {served.url}") == taken
    own = f"localhost:{port}"
    assert status_of(served.url, path, f"Host: {own}", f"Origin: http://{own}") == taken
    rebound = f"rebound.example:{port}"
    assert status_of(served.url, path, f"Host: {rebound}") == 403
    assert status_of(served.url, path, f"Host: {rebound}", f"Origin: http://{rebound}") == 403
    for origin in ("https://rebound.example", "http://127.0.0.1:9", "http://0.0.0.0:9", "null"):
        assert status_of(served.url, path, f"Host: {here}", f"Origin: {origin}") == 403


@pytest.mark.further
def test_no_interface_for_programs_is_open(served: Served) -> None:
    here = f"Host: {urlsplit(served.url).netloc}"

    for path in ("/_stcore/agent/interact", "/_stcore/agent/mcp"):
        assert status_of(served.url, path, here) in (403, 404, 405), path


@pytest.mark.slow
def test_behind_a_proxy_its_own_name_alone_is_served_too(tmp_path: Path) -> None:
    public, name = "https://lowwater.example.org", "Host: lowwater.example.org"
    environ = {"LOWWATER_DATA": str(tmp_path / "data"), "LOWWATER_STATE_DIR": str(tmp_path)}
    flags = ("--address", "127.0.0.2", "--behind-proxy", public)

    with dashboard_server(environ, log=tmp_path / "log", flags=flags) as url:
        here = f"Host: {urlsplit(url).netloc.replace('127.0.0.2', '127.0.0.1')}"
        for path, taken in (("/_stcore/stream", 101), ("/", 200)):
            assert status_of(url, path, name, f"Origin: {public}") == taken
            assert status_of(url, path, here, f"Origin: {public}") == taken  # Host rewritten
            assert status_of(url, path, name, "Origin: https://other.example.org") == 403
            assert status_of(url, path, "Host: other.example.org") == 403
            assert status_of(url, path, f"Host: {urlsplit(url).netloc}") == 403

    log = (tmp_path / "log").read_text()
    assert f"warning: everybody whom the proxy at {public} lets in acts as" in log
    assert log.count("refused a request: ") == 6


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
