"""Words of the command lines that are offered, as a shell takes them: a name never runs in it.

Kafka takes any text for a group's id. Who pastes an offered line pastes it into a shell.
"""

from __future__ import annotations

import json
import shlex

from dashboard.core.visible import visible_json

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
