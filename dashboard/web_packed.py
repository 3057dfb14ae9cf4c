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
import hashlib
import io
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dashboard.core.errors import LowwaterError
from dashboard.store.local_files import LocalFiles
from dashboard.store.snapshot_files import write_atomically
from dashboard.web_guard import Asgi, Message, Receive, Send

if TYPE_CHECKING:
    from fontTools.ttLib import TTFont

_PLACE = re.compile(r"/static/(js|css)/[^/]+\.(js|css)")
_FONT = re.compile(r"/static/media/(MaterialSymbols|Source(?:Sans|Code)VF)[^/]*\.woff2")
# Answers of another kind for such an address are Streamlit's index page, or an error.
_KINDS = (b"text/javascript", b"application/javascript", b"text/css")
_FONT_KINDS = (b"font/woff2", b"application/font-woff2", b"application/octet-stream")
_LEAST_BYTES = 1000
_NEVER = re.compile(r"q\s*=\s*0(\.0*)?")
# Who comes first waits for brotli's 5; its 11 takes forty times as long, for an eighth less.
_BROTLI_LEVEL, _BEST_LEVEL, _GZIP_LEVEL = 5, 11, 6
_LARGE_BYTES = 200_000  # as it lies: a dozen files, most of what a page is made of
_MADE_AS = 1  # counted up whenever a file comes out otherwise: letters, icons, level
_GLYPHS = "glyphs"  # beside the codings: how a font is made small
_ICONS = "/MaterialSymbols"
_MOST_SECONDS = 300.0  # of a file, by what others leave of a busy machine
# A browser gives the first two for a partial file, the others for one that it has.
_AS_IT_LIES = {b"range", b"if-range", b"if-none-match", b"if-modified-since"}
# They tell of the file as it lies.
_OF_THE_FILE = {b"content-length", b"etag", b"last-modified", b"accept-ranges", b"vary"}
_LOG = logging.getLogger(__name__)


def _brotli(body: bytes, level: int = _BROTLI_LEVEL) -> bytes:
    return bytes(pa.Codec("brotli", level).compress(body, asbytes=True))


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
    `kept`: a folder for what took long, which the next server begins with.
    """

    def __init__(self, app: Asgi, streamlit: Path, kept: Path) -> None:
        self._app = app
        self._streamlit = streamlit
        self._kept = kept
        self._packed: dict[tuple[str, str], Answer] = {}
        self._wanted: SimpleQueue[tuple[tuple[str, str], str, Answer]] = SimpleQueue()
        self._later: Thread | None = None

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
                known = found
            else:
                body = await asyncio.to_thread(_PACKERS[coding], found.body)
                known = _packed(found, coding, body)
            self._packed[key] = known
            self._make_smaller(key, found)
        return await tell(known, send)

    def _make_smaller(self, key: tuple[str, str], found: Answer) -> None:
        kind = _kind(*key, len(found.body))
        if kind is None:
            return
        if self._later is None:
            self._later = Thread(target=self._work, name="lowwater-packer", daemon=True)
            self._later.start()
        self._wanted.put((key, kind, found))

    def _work(self) -> None:
        """What takes long, one file after the other, by processes that yield to all others: a
        thread that did would hold the interpreter while it waits for its turn.
        """
        while True:
            key, kind, found = self._wanted.get()
            try:
                made = self._smaller(kind, found.body)
            except (OSError, LowwaterError, subprocess.SubprocessError) as error:
                # It goes as it went so far.
                _LOG.warning("%s could not be made smaller: %s", key[0], error)
                continue
            self._packed[key] = _packed(found, "br", made) if kind == "br" else _with(found, made)

    def _smaller(self, kind: str, body: bytes) -> bytes:
        """Out of the folder, or made and put there; one that takes nothing costs time alone."""
        name = f"{hashlib.sha256(body).hexdigest()[:32]}.{version('streamlit')}.{kind}{_MADE_AS}"
        file = self._kept / name
        with suppress(OSError):
            return file.read_bytes()
        words = [sys.executable, "-m", __name__, kind, str(self._streamlit)]
        made = subprocess.run(
            words, input=body, capture_output=True, check=True, timeout=_MOST_SECONDS
        ).stdout
        with suppress(OSError, LowwaterError):
            write_atomically(LocalFiles(), str(file), made)
        return made


def _kind(path: str, coding: str, size_bytes: int) -> str | None:
    """How a file is made smaller once there is time; None: it is small enough."""
    if coding == _GLYPHS:
        return "icons" if _ICONS in path else "letters"
    return "br" if coding == "br" and size_bytes >= _LARGE_BYTES else None


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


def _packed(found: Answer, coding: str, body: bytes) -> Answer:
    packed = (b"content-encoding", coding.encode()), (b"vary", b"Accept-Encoding")
    return _with(found, body, *packed)


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
    from fontTools import subset

    font = _opened(woff2)
    wanted = subset.Subsetter(subset.Options(layout_features=["*"], name_IDs=_NAMES_KEPT))
    wanted.populate(unicodes=[code for codes in _LETTERS for code in codes])
    return _subset(font, wanted)


def only_icons(woff2: bytes, streamlit: Path) -> bytes:
    """The font of icons with those alone that a script or a module of the package names."""
    from fontTools import subset

    font = _opened(woff2)
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


def _opened(woff2: bytes) -> TTFont:
    from fontTools.ttLib import TTFont  # in a process of its own: the server needs none of it

    return TTFont(io.BytesIO(woff2), lazy=True)


def _subset(font: TTFont, wanted: Any) -> bytes:
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
    """`python -m dashboard.web_packed br|icons|letters STREAMLIT`: a file in, a smaller one out."""
    os.nice(19)
    whole = sys.stdin.buffer.read()
    if kind == "br":
        made = _brotli(whole, _BEST_LEVEL)
    else:
        made = only_icons(whole, Path(streamlit)) if kind == "icons" else only_letters(whole)
    sys.stdout.buffer.write(made)


if __name__ == "__main__":
    main(*sys.argv[1:])
