"""Scripts and styles of the pages, packed on their way to the browser: once each, then from memory.

Streamlit serves its own files as they lie, which is 4 MB at a first visit, and leaves packing to a
proxy; ours may be reached through a tunnel, from home, at night. What is packed is the same for
everybody and says nothing of a cluster, so its length gives nothing away.
"""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from dashboard.web_guard import Asgi, Message, Receive, Send

_PLACE = re.compile(r"/static/(js|css)/[^/]+\.(js|css)")
# Answers of another kind for such an address are Streamlit's index page, or an error.
_KINDS = (b"text/javascript", b"application/javascript", b"text/css")
_LEAST_BYTES = 1000
_NEVER = re.compile(r"q\s*=\s*0(\.0*)?")
# Beyond 5 brotli takes twice as long for a hundredth less.
_BROTLI_LEVEL, _GZIP_LEVEL = 5, 6
# A browser gives the first two for a partial file, the others for one that it has.
_AS_IT_LIES = {b"range", b"if-range", b"if-none-match", b"if-modified-since"}
# They tell of the file as it lies.
_OF_THE_FILE = {b"content-length", b"etag", b"last-modified", b"accept-ranges", b"vary"}


def _brotli(body: bytes) -> bytes:
    return bytes(pa.Codec("brotli", _BROTLI_LEVEL).compress(body, asbytes=True))


def _gzip(body: bytes) -> bytes:
    return gzip.compress(body, _GZIP_LEVEL, mtime=0)


_PACKERS: Mapping[str, Callable[[bytes], bytes]] = {
    **({"br": _brotli} if pa.Codec.is_available("brotli") else {}),
    "gzip": _gzip,
}


@dataclass(frozen=True, slots=True)
class _Answer:
    start: Message
    body: bytes


class PackedFiles:
    """ASGI middleware: Streamlit's scripts and styles as brotli or gzip, to who takes that."""

    def __init__(self, app: Asgi) -> None:
        self._app = app
        self._packed: dict[tuple[str, str], _Answer] = {}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        coding = _coding(scope)
        if coding is None:
            return await self._app(scope, receive, send)
        key = (str(scope["path"]), coding)
        if (known := self._packed.get(key)) is None:
            found = await self._asked(scope, receive)
            if not _packs(found):
                return await _tell(found, send)
            known = await asyncio.to_thread(_pack, found, coding)
            self._packed[key] = known
        return await _tell(known, send)

    async def _asked(self, scope: Message, receive: Receive) -> _Answer:
        """The whole answer of the app behind."""
        start: Message = {}
        parts: list[bytes] = []

        async def keep(message: Message) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            elif message["type"] == "http.response.body":
                parts.append(message.get("body", b""))

        await self._app(scope, receive, keep)
        return _Answer(start, b"".join(parts))


async def _tell(answer: _Answer, send: Send) -> None:
    await send(answer.start)
    await send({"type": "http.response.body", "body": answer.body})


def _coding(scope: Message) -> str | None:
    """How to pack the answer to this request; None: it goes as it lies."""
    if scope["type"] != "http" or scope["method"] != "GET":
        return None
    if _PLACE.fullmatch(str(scope["path"]).removeprefix(str(scope.get("root_path", "")))) is None:
        return None
    headers = dict(scope["headers"])
    if _AS_IT_LIES & headers.keys():
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


def _packs(found: _Answer) -> bool:
    if found.start.get("status") != 200 or len(found.body) < _LEAST_BYTES:
        return False
    headers = {name.lower(): value for name, value in found.start["headers"]}
    kind = headers.get(b"content-type", b"").split(b";")[0]
    return kind in _KINDS and b"content-encoding" not in headers


def _pack(found: _Answer, coding: str) -> _Answer:
    body = _PACKERS[coding](found.body)
    kept = [pair for pair in found.start["headers"] if pair[0].lower() not in _OF_THE_FILE]
    kept += [
        (b"content-encoding", coding.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"vary", b"Accept-Encoding"),
    ]
    return _Answer({**found.start, "headers": kept}, body)
