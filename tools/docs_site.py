"""What the site does with Markdown that is written for GitHub, as a hook of MkDocs (mkdocs.yml).

Links to files outside of docs/ become their names: a site has no such pages. And a list or a table
may begin right below a line of text there, while Python's Markdown wants an empty line.
"""

from __future__ import annotations

import re
from typing import Any

_OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./[^)]+\)")
_BEGINS = re.compile(r"(?:[-*]|\d+\.) |\|")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """MkDocs calls it with each page's text."""
    lines: list[str] = []
    in_code = False
    for line in markdown.splitlines():
        if line.startswith("```"):
            in_code = not in_code
        if in_code:
            lines.append(line)
            continue
        before = lines[-1] if lines else ""
        if _BEGINS.match(line) and before and not _BEGINS.match(before) and before[0] not in " #":
            lines.append("")
        lines.append(_OUTSIDE.sub(_name, line))
    return "\n".join(lines) + "\n"


def _name(link: re.Match[str]) -> str:
    """The text of a link that leads nowhere here."""
    return link[1]
