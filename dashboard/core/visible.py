"""Text that shows every character, or that a shell takes as it is: a group's id may hold any, also
what steers a terminal.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable

# What steers a terminal, turns text around, or stands there unseen (a soft hyphen, a zero-width
# space, a byte order mark, tags): two names that look alike must not be two groups.
_STEERING = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f"
)
_IN_TEXT, _IN_CELL = re.compile(f"[{_STEERING}]"), re.compile(f"[\t\n{_STEERING}]")
_IN_LINE = re.compile(f"[\n{_STEERING}]")


class Lines(str):
    """Text of several lines, each of which was made visible: what stands in one cannot add one."""

    __slots__ = ()


def visible_cell(text: str) -> str:
    """Text of one table cell: steering characters, tabs and line ends stand there as escapes."""
    return _escaped(text, _IN_CELL)


def in_lines(parts: Iterable[str]) -> Lines:
    """One line per part, a line end in it escaped; a part that is `Lines` keeps its own."""
    return Lines("\n".join(visible_lines(part) for part in parts))


def in_paragraphs(parts: Iterable[str]) -> Lines:
    """The same with an empty line between parts."""
    return Lines("\n\n".join(visible_lines(part) for part in parts))


def visible_lines(text: str) -> Lines:
    """Text for people as it is printed: a plain text is one line, whatever its names hold."""
    return text if isinstance(text, Lines) else Lines(_escaped(text, _IN_LINE))


def visible_json(value: str) -> str:
    """JSON text with steering characters as JSON's own escapes: it reads back as the same value."""
    return _IN_TEXT.sub(lambda found: json.dumps(found[0])[1:-1], value)


def is_unicode(text: str) -> bool:
    """Whether text can be sent and written: bytes of an argument that are no UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _escaped(text: str, steering: re.Pattern[str]) -> str:
    return steering.sub(lambda found: ascii(found[0])[1:-1], text)


# Words of the command lines that are offered, as a shell takes them: a name never runs in it.
#
# Kafka takes any text for a group's id. Who pastes an offered line pastes it into a shell.

_SPECIAL = frozenset('$`"\\!')  # to a shell between double quotes; ! to one that is typed into


def in_quotes(text: str) -> str:
    """A text as one word, in double quotes where these keep every character."""
    return f'"{text}"' if _plain(text) else shlex.quote(text)


def pair(group_id: str, why: str = "WHY", *, before: str = "") -> str:
    """`"GROUP=why"` of --waive and, with `before` as `NAME:`, --override.

    A group that `=`, spaces at its ends or the shell would take apart is quoted as in JSON.
    """
    doubtful = "=" in group_id or group_id != group_id.strip() or group_id.startswith("-")
    if group_id and not doubtful and _plain(group_id):
        return f'"{before}{group_id}={why}"'
    return json_pair(group_id, why, before=before)


def json_pair(group_id: str, why: str, *, before: str = "") -> str:
    """The same with the group in JSON's quotes, whatever it is: nothing is left to guess."""
    named = visible_json(json.dumps(group_id, ensure_ascii=False))
    return shlex.quote(f"{before}{named}={why}")


def _plain(text: str) -> bool:
    return text.isprintable() and not _SPECIAL & set(text)
