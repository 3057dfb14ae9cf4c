"""The page that is served bears the first numbers: nobody waits for scripts to read them."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import streamlit as st

from dashboard import web_first
from dashboard.ui import overview
from dashboard.ui.session import context
from dashboard.web_first import FirstNumbers, first_numbers
from dashboard.web_guard import AFTER_PAINT, Message, Receive, Send
from tests.support import sample_store

pytestmark = pytest.mark.usefixtures("patient")
INDEX = b'<html><body><div id="root"></div></body></html>'
OTHER = "aNoTheRCLusTer000000x2"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy this machine is."""
    monkeypatch.setattr(web_first, "_MOST_SECONDS", 60.0)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The data folder of a server that begins anew."""
    monkeypatch.setenv("LOWWATER_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("LOWWATER_STATE_DIR", str(tmp_path / "state"))
    context.started.cache_clear()
    yield tmp_path / "data"
    context.started.cache_clear()


def served(
    path: str = "/",
    query: bytes = b"",
    *,
    numbers: Callable[[str | None], str] = lambda named: f"<p>of {named}</p>",
    method: str = "GET",
    status: int = 200,
    body: bytes = INDEX,
) -> tuple[dict[str, str], str, list[tuple[bytes, bytes]]]:
    """Headers and body of the answer, and the headers that the app behind was asked with."""
    sent: list[Message] = []
    seen: list[tuple[bytes, bytes]] = []

    async def index(scope: Message, _receive: Receive, send: Send) -> None:
        seen.extend(scope["headers"])
        headers = [(b"content-length", str(len(body)).encode()), (b"etag", b'"of-it"'),
                   (b"cache-control", b"no-cache"), (b"content-type", b"text/html")]  # fmt: skip
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"if-none-match", b'"of-it"'), (b"accept-encoding", b"gzip, br"),
               (b"accept", b"text/html")]  # fmt: skip
    scope: Message = {"type": "http", "method": method, "path": path, "headers": headers}
    scope["query_string"] = query
    asyncio.run(FirstNumbers(index, numbers)(scope, receive, send))
    told = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return told, b"".join(message["body"] for message in sent[1:]).decode(), seen


@pytest.mark.parametrize("path", ["/", "/growth", "/low/purge", "/low/"])
def test_a_page_bears_the_numbers_of_the_cluster_that_its_address_names(path: str) -> None:
    told, body, seen = served(path, b"x=1&cluster=prod%2Feu")
    assert body == '<html><body><div id="root"></div><p>of prod/eu</p></body></html>'
    assert told["content-length"] == str(len(body)) and told["cache-control"] == "no-store"
    assert "etag" not in told
    assert seen == [(b"accept", b"text/html")], "neither a copy nor a packed page is asked for"


def test_scripts_begin_once_the_numbers_are_painted() -> None:
    main = b'<script type="module" crossorigin src="./static/js/index.a1.js"></script>'
    page = INDEX.replace(b"<body>", main + b"<body>")
    _, body, _ = served(body=page)
    assert main.decode() not in body
    assert '<link rel="modulepreload" crossorigin href="./static/js/index.a1.js"><body>' in body
    begun = f'<p>of None</p><script data-src="./static/js/index.a1.js">{AFTER_PAINT}</script>'
    assert body.endswith(f'<div id="root"></div>{begun}</body></html>')
    assert served(body=page, numbers=lambda _: "")[1] == page.decode(), "nothing to wait for"
    (streamlit,) = Path(st.__file__).parent.glob("static/index.html")
    assert 'data-src="./static/js/index.' in served(body=streamlit.read_bytes())[1]


@pytest.mark.parametrize(
    ("path", "method", "status", "body"),
    [
        ("/static/js/index.js", "GET", 200, INDEX),
        ("/", "HEAD", 200, INDEX),
        ("/growth", "GET", 404, INDEX),
        ("/growth", "GET", 200, b"<html></html>"),
    ],
)
def test_nothing_else_bears_any(path: str, method: str, status: int, body: bytes) -> None:
    told, found, _ = served(path, method=method, status=status, body=body)
    assert found.encode() == body and told["etag"] == '"of-it"'


def test_who_is_slow_to_tell_holds_no_page_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_first, "_MOST_SECONDS", 0.01)

    def slow(_named: str | None) -> str:
        time.sleep(0.2)
        return "<p>late</p>"

    assert served(numbers=slow)[1] == INDEX.decode()


def test_an_error_that_nobody_foresaw_costs_no_page(caplog: pytest.LogCaptureFixture) -> None:
    def broken(_named: str | None) -> str:
        raise KeyError("log_dir")

    assert served(numbers=broken)[1] == INDEX.decode()
    assert "first numbers" in caplog.text and "log_dir" in caplog.text


def test_a_store_that_hangs_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_first, "_MOST_SECONDS", 0.01)
    asked: list[str | None] = []
    gone_on = threading.Event()

    async def behind(*_: object) -> None:
        raise AssertionError("numbers alone are asked here")

    def hanging(named: str | None) -> str:
        asked.append(named)
        gone_on.wait(10)
        return ""

    numbers = FirstNumbers(behind, hanging)

    async def three() -> list[str]:
        told = [await numbers._told("a") for _ in range(3)]
        gone_on.set()
        return told

    assert asyncio.run(three()) == ["", "", ""]
    assert asked == ["a"]


def words_of(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub("<style>.*?</style>|<.*?>", " ", html, flags=re.DOTALL))


def test_they_are_those_that_the_page_tells(data: Path) -> None:
    sample_store.write(data, "rich")
    html = first_numbers(None)
    screen = context.newest(context.store().cluster())
    assert overview.sentence(context.headline_of(screen)) in html
    assert re.search(r"prod-eu · snapshot [0-9]+ s ago · 3 of 3 brokers", words_of(html))
    assert 'shadowrootmode="closed"' in html and "<script" not in html


def test_a_broker_that_is_away_a_full_disk_and_a_stop_are_told_too(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample_store.write(data, "broker-away")
    settings = tmp_path / "lowwater.toml"
    settings.write_text("read_only = true\n")
    monkeypatch.setenv("LOWWATER_SETTINGS", str(settings))
    said = words_of(first_numbers(None))
    assert "2 of 3 brokers" in said and "did not answer" in said
    assert "every purge is stopped" in said


def test_of_several_clusters_the_address_decides(data: Path) -> None:
    sample_store.write(data, "plain")
    sample_store.write(data, "nothing", cluster_id=OTHER, name="prod-us")
    assert first_numbers(None) == "", "the page itself asks which"
    assert "prod-eu" in words_of(first_numbers("prod-eu"))
    us = words_of(first_numbers("prod-us"))
    assert "prod-us" in us and "Nothing can be given back" in us
    assert first_numbers("no-such") == ""


@pytest.mark.parametrize("variant", ["no-analysis", None])
def test_before_the_first_analysis_there_are_none(data: Path, variant: str | None) -> None:
    if variant:
        sample_store.write(data, variant)
    assert first_numbers(None) == ""


def test_where_people_sign_in_nobody_reads_any(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample_store.write(data)
    assert first_numbers(None)
    monkeypatch.setattr(web_first.access, "signs_in", lambda: True)
    assert first_numbers(None) == ""


def test_who_may_not_look_reads_none(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample_store.write(data)
    settings = tmp_path / "lowwater.toml"
    settings.write_text('operator = "eve"\n[people]\nviewers = ["ada"]\n')
    monkeypatch.setenv("LOWWATER_SETTINGS", str(settings))
    assert first_numbers(None) == ""
