"""Records as a look at a partition finds them, for tests of those who show them."""

from __future__ import annotations

from dashboard.domain.records import Content, Header, LookedAt, Record

# Steers a terminal, turns text around, and is HTML.
HOSTILE = "\x1b[2J\u202e<b>x</b>"


def content(held: bytes, *, whole: int | None = None) -> Content:
    """All of it, or the head of something of `whole` bytes."""
    return Content(len(held) if whole is None else whole, held)


def record(offset: int, value: Content | None, key: Content | None = None) -> Record:
    header = Header(HOSTILE, content(HOSTILE.encode()))
    return Record(offset, 1_772_337_600_000, "create", key, value, (header, Header("none", None)))


def looked_at(*, values: bool = True) -> LookedAt:
    """Three records of orders-0: JSON, a tombstone, and bytes that are no text."""
    first = content(b'{"a": 1.0}') if values else Content(10, None)
    last = content(b"\xff\x00") if values else Content(2, None)
    return LookedAt(
        "orders", 0, 100, 600,
        first=record(100, first, content(HOSTILE.encode())),
        last=record(599, last, content(b"")),
        sampled=(record(300, None),),
    )  # fmt: skip
