"""Scripts, styles and fonts of the pages go small to who takes that, everything else as it lies."""

from __future__ import annotations

import asyncio
import gzip
import io
import os
import re
import time
from pathlib import Path

import pyarrow as pa
import pytest
import streamlit as st
from fontTools.ttLib import TTFont

from dashboard import web_packed
from dashboard.web_guard import Message, Receive, Send
from dashboard.web_packed import Answer, PackedFiles

FOLDER = Path(st.__file__).parent
NOWHERE = Path(os.devnull, "kept")  # a folder that cannot be made: it costs time alone
FONTS = FOLDER / "static" / "static" / "media"
VARIED = b"".join(path.read_bytes() for path in sorted(Path(st.__file__).parent.glob("*.py")))
SCRIPT = b"export const answer = 42;\n" * 400
PLACE = "/static/js/index.Abc.js"


class Pages:
    """An app that serves one file, and counts how often it is asked."""

    def __init__(self, body: bytes = SCRIPT, status: int = 200, **headers: str) -> None:
        self.asked = 0
        self._body, self._status = body, status
        self._headers = {"content-type": "text/javascript; charset=utf-8", **headers}

    async def __call__(self, _scope: Message, _receive: Receive, send: Send) -> None:
        self.asked += 1
        headers = {**self._headers, "content-length": str(len(self._body)), "etag": '"of-it"',
                   "cache-control": "public, immutable"}  # fmt: skip
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": self._status, "headers": pairs})
        for half in (self._body[:1000], self._body[1000:]):
            more = half == self._body[:1000]
            await send({"type": "http.response.body", "body": half, "more_body": more})


def asked(
    pages: PackedFiles, path: str = PLACE, method: str = "GET", root_path: str = "", **headers: str
) -> tuple[dict[str, str], bytes]:
    """Status and headers, and the body, of the answer."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    pairs = [(k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()]
    scope: Message = {"type": "http", "method": method, "path": path, "headers": pairs}
    scope["root_path"] = root_path
    asyncio.run(pages(scope, receive, send))
    told = {k.decode(): v.decode() for k, v in sent[0]["headers"]}
    body = b"".join(message["body"] for message in sent[1:])
    return {**told, "status": str(sent[0]["status"])}, body


def unpacked(coding: str, body: bytes) -> bytes:
    if coding == "gzip":
        return gzip.decompress(body)
    return bytes(pa.Codec("brotli").decompress(body, len(SCRIPT), asbytes=True))


@pytest.mark.parametrize(
    ("takes", "coding"),
    [
        ("gzip, deflate, br, zstd", "br"),
        ("gzip, deflate", "gzip"),
        ("br;q=0, GZIP", "gzip"),
        ("br; q=0.000, gzip;q=0.5", "gzip"),
    ],
)
def test_a_script_is_packed_once_and_is_the_same_script(takes: str, coding: str) -> None:
    app = Pages()
    pages = PackedFiles(app, FOLDER, NOWHERE)
    for _ in range(3):
        told, body = asked(pages, accept_encoding=takes)
        assert (told["content-encoding"], told["vary"]) == (coding, "Accept-Encoding")
        assert int(told["content-length"]) == len(body) < len(SCRIPT) / 10
        assert unpacked(coding, body) == SCRIPT
        assert told["cache-control"] == "public, immutable" and "etag" not in told
    assert app.asked == 1


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"accept_encoding": "identity"},
        {"accept_encoding": "br;q=0, gzip;q=0.0"},
        {"accept_encoding": "br", "range": "bytes=0-99"},
        {"accept_encoding": "br", "if_none_match": '"of-it"'},
    ],
)
def test_who_does_not_take_it_or_asks_for_a_part_gets_the_file_as_it_lies(
    headers: dict[str, str],
) -> None:
    told, body = asked(PackedFiles(Pages(), FOLDER, NOWHERE), **headers)
    assert body == SCRIPT and "content-encoding" not in told and told["etag"] == '"of-it"'


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("/static/media/Font.woff2", "GET"),
        ("/media/export.js", "GET"),
        ("/static/js/../../media/export.js", "GET"),
        ("/component/x/static/js/index.js", "GET"),
        (PLACE, "HEAD"),
        (PLACE, "POST"),
    ],
)
def test_nothing_else_is_touched(path: str, method: str) -> None:
    told, body = asked(PackedFiles(Pages(), FOLDER, NOWHERE), path, method, accept_encoding="br")
    assert body == SCRIPT and "content-encoding" not in told


@pytest.mark.parametrize(
    "app",
    [
        Pages(status=404),
        Pages(status=206),
        Pages(**{"content-type": "text/html"}),
        Pages(**{"content-encoding": "gzip"}),
        Pages(b"let a;"),
    ],
)
def test_an_answer_of_another_kind_goes_on_as_it_is_and_is_not_kept(app: Pages) -> None:
    pages = PackedFiles(app, FOLDER, NOWHERE)
    for _ in range(2):
        told, _ = asked(pages, accept_encoding="br")
        assert told.get("content-encoding") in (None, "gzip") and told["etag"] == '"of-it"'
    assert app.asked == 2


def test_of_an_app_that_is_mounted_too() -> None:
    told, body = asked(
        PackedFiles(Pages(), FOLDER, NOWHERE),
        "/low" + PLACE,
        root_path="/low",
        accept_encoding="br",
    )
    assert told["content-encoding"] == "br" and unpacked("br", body) == SCRIPT


def font_of(name: str) -> tuple[str, bytes]:
    """The address of one of Streamlit's fonts, and what its file holds."""
    (path,) = FONTS.glob(f"{name}*.woff2")
    return f"/static/media/{path.name}", path.read_bytes()


def small(whole: bytes, path: str) -> tuple[int, dict[str, str], bytes]:
    """How often the app was asked, and the answer once the font has been made small."""
    app = Pages(whole, **{"content-type": "font/woff2"})
    pages = PackedFiles(app, FOLDER, NOWHERE)

    told, first = asked(pages, path, accept_encoding="br")
    assert first == whole and "content-encoding" not in told, "nobody waits for it"
    _made_smaller(pages)
    told, body = asked(pages, path, accept_encoding="br")
    return app.asked, told, body


def _made_smaller(pages: PackedFiles) -> None:
    """Wait until all that takes long has been done: one file is done before the next is begun."""
    done = ("/static/js/last.js", "br")
    pages._make_smaller(done, Answer({"headers": []}, VARIED))
    deadline = time.monotonic() + 120
    while done not in pages._packed:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.further
def test_a_script_is_packed_better_once_there_is_time() -> None:
    pages = PackedFiles(Pages(VARIED), FOLDER, NOWHERE)
    _, first = asked(pages, accept_encoding="br")
    _made_smaller(pages)
    told, body = asked(pages, accept_encoding="br")
    assert len(body) < 0.95 * len(first) and int(told["content-length"]) == len(body)
    assert pa.Codec("brotli").decompress(body, len(VARIED), asbytes=True) == VARIED


@pytest.mark.further
def test_the_next_server_begins_with_what_this_one_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def packed() -> bytes:
        pages = PackedFiles(Pages(VARIED), FOLDER, tmp_path / "kept")
        asked(pages, accept_encoding="br")
        _made_smaller(pages)
        return asked(pages, accept_encoding="br")[1]

    made = packed()
    monkeypatch.setattr(web_packed.subprocess, "run", None)
    assert packed() == made


@pytest.mark.further
def test_the_font_of_icons_goes_with_those_alone_that_streamlit_names() -> None:
    path, whole = font_of("MaterialSymbols")
    asked_times, told, body = small(whole, path)
    assert asked_times == 1 and int(told["content-length"]) == len(body) < len(whole) / 10
    assert "content-encoding" not in told and "etag" not in told
    assert told["cache-control"] == "public, immutable"

    known = icons_of(TTFont(io.BytesIO(whole)))
    named = {
        word for script in FOLDER.glob("static/static/js/*.js")
        for word in re.findall(r"material/([a-z0-9_]+)", script.read_text("utf-8"))
    }  # fmt: skip
    assert {"keyboard_arrow_down", "check", "content_copy"} <= named & known
    kept = icons_of(TTFont(io.BytesIO(body)))
    assert kept >= named & known and "search" in kept, "some are named by its Python alone"


@pytest.mark.further
@pytest.mark.parametrize("name", ["SourceSansVF-Upright", "SourceCodeVF-Upright"])
def test_a_font_of_letters_goes_with_those_of_our_texts_in_every_weight(name: str) -> None:
    whole = font_of(name)[1]
    body = web_packed.only_letters(whole)
    assert len(body) < len(whole) / 1.8
    font = TTFont(io.BytesIO(body))
    shown = "Reclaimable 41,2 GiB · 3 of 3 brokers … → ← ≤ “é” Übergröße"
    assert {ord(letter) for letter in shown} <= font.getBestCmap().keys()
    assert [axis.axisTag for axis in font["fvar"].axes] == ["wght"]
    names = {record.nameID for record in font["name"].names}
    assert not names & {1, 4, 6, 16}, "a part of a font does not bear its reserved name"


@pytest.mark.further
def test_what_is_no_font_goes_as_it_lies() -> None:
    path, _ = font_of("SourceSansVF-Upright")
    assert small(SCRIPT, path)[2] == SCRIPT
    assert (
        asked(PackedFiles(Pages(**{"content-type": "text/html"}), FOLDER, NOWHERE), path)[1]
        == SCRIPT
    )
    told, body = asked(PackedFiles(Pages(), FOLDER, NOWHERE), path, range="bytes=0-99")
    assert body == SCRIPT and told["etag"] == '"of-it"'


def icons_of(font: TTFont) -> set[str]:
    """The words that a browser draws as one icon."""
    letters = {glyph: chr(code) for code, glyph in font.getBestCmap().items()}
    tables = [
        getattr(table, "ExtSubTable", table)
        for lookup in font["GSUB"].table.LookupList.Lookup for table in lookup.SubTable
    ]  # fmt: skip
    return {
        "".join(letters.get(glyph, "?") for glyph in (first, *each.Component))
        for table in tables for first, found in getattr(table, "ligatures", {}).items()
        for each in found
    }  # fmt: skip
