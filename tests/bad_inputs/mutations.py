"""What chance does to an input: bytes that flip, go or come; values that are replaced."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

# What parsers stumble over: ends of nesting, numbers, names, texts in other encodings.
_TOKENS = (
    b"", b"\0", b"\xff", b"\n", b"\r\n", b'"', b"'", b"[", b"]", b"{", b"}", b",", b"=", b":", b"#",
    b"-1", b"0", b"1e999", b"NaN", b"null", b"true", b"9" * 400, b"[" * 2000, b"\xed\xa0\x80",
    b"\xe2\x80\xae", b"~nobody/", b"../", b"\\u0000", b"\\ud800", b"2026-02-30", b" ",
)  # fmt: skip
NASTY = (
    None, True, False, 0, -1, 1.5, 5.0, 2**31, 2**63, 10**30, float("nan"), float("inf"), "", " ",
    "\0", "x" * 5000, "-1", "1", "/", "..", "~nobody/x", "\u202ea", "2026-03-01T04:00:00", [], {},
    [[]], {"a": 1}, ["x"], [None],
)  # fmt: skip
TEXTS = st.one_of(
    st.text(max_size=40),
    st.from_regex(r"[0-9]{0,40}(ms|s|m|h|d|GiB|B|%|/h)?", fullmatch=True),
    st.sampled_from(["9" * 5000 + "s", "9" * 5000, "\u0663s", "\u00b2", "offset:\u00b2"]),
)


@st.composite
def mutated(draw: st.DrawFn, sound: bytes) -> bytes:
    """A sound input with one to four changes of its bytes."""
    body = sound
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(body)))
        length = draw(st.sampled_from([0, 1, 1, 4, 64, 4096]))
        kind = draw(st.sampled_from(["flip", "token", "cut", "twice", "end"]))
        if kind == "flip":
            flipped = bytes(b ^ draw(st.integers(1, 255)) for b in body[at : at + min(length, 4)])
            body = body[:at] + flipped + body[at + len(flipped) :]
        elif kind == "token":
            body = body[:at] + draw(st.sampled_from(_TOKENS)) + body[at + length :]
        elif kind == "cut":
            body = body[:at] + body[at + length :]
        elif kind == "twice":
            body = body[:at] + body[at : at + length] * 2 + body[at + length :]
        else:
            body = body[:at]
    return body


@st.composite
def replaced(draw: st.DrawFn, document: Any) -> Any:
    """A document of lists and tables with one to three of its values or keys replaced."""
    found = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        way = draw(st.sampled_from(list(_ways(found)) or [()]))
        if not way:
            return draw(st.sampled_from(NASTY))
        at = found
        for step in way[:-1]:
            at = at[step]
        kind = draw(st.sampled_from(["value", "value", "value", "gone", "key", "twice"]))
        _change(at, way[-1], kind, draw(st.sampled_from(NASTY)))
    return found


def _change(at: Any, step: Any, kind: str, value: Any) -> None:
    if kind == "gone":
        del at[step]
    elif kind == "key" and isinstance(at, dict):
        at["".join(str(value))[:50]] = at.pop(step)
    elif kind == "twice" and isinstance(at, list):
        at.append(copy.deepcopy(at[step]))
    else:
        at[step] = copy.deepcopy(value)


def _ways(document: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The steps to every value of a document."""
    if way:
        yield way
    if isinstance(document, dict):
        for key, value in document.items():
            yield from _ways(value, (*way, key))
    elif isinstance(document, list):
        for number, value in enumerate(document):
            yield from _ways(value, (*way, number))
