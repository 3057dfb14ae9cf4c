"""What `declarations.json` holds: the readers of topics that somebody declared on the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def rows_of(found: Mapping[str, object]) -> list[dict[str, str]]:
    """The declarations of a file. Raises ValueError where they are none."""
    topics, ids = found.get("topics", []), found.get("topic_ids", {})
    if not isinstance(topics, list) or not all(map(_is_declaration, topics)):
        raise ValueError("its topics are no list of declarations")
    if not isinstance(ids, dict) or not all(isinstance(i, str) for i in ids.values()):
        raise ValueError("its topic_ids are no ids by topic")
    return [
        {**row, "topic_id": ids[row["glob"]]} if row.get("glob") in ids else row for row in topics
    ]


def file_of(topics: Sequence[Mapping[str, str]]) -> dict[str, object]:
    """The file of these. Ids stand beside the rows: earlier releases refuse a row with a key that
    they do not know.
    """
    ids = {row["glob"]: row["topic_id"] for row in topics if row.get("topic_id")}
    rows = [{k: v for k, v in row.items() if k != "topic_id"} for row in topics]
    return {"topics": rows, "topic_ids": ids} if ids else {"topics": rows}


def _is_declaration(entry: Any) -> bool:
    """Texts by name, `glob` among them; what they say is checked by who reads them."""
    return (
        isinstance(entry, dict)
        and "glob" in entry
        and all(isinstance(value, str) for value in entry.values())
    )
