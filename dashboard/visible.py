"""Text that shows every character: a group's id may hold any, also what steers a terminal."""

from __future__ import annotations

import re

# What steers a terminal or turns text around.
_STEERING = "\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069"
_IN_TEXT, _IN_CELL = re.compile(f"[{_STEERING}]"), re.compile(f"[\t\n{_STEERING}]")


def visible_text(text: str) -> str:
    """Text whose steering characters stand there as escapes, such as `\\x1b`."""
    return _escaped(text, _IN_TEXT)


def visible_cell(text: str) -> str:
    """The same for one table cell: tabs and line ends are escapes too."""
    return _escaped(text, _IN_CELL)


def is_unicode(text: str) -> bool:
    """Whether text can be sent and written: bytes of an argument that are no UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _escaped(text: str, steering: re.Pattern[str]) -> str:
    return steering.sub(lambda found: ascii(found[0])[1:-1], text)
