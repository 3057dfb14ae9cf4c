"""Who may ask the page server: requests for its own names, from its own pages; nobody else's.

A page of any website can make the reader's browser send requests to 127.0.0.1. Two doors are open
to it: a name of its own that resolves to 127.0.0.1 (DNS rebinding: the Host header tells), and a
WebSocket, which browsers do not hold to one origin (the Origin header tells). Streamlit's own
checks cover WebSockets alone, let in every port of localhost, and ask an outside service for this
machine's address before they refuse.
"""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from hashlib import sha256
from typing import Any
from urllib.parse import SplitResult, urlsplit

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Message, Receive, Send], Awaitable[None]]

LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})
# Begins a page's own scripts once the browser has painted what the page bears: run at once, as a
# browser does with what it has already, they would hold that up for a second. In a tab that nobody
# looks at nothing is painted.
AFTER_PAINT = """{
const {src} = document.currentScript.dataset;
const begin = () => {
  if (document.querySelector(`script[src="${src}"]`)) return;
  const main = document.createElement("script");
  Object.assign(main, {type: "module", crossOrigin: "", src: src});
  document.head.append(main);
};
requestAnimationFrame(() => setTimeout(begin));
setTimeout(begin, 1000);
}"""
# Streamlit needs inline styles, blob workers, WebAssembly and the one inline script of its
# index.html (the first hash). Nothing at all comes from, or goes to, another server.
_POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self' 'wasm-unsafe-eval' blob: "
        "'sha256-THxz9J9+wf7rhwR2YkXJoSZ13UCmYyC+3lNDv2+8ugA=' "
        f"'sha256-{b64encode(sha256(AFTER_PAINT.encode()).digest()).decode()}'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self' data: blob:",
        "worker-src 'self' blob:",
        "object-src 'none'",
        "base-uri 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
_LOG = logging.getLogger(__name__)


class OwnPagesOnly:
    """ASGI middleware: 403 for foreign Host or Origin headers, strict headers on every answer.

    `names` are the host names that the pages are served under. A request's Origin, where it has
    one, is its own Host, or one of `origins`: a proxy may rewrite Host, never Origin.
    """

    def __init__(self, app: Asgi, names: Collection[str], origins: Collection[str]) -> None:
        self._app = app
        self._names = frozenset(name.lower() for name in names)
        self._origins = frozenset(origin.lower() for origin in origins)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        reason = self.refusal(_header(scope, b"host"), _header(scope, b"origin"))
        if reason is None:
            return await self._app(scope, receive, _hardened(send))
        _LOG.warning("refused a request: %s", reason)
        return await _refuse(scope["type"], receive, send)

    def refusal(self, hosts: list[str], origins: list[str]) -> str | None:
        """Why a request with these headers is refused, or None."""
        host = _split(hosts[0]) if len(hosts) == 1 else None
        if host is None or host.hostname not in self._names:
            return f"Host {hosts!r} is not a name of these pages"
        if not origins:  # a navigation, or a program
            return None
        own = {f"{scheme}://{host.netloc.lower()}" for scheme in ("http", "https")}
        if len(origins) > 1 or origins[0].lower() not in own | self._origins:
            return f"Origin {origins!r} is not these pages"
        return None


def _split(host: str) -> SplitResult | None:
    """The parts of a Host header; None where there is more than a name and a port."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # raises for what is no number
    except ValueError:
        return None
    rest = (parts.path, parts.query, parts.fragment)
    return None if any(rest) or "@" in parts.netloc or not parts.hostname else parts


def _header(scope: Message, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def _hardened(send: Send) -> Send:
    names = {name for name, _ in _HEADERS}

    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [pair for pair in message.get("headers", ()) if pair[0].lower() not in names]
            message = {**message, "headers": [*kept, *_HEADERS]}
        await send(message)

    return with_headers


async def _refuse(kind: str, receive: Receive, send: Send) -> None:
    if kind == "websocket":
        await receive()  # websocket.connect
        await send({"type": "websocket.close", "code": 1008})  # before accept: HTTP 403
        return
    headers = [(b"content-type", b"text/plain; charset=utf-8"), *_HEADERS]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    body = b"These pages are not served under this name, or not to that origin.\n"
    await send({"type": "http.response.body", "body": body})
