"""Pieces of HTML and markdown, every value escaped: names come from the cluster and its users."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import streamlit as st

from dashboard.core.visible import visible_cell
from dashboard.ui.session import routes
from dashboard.views import formats
from dashboard.views.colours import Meaning

_MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:&])")


def draw(html: str) -> None:
    """Put HTML on the page; nothing when it is empty."""
    if html:
        st.html(html)


def text(value: object) -> str:
    """Any value as safe HTML text, in which no name turns what follows around."""
    return escape(visible_cell(str(value)), quote=True)


def plain(value: object) -> str:
    """Any value as markdown text: captions, and labels of buttons, radios, boxes and links."""
    return _MARKDOWN.sub(r"\\\1", visible_cell(str(value)))


def hover(shown: str, exact: str) -> str:
    """A short figure whose exact value is shown on hover and read by screen readers."""
    return f'<abbr title="{text(exact)}">{text(shown)}</abbr>'


def setting(value: str | None) -> str:
    """The value of a setting; a broker tells none of one that is not set, or is a secret."""
    return hover("not set", "or kept secret by the broker") if value is None else text(value)


def link(page: str, name: str, shown: str = "") -> str:
    """To the page of one topic, group or broker, within HTML: its reader loads the page anew."""
    return to(routes.address(page, name=name), shown or name)


def to(address: str, shown: str) -> str:
    """A link within HTML, in the same tab."""
    return f'<a href="{text(address)}" target="_self">{text(shown)}</a>'


def size(size_bytes: int | None) -> str:
    """Bytes, short; all digits on hover."""
    return hover(formats.size(size_bytes), formats.exact_size(size_bytes))


def ago(moment: datetime | None, now: datetime) -> str:
    """A relative time; on hover the exact one, in the reader's zone and in UTC."""
    return hover(formats.ago(moment, now), exact(moment))


def exact(moment: datetime | None) -> str:
    """`2026-03-01 05:00:00 CET, 2026-03-01 04:00:00 UTC`: a reader's clock, and that of logs."""
    if moment is None:
        return formats.UNKNOWN
    here = local(moment)
    if not here.utcoffset():
        return formats.utc(moment)
    return f"{here:%Y-%m-%d %H:%M:%S %Z}, {formats.utc(moment)}"


def local(moment: datetime) -> datetime:
    """The moment in the zone of the reader's browser; in UTC where it tells none."""
    zone = st.context.timezone
    try:
        return moment.astimezone(ZoneInfo(zone) if zone else UTC)
    except (ZoneInfoNotFoundError, ValueError):  # a host without that zone's rules
        return moment.astimezone(UTC)


def strong(inner: str, meaning: Meaning | None) -> str:
    """A figure that stands out; `inner` is HTML already. Coloured by meaning, if any."""
    chosen = f' class="{css_class(meaning)}"' if meaning else ""
    return f"<strong{chosen}>{inner}</strong>"


def table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Collection[int] = ()
) -> str:
    """A small table; cells are HTML already, those of the columns `numbers` stand at the right.

    On a screen too narrow for it, it scrolls by itself, also by keyboard.
    """
    looks = [' class="n"' if at in numbers else "" for at in range(len(heads))]
    head = "".join(f'<th scope="col"{looks[at]}>{text(h)}</th>' for at, h in enumerate(heads))
    body = "".join(
        f"<tr>{''.join(f'<td{looks[at]}>{cell}</td>' for at, cell in enumerate(row))}</tr>"
        for row in rows
    )
    return (
        f'<div class="lw-wide" tabindex="0" role="group" aria-label="{text(heads[0])}">'
        f'<table class="lw-table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def key(meaning: Meaning, figure: str = "") -> str:
    """A legend entry: swatch, word and figure."""
    return (
        f'<span class="lw-key"><i class="lw-fill-{name_of(meaning)}"></i>'
        f"{text(meaning.word)} {text(figure)}</span>"
    )


def name_of(meaning: Meaning) -> str:
    """The meaning's word as part of a class name."""
    return meaning.word.split()[0]


def css_class(meaning: Meaning) -> str:
    """The class that colours text by this meaning."""
    return f"lw-{name_of(meaning)}"
