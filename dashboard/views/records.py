"""Records as people and programs read them: keys, values and headers as text, JSON or hex, cut."""

from __future__ import annotations

import codecs
import json
import re
from datetime import UTC, datetime, timedelta

from dashboard.core.clock import format_time
from dashboard.core.words import binary
from dashboard.domain.records import Content, Form, Header, LookedAt, Record

MOST_CHARACTERS = 1000  # of a value
_MOST_OF_KEY = 200
_MOST_HEADERS = 8
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OUTSIDE_STRINGS = re.compile(r'("(?:[^"\\]|\\.)*")|\s+')


def shown(content: Content, form: Form, most: int = MOST_CHARACTERS) -> tuple[Form, str, bool]:
    """Which form it could be shown in, its characters, and whether some are missing behind them.

    What is no JSON is text, what is no UTF-8 is hex. JSON loses the blanks between its parts,
    nothing else: no number is read and written anew. More than 64 KiB are never taken for JSON.
    """
    head = content.head or b""
    text = None if form == "hex" else _text(head, whole=not content.cut)
    if text is None:
        return "hex", head[: most // 2].hex(), content.size_bytes > most // 2
    if form == "json" and not content.cut and _is_json(text):
        text = _OUTSIDE_STRINGS.sub(lambda found: found[1] or "", text)
        return "json", text[:most], len(text) > most
    return "text", text[:most], content.cut or len(text) > most


def _text(head: bytes, *, whole: bool) -> str | None:
    """As UTF-8, without a character that the cut went through; None: it is none."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(head, final=whole)
    except UnicodeDecodeError:
        return None


def _is_json(text: str) -> bool:
    try:
        json.loads(text, parse_int=str, parse_constant=_refused)
    except (ValueError, RecursionError):
        return False
    return True


def _refused(word: str) -> None:
    raise ValueError(word)  # NaN and Infinity are Python's, not JSON's


# For people: one line each, what steers a terminal is escaped where it is printed.


def line(content: Content | None, form: Form = "text", most: int = _MOST_OF_KEY) -> str:
    """`null`, `"text"`, `{"json":1}` or `0x00ff`; an empty one is `""`; `…` where it was cut."""
    if content is None:
        return "null"
    if content.head is None:
        return binary(content.size_bytes)
    got, characters, cut = shown(content, form, most)
    quoted = {"text": f'"{characters}"', "json": characters, "hex": f"0x{characters}"}[got]
    return quoted + ("…" if cut else "")


def headers_line(headers: tuple[Header, ...]) -> str:
    """`name="value", …` of the first eight, and how many more there are."""
    told = [f"{name}={line(value)}" for name, value in headers[:_MOST_HEADERS]]
    rest = len(headers) - len(told)
    return ", ".join([*told, f"{rest} more"] if rest else told)


def time_line(record: Record) -> str:
    """When, and by whose clock: `2026-03-01T04:00:00.000Z create`; a number where no clock goes."""
    if record.timestamp_ms is None:
        return "none"
    at = _moment(record.timestamp_ms)
    return f"{at or f'{record.timestamp_ms} ms'} {record.time_type}"


def _moment(timestamp_ms: int) -> str | None:
    """RFC 3339; None for what a producer wrote that is no time before the year 10000."""
    try:
        return format_time(_EPOCH + timedelta(milliseconds=timestamp_ms))
    except OverflowError:
        return None


def places(found: LookedAt) -> list[tuple[str, Record]]:
    """`first`, `sampled` or `last` with each record, by offset; the only one is `first`."""
    edge = {r.offset: name for name, r in (("last", found.last), ("first", found.first)) if r}
    return [(edge.get(record.offset, "sampled"), record) for record in found.records]


def heading(found: LookedAt) -> str:
    """What was looked at, and what of it could not be read."""
    where = f"{found.topic}-{found.partition}"
    if found.error is not None:
        told = f"{where}: {found.error}"
        return f"{told}: {found.why}" if found.why else told
    if found.first is None:
        return f"{where}: no record lies below {found.target_offset}"
    return f"{where}: records from {found.log_start_offset} to below {found.target_offset}"


# For programs.


def to_json(found: LookedAt, form: Form | None) -> dict[str, object]:
    """One object of `looked_at`; values have characters only in the `form` that was asked for."""
    return {
        "topic": found.topic,
        "partition": found.partition,
        "log_start_offset": found.log_start_offset,
        "target_offset": found.target_offset,
        "error": found.error,
        "message": found.why or None,
        "first": _record(found.first, form),
        "last": _record(found.last, form),
        "sampled": [_record(record, form) for record in found.sampled],
    }


def _record(record: Record | None, form: Form | None) -> dict[str, object] | None:
    if record is None:
        return None
    at = record.timestamp_ms
    return {
        "offset": record.offset,
        "time": None if at is None else _moment(at),
        "timestamp_ms": at,
        "time_type": record.time_type,
        "size_bytes": record.size_bytes,
        "key": _content(record.key, "text", _MOST_OF_KEY),
        "value": _content(record.value, form or "text", MOST_CHARACTERS),
        "headers": [
            {"name": name, "value": _content(value, "text", _MOST_OF_KEY)}
            for name, value in record.headers
        ],
    }


def _content(content: Content | None, form: Form, most: int) -> dict[str, object] | None:
    if content is None:
        return None
    told: dict[str, object] = {"bytes": content.size_bytes}
    if content.head is not None:
        got, characters, cut = shown(content, form, most)
        told |= {"form": got, "shown": characters, "cut": cut}
    return told
