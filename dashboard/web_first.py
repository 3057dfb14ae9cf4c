"""The first numbers of a page, in the page that is served: nobody waits for scripts to read them.

Streamlit's index page is empty until its scripts are there, a session has begun and the page's
script has run. Until then the cluster, its age, what is wrong and what can be given back stand
there as text, by the functions that the page itself asks; where people sign in, they do not.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from urllib.parse import parse_qs

from dashboard.core.clock import utc_now
from dashboard.core.errors import LowwaterError
from dashboard.ui import making_room, overview
from dashboard.ui.components import markup
from dashboard.ui.session import access, collector, context, header, routes
from dashboard.ui.session.context import Screen
from dashboard.views import formats
from dashboard.views.colours import HELD, ORPHAN, RECLAIMABLE, Meaning
from dashboard.web_guard import AFTER_PAINT, Asgi, Message, Receive, Send
from dashboard.web_packed import Answer, asked, tell

_LOG = logging.getLogger(__name__)
_ROOT = b'<div id="root"></div>'  # where Streamlit draws: ours stands behind it
_MAIN = re.compile(rb'<script type="module" crossorigin src="([^"<>]+)"></script>')
# A server that has read nothing yet goes on reading for the session, and its visitor is not held.
_MOST_SECONDS = 0.4
# A browser's copy of a page bears numbers of its time, and a packed one takes in nothing.
_LEFT_OUT = {b"if-none-match", b"if-modified-since", b"accept-encoding"}
_OF_THE_FILE = {b"content-length", b"etag", b"last-modified", b"accept-ranges", b"cache-control"}

# Closed, so that no rule of the page reaches in and nothing on the page is found twice.
_FRAME = """<style>#lw-first{{position:fixed;inset:0;z-index:1}}
body:has(#root .lw-head,#root .lw-state,.stException) #lw-first{{display:none}}</style>
<div id="lw-first" role="status"><template shadowrootmode="closed"><style>{style}</style>
{lines}</template></div>"""
_STYLE = """
:host{background:#fff;color:#0b1220;padding:12px 24px;font:15px/1.5 system-ui,sans-serif}
p{margin:0 0 10px;overflow-wrap:anywhere;font-variant-numeric:tabular-nums}
abbr{text-decoration:none}.head{padding:6px 12px;border-left:4px solid #d5dbe3;background:#f3f5f8}
.warn{border-left-color:#b45309;background:#fdf1de}.sentence{font-size:19px}small{font-size:13px}"""
_DARK = """:host{background:#0e1420;color:#f1f5f9}.head{background:#1b2431;border-color:#3b4657}
.warn{background:#3b2a10;border-color:#b45309}"""
_COLOURED = (RECLAIMABLE, HELD, ORPHAN)


class FirstNumbers:
    """ASGI middleware: what `numbers` tells of the cluster that an address names, in its page."""

    def __init__(self, app: Asgi, numbers: Callable[[str | None], str]) -> None:
        self._app = app
        self._numbers = numbers
        # Of its own: a store that hangs keeps no thread from who serves files.
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="first-numbers")
        self._late: Future[str] | None = None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if not _is_page(scope):
            return await self._app(scope, receive, send)
        kept = [pair for pair in scope["headers"] if pair[0] not in _LEFT_OUT]
        found = await asked(self._app, {**scope, "headers": kept}, receive)
        if found.start.get("status") == 200 and _ROOT in found.body:
            query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
            found = _with(found, await self._told(query.get("cluster", [None])[0]))
        return await tell(found, send)

    async def _told(self, cluster: str | None) -> str:
        if self._late is not None and not self._late.done():
            return ""
        asked = self._reader.submit(self._numbers, cluster)
        told = asyncio.wrap_future(asked)
        done, _ = await asyncio.wait({told}, timeout=_MOST_SECONDS)
        if not done:
            self._late = asked
            return ""
        if error := told.exception():  # the page stands without them, and says itself what is wrong
            _LOG.warning("the first numbers of a page are not told", exc_info=error)
            return ""
        return told.result()


def _is_page(scope: Message) -> bool:
    """Whether a browser asks for one of our pages: at any place behind a proxy."""
    if scope["type"] != "http" or scope["method"] != "GET":
        return False
    return str(scope["path"]).rpartition("/")[2] in ("", *routes.TITLES)


def _with(found: Answer, html: str) -> Answer:
    """The page with the HTML behind its root, whose scripts begin once it is painted; numbers are
    kept by no browser and no proxy.
    """
    body, told = found.body, html.encode()
    if told and (main := _MAIN.search(body)):
        fetched = b'<link rel="modulepreload" crossorigin href="%b">' % main[1]
        body = body[: main.start()] + fetched + body[main.end() :]
        told += b'<script data-src="%b">%b</script>' % (main[1], AFTER_PAINT.encode())
    body = body.replace(_ROOT, _ROOT + told, 1)
    kept = [pair for pair in found.start["headers"] if pair[0].lower() not in _OF_THE_FILE]
    kept += [(b"content-length", str(len(body)).encode()), (b"cache-control", b"no-store")]
    return Answer({**found.start, "headers": kept}, body)


def first_numbers(named: str | None) -> str:
    """HTML of the named cluster; empty where people sign in, may not look, or nothing is known."""
    try:
        if access.signs_in():
            return ""
        access.check()
        cluster = context.store().cluster(named or context.argument())
        return html(context.newest(cluster))
    except LowwaterError:
        return ""  # the page itself says what is wrong, and what to do


def html(screen: Screen) -> str:
    """The numbers of one screen. Raises StoreError NO_ANALYSIS, and others of the store."""
    found = context.findings_of(screen)
    urgent = [r for r in making_room.rooms(found.table("disks"), found.table("growth")) if r.urgent]
    lines = [_head(screen)]
    if urgent:
        more = f" ({formats.plural(len(urgent) - 1, 'more disk')} like that)" * (len(urgent) > 1)
        lines.append(f'<p class="head warn">⚠ {markup.text(urgent[0].label)}{more}</p>')
    lines.append(f'<p class="sentence">{_sentence(screen)}</p>')
    style = _STYLE + "".join(_ink(each, each.on_light) for each in _COLOURED)
    dark = _DARK + "".join(_ink(each, each.on_dark) for each in _COLOURED)
    style += f"@media(prefers-color-scheme:dark){{{dark}}}"
    return _FRAME.format(style=style, lines="\n".join(lines))


def _head(screen: Screen) -> str:
    now = utc_now()
    standing, stop = collector.standing(screen, now), header.stopped()
    age = f"snapshot {formats.ago(screen.manifest.taken_at, now)}"
    wrong = [f"⚠ {warning}" for warning in standing.warnings]
    wrong += [f"⏸ every purge is stopped: {stop}"] if stop is not None else []
    told = " · ".join(markup.text(part) for part in (age, standing.brokers, *wrong))
    looks = "head warn" if wrong else "head"
    return f'<p class="{looks}"><b>{markup.text(screen.called)}</b> · {told}</p>'


def _sentence(screen: Screen) -> str:
    numbers = context.headline_of(screen)
    if not numbers.nothing:
        return overview.sentence(numbers, screen.price)
    why = numbers.why_nothing([broker.broker_id for broker in screen.missing_brokers])
    return f"<b>Nothing can be given back.</b> {markup.text(why)}"


def _ink(meaning: Meaning, ink: str) -> str:
    return f".{markup.css_class(meaning)}{{color:{ink}}}"
