"""Scripts, styles and fonts of the pages, made small on their way to the browser: once each, then
from memory.

Streamlit serves its own files as they lie, which is 4 MB at a first visit, and leaves packing to a
proxy; ours may be reached through a tunnel, from home, at night. What is packed is the same for
everybody and says nothing of a cluster, so its length gives nothing away. Fonts are packed already,
but of thousands of icons and letters pages show a few.
"""

from __future__ import annotations

import asyncio
import gzip
import io
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from fontTools import subset
from fontTools.ttLib import TTFont

from dashboard.web_guard import Asgi, Message, Receive, Send

_PLACE = re.compile(r"/static/(js|css)/[^/]+\.(js|css)")
_FONT = re.compile(r"/static/media/(MaterialSymbols|Source(?:Sans|Code)VF)[^/]*\.woff2")
# Answers of another kind for such an address are Streamlit's index page, or an error.
_KINDS = (b"text/javascript", b"application/javascript", b"text/css")
_FONT_KINDS = (b"font/woff2", b"application/font-woff2", b"application/octet-stream")
_LEAST_BYTES = 1000
_NEVER = re.compile(r"q\s*=\s*0(\.0*)?")
# Beyond 5 brotli takes twice as long for a hundredth less.
_BROTLI_LEVEL, _GZIP_LEVEL = 5, 6
_GLYPHS = "glyphs"  # beside the codings: how a font is made small
_ICONS = "/MaterialSymbols"
_MOST_SECONDS = 60.0
# A browser gives the first two for a partial file, the others for one that it has.
_AS_IT_LIES = {b"range", b"if-range", b"if-none-match", b"if-modified-since"}
# They tell of the file as it lies.
_OF_THE_FILE = {b"content-length", b"etag", b"last-modified", b"accept-ranges", b"vary"}
_LOG = logging.getLogger(__name__)


def _brotli(body: bytes) -> bytes:
    return bytes(pa.Codec("brotli", _BROTLI_LEVEL).compress(body, asbytes=True))


def _gzip(body: bytes) -> bytes:
    return gzip.compress(body, _GZIP_LEVEL, mtime=0)


_PACKERS: Mapping[str, Callable[[bytes], bytes]] = {
    **({"br": _brotli} if pa.Codec.is_available("brotli") else {}),
    "gzip": _gzip,
}


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer: its first message, with status and headers, and its body."""

    start: Message
    body: bytes


class PackedFiles:
    """ASGI middleware: Streamlit's scripts and styles as brotli or gzip, to who takes that; of its
    fonts the glyphs that pages show. `streamlit`: its package, whose sources name the icons.
    """

    def __init__(self, app: Asgi, streamlit: Path) -> None:
        self._app = app
        self._streamlit = streamlit
        self._packed: dict[tuple[str, str], Answer] = {}
        self._making: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        coding = _coding(scope)
        if coding is None:
            return await self._app(scope, receive, send)
        key = (str(scope["path"]), coding)
        if (known := self._packed.get(key)) is None:
            found = await asked(self._app, scope, receive)
            if not _packs(found, _FONT_KINDS if coding == _GLYPHS else _KINDS):
                return await tell(found, send)
            if coding == _GLYPHS:  # it takes seconds: whoever comes first has the whole font
                self._packed[key] = known = found
                self._making.add(asyncio.create_task(self._make_small(key, found)))
            else:
                known = await asyncio.to_thread(_pack, found, coding)
                self._packed[key] = known
        return await tell(known, send)

    async def _make_small(self, key: tuple[str, str], found: Answer) -> None:
        """By a process of its own, which yields to all others: the pages have better to do."""
        kind = "icons" if _ICONS in key[0] else "letters"
        words = [sys.executable, "-m", __name__, kind, str(self._streamlit)]
        made = await asyncio.to_thread(
            subprocess.run, words, input=found.body, capture_output=True, timeout=_MOST_SECONDS
        )
        if made.returncode == 0:
            self._packed[key] = _with(found, made.stdout)
        else:  # no font is worth a page: this one goes as it lies
            _LOG.warning("a font could not be made smaller: %s", made.stderr.decode()[-500:])


async def asked(app: Asgi, scope: Message, receive: Receive) -> Answer:
    """The whole answer of the app behind."""
    start: Message = {}
    parts: list[bytes] = []

    async def keep(message: Message) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
        elif message["type"] == "http.response.body":
            parts.append(message.get("body", b""))

    await app(scope, receive, keep)
    return Answer(start, b"".join(parts))


async def tell(answer: Answer, send: Send) -> None:
    """Send a whole answer."""
    await send(answer.start)
    await send({"type": "http.response.body", "body": answer.body})


def _coding(scope: Message) -> str | None:
    """How to pack the answer to this request; None: it goes as it lies."""
    if scope["type"] != "http" or scope["method"] != "GET":
        return None
    path = str(scope["path"]).removeprefix(str(scope.get("root_path", "")))
    headers = dict(scope["headers"])
    if _AS_IT_LIES & headers.keys():
        return None
    if _FONT.fullmatch(path):
        return _GLYPHS
    if _PLACE.fullmatch(path) is None:
        return None
    taken = _accepted(headers.get(b"accept-encoding", b"").decode("latin-1"))
    return next((name for name in _PACKERS if name in taken), None)


def _accepted(header: str) -> set[str]:
    """The codings that a browser takes: `br;q=0` is one that it does not."""
    found = set()
    for part in header.lower().split(","):
        name, _, weight = part.strip().partition(";")
        if _NEVER.fullmatch(weight.strip()) is None:
            found.add(name.strip())
    return found


def _packs(found: Answer, kinds: Collection[bytes]) -> bool:
    if found.start.get("status") != 200 or len(found.body) < _LEAST_BYTES:
        return False
    headers = {name.lower(): value for name, value in found.start["headers"]}
    kind = headers.get(b"content-type", b"").split(b";")[0]
    return kind in kinds and b"content-encoding" not in headers


def _pack(found: Answer, coding: str) -> Answer:
    packed = (b"content-encoding", coding.encode()), (b"vary", b"Accept-Encoding")
    return _with(found, _PACKERS[coding](found.body), *packed)


def _with(found: Answer, body: bytes, *more: tuple[bytes, bytes]) -> Answer:
    kept = [pair for pair in found.start["headers"] if pair[0].lower() not in _OF_THE_FILE]
    kept += [(b"content-length", str(len(body)).encode()), *more]
    return Answer({**found.start, "headers": kept}, body)


# Letters and signs of the languages that pages are written in; others come from the system's fonts.
_LETTERS = (
    range(0x20, 0x180), range(0x2000, 0x2070), (0x20AC, 0x2122), range(0x2190, 0x2300),
    range(0x25A0, 0x27C0),
)  # fmt: skip
_ICON = re.compile(rb"material/([a-z0-9_]+)")
# Who made it and under which licence stays; its name does not, since this is not that font.
_NAMES_KEPT = [0, 7, 13, 14]


def only_letters(woff2: bytes) -> bytes:
    """The font with the letters of our texts alone, in all its weights."""
    font = TTFont(io.BytesIO(woff2), lazy=True)
    wanted = subset.Subsetter(subset.Options(layout_features=["*"], name_IDs=_NAMES_KEPT))
    wanted.populate(unicodes=[code for codes in _LETTERS for code in codes])
    return _subset(font, wanted)


def only_icons(woff2: bytes, streamlit: Path) -> bytes:
    """The font of icons with those alone that a script or a module of the package names."""
    font = TTFont(io.BytesIO(woff2), lazy=True)
    options = subset.Options(
        layout_features=["*"], name_IDs=_NAMES_KEPT,
        layout_closure=False,  # else every icon whose letters are there
    )  # fmt: skip
    icons = _icons(font)
    sources = [*streamlit.rglob("*.js"), *streamlit.rglob("*.py")]
    named = {name.decode() for path in sources for name in _ICON.findall(path.read_bytes())}
    known = sorted(named & icons.keys())
    wanted = subset.Subsetter(options)
    wanted.populate(glyphs=[icons[name] for name in known], text="".join(known))
    return _subset(font, wanted)


def _subset(font: TTFont, wanted: subset.Subsetter) -> bytes:
    wanted.subset(font)
    font.flavor = "woff2"
    made = io.BytesIO()
    font.save(made)
    return made.getvalue()


def _icons(font: TTFont) -> dict[str, str]:
    """Glyphs by the word that stands for them: icons are ligatures of their names' letters."""
    letters = {glyph: chr(code) for code, glyph in font.getBestCmap().items()}
    found = {}
    for lookup in font["GSUB"].table.LookupList.Lookup:
        for subtable in lookup.SubTable:
            whole = getattr(subtable, "ExtSubTable", subtable)  # of a table too long for its offset
            for first, ligatures in getattr(whole, "ligatures", {}).items():
                for each in ligatures:
                    word = "".join(letters.get(glyph, "?") for glyph in (first, *each.Component))
                    found[word] = each.LigGlyph
    return found


def main(kind: str, streamlit: str) -> None:
    """`python -m dashboard.web_packed icons|letters STREAMLIT`: a font in, the smaller one out."""
    os.nice(19)
    whole = sys.stdin.buffer.read()
    made = only_icons(whole, Path(streamlit)) if kind == "icons" else only_letters(whole)
    sys.stdout.buffer.write(made)


if __name__ == "__main__":
    main(*sys.argv[1:])
